"""The agenda of a board: tasks in the order of their dependencies, and who holds which of them under a lease.

A task has a number on its board, shown as `T-4`. Whether it is ready is computed from the board, never stored. Whoever
takes a ready task holds it under a lease, whose number is a fence: every later lease of the board is higher, and only
the newest lease of a task may end it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Literal, Protocol

from .answers import Notice, NoticeFor, Once
from .board import Lifecycle
from .errors import InvalidInput
from .items import Item
from .runs import Budget, Usage
from .stages import NewStage, Stage
from .sub_boards import SubBoard
from .tokens import CountedText
from .values import dataclass

MAX_TASKS = 100
"""Most tasks that one call plans, changes or cancels."""
MAX_OPEN_TASKS = 10_000
"""Most tasks of one board that are not over."""
MAX_AFTER = 50
MAX_TITLE = 200
MAX_NOTE = 2_000
MAX_PATHS = 20
"""Most patterns that one lease reserves."""
MAX_PATTERN = 200
MAX_RESERVATIONS = 1_000
"""Most reservations of one board at a time."""
MAX_LISTED = 100
"""Most tasks that one look at the agenda lists."""
MAX_ENDED = 10
"""Most tasks that one look at the agenda lists if all are over."""
MAX_WORK = 6
"""Most tasks of each kind that a view is told of."""
PRIORITIES = (1, 5)
PRIORITY = 3
RETRIES = 2
MAX_RETRIES = 20
LEASE_SECONDS = 300.0
"""Seconds that a task is held after the last call of its holder."""
LEASES = (1.0, 3_600.0)
MAX_WAITING_SECONDS = 86_400.0
"""Seconds after which a task that waits for something goes on without it."""
MAX_COST = 100_000_000
"""Highest cost of a task, and of what an attempt used, in the users' own unit; highest bound in seconds."""
MAX_TOKENS = 10**12
MAX_SWEPT = 20
"""Most ended leases that one call clears away."""


class TaskState(StrEnum):
    """The state of a task; `TASK_MOVES` has the allowed moves."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    WAITING = "WAITING"
    """Held, with its lease's clock stopped while its holder waits for something."""
    REVIEW = "REVIEW"
    """Done, and to be confirmed by another agent."""
    COMPLETED = "COMPLETED"
    FAULTED = "FAULTED"
    CANCELLED = "CANCELLED"


TASK_MOVES: dict[TaskState, frozenset[TaskState]] = {
    TaskState.PENDING: frozenset(TaskState) - {TaskState.PENDING, TaskState.WAITING},
    TaskState.RUNNING: frozenset(TaskState) - {TaskState.RUNNING},
    TaskState.WAITING: frozenset(TaskState) - {TaskState.WAITING},
    TaskState.REVIEW: frozenset(
        {TaskState.PENDING, TaskState.COMPLETED, TaskState.FAULTED, TaskState.CANCELLED}
    ),
    TaskState.FAULTED: frozenset({TaskState.PENDING, TaskState.COMPLETED, TaskState.CANCELLED}),
    TaskState.COMPLETED: frozenset(),
    TaskState.CANCELLED: frozenset(),
}
"""From PENDING to REVIEW, COMPLETED or FAULTED leads a late act under the last lease; a FAULTED task is tried again
(PENDING) or waived (COMPLETED).
"""

TASK_OVER = frozenset({TaskState.COMPLETED, TaskState.CANCELLED})
HELD = frozenset({TaskState.RUNNING, TaskState.WAITING})

_ID = re.compile(r"[Tt]?-?([1-9][0-9]{0,9})\Z")


def task_id(number: int) -> str:
    """Returns a task's id as agents see it."""
    return f"T-{number}"


def parse_task(text: str) -> int:
    """Returns the number of a task from its id (`T-4`) or its number alone.

    Raises:
        InvalidInput: it is neither.
    """
    match = _ID.match(text.strip())
    if match is None:
        raise InvalidInput(
            f"'{text[:40]}' is not a task's id: they look like T-4, as plan() lists them. Nothing was changed."
        )
    return int(match[1])


