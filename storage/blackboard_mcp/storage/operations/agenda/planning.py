"""Planning: tasks that are new, changed or cancelled, and the agenda as a whole."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, Final

from blackboard_mcp.protocols.agenda import (
    HELD,
    MAX_AFTER,
    MAX_COST,
    MAX_ENDED,
    MAX_LISTED,
    MAX_NOTE,
    MAX_OPEN_TASKS,
    MAX_RETRIES,
    MAX_TASKS,
    MAX_TITLE,
    PRIORITIES,
    PRIORITY,
    RETRIES,
    TASK_OVER,
    Agenda,
    AgendaBudget,
    Attempt,
    NewTask,
    Planned,
    Task,
    TaskState,
    parse_task,
    task_id,
)
from blackboard_mcp.protocols.answers import Once
from blackboard_mcp.protocols.changes import ChangeKind
from blackboard_mcp.protocols.errors import InvalidInput, QuotaExceeded, Refused, UnknownReference
from blackboard_mcp.protocols.events import EventType
from blackboard_mcp.protocols.runs import Budget
from blackboard_mcp.protocols.stages import MAX_TRIGGERS, STAGE_OVER, NewStage, Stage, parse_stage, stage_id
from blackboard_mcp.protocols.sub_boards import BOUND

from ...operation import Write
from ..ledger.idempotency import Form, repeatable
from ..ledger.ledger import Ledger, get_board
from ..ledger.rows import BoardRow, Steps, dumps, numbers, sql
from ..stages import defining
from ..stages.judging import check_condition, named
from ..stages.rows import find_stages, mention
from ..stages.rows import values as stage_values
from . import budgets, lapses, reservations, rows, sub_boards, taking, workload
from .dead_ends import alike, dead_ends
from .rows import TaskRow

_NAMED: Final = 5
_BRIEF: Final = 20
"""Most ended attempts that one look returns."""
_FIELDS: Final = ("title", "text", "skill", "worker", "priority", "stage", "required", "verify", "retries")
"""Fields of a task whose names are those of its columns."""


def _planned_again(kept: list[Any]) -> Steps[Planned]:
    """Returns the tasks that a repeated call planned, as they are now."""
    now, board, named, seq, *staged = kept
    row = yield from get_board(board)
    return (yield from _planned(now, row, named, staged[0] if staged else (), seq))


def _form(given: dict[str, Any]) -> Form[Planned]:
    now, board = given["write"].now, given["board"]
    return Form(
        lambda planned: [
            now,
            board,
            [task.number for task in planned.tasks],
            planned.seq,
            [stage.number for stage in planned.stages],
        ],
        _planned_again,
    )


@repeatable(_form)
def plan(
    write: Write,
    board: str,
    agent: str,
    items: Sequence[NewTask | NewStage],
    *,
    cancel: Sequence[int] = (),
    why: str = "",
    budget: Budget | None = None,
    once: Once | None = None,
) -> Steps[Planned]:
    """Plans and changes tasks, defines stages and cancels tasks, all or nothing; reports `plan.added`,
    `plan.changed`, `plan.cancelled` and `stage.defined`, one event each.

    Only its planner, its holder or a steward may change or cancel a task. A task on which others that are not over
    depend is cancelled only together with them.

    Raises:
        InvalidInput: a value is not allowed, or dependencies form a circle (it is named).
        UnknownReference: a named task, stage or board does not exist.
        Refused: the agent may not, or others depend on what it cancels.
        QuotaExceeded: there are `MAX_OPEN_TASKS` already.
    """
    if len(items) + len(cancel) > MAX_TASKS or not (items or cancel or budget):
        raise InvalidInput(f"Plan, change or cancel 1 to {MAX_TASKS} tasks in a call. Nothing was changed.")
    ledger = yield from lapses.begin(write, board, agent)
    stages = sum(isinstance(item, NewStage) for item in items)
    first = (yield sql("task_last"), (ledger.no,))[0][0] + 1
    first_stage = yield from defining.count_new(ledger, stages) if stages else _none()
    tasks = [item for item in items if isinstance(item, NewTask)]
    new = sum(not task.number for task in tasks)
    open_ = (yield sql("tasks_open"), (ledger.no, MAX_OPEN_TASKS))[0][0]
    if open_ + new > MAX_OPEN_TASKS:
        raise QuotaExceeded(
            f"'{board}' has {open_:,} tasks that are not over, and {MAX_OPEN_TASKS:,} is the limit. Nothing was "
            "changed; cancel what nobody needs any more."
        )
    changed = yield from rows.get_tasks(
        ledger.board, [*(task.number for task in tasks if task.number), *cancel]
    )
    fresh, fresh_stages = itertools.count(first), itertools.count(first_stage)
    ids = [
        stage_id(next(fresh_stages)) if isinstance(item, NewStage) else task_id(item.number or next(fresh))
        for item in items
    ]
    yield from defining.add_all(ledger, items, ids, "items")
    planned: list[int] = []
    circles: list[int] = []
    for place, item in enumerate(items):
        if isinstance(item, NewStage):
            continue
        task = _placed(item, ids, place, board)
        _check(task, place + 1)
        yield from sub_boards.check(ledger, task, f"Item {place + 1} of items")
        number = parse_task(ids[place])
        if task.number:
            yield from _change(ledger, changed[number], task, task.after, ids, why)
            if task.state is TaskState.COMPLETED:  # that counted it off those that come after it
                changed = yield from rows.find_tasks(ledger.no, changed)
        else:
            yield from _add(ledger, number, task, task.after or (), ids)
        planned.append(number)
        circles += [number] if task.after else []
    for number in circles:
        yield from _check_circle(ledger, number)
    yield from _cancel(ledger, [changed[number] for number in dict.fromkeys(cancel)], why)
    if budget is not None:
        ledger.note(ChangeKind.PLAN)
        yield from budgets.set_bounds(ledger, budget)
    yield from ledger.close()
    planned += [number for number in dict.fromkeys(cancel) if number not in planned]
    staged = [parse_stage(id_) for id_, item in zip(ids, items, strict=True) if isinstance(item, NewStage)]
    return (yield from _planned(write.now, ledger.board, planned, staged, ledger.board.seq))


def _planned(
    now: int, board: BoardRow, named: Sequence[int], staged: Sequence[int], seq: int
) -> Steps[Planned]:
    """Returns tasks and stages that a call planned, as they are now."""
    found = yield from rows.find_tasks(board.no, named)
    tasks = yield from rows.values(board, [found[n] for n in named if n in found], now)
    stages = yield from find_stages(board.no, staged)
    made = (
        yield from stage_values(board.no, [stages[n] for n in staged if n in stages])
        if stages
        else _no_stages()
    )
    budget = yield from _budget(board.no)
    ends = yield from dead_ends(board.no, tasks)
    return Planned(tasks, seq, ends, made, budget, alike=(yield from alike(board.no, tasks)))


def _budget(no: int) -> Steps[AgendaBudget | None]:
    row = yield from budgets.find(no)
    return None if row is None else row.value()


def _no_stages() -> Steps[tuple[Stage, ...]]:
    return ()
    yield  # makes this a generator


def _none() -> Steps[int]:
    return 0
    yield  # makes this a generator


def _check(task: NewTask, place: int) -> None:
    """Checks the values of a task.

    Raises:
        InvalidInput: one is not allowed.
    """
    where = f"Item {place} of items"
    if not task.number and not (task.title or "").strip():
        raise InvalidInput(
            f"{where} has no title. Nothing was changed; say in a few words what is to be done."
        )
    if task.title is not None and (
        not task.title.strip() or len(task.title) > MAX_TITLE or "\n" in task.title
    ):
        raise InvalidInput(
            f"{where}: a title is one line of 1 to {MAX_TITLE} characters. Nothing was changed; the rest goes "
            "into text."
        )
    if task.text is not None and len(task.text) > MAX_NOTE:
        raise InvalidInput(
            f"{where}: text has {len(task.text):,} characters, and {MAX_NOTE:,} is the limit. Nothing was changed; "
            "post the rest as an item and name its id here."
        )
    if sum(bool(bound) for bound in (task.skill, task.worker, task.trigger)) > 1:
        raise InvalidInput(
            f"{where}: give one of skill, worker and trigger, not several. Nothing was changed."
        )
    if task.priority is not None and not PRIORITIES[0] <= task.priority <= PRIORITIES[1]:
        raise InvalidInput(f"{where}: priority is 1 to 5, and 5 goes first. Nothing was changed.")
    if task.cost is not None and not 0 <= task.cost <= MAX_COST:
        raise InvalidInput(f"{where}: cost is 0 to {MAX_COST:,}. Nothing was changed.")
    if task.retries is not None and not 0 <= task.retries <= MAX_RETRIES:
        raise InvalidInput(f"{where}: retries is 0 to {MAX_RETRIES}. Nothing was changed.")
    try:
        reservations.check(task.paths or ())
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error.message}") from None
    if task.state is not None and (
        not task.number or task.state not in (TaskState.PENDING, TaskState.COMPLETED)
    ):
        raise InvalidInput(
            f"{where}: state is only for a FAULTED task, with its id: PENDING tries it again, COMPLETED waives it. "
            "Nothing was changed."
        )


def _placed(task: NewTask, ids: Sequence[str], place: int, board: str) -> NewTask:
    """Returns a task with ids in the place of `$1` and the like, which name items of the same call.

    Raises:
        InvalidInput: such a place is not there, or is of another kind; or there are too many.
        UnknownReference: the task would come after the id that it is given only now.
    """
    where = f"Item {place + 1} of items"

    def number(given: int, kind: str) -> int:
        if given >= 0:
            return given
        if -given > len(ids):
            raise InvalidInput(
                f"{where}: '${-given}' names item {-given}, and there are {len(ids)}. Nothing was changed."
            )
        id_ = ids[-given - 1]
        if id_[0] != kind[0]:
            wants = "after takes tasks" if kind == "T-" else "stage takes a stage"
            raise InvalidInput(f"{where}: '${-given}' is {id_}, and {wants}. Nothing was changed.")
        return int(id_[2:])

    if not task.number and int(ids[place][2:]) in (task.after or ()):
        raise _no_task(int(ids[place][2:]), board, f"{where}: there")
    after = None if task.after is None else tuple(dict.fromkeys(number(n, "T-") for n in task.after))
    if len(after or ()) > MAX_AFTER:
        raise InvalidInput(f"{where}: after takes at most {MAX_AFTER} tasks. Nothing was changed.")
    stage = None if task.stage is None else number(task.stage, "G-")
    trigger = named(task.trigger, ids, where) if task.trigger else task.trigger
    return replace(task, after=after, stage=stage, trigger=trigger)


def _add(
    ledger: Ledger, number: int, task: NewTask, after: Sequence[int], ids: Collection[str]
) -> Steps[None]:
    ledger.note(ChangeKind.PLAN)
    yield from _check_stage(ledger, task.stage or 0)
    row = TaskRow(
        board=ledger.no,
        number=number,
        title=(task.title or "").strip(),
        text=task.text or "",
        skill=task.skill or "",
        worker=task.worker or (BOUND + task.sub.board if task.sub else ""),
        trigger_if=task.trigger or "",
        priority=task.priority or PRIORITY,
        stage=task.stage or 0,
        required=int(bool(task.stage) if task.required is None else task.required),
        verify=task.verify or "",
        retries=(0 if task.sub else RETRIES) if task.retries is None else task.retries,
        paths=dumps(list(task.paths or ())),
        cost=round((task.cost or 0) * budgets.PARTS),
        created_by=ledger.agent,
        created_at=ledger.now,
        moved_at=ledger.now,
    )
    yield from rows.add(row)
    if task.sub is not None:
        yield from sub_boards.add(ledger, row, task.sub)
    yield from _order(ledger, row, after, ids)
    if row.trigger_if:
        yield from _await(ledger, row, ids)
    data = {"task": row.id, "title": row.title, "priority": row.priority}
    more = {"skill": row.skill, "worker": row.worker, "after": [task_id(n) for n in after]}
    more["stage"] = stage_id(row.stage) if row.stage else ""
    data |= {name: value for name, value in more.items() if value}
    yield from ledger.emit(EventType.PLAN_ADDED, data=data, concerns=[row.worker] if row.worker else ())


def _no_task(number: int, board: str, there: str = "There") -> UnknownReference:
    return UnknownReference(
        f"{there} is no task {task_id(number)} on '{board}'. Nothing was changed; plan() lists the tasks, and $1 names "
        "the first of this call.",
        missing=[task_id(number)],
    )


def _order(ledger: Ledger, row: TaskRow, after: Sequence[int], ids: Collection[str]) -> Steps[None]:
    """Makes a task come after these and no others, and counts those that it waits for.

    `ids` are the items of the call, which may not be stored yet.
    """
    yield sql("after_drop"), (ledger.no, row.number)
    for number in after:
        yield sql("after_add"), (ledger.no, row.number, number)
    before = yield from rows.find_tasks(ledger.no, after) if after else _nothing()
    missing = [number for number in after if number not in before and task_id(number) not in ids]
    if missing:
        raise _no_task(missing[0], ledger.board.id)
    gone = [task_id(n) for n, task in before.items() if task.state == TaskState.CANCELLED]
    if gone:
        raise Refused(
            f"{row.id} cannot come after {', '.join(gone[:_NAMED])}, which is CANCELLED: it would wait for ever. "
            "Nothing was changed."
        )
    row.blockers = len(after) - sum(task.state == TaskState.COMPLETED for task in before.values())
    yield from rows.put(row)


def _await(ledger: Ledger, row: TaskRow, ids: Collection[str]) -> Steps[None]:
    """Remembers what the trigger of a task mentions.

    Raises:
        InvalidInput: it is no condition.
        UnknownReference: it names a task or stage that does not exist.
        QuotaExceeded: `MAX_TRIGGERS` tasks wait for their trigger already.
    """
    yield from check_condition(ledger, row.trigger_if, f"The trigger of '{row.title}'", ids)
    if (yield sql("tasks_triggered"), (ledger.no,))[0][0] >= MAX_TRIGGERS:
        raise QuotaExceeded(
            f"{MAX_TRIGGERS} tasks of '{ledger.board.id}' wait for their trigger, which is the limit. Nothing was "
            "changed; cancel some, or put them into a stage with that entry condition.",
        )
    yield from mention(ledger.no, "task", row.number, [row.trigger_if])
    ledger.board.conditional = 1


def _nothing() -> Steps[dict[int, TaskRow]]:
    return {}
    yield  # makes this a generator


def _check_stage(ledger: Ledger, stage: int) -> Steps[None]:
    if not stage:
        return
    found = yield sql("stage_state"), (ledger.no, stage)
    if not found:
        raise UnknownReference(
            f"There is no stage {stage_id(stage)} on '{ledger.board.id}'. Nothing was changed; stage() lists the "
            "stages."
        )
    kind, state = found[0]
    if kind == "milestone" or state in STAGE_OVER:
        what = "a milestone, which has no tasks" if kind == "milestone" else f"{state}"
        raise Refused(f"{stage_id(stage)} is {what}. Nothing was changed; name a stage that is not over.")


def _change(
    ledger: Ledger,
    row: TaskRow,
    task: NewTask,
    after: Sequence[int] | None,
    ids: Collection[str],
    why: str,
) -> Steps[None]:
    """Changes, retries or waives a task, and reports what changed with the former values."""
    ledger.note(ChangeKind.PLAN, name=row.id)
    _check_may(ledger, row, "change")
    if row.state in TASK_OVER:
        raise Refused(
            f"{row.id} is {row.state}, and no longer changes. Nothing was changed; plan another task."
        )
    if row.worker.startswith(BOUND) and not (task.skill is task.worker is task.trigger is None):
        raise Refused(
            f"{row.id} is done on {row.worker[len(BOUND) :]}: that does not change. Nothing was changed; cancel it and "
            "plan another."
        )
    before: dict[str, Any] = {}
    for name in _FIELDS:
        value = getattr(task, name)
        if value is not None and value != getattr(row, name):
            before[name] = getattr(row, name)
            setattr(row, name, int(value) if name == "required" else value)
    if task.stage is not None:
        yield from _check_stage(ledger, task.stage)
    bound = {"skill": task.skill, "worker": task.worker, "trigger_if": task.trigger}
    if task.stage and task.required is None and not before.get("stage", row.stage):
        row.required = 1
    trigger = row.trigger_if
    if any(bound.values()):
        for name, value in bound.items():
            setattr(row, name, value or "")
    if row.trigger_if != trigger:
        before["trigger"], row.triggered = trigger, 0
        yield sql("terms_drop"), (ledger.no, "task", row.number)
        if row.trigger_if:
            yield from _await(ledger, row, ids)
    if task.cost is not None and (cost := round(task.cost * budgets.PARTS)) != row.cost:
        before["cost"], row.cost = row.cost / budgets.PARTS, cost
    if task.paths is not None:
        before["paths"], row.paths = list(row.patterns()), dumps(list(task.paths))
    if after is not None:
        if row.held or row.state == TaskState.REVIEW:
            raise Refused(
                f"{row.id} is {row.state} by {row.holder}: what it comes after cannot change now. Nothing was changed."
            )
        yield from _order(ledger, row, after, ids)
        before["after"] = True
    concerns = [row.holder, row.worker]
    data: dict[str, Any] = {"task": row.id, "changed": before}
    if task.state is not None:
        before["state"] = row.state
        freed = yield from _end_fault(ledger, row, task.state, why)
        concerns += [row.created_by, *rows.workers(freed)]
        if freed:
            data["freed"] = [task_id(number) for number in freed]
    if not before:
        return
    yield from rows.put(row)
    yield from ledger.emit(
        EventType.PLAN_CHANGED,
        data={**data, "why": why} if why else data,
        concerns=[name for name in concerns if name],
    )


def _end_fault(ledger: Ledger, row: TaskRow, state: TaskState, why: str) -> Steps[dict[int, str]]:
    """Tries a FAULTED task again, or waives it; returns what `released_by` does."""
    if row.state != TaskState.FAULTED:
        raise Refused(
            f"{row.id} is {row.state}, not FAULTED: its state follows from claim. Nothing was changed.",
            state=row.state,
        )
    if not why.strip():
        word = "trying it again" if state is TaskState.PENDING else "waiving it"
        raise InvalidInput(f'{row.id}: {word} needs a reason. Nothing was changed; plan(items=[…], why="…").')
    row.failures = 0
    yield from rows.move(ledger, row, state, why=why)
    if state is TaskState.COMPLETED:
        return (yield from rows.released_by(ledger, row.number))
    return {}


def _check_may(ledger: Ledger, row: TaskRow, what: str) -> None:
    """Checks that the agent planned or holds the task, or is a steward.

    Raises:
        Refused: it is none of these.
    """
    if ledger.agent in (row.created_by, row.holder) or ledger.steward:
        return
    raise Refused(
        f"{row.id} was planned by {row.created_by}: they, its holder or a steward {what} it. Nothing was changed; "
        f'ask them: post(type="QUESTION", text="@{row.created_by} …").',
        planner=row.created_by,
    )


def _cancel(ledger: Ledger, listed: Sequence[TaskRow], why: str) -> Steps[None]:
    for row in listed:
        ledger.note(ChangeKind.PLAN, name=row.id)
        _check_may(ledger, row, "cancel")
        if row.state in TASK_OVER:
            raise Refused(f"{row.id} is {row.state} already. Nothing was changed.")
    going = {row.number for row in listed}
    if not going:
        return
    waiting = [
        n for (n,) in (yield sql("before_of"), (ledger.no, numbers(going), MAX_TASKS * 2)) if n not in going
    ]
    if waiting:
        named = [task_id(number) for number in waiting]
        shown = ", ".join(named[:_NAMED]) + (f" +{len(named) - _NAMED}" if len(named) > _NAMED else "")
        raise Refused(
            f"{shown} come after what you cancel, and would wait for ever. Nothing was changed; cancel them as well, "
            f'or free them first: plan(items=[{{"id": "{named[0]}", "after": []}}]).',
            waiting=named,
        )
    for row in listed:
        yield from lapses.cancel(ledger, row, why)


def _check_circle(ledger: Ledger, number: int) -> Steps[None]:
    """Checks that a task does not come after itself.

    Raises:
        InvalidInput: it does; the circle is named.
    """
    edges: dict[int, list[int]] = {}
    for task, after in (yield sql("after_circle"), (ledger.no, number)):
        edges.setdefault(task, []).append(after)
    if not edges:
        return
    path = _way(edges, number)
    raise InvalidInput(
        f"{' after '.join(task_id(n) for n in path)}: these come after each other, so none could ever begin. "
        "Nothing was changed; leave one of them out of after.",
        circle=[task_id(n) for n in path],
    )


def _way(edges: dict[int, list[int]], start: int) -> list[int]:
    """Returns the shortest way from a task over what it comes after back to itself."""
    ways, seen = [[start]], set[int]()
    while ways:
        way = ways.pop(0)
        for after in edges.get(way[-1], ()):
            if after == start:
                return [*way, start]
            if after not in seen:
                seen.add(after)
                ways.append([*way, after])
    return [start, start]


def agenda(now: int, board: str, agent: str, *, limit: int = MAX_LISTED) -> Steps[Agenda]:
    """Returns the agenda as of one moment; leases that have ended count as ended."""
    row = yield from get_board(board)
    total = (yield sql("tasks_open"), (row.no, MAX_OPEN_TASKS))[0][0]
    mine: list[int] = []
    if total:  # else nobody holds a task
        mine = [n for (n,) in (yield sql("tasks_of_holder"), (row.no, agent, limit))]
    listed: dict[TaskState, list[int]] = {state: [] for state in TaskState if state not in TASK_OVER}
    for state in listed if total else ():
        listed[state] = [n for (n,) in (yield sql("tasks_in"), (row.no, str(state), limit))]
    found = yield from rows.find_tasks(row.no, [n for ns in listed.values() for n in ns] + mine)
    made = yield from rows.values(row, list(found.values()), now)
    in_review = [found[n] for n in listed[TaskState.REVIEW]]
    made = yield from taking.with_outcomes(row.no, agent, in_review, made)
    by_number = {task.number: task for task in made}
    shown = [by_number[n] for ns in listed.values() for n in ns]
    shown.sort(
        key=lambda task: (not task.ready, task.state is not TaskState.PENDING, -task.priority, task.number)
    )
    over: dict[TaskState, int] = {}
    ended: tuple[Task, ...] = ()
    if not total:
        counts = yield sql("tasks_over"), (row.no, MAX_OPEN_TASKS)
        over = {TaskState(state): count for state, count in counts if count}
    if over:
        last = yield from rows.find_tasks(
            row.no, [n for (n,) in (yield sql("tasks_last"), (row.no, MAX_ENDED))]
        )
        in_order = [last[n] for n in sorted(last)]
        ended = yield from rows.values(row, in_order, now)
        ended = yield from taking.with_outcomes(row.no, agent, in_order, ended)
    reserved = yield from reservations.listed(row.no, now)
    review = yield from workload.confirmable(agent, in_review)
    return Agenda(
        tasks=tuple(shown[:limit]),
        total=total,
        seq=row.seq,
        mine=tuple(by_number[n] for n in mine if by_number[n].state in HELD),
        review=tuple(by_number[n] for n in review),
        over=over,
        ended=ended,
        reservations=reserved,
        budget=(yield from _budget(row.no)),
        kept=reservations.kept(shown[:limit], reserved, agent),
        lifecycle=row.lifecycle,
    )


def tasks(now: int, board: str, agent: str, wanted: Sequence[int]) -> Steps[tuple[Task, ...]]:
    """Returns these tasks, over or not, in that order; unknown ones are left out."""
    row = yield from get_board(board)
    found = yield from rows.find_tasks(row.no, wanted)
    named = [found[n] for n in dict.fromkeys(wanted) if n in found]
    return (yield from taking.with_outcomes(row.no, agent, named, (yield from rows.values(row, named, now))))


def attempts(board: str, agent: str, number: int) -> Steps[tuple[Attempt, ...]]:
    """Returns the last ended attempts at a task, oldest first."""
    row = yield from get_board(board)
    return (yield from lapses.attempts(row.no, number, _BRIEF))
