"""Consistency check: whether statements go together, and which two do not."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from .base import ID, NUMBER, Body, Count, KeyShape, Line, MessageProtocol, Name, Words


class Statement(Body):
    """A statement, under a name by which findings cite it, and the item that says it."""

    name: Name
    text: Words
    item: Name | None = None


class StatementSet(Body):
    """Statements that should go together; each name once."""

    statements: Annotated[tuple[Statement, ...], Field(min_length=1, max_length=200)]

    def model_post_init(self, _: object, /) -> None:
        names = [statement.name for statement in self.statements]
        if len(set(names)) != len(names):
            raise ValueError("a statement's name stands there twice")


class CheckRequest(Body):
    """Which version of the set is to be checked, and what for."""

    version: Count
    question: Words | None = None


class Contradiction(Body):
    """Two statements that cannot both hold, and why; never one with itself."""

    first: Name
    second: Name
    why: Line

    def model_post_init(self, _: object, /) -> None:
        if self.first == self.second:
            raise ValueError("a statement contradicts another one, not itself")


class Findings(Body):
    """What the check found in that version: consistent exactly when no pair is named."""

    version: Count
    consistent: bool
    contradictions: Annotated[tuple[Contradiction, ...], Field(max_length=200)] = ()

    def model_post_init(self, _: object, /) -> None:
        if self.consistent == bool(self.contradictions):
            raise ValueError("consistent exactly when no contradictions are named")


class ConsistencyCheck(MessageProtocol):
    """Have a set of statements checked against each other, and learn which two clash.

    Whoever keeps the set writes it, a version each time it changes; anybody asks for a check of a version
    under the next number, and a checker answers under the same number. Findings about an older version
    say so by their `version`.
    """

    name: ClassVar[str] = "consistency-check"
    shapes: ClassVar[tuple[KeyShape, ...]] = (
        KeyShape("statements", (ID,), StatementSet, "who keeps the set, a version a change"),
        KeyShape("check", (ID, NUMBER), CheckRequest, "anybody, with expected_version 0"),
        KeyShape("findings", (ID, NUMBER), Findings, "the checker, under the number of the check"),
    )

    def statements_key(self, id: str) -> str:
        return self.key("statements", id=id)

    def check_key(self, id: str, number: int) -> str:
        return self.key("check", id=id, number=number)

    def findings_key(self, id: str, number: int) -> str:
        return self.key("findings", id=id, number=number)