@dataclass(frozen=True, slots=True)
class NewTask:
    """A task to plan, or changes to an existing one (`number`); in a change `None` leaves a field as it is.

    `after` names tasks that must be COMPLETED first: their numbers, or negative places of the same call (-1 is its
    first). At most one of `skill`, `worker` and `trigger` binds it: to agents with a skill, to one agent, or to a
    condition (see `conditions`) that must hold first. `verify` is "" (nobody confirms it), "agent" (another agent
    does) or "owner" (an agent of another owner). `required` counts for its stage. `state` PENDING retries a FAULTED
    task, COMPLETED waives it; both are for stewards, its planner, and need `why` of the call.
    """

    number: int = 0
    title: str | None = None
    text: str | None = None
    after: tuple[int, ...] | None = None
    skill: str | None = None
    worker: str | None = None
    trigger: str | None = None
    priority: int | None = None
    stage: int | None = None
    """The number of its stage, 0 for none, or a negative place of the same call."""
    required: bool | None = None
    verify: Literal["", "agent", "owner"] | None = None
    retries: int | None = None
    paths: tuple[str, ...] | None = None
    """Patterns that whoever takes it reserves."""
    cost: float | None = None
    """What an attempt at it is expected to cost, in the users' own unit."""
    state: TaskState | None = None
    sub: SubBoard | None = None
    """The board that does it, for a new task; then `skill` and `worker` are empty."""


@dataclass(frozen=True, slots=True)
class Task:
    """A task as the board has it. `lease` is the last one given, 0 before the first; `until` ends a live one.

    `ready` says that whoever it is for could take it now. `blocked_by` says in a few words each what keeps a PENDING
    task from being ready: `T-3 RUNNING by ann`, `stage G-2 AVAILABLE`, `trigger count(tag=log) >= 3`; of one that is
    held, the stage that keeps it from being done. `why` is the reason of its last move, if one was given. `result` is
    the id of the item that its `done` posted. `waits_on` says what a WAITING task waits for.
    """

    number: int
    title: str
    text: str
    state: TaskState
    ready: bool
    blocked_by: tuple[str, ...]
    holder: str
    lease: int
    until: datetime | None
    priority: int
    stage: int
    attempts: int
    """How often it was taken."""
    after: tuple[int, ...] = ()
    skill: str = ""
    worker: str = ""
    trigger: str = ""
    required: bool = False
    verify: str = ""
    retries: int = RETRIES
    paths: tuple[str, ...] = ()
    created_by: str = ""
    created_at: datetime | None = None
    moved_at: datetime | None = None
    waits_on: str = ""
    result: str | None = None
    why: str = ""
    cost: float = 0.0
    lease_seconds: float = LEASE_SECONDS
    """Seconds for which a call of its holder renews the lease."""
    sub: SubBoard | None = None
    """The board below that does it, if one does; `worker` names it as well."""
    outcome: Input | None = None
    """The result as it stands now, or what took its place; of tasks to confirm, over, or looked up by number."""

    @property
    def id(self) -> str:
        """The id, as agents see it."""
        return task_id(self.number)


REJECTED = "rejected by "
"""The beginning of the note of a rejected attempt: the name of who rejected it follows, and why."""
CONFIRMED = "confirmed by "
"""The beginning of the reason of a confirmed task: the name of who confirmed it follows, and why."""
_VERDICT = re.compile(r"[\W_]*(?:rejected|confirmed)[\W_]+by\b", re.IGNORECASE)


def agents_reason(text: str) -> str:
    """Returns a reason in an agent's words; behind `> ` if it begins like the verdict of a review."""
    return f"> {text}" if _VERDICT.match(text) else text


@dataclass(frozen=True, slots=True)
class Attempt:
    """An earlier attempt at a task: who held it, how it ended (`failed`, `released`, `lapsed`, `rejected`), and what
    they left for the next, or who rejected it and why.
    """

    number: int
    agent: str
    lease: int
    how: str
    note: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Input:
    """The result of a task: its result item's id and the beginning of its text.

    Where another item took the place of the result, it is that one, and `instead_of` is the id of the result.
    """

    task: int
    title: str
    item: str | None
    text: str
    status: str = ""
    instead_of: str | None = None


@dataclass(frozen=True, slots=True)
class Reservation:
    """Files or keys that a lease reserves: `file:src/db/**` or `key:plan:*`. Shared ones exclude only others' own."""

    pattern: str
    shared: bool
    agent: str
    lease: int
    task: int
    until: datetime


@dataclass(frozen=True, slots=True)
class AgendaBudget:
    """The budget of a board's agenda. `bounds` keep tasks from being handed out: a bound of 0 is none.

    `used` counts ended attempts: a step each, what their agents reported (else the planned cost), and the seconds for
    which the task was held. `held` counts the tasks that are held now, and their planned cost. `spent` says in a few
    words which bound keeps back every task, and is empty while some may fit.
    """

    bounds: Budget
    used: Budget = Budget()
    held: Budget = Budget()
    spent: str = ""
    set_by: str = ""


