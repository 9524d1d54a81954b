"""Goal alignment: a check before the work that everybody understands the goal alike."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from .base import AGENT, ID, Body, Count, KeyShape, Line, MessageProtocol, Name, States, Words


class AlignmentState(StrEnum):
    """The state of a goal's alignment."""

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
    """The goal: what is wanted, by which criteria it is reached, and what is excluded."""

    text: Words
    criteria: Annotated[tuple[Line, ...], Field(max_length=50)] = ()
    excluded: Annotated[tuple[Line, ...], Field(max_length=50)] = ()


class Interpretation(Body):
    """An agent's reading of a version of the goal, and what it would do first."""

    version: Count
    reading: Words
    first_step: str = Field(default="", max_length=2_000)


class Divergence(Body):
    """A point in which two agents' readings differ."""

    first: Name
    second: Name
    point: Line


class Alignment(Body):
    """The result of comparing the readings of a version: they agree exactly if no divergence is named."""

    version: Count
    agreed: bool
    divergences: Annotated[tuple[Divergence, ...], Field(max_length=100)] = ()

    def model_post_init(self, _: object, /) -> None:
        """Checks that `agreed` is true exactly if no divergences are named.

        Raises:
            ValueError: it is not.
        """
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
