"""Consistency check: whether statements are compatible, and which two are not."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from .base import ID, NUMBER, Body, Count, KeyShape, Line, MessageProtocol, Name, Words


class Statement(Body):
    """A statement, the name by which findings cite it, and the item that contains it."""

    name: Name
    text: Words
    item: Name | None = None


class StatementSet(Body):
    """Statements that should be compatible; each name occurs once."""

    statements: Annotated[tuple[Statement, ...], Field(min_length=1, max_length=200)]

    def model_post_init(self, _: object, /) -> None:
        """Checks that each name occurs once.

        Raises:
            ValueError: a name occurs twice.
        """
        names = [statement.name for statement in self.statements]
        if len(set(names)) != len(names):
            raise ValueError("a statement's name stands there twice")


class CheckRequest(Body):
    """A request to check a version of the set, with an optional question."""

    version: Count
    question: Words | None = None


class Contradiction(Body):
    """Two different statements that cannot both be true, and the reason."""

    first: Name
    second: Name
    why: Line

    def model_post_init(self, _: object, /) -> None:
        """Checks that the two statements differ.

        Raises:
            ValueError: they are the same.
        """
        if self.first == self.second:
            raise ValueError("a statement contradicts another one, not itself")


class Findings(Body):
    """The result of checking that version: consistent exactly if no contradiction is named."""

    version: Count
    consistent: bool
    contradictions: Annotated[tuple[Contradiction, ...], Field(max_length=200)] = ()

    def model_post_init(self, _: object, /) -> None:
        """Checks that `consistent` is true exactly if no contradictions are named.

        Raises:
            ValueError: it is not.
        """
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
