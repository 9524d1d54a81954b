"""Critique exchange: a claim, objections to it, its author's answers, and a verdict."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from .base import ID, NUMBER, Body, KeyShape, Line, MessageProtocol, Name, States, Words


class ExchangeState(StrEnum):
    """The state of an exchange."""

    CLAIMED = "CLAIMED"
    CRITICISED = "CRITICISED"
    REBUTTED = "REBUTTED"
    CONCEDED = "CONCEDED"
    UPHELD = "UPHELD"
    REJECTED = "REJECTED"


EXCHANGE_STATES = States(
    first=frozenset({"CLAIMED"}),
    moves={
        "CLAIMED": frozenset({"CRITICISED", "UPHELD"}),
        "CRITICISED": frozenset({"CRITICISED", "REBUTTED", "CONCEDED"}),
        "REBUTTED": frozenset({"CRITICISED", "UPHELD", "REJECTED"}),
        # A concession narrows the claim; what is left may be argued about again.
        "CONCEDED": frozenset({"CRITICISED", "UPHELD", "REJECTED"}),
        "UPHELD": frozenset(),
        "REJECTED": frozenset(),
    },
)


class Thesis(Body):
    """A claim, and the items it rests on."""

    text: Words
    grounds: Annotated[tuple[Name, ...], Field(max_length=64)] = ()


class Objection(Body):
    """An objection, and its severity from 1 to 5: at 5 the claim fails if the objection holds."""

    text: Words
    severity: Annotated[int, Field(ge=1, le=5)] = 3


class Rebuttal(Body):
    """The reason why an objection does not hold."""

    text: Words


class Concession(Body):
    """The admission that an objection holds, and what remains of the claim."""

    text: Words
    narrowed: str = Field(default="", max_length=20_000)


class Verdict(Body):
    """The decision whether the claim stands, and the reason. `open` are numbers of objections that nobody answered."""

    stands: bool
    reason: Line
    open: Annotated[tuple[int, ...], Field(max_length=200)] = ()


class CritiqueExchange(MessageProtocol):
    """Argue about one claim in numbered rounds and end with a verdict.

    The author writes the claim, critics number their objections from 1, and the author answers each under
    its number with a rebuttal or a concession. Somebody who is neither writes the verdict. To keep what is
    argued about on the board, post objections as CRITIQUE items with their edges: then the board's own
    debate holds them.
    """

    name: ClassVar[str] = "critique-exchange"
    states: ClassVar[States | None] = EXCHANGE_STATES
    shapes: ClassVar[tuple[KeyShape, ...]] = (
        KeyShape("thesis", (ID,), Thesis, "the author, a version each time it narrows"),
        KeyShape("objection", (ID, NUMBER), Objection, "a critic, with expected_version 0"),
        KeyShape("rebuttal", (ID, NUMBER), Rebuttal, "the author, to the objection of that number"),
        KeyShape("concession", (ID, NUMBER), Concession, "the author, to the objection of that number"),
        KeyShape("verdict", (ID,), Verdict, "somebody who is neither, once"),
    )

    def thesis_key(self, id: str) -> str:
        return self.key("thesis", id=id)

    def objection_key(self, id: str, number: int) -> str:
        return self.key("objection", id=id, number=number)

    def rebuttal_key(self, id: str, number: int) -> str:
        return self.key("rebuttal", id=id, number=number)

    def concession_key(self, id: str, number: int) -> str:
        return self.key("concession", id=id, number=number)

    def verdict_key(self, id: str) -> str:
        return self.key("verdict", id=id)
