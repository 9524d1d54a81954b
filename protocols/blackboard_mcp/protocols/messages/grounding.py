"""Grounding: the meaning of a term on this board, until every party accepts it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from .base import AGENT, NUMBER, Body, Count, KeyShape, Line, MessageProtocol, Name, Part, States, Words


class GroundingState(StrEnum):
    """The state of a term."""

    PROPOSED = "PROPOSED"
    REPAIRING = "REPAIRING"
    GROUNDED = "GROUNDED"
    ABANDONED = "ABANDONED"


GROUNDING_STATES = States(
    first=frozenset({"PROPOSED"}),
    moves={
        "PROPOSED": frozenset({"REPAIRING", "GROUNDED", "ABANDONED"}),
        "REPAIRING": frozenset({"PROPOSED", "ABANDONED"}),
        # An agent may find out later that others understood it differently.
        "GROUNDED": frozenset({"REPAIRING"}),
        "ABANDONED": frozenset(),
    },
)


class Meaning(Body):
    """A proposed meaning of the term, with examples, and the agents that have to accept it."""

    meaning: Words
    examples: Annotated[tuple[Line, ...], Field(max_length=20)] = ()
    parties: Annotated[tuple[Name, ...], Field(min_length=1, max_length=64)]


class Acceptance(Body):
    """An agent's acceptance of a version of the meaning, best paraphrased in its own words."""

    version: Count
    paraphrase: str = Field(default="", max_length=2_000)


class Repair(Body):
    """A misunderstanding of a version, and a better wording."""

    version: Count
    problem: Line
    proposal: Words | None = None


_TERM = Part("term")


class Grounding(MessageProtocol):
    """Agree on what a term means before you build on it.

    Somebody proposes a meaning; each party accepts the version it read under its own key, or writes a
    repair, numbered from 1, after which the proposer writes the next version. It is grounded when every
    party accepted the present version: `grounded` says so.
    """

    name: ClassVar[str] = "grounding"
    states: ClassVar[States | None] = GROUNDING_STATES
    shapes: ClassVar[tuple[KeyShape, ...]] = (
        KeyShape("term", (_TERM,), Meaning, "the proposer, a version each repair"),
        KeyShape("acceptance", (_TERM, AGENT), Acceptance, "each party for itself"),
        KeyShape("repair", (_TERM, NUMBER), Repair, "any party, with expected_version 0"),
    )

    def term_key(self, term: str) -> str:
        return self.key("term", term=term)

    def acceptance_key(self, term: str, agent: str) -> str:
        return self.key("acceptance", term=term, agent=agent)

    def repair_key(self, term: str, number: int) -> str:
        return self.key("repair", term=term, number=number)

    @staticmethod
    def grounded(meaning: Meaning, version: int, acceptances: dict[str, Acceptance]) -> bool:
        """Tells whether every party accepted this version; `acceptances` maps agents to their acceptance."""
        return all(
            party in acceptances and acceptances[party].version == version for party in meaning.parties
        )
