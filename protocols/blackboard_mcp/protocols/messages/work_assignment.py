"""Work assignment: tasks are offered, claimed by one, worked on, and handed on when they stall."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from .base import ID, NUMBER, Body, Facts, KeyShape, Line, MessageProtocol, Name, Share, States, Words


class TaskState(StrEnum):
    """The state of a task."""

    OFFERED = "OFFERED"
    CLAIMED = "CLAIMED"
    DONE = "DONE"
    FAILED = "FAILED"


TASK_STATES = States(
    first=frozenset({"OFFERED"}),
    moves={
        "OFFERED": frozenset({"CLAIMED", "FAILED"}),
        # A reassignment offers the task again before another agent claims it.
        "CLAIMED": frozenset({"DONE", "FAILED", "OFFERED"}),
        "DONE": frozenset(),
        "FAILED": frozenset({"OFFERED"}),
    },
)


class Offer(Body):
    """A task for whoever has the skills."""

    text: Words
    skills: Annotated[tuple[Name, ...], Field(max_length=16)] = ()
    priority: Annotated[int, Field(ge=1, le=5)] = 3
    facts: Facts = Field(default_factory=dict)


class Claim(Body):
    """The claim of a task by its `holder`.

    The number in its key is the round: it starts at 1 and grows with each reassignment.
    """

    holder: Name
    lease_seconds: Annotated[float, Field(gt=0, le=86_400)] = 300.0


class Progress(Body):
    """A report on progress, from 0 to 1 in `share`; it also shows that the holder is alive."""

    share: Share
    text: str = Field(default="", max_length=2_000)


class Done(Body):
    """The result of a task, and the items that show it."""

    text: Words
    items: Annotated[tuple[Name, ...], Field(max_length=64)] = ()


class Failed(Body):
    """The reason why a task failed."""

    reason: Line


class Reassign(Body):
    """The reason why a task is offered again, and the agent that is asked first, if any."""

    reason: Line
    to: Name | None = None


class WorkAssignment(MessageProtocol):
    """Hand out tasks so that each is done by one agent at a time, among those who speak this; others use claim.

    Whoever has work writes the task; a worker claims it with `expected_version=0`, so that one of many
    gets it, and writes its progress under one key. It ends done or failed. A coordinator reassigns a task
    whose holder went silent: the next round has claim keys of its own, and what the old holder still
    writes is of a round gone by.
    """

    name: ClassVar[str] = "work-assignment"
    states: ClassVar[States | None] = TASK_STATES
    shapes: ClassVar[tuple[KeyShape, ...]] = (
        KeyShape("task", (ID,), Offer, "whoever has work, once"),
        KeyShape("claim", (ID, NUMBER), Claim, "a worker, with expected_version 0; number is the round"),
        KeyShape("progress", (ID, NUMBER), Progress, "the holder of the round, again and again"),
        KeyShape("done", (ID, NUMBER), Done, "the holder of the round, once"),
        KeyShape("failed", (ID, NUMBER), Failed, "the holder of the round, once"),
        KeyShape("reassign", (ID, NUMBER), Reassign, "a coordinator; number is the round that ends"),
    )

    def task_key(self, id: str) -> str:
        return self.key("task", id=id)

    def claim_key(self, id: str, round: int = 1) -> str:
        return self.key("claim", id=id, number=round)

    def progress_key(self, id: str, round: int = 1) -> str:
        return self.key("progress", id=id, number=round)

    def done_key(self, id: str, round: int = 1) -> str:
        return self.key("done", id=id, number=round)

    def failed_key(self, id: str, round: int = 1) -> str:
        return self.key("failed", id=id, number=round)

    def reassign_key(self, id: str, round: int) -> str:
        return self.key("reassign", id=id, number=round)
