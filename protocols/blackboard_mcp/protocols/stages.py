"""Stages and milestones: phases of a plan that begin and end by conditions on the board, as in CMMN.

A stage has a number on its board, shown as `G-2`. Its tasks are ready only while it is ACTIVE. A milestone has no
tasks: it is COMPLETED when its entry condition holds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Literal, Protocol

from .answers import Once
from .board import Lifecycle
from .errors import InvalidInput
from .values import dataclass

MAX_STAGES = 500
"""Most stages and milestones of one board that are not over."""
MAX_DEFINED = 50
"""Most stages and milestones that one call defines."""
MAX_ENDED = 100
"""Most stages and milestones that are over in one look."""
MAX_DEPTH = 10
MAX_STAGE_TITLE = 100
MAX_CASCADES = 8
"""Most rounds of changes that one transaction lets follow from each other; the next change takes up the rest."""
MAX_LOOKED = 50
"""Most conditions that one such round looks at."""
MAX_TRIGGERS = 500
"""Most tasks of one board that wait for their trigger."""
MAX_WHY = 2_000


class StageState(StrEnum):
    """The state of a stage or milestone; `STAGE_MOVES` has the allowed moves."""

    AVAILABLE = "AVAILABLE"
    ENABLED = "ENABLED"
    """Its entry condition held, and it waits for its start by hand."""
    ACTIVE = "ACTIVE"
    SUSPENDED = "SUSPENDED"
    FAULTED = "FAULTED"
    """A required task in it is FAULTED: retry it, waive it, or terminate the stage."""
    COMPLETED = "COMPLETED"
    TERMINATED = "TERMINATED"


STAGE_OVER = frozenset({StageState.COMPLETED, StageState.TERMINATED})
STAGE_MOVES: dict[StageState, frozenset[StageState]] = {
    StageState.AVAILABLE: frozenset(
        {StageState.ENABLED, StageState.ACTIVE, StageState.COMPLETED, StageState.TERMINATED}
    ),
    StageState.ENABLED: frozenset({StageState.ACTIVE, StageState.TERMINATED}),
    StageState.ACTIVE: frozenset(
        {StageState.SUSPENDED, StageState.FAULTED, StageState.COMPLETED, StageState.TERMINATED}
    ),
    StageState.SUSPENDED: frozenset({StageState.ACTIVE, StageState.TERMINATED}),
    StageState.FAULTED: frozenset(
        {StageState.ACTIVE, StageState.SUSPENDED, StageState.COMPLETED, StageState.TERMINATED}
    ),
    StageState.COMPLETED: frozenset(),
    StageState.TERMINATED: frozenset(),
}
"""AVAILABLE → COMPLETED is for milestones alone."""

_ID = re.compile(r"[Gg]?-?([1-9][0-9]{0,9})\Z")


def stage_id(number: int) -> str:
    """Returns a stage's id as agents see it."""
    return f"G-{number}"


def parse_stage(text: str) -> int:
    """Returns the number of a stage from its id (`G-2`) or its number alone.

    Raises:
        InvalidInput: it is neither.
    """
    match = _ID.match(text.strip())
    if match is None:
        raise InvalidInput(
            f"'{text[:40]}' is not a stage's id: they look like G-2, as stage() lists them. Nothing was changed."
        )
    return int(match[1])


@dataclass(frozen=True, slots=True)
class NewStage:
    """A stage to define. `entry` and `exit` are conditions; empty `entry` holds at once, empty `exit` never.

    `parent` is a stage's number, a negative place of the same call (-1 is its first), or 0. A milestone has no `exit`,
    and is not started by hand.

    `required` is a condition as well: "true", "false", or one that is evaluated when the stage becomes available, and
    says whether its parent waits for it. `manual`: it is started by hand once its entry holds. `autocomplete`: it is
    COMPLETED as soon as its required tasks, milestones and stages are over and nothing in it runs; else only when all
    that is in it is over, which for one without anything required holds always. An empty stage waits for tasks.
    """

    title: str
    parent: int = 0
    entry: str = ""
    exit: str = ""
    required: str = "true"
    manual: bool = False
    autocomplete: bool = True
    kind: Literal["stage", "milestone"] = "stage"


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage or milestone as the board has it. `why` says what keeps it from its next state, or why it ended."""

    number: int
    title: str
    kind: Literal["stage", "milestone"]
    parent: int
    state: StageState
    entry: str
    exit: str
    required: bool
    manual: bool
    autocomplete: bool
    created_by: str
    moved_at: datetime
    why: str = ""
    tasks: tuple[int, ...] = ()
    """Numbers of its tasks that are not over."""
    faulted: tuple[int, ...] = ()
    """Numbers of its required tasks that are FAULTED."""

    @property
    def id(self) -> str:
        """The id, as agents see it."""
        return stage_id(self.number)


@dataclass(frozen=True, slots=True)
class Stages:
    """Stages of a board, each after its parent: those that are not over, and the newest `MAX_ENDED` that are.

    `lifecycle` is the state of the board.
    """

    stages: tuple[Stage, ...]
    seq: int
    lifecycle: Lifecycle = Lifecycle.OPEN


StageOp = Literal["start", "suspend", "resume", "terminate"]


class StageStore(Protocol):
    """A store of stages. The guarantees of `store` apply."""

    async def stages(self, board: str, agent: str) -> Stages:
        """Returns the stages and milestones."""
        ...

    async def define_stages(
        self, board: str, agent: str, stages: Sequence[NewStage], *, once: Once | None = None
    ) -> Stages:
        """Defines stages and milestones, all or nothing, and returns those, as they stand after it.

        Raises:
            InvalidInput: a condition or value is not allowed; the place in the condition is named.
            UnknownReference: the parent, or a task or stage in a condition, does not exist.
            Refused: the parent is over, a title is taken, or it would be too deep.
            QuotaExceeded: there are `MAX_STAGES` already.
        """
        ...

    async def move_stage(
        self, board: str, agent: str, number: int, op: StageOp, why: str = "", *, once: Once | None = None
    ) -> Stages:
        """Starts, suspends, resumes or terminates a stage, and returns the stages that moved, it first.

        Who defined it and stewards may. `start` enters it, also before its entry condition held. What is in a
        terminated stage ends as well: stages under it are TERMINATED, tasks CANCELLED.

        Raises:
            UnknownReference: there is no such stage.
            Refused: its state, its parent's or the agent does not allow it; it says what does.
        """
        ...