@dataclass(frozen=True, slots=True)
class Planned:
    """The tasks that a call planned or changed, in its order, then those it cancelled.

    `dead_ends` are lines on tasks and findings that say the same and failed or fell: `T-9 repeats T-3 FAULTED: why`.
    `alike` are lines on open tasks that others planned before, and that are about the same:
    `T-9 and T-4 of bob, RUNNING by cleo: title`.
    """

    tasks: tuple[Task, ...]
    seq: int
    dead_ends: tuple[str, ...] = ()
    stages: tuple[Stage, ...] = ()
    """The stages that it defined."""
    budget: AgendaBudget | None = None
    """The budget, if one was ever set."""
    alike: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Agenda:
    """Tasks that are not over, ready ones first, then by priority and age; `total` counts all of them.

    `mine` are those that the agent holds, `review` those that wait for somebody like it to confirm. Where no task is
    left, `over` counts tasks by final state, up to `MAX_OPEN_TASKS` each, and `ended` are those that ended last, up
    to `MAX_ENDED`, in the order of their numbers; else both are empty.
    """

    tasks: tuple[Task, ...]
    total: int
    seq: int
    mine: tuple[Task, ...] = ()
    review: tuple[Task, ...] = ()
    over: dict[TaskState, int] = field(default_factory=dict)
    ended: tuple[Task, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    budget: AgendaBudget | None = None
    kept: Mapping[int, Reservation] = field(default_factory=dict)
    """A map from ready tasks to a reservation of another agent that keeps this one from taking them."""
    lifecycle: Lifecycle = Lifecycle.OPEN
    """The state of the board."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The tasks of the agenda that one agent holds, could take, could confirm, or has to mend.

    There are `MAX_WORK` of each at most.

    Leases count as given until somebody notices their end, so that it changes with the board's sequence alone.
    """

    held: tuple[Task, ...] = ()
    ready: tuple[Task, ...] = ()
    """The best first; then those that the agent gave back last, then those of `kept`."""
    review: tuple[Task, ...] = ()
    budget: AgendaBudget | None = None
    kept: Mapping[int, Reservation] = field(default_factory=dict)
    """A map from ready tasks to a reservation of another agent, as in `Agenda`."""
    failed: tuple[Task, ...] = ()
    """FAULTED tasks that the agent planned."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What a taking gave. Without a `task`, only paths were reserved."""

    task: Task | None
    lease: int
    until: datetime
    seq: int
    inputs: tuple[Input, ...] = ()
    brief: tuple[Attempt, ...] = ()
    """Earlier attempts, the last one last."""
    reserved: tuple[Reservation, ...] = ()
    others: tuple[Task, ...] = ()
    """Other tasks that the agent holds."""
    dead_ends: tuple[str, ...] = ()
    """As in `Planned`."""
    notice: Notice | None = None
    """The notice that was asked for; `None` without one, and for a call that repeats an earlier one."""


SettleOp = Literal["done", "fail", "extend", "release", "verify"]


@dataclass(frozen=True, slots=True)
class Settle:
    """What its holder (or, with "verify", its reviewer) does with a task.

    `done` posts `text` as a RESULT item that cites `cites` (item numbers). `fail` ends the attempt with `text` as the
    reason; after `retries` further attempts the task is FAULTED. `extend` starts the lease anew for `seconds`; with
    `text` the task is WAITING for what the text says, with `cites` until the cited debates and questions are over.
    `release` gives it back. `verify` confirms a task in REVIEW (`ok`), or rejects it with a critique of its result.
    `lease` 0 is the caller's own lease. Without `number`, the lease names what is meant: also a reservation alone.
    """

    op: SettleOp
    number: int = 0
    lease: int = 0
    text: CountedText = CountedText()
    ok: bool = True
    cites: tuple[int, ...] = ()
    paths: tuple[str, ...] = ()
    """Patterns that `extend` reserves in addition."""
    seconds: float = LEASE_SECONDS
    usage: Usage | None = None
    """What the attempt used, with `done`, `fail` and `release`."""


@dataclass(frozen=True, slots=True)
class Settled:
    """A task after its holder or reviewer acted; `item` is what was posted: a RESULT or a critique of one.

    `freed` maps tasks that wait for nothing more, thanks to it, to the agents whom they are meant for, "" where that is
    anybody. `late` says that the lease had ended.
    """

    task: Task | None
    item: Item | None
    lease: int
    until: datetime | None
    seq: int
    freed: Mapping[int, str] = field(default_factory=dict)
    late: bool = False
    notice: Notice | None = None
    """The notice that was asked for; `None` without one, and for a call that repeats an earlier one."""


@dataclass(frozen=True, slots=True)
class Prospect:
    """What an agent that waits for a task may expect: `ready` tasks that it could take now, and the next instant at
    which a lease ends; `None` if there is none. It can take none of a board that is not open.
    """

    ready: int
    next_due: datetime | None
    seq: int
    lifecycle: Lifecycle = Lifecycle.OPEN


class AgendaStore(Protocol):
    """A store of the agenda. The guarantees of `store` apply."""

    async def plan(
        self,
        board: str,
        agent: str,
        items: Sequence[NewTask | NewStage],
        *,
        cancel: Sequence[int] = (),
        why: str = "",
        budget: Budget | None = None,
        once: Once | None = None,
    ) -> Planned:
        """Plans and changes tasks, defines stages and cancels tasks, all or nothing; reports `plan.added`,
        `plan.changed`, `plan.cancelled` and `stage.defined`, one event each.

        With `budget` a steward sets the bounds of the agenda's budget (`plan.budget`). A task is handed out only if
        what is used, what is held and its own cost are within them. `take_task` reports the first task that is kept
        back (`budget.blocked`), once for each time that the budget is set.

        Conditions, `after`, `stage` and `parent` may name items of the same call by their places.

        Only its planner, its holder or a steward may change or cancel a task. A task on which others that are not over
        depend is cancelled only together with them.

        Raises:
            InvalidInput: a value is not allowed, or dependencies form a circle (it is named).
            UnknownReference: a named task, stage or board does not exist.
            Refused: the agent may not, or others depend on what it cancels.
            QuotaExceeded: there are `MAX_OPEN_TASKS` already.
        """
        ...

    async def agenda(self, board: str, agent: str, *, limit: int = MAX_LISTED) -> Agenda:
        """Returns the agenda as of one moment; leases that have ended count as ended."""
        ...

    async def tasks(self, board: str, agent: str, numbers: Sequence[int]) -> tuple[Task, ...]:
        """Returns these tasks, over or not, in that order, with their outcomes as far as the agent may see them.

        Unknown ones are left out.
        """
        ...

    async def attempts(self, board: str, agent: str, number: int) -> tuple[Attempt, ...]:
        """Returns the ended attempts at a task, oldest first."""
        ...

    async def take_task(
        self,
        board: str,
        agent: str,
        *,
        number: int | None = None,
        skills: Sequence[str] | None = None,
        paths: Sequence[str] = (),
        seconds: float = LEASE_SECONDS,
        notice: NoticeFor | None = None,
        once: Once | None = None,
    ) -> Taken | None:
        """Takes the named task, or the best ready one that the agent may take: by priority, then the oldest.

        `None` if no task is ready for it. `skills` are in addition to those that the agent offers on the board. With
        `paths` and without `number` it reserves only. The task's own `paths` are reserved with it. `notice` is what to
        tell the agent beside, as of the taking.

        Raises:
            Conflict: another holds the named task, a reservation or the task's binding; `holder`, `lease`, `until`.
            Refused: the named task is not ready (it says why), or is for others.
        """
        ...

    async def settle_task(
        self,
        board: str,
        agent: str,
        act: Settle,
        *,
        heeding: bool = False,
        notice: NoticeFor | None = None,
        once: Once | None = None,
    ) -> Settled:
        """Does what `act` says. A `done` or `fail` after the lease has ended counts if nobody took the task since.

        A task that is completed ends open debates on results of it that reviewers rejected, DECIDED in favour of its
        result: amended if the same side wrote that, else it falls. A debate goes on if both the agent and the author
        of the result act for its critics, or if the result fell itself.

        `notice` is as for `take_task`.

        Raises:
            RulesUnseen: with `heeding`, rules in the agent's scope changed since it was shown them.
            Conflict: the lease is not the task's newest, or it is another agent's; names holder, lease and end. Or what
                `done` cites, or what a confirmation or the result that it confirms cites, is stale: the result of a
                check (`metadata["check"]` of an item by `SYSTEM`) on files of which one that matches `files` was
                written after `revision`; names path and revision.
            Refused: the task's state does not allow it, or the reviewer may not confirm it.
        """
        ...

    async def prospect(self, board: str, agent: str, skills: Sequence[str] | None = None) -> Prospect:
        """Returns what an agent that waits for a task may expect."""
        ...

    async def sweep_tasks(self) -> list[str]:
        """Ends leases that have run out on all boards, `MAX_SWEPT` at most; returns the boards that changed.

        No lease ends for the time in which the store was closed: its holder counts as there when the store was opened.
        Time in which one process soon follows another, or runs beside it, is no such time.
        """
        ...

    async def next_lapse(self) -> float | None:
        """Returns the seconds until the next lease may end, or `None` if nobody holds a task or reservation."""
        ...
