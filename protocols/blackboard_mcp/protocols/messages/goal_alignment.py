"""Goal alignment: whether everybody reads the goal alike, before they work towards it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from .base import AGENT, ID, Body, Count, KeyShape, Line, MessageProtocol, Name, States, Words


class AlignmentState(StrEnum):
    STATED = "STATED"
    ALIGNED = "ALIGNED"
    DIVERGED = "DIVERGED"


ALIGNMENT_STATES = States(
    first=frozenset({"STATED"}),
    moves={
        "STATED": frozenset({"STATED", "ALIGNED", "DIVERGED"}),
        "DIVERGED": frozenset({"STATED"}),
        # A changed goal is stated anew, and everybody reads it again.
        "ALIGNED": frozenset({"STATED"}),
    },
)


class Goal(Body):
    """What is wanted, how one tells that it is reached, and what it is not."""

    text: Words
    criteria: Annotated[tuple[Line, ...], Field(max_length=50)] = ()
    excluded: Annotated[tuple[Line, ...], Field(max_length=50)] = ()


class Interpretation(Body):
    """How an agent reads a version of the goal, and what it would do first."""

    version: Count
    reading: Words
    first_step: str = Field(default="", max_length=2_000)


class Divergence(Body):
    """Where two readings part."""

    first: Name
    second: Name
    point: Line


class Alignment(Body):
    """Whether the readings of a version agree: exactly when no divergence is named."""

    version: Count
    agreed: bool
    divergences: Annotated[tuple[Divergence, ...], Field(max_length=100)] = ()

    def model_post_init(self, _: object, /) -> None:
        if self.agreed == bool(self.divergences):
            raise ValueError("agreed exactly when no divergences are named")


class GoalAlignment(MessageProtocol):
    """Find out before the work whether everybody reads the goal alike.

    Whoever sets the goal writes it; each agent writes how it reads it, without having read the others
    where that matters; a coordinator compares and writes whether they agree, and where not. After a
    divergence the goal gets its next version.
    """

    name: ClassVar[str] = "goal-alignment"
    states: ClassVar[States | None] = ALIGNMENT_STATES
    shapes: ClassVar[tuple[KeyShape, ...]] = (
        KeyShape("goal", (ID,), Goal, "who sets it, a version a change"),
        KeyShape("interpretation", (ID, AGENT), Interpretation, "each agent for itself"),
        KeyShape("alignment", (ID,), Alignment, "a coordinator, after all have read it"),
    )

    def goal_key(self, id: str) -> str:
        return self.key("goal", id=id)

    def interpretation_key(self, id: str, agent: str) -> str:
        return self.key("interpretation", id=id, agent=agent)

    def alignment_key(self, id: str) -> str:
        return self.key("alignment", id=id)
