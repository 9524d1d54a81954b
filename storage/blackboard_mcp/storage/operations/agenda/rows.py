"""Rows of tasks, and the values that callers get of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, Final

from blackboard_mcp.protocols.agenda import (
    HELD,
    LEASE_SECONDS,
    PRIORITY,
    RETRIES,
    TASK_OVER,
    Task,
    TaskState,
    agents_reason,
    task_id,
)
from blackboard_mcp.protocols.errors import UnknownReference
from blackboard_mcp.protocols.findings import fingerprint
from blackboard_mcp.protocols.items import item_id
from blackboard_mcp.protocols.runs import Usage
from blackboard_mcp.protocols.stages import stage_id
from blackboard_mcp.protocols.sub_boards import BOUND, SubBoard

from ..ledger.ledger import Ledger
from ..ledger.rows import BoardRow, Steps, dumps, instant, numbers, sql
from . import budgets
from .budgets import PARTS, BudgetRow

MICROS: Final = 1_000_000
_DEAD: Final = frozenset({TaskState.FAULTED, TaskState.CANCELLED})


@dataclass(slots=True)
class TaskRow:
    """A row of `task`: its fields are the columns. Times are in microseconds since 1970.

    While it is held, `holder` has it; in review, `holder` is who did it; otherwise `holder` is empty.
    """

    board: int
    number: int
    title: str
    text: str = ""
    skill: str = ""
    worker: str = ""
    trigger_if: str = ""
    triggered: int = 0
    priority: int = PRIORITY
    stage: int = 0
    required: int = 0
    verify: str = ""
    retries: int = RETRIES
    paths: str = "[]"
    state: str = str(TaskState.PENDING)
    blockers: int = 0
    """The number of tasks that it waits for."""
    attempts: int = 0
    failures: int = 0
    holder: str = ""
    lease: int = 0
    length: int = 0
    until: int = 0
    waits_on: str = ""
    waits_for: str = "[]"
    result: int = 0
    why: str = ""
    created_by: str = ""
    created_at: int = 0
    moved_at: int = 0
    dead_end: str = ""
    """The fingerprint of its title while it is FAULTED or CANCELLED."""
    cost: int = 0
    """What an attempt is expected to cost, in millionths."""

    @property
    def id(self) -> str:
        """The id, as agents see it."""
        return task_id(self.number)

    @property
    def held(self) -> bool:
        """Tells whether somebody holds it, unless the lease has ended unnoticed."""
        return self.state in HELD

    def patterns(self) -> tuple[str, ...]:
        """Returns the paths that are reserved with it."""
        return tuple(json.loads(self.paths))


_COLUMNS: Final = attrgetter(*(field.name for field in fields(TaskRow)))


def add(row: TaskRow) -> Steps[None]:
    """Stores a new task."""
    yield sql("task_add"), _COLUMNS(row)


def put(row: TaskRow) -> Steps[None]:
    """Stores a changed task."""
    row.dead_end = fingerprint(row.title) if row.state in _DEAD else ""
    yield sql("task_put"), _COLUMNS(row)


def find_tasks(no: int, wanted: Iterable[int]) -> Steps[dict[int, TaskRow]]:
    """Returns those of the tasks that exist, by number."""
    asked = numbers(wanted)
    return {row[1]: TaskRow(*row) for row in (yield sql("tasks_get"), (no, asked))} if asked != "[]" else {}


def get_tasks(board: BoardRow, wanted: Sequence[int]) -> Steps[dict[int, TaskRow]]:
    """Returns all of the tasks, by number.

    Raises:
        UnknownReference: one does not exist.
    """
    found = yield from find_tasks(board.no, wanted)
    missing = [task_id(number) for number in wanted if number not in found]
    if missing:
        raise UnknownReference(
            f"There is no task {', '.join(missing[:5])} on '{board.id}'. Nothing was changed; plan() lists the tasks.",
            missing=missing,
        )
    return found


def get_task(board: BoardRow, number: int) -> Steps[TaskRow]:
    """Returns one task.

    Raises:
        UnknownReference: it does not exist.
    """
    return (yield from get_tasks(board, [number]))[number]


def closed_stages(no: int) -> Steps[dict[int, str]]:
    """Returns the stages in which nothing can be taken now, with their states."""
    return dict((yield sql("stages_closed"), (no,)))


def ends(no: int, held: Iterable[TaskRow]) -> Steps[dict[int, int]]:
    """Returns when the lease of each held task ends, by number: calls of its holder renew it."""
    rows = [row for row in held if row.held]
    seen: dict[str, int] = {}
    if rows:
        named = dumps(sorted({row.holder for row in rows}))
        seen = dict((yield sql("agents_last_seen"), (no, named)))
    return {
        row.number: max(row.until, seen.get(row.holder, 0) + row.length)
        if row.state == TaskState.RUNNING
        else row.until
        for row in rows
    }


def values(board: BoardRow, rows: Sequence[TaskRow], now: int) -> Steps[tuple[Task, ...]]:
    """Returns tasks as callers get them, in the order of `rows`. Leases that have ended count as ended."""
    if not rows:
        return ()
    until = yield from ends(board.no, rows)
    before: dict[int, list[tuple[int, str, str]]] = {}
    for task, after, state, holder in (yield sql("after_of"), (board.no, numbers(r.number for r in rows))):
        before.setdefault(task, []).append((after, state, holder))
    closed: Mapping[int, str] = {}
    if any(row.stage for row in rows):
        closed = yield from closed_stages(board.no)
    below: Mapping[int, SubBoard] = {}
    if any(row.worker.startswith(BOUND) for row in rows):
        from .sub_boards import of  # it needs this module

        below = yield from of(board.no, rows)
    budget: BudgetRow | None = None
    if any(row.state in (TaskState.PENDING, TaskState.RUNNING) for row in rows):
        budget = yield from budgets.find(board.no)
    results = {row.result for row in rows if row.result}
    types: dict[int, str] = dict((yield sql("item_types"), (board.no, numbers(results)))) if results else {}
    return tuple(
        _value(
            row,
            until.get(row.number, 0),
            before.get(row.number, ()),
            closed,
            types,
            now,
            below.get(row.number),
            budget,
        )
        for row in rows
    )


def _value(
    row: TaskRow,
    until: int,
    before: Sequence[tuple[int, str, str]],
    closed: Mapping[int, str],
    types: Mapping[int, str],
    now: int,
    sub: SubBoard | None,
    budget: BudgetRow | None,
) -> Task:
    state, holder = TaskState(row.state), row.holder
    if state is TaskState.RUNNING and until <= now:
        state, holder = TaskState.PENDING, ""
    blocked: list[str] = []
    if state is TaskState.PENDING:
        for number, stands, by in before:
            if stands != TaskState.COMPLETED:
                done = ", done" if stands == TaskState.REVIEW else ""
                blocked.append(f"{task_id(number)} {stands}{f'{done} by {by}' if by else ''}")
    if row.stage in closed and (state is TaskState.PENDING or state in HELD):
        blocked.append(f"stage {stage_id(row.stage)} {closed[row.stage]}")
    if state is TaskState.PENDING:
        if row.trigger_if and not row.triggered:
            blocked.append(f"trigger {row.trigger_if}")
        if budget is not None and (lacks := budget.lacks(row.cost)):
            blocked.append(f"budget: {lacks}")
    return Task(
        number=row.number,
        title=row.title,
        text=row.text,
        state=state,
        ready=state is TaskState.PENDING and not blocked,
        blocked_by=tuple(blocked),
        holder=holder,
        lease=row.lease,
        until=instant(until) if state in HELD else None,
        priority=row.priority,
        stage=row.stage,
        attempts=row.attempts,
        after=tuple(number for number, _, _ in before),
        skill=row.skill,
        worker=row.worker,
        trigger=row.trigger_if,
        required=bool(row.required),
        verify=row.verify,
        retries=row.retries,
        paths=row.patterns(),
        created_by=row.created_by,
        created_at=instant(row.created_at),
        moved_at=instant(row.moved_at),
        waits_on=row.waits_on,
        result=item_id(types[row.result], row.result) if row.result in types else None,
        why=row.why,
        cost=row.cost / PARTS,
        lease_seconds=row.length / MICROS or LEASE_SECONDS,
        sub=sub,
    )


def held_by(board: BoardRow, agent: str, now: int, most: int) -> Steps[tuple[Task, ...]]:
    """Returns the tasks that an agent holds, the first `most`."""
    numbered = [n for (n,) in (yield sql("tasks_of_holder"), (board.no, agent, most))]
    found = yield from find_tasks(board.no, numbered)
    made = yield from values(board, [found[n] for n in numbered], now)
    return tuple(task for task in made if task.state in HELD)


def move(
    ledger: Ledger,
    row: TaskRow,
    state: TaskState,
    *,
    why: str = "",
    verdict: bool = False,
    usage: Usage | None = None,
) -> Steps[None]:
    """Moves a task to a state and stores it.

    `why` is the reason that its next reader finds: an agent's words, or the server's on a review if it is a `verdict`.
    `usage` is what the attempt that ends used.
    """
    if (row.held or usage is not None) and state not in HELD:
        yield from budgets.charge(ledger, row, usage)
    row.state, row.moved_at = str(state), ledger.now
    row.why = why if verdict else agents_reason(why)
    if state not in HELD:
        row.until, row.waits_on, row.waits_for = 0, "", "[]"
        if state is not TaskState.REVIEW:
            row.holder = ""
    yield from put(row)
    if state in TASK_OVER and row.trigger_if and not row.triggered:
        yield sql("terms_drop"), (ledger.no, "task", row.number)


def end_attempt(ledger: Ledger, row: TaskRow, how: str, note: str, *, result: int = 0) -> Steps[None]:
    """Records how an attempt ended, and what was left for the next; called before the holder is forgotten.

    `result` is the number of its result, if a reviewer rejected that.
    """
    values = (row.number, row.lease, row.holder, how, note, ledger.now, result)
    yield sql("attempt_add"), (ledger.no, *values)


def released_by(ledger: Ledger, completed: int) -> Steps[dict[int, str]]:
    """Counts a completed task off those that come after it; returns a map from those that are ready by that, in order,
    to the agents whom they are meant for, "" where that is anybody.

    One that still waits for its stage or trigger is told of when that opens or holds.
    """
    rows: list[Any] = yield sql("before_count"), (ledger.no, completed)
    free = [(number, worker, stage) for number, worker, stage, waits_no_more in rows if waits_no_more]
    if any(stage for _, _, stage in free):
        closed = yield from closed_stages(ledger.no)
        free = [one for one in free if one[2] not in closed]
    return {number: worker or "" for number, worker, _ in sorted(free)}


def workers(freed: Mapping[int, str]) -> list[str]:
    """Returns the agents whom tasks are meant for, each once; `freed` is what `released_by` returned."""
    return sorted({worker for worker in freed.values() if worker})


def ready_by_trigger(ledger: Ledger, row: TaskRow) -> Steps[bool]:
    """Tells whether a task whose trigger has just held waits for no other task and no stage."""
    if row.blockers or row.state != TaskState.PENDING:
        return False
    return not row.stage or row.stage not in (yield from closed_stages(ledger.no))
