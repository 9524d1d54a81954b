"""Taking a task: the named one or the best that is ready, by one agent alone, under a lease."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NoReturn

from blackboard_mcp.protocols.agenda import (
    LEASE_SECONDS,
    LEASES,
    Input,
    Prospect,
    Taken,
    Task,
    TaskState,
    task_id,
)
from blackboard_mcp.protocols.answers import NoticeFor, Once
from blackboard_mcp.protocols.board import Lifecycle
from blackboard_mcp.protocols.changes import ChangeKind
from blackboard_mcp.protocols.errors import Conflict, InvalidInput, Refused
from blackboard_mcp.protocols.events import EventType
from blackboard_mcp.protocols.items import item_id
from blackboard_mcp.protocols.sub_boards import BOUND

from ...operation import Write
from ..ledger.idempotency import Form, repeatable
from ..ledger.ledger import Ledger, get_board, load
from ..ledger.rows import ItemRow, Steps, instant, numbers, sql
from ..reading.rules import notice_on
from . import budgets, lapses, reservations, rows
from .dead_ends import dead_ends
from .lapses import begin
from .rows import MICROS, TaskRow

_TRIED: Final = 20
"""Most ready tasks that one call tries, where others have reserved what they need."""
_OTHERS: Final = 20
_BRIEF: Final = 5
_INPUT: Final = 400
"""Characters of the beginning of a former task's result."""
_LINE: Final = 8
"""Most times that something took the place of a result and is looked for."""


def _taken_again(kept: list[Any]) -> Steps[Taken | None]:
    """Returns what a repeated call took, as it is now."""
    now, board, agent, number, lease, until, seq = kept
    row = yield from get_board(board)
    held = yield from reservations.of_lease(row.no, lease)
    if not number:
        return Taken(None, lease, instant(until), seq, reserved=held)
    found = (yield from rows.find_tasks(row.no, [number]))[number]
    task = (yield from rows.values(row, [found], now))[0]
    brief = yield from lapses.attempts(row.no, number, _BRIEF)
    before = tuple(attempt for attempt in brief if attempt.lease < lease)
    inputs = yield from _inputs(row.no, number, agent)
    told = yield from dead_ends(row.no, [task])
    return Taken(task, lease, instant(until), seq, inputs, before, held, dead_ends=told)


def _form(given: dict[str, Any]) -> Form[Taken | None]:
    now, board, agent = given["write"].now, given["board"], given["agent"]

    def keep(taken: Taken | None) -> list[Any] | None:
        if taken is None:
            return None
        until = round(taken.until.timestamp() * MICROS)
        return [now, board, agent, taken.task.number if taken.task else 0, taken.lease, until, taken.seq]

    return Form(keep, _taken_again)


@repeatable(_form)
def take(
    write: Write,
    board: str,
    agent: str,
    *,
    number: int | None = None,
    skills: Sequence[str] | None = None,
    paths: Sequence[str] = (),
    seconds: float = LEASE_SECONDS,
    notice: NoticeFor | None = None,
    once: Once | None = None,
) -> Steps[Taken | None]:
    """Takes the named task, or the best ready one that the agent may take: by priority, then the oldest; last
    what the agent gave back and nobody took since.

    `None` if no task is ready for it. `skills` are in addition to those that the agent offers on the board. With
    `paths` and without `number` it reserves only. The task's own `paths` are reserved with it. `notice` is what to tell
    the agent beside.

    Raises:
        Conflict: another holds the named task, a reservation or the task's binding; `holder`, `lease`, `until`.
        Refused: the named task is not ready (it says why), or is for others.
    """
    check_seconds(seconds)
    ledger = yield from begin(write, board, agent)
    taken = yield from _taken(ledger, number, skills, paths, seconds)
    if notice is None or taken is None:
        return taken
    return replace(taken, notice=(yield from notice_on(ledger.board, agent, notice, write.now)))


def _taken(
    ledger: Ledger, number: int | None, skills: Sequence[str] | None, paths: Sequence[str], seconds: float
) -> Steps[Taken | None]:
    agent = ledger.agent
    if number is None and paths:
        return (yield from _reserve_alone(ledger, paths, seconds))
    able = yield from skills_of(ledger.no, agent, skills)
    if number is None:
        row = yield from _best(ledger, able, paths)
        if row is None:
            yield from _tell_of_budget(ledger, able)
            # Leases that have ended were cleared away; that stays even if there is nothing to take.
            if ledger.board.seq >= ledger.first_seq:
                yield from ledger.close()
            return None
    else:
        row = yield from rows.get_task(ledger.board, number)
        yield from _check_ready(ledger, row, able)
    return (yield from _hold(ledger, row, paths, seconds))


def check_seconds(seconds: float) -> None:
    """Checks the length of a lease.

    Raises:
        InvalidInput: it is not allowed.
    """
    if not LEASES[0] <= seconds <= LEASES[1]:
        raise InvalidInput(
            f"A lease lasts {LEASES[0]:g} to {LEASES[1]:,g} seconds after your last call. Nothing was changed."
        )


def skills_of(no: int, agent: str, given: Sequence[str] | None) -> Steps[list[str]]:
    offered = [skill for (skill,) in (yield sql("skills_of"), (no, agent))]
    return list(dict.fromkeys([*(given or ()), *offered]))


def _best(ledger: Ledger, able: Sequence[str], paths: Sequence[str]) -> Steps[TaskRow | None]:
    """Returns the best task that the agent could take now, or `None`."""
    listed = yield from candidates(ledger.no, ledger.agent, able, _TRIED)
    found = (yield from rows.find_tasks(ledger.no, listed)) if listed else {}
    for row in (yield from in_turn(ledger.no, ledger.agent, [found[number] for number in listed])):
        if (yield from reservations.is_free(ledger, [*row.patterns(), *paths])):
            return row
    return None


def in_turn(no: int, agent: str, listed: Sequence[TaskRow]) -> Steps[list[TaskRow]]:
    """Returns the tasks in the same order, but last those that the agent gave back and nobody took since."""
    back: list[TaskRow] = []
    for row in listed:
        last = (yield from lapses.attempts(no, row.number, 1)) if row.attempts else ()
        if last and (last[0].agent, last[0].how, last[0].lease) == (agent, lapses.RELEASED, row.lease):
            back.append(row)
    return [row for row in listed if row not in back] + back


def _tell_of_budget(ledger: Ledger, able: Sequence[str]) -> Steps[None]:
    """Tells of the budget if it alone keeps a task from being handed out."""
    kept = yield from _candidates(ledger.no, ledger.agent, able, _TRIED, budgets.UNBOUNDED)
    if kept:
        found = yield from rows.find_tasks(ledger.no, kept)
        yield from budgets.tell(ledger, [found[number] for number in kept])


def candidates(no: int, agent: str, able: Sequence[str], most: int) -> Steps[list[int]]:
    """Returns the tasks that are ready for an agent, the best first."""
    budget = yield from budgets.find(no)
    room = budgets.UNBOUNDED if budget is None else budget.room()
    return (yield from _candidates(no, agent, able, most, room)) if room >= 0 else []


def _candidates(no: int, agent: str, able: Sequence[str], most: int, room: int) -> Steps[list[int]]:
    """Returns the tasks that would be ready for an agent if tasks up to the cost `room` were."""
    closed = numbers((yield from rows.closed_stages(no)))
    found: list[tuple[int, int]] = []
    if not (yield sql("tasks_bound"), (no, agent, "", 0)):
        found += [(-p, n) for n, p in (yield sql("task_pick"), (no, agent, "", closed, most, room))]
    for skill in ["", *able]:
        found += [(-p, n) for n, p in (yield sql("task_pick"), (no, "", skill, closed, most, room))]
    return [number for _, number in sorted(found)[:most]]


def _check_ready(ledger: Ledger, row: TaskRow, able: Sequence[str]) -> Steps[None]:
    """Checks that the agent may take this task now.

    Raises:
        Conflict: somebody holds it, or another task with its binding.
        Refused: it is not ready, or for others.
    """
    if row.worker.startswith(BOUND):
        raise Refused(
            f"{row.id} is done on {row.worker[len(BOUND) :]}: the server gives it there and brings the answer back. "
            f'Nothing was changed; take part there: read(board="{row.worker[len(BOUND) :]}").'
        )
    if row.held:
        yield from _taken_by_another(ledger, row)
    task = (yield from rows.values(ledger.board, [row], ledger.now))[0]
    if task.state is TaskState.REVIEW:
        verify = f'claim(id="{row.id}", op="verify", ok=true, text="…")'
        raise Refused(
            f"{row.id} was done by {row.holder} and waits to be confirmed. Nothing was changed; if you can judge it: "
            f"{verify}.",
            state=row.state,
        )
    if task.state is not TaskState.PENDING:
        more = (
            f'; plan(items=[{{"id": "{row.id}", "state": "PENDING"}}], why="…") tries it again'
            if task.state is TaskState.FAULTED
            else "; claim() takes the best that is ready"
        )
        raise Refused(f"{row.id} is {row.state}. Nothing was changed{more}.", state=row.state)
    if task.blocked_by:
        raise Refused(
            f"{row.id} is not ready: it waits for {'; '.join(task.blocked_by[:5])}. Nothing was changed; claim() takes "
            "the best that is ready.",
            blocked_by=list(task.blocked_by),
        )
    if row.worker and row.worker != ledger.agent:
        raise Refused(
            f"{row.id} is for {row.worker}. Nothing was changed; claim() takes what is ready for you."
        )
    if row.skill and row.skill not in able:
        raise Refused(
            f"{row.id} needs the skill {row.skill}. Nothing was changed; if you have it: "
            f'claim(id="{row.id}", skills=["{row.skill}"]).'
        )
    if row.worker or row.trigger_if:
        bound = yield sql("tasks_bound"), (ledger.no, row.worker, row.trigger_if, row.number)
        if bound:
            other, holder, lease, until = bound[0]
            what = f"for {row.worker}" if row.worker else "of the same trigger"
            raise Conflict(
                f"{holder} holds {task_id(other)}, and only one task {what} is held at a time. Nothing was changed.",
                holder=holder,
                lease=lease,
                until=instant(until).isoformat(),
            )


def _taken_by_another(ledger: Ledger, row: TaskRow) -> Steps[NoReturn]:
    until = instant((yield from rows.ends(ledger.no, [row]))[row.number])
    facts = {"holder": row.holder, "lease": row.lease, "until": until.isoformat()}
    if row.holder == ledger.agent:
        raise Conflict(
            f"You hold {row.id} already, under lease {row.lease} until {until:%H:%M:%SZ}. Nothing was changed; "
            f'claim(id="{row.id}", op="extend") begins the lease anew.',
            **facts,
        )
    raise Conflict(
        f"{row.holder} holds {row.id} under lease {row.lease} until {until:%H:%M:%SZ}. Nothing was changed; claim() "
        "takes the best that is ready.",
        **facts,
    )


def _hold(ledger: Ledger, row: TaskRow, paths: Sequence[str], seconds: float) -> Steps[Taken]:
    """Gives the task to the ledger's agent; the sequence of this event becomes its lease."""
    ledger.note(ChangeKind.CLAIM, name=row.id)
    brief = yield from lapses.attempts(ledger.no, row.number, _BRIEF)
    others = [n for (n,) in (yield sql("tasks_of_holder"), (ledger.no, ledger.agent, _OTHERS))]
    row.attempts += 1
    row.lease, row.holder = ledger.next_seq, ledger.agent
    row.length = reservations.seconds(seconds)
    wanted = list(dict.fromkeys([*row.patterns(), *paths]))
    held = yield from reservations.reserve(
        ledger, wanted, lease=row.lease, task=row.number, length=row.length, until=ledger.now + row.length
    )
    row.until = ledger.now + row.length
    yield from rows.move(ledger, row, TaskState.RUNNING)
    data: dict[str, Any] = {"task": row.id, "title": row.title, "attempt": row.attempts}
    if wanted:
        data["paths"] = wanted
    lease = yield from ledger.emit(EventType.CLAIM_TAKEN, data=data, concerns=[row.created_by])
    assert lease == row.lease, "a lease is the sequence of its event"
    yield from ledger.close()
    found = yield from rows.find_tasks(ledger.no, others)
    made = yield from rows.values(ledger.board, [*found.values(), row], ledger.now)
    return Taken(
        task=made[-1],
        lease=row.lease,
        until=instant(row.until),
        seq=ledger.board.seq,
        inputs=(yield from _inputs(ledger.no, row.number, ledger.agent)),
        brief=brief,
        reserved=held,
        others=made[:-1],
        dead_ends=(yield from dead_ends(ledger.no, made[-1:])),
    )


def _inputs(no: int, number: int, agent: str) -> Steps[tuple[Input, ...]]:
    """Returns the results of the tasks that a task comes after, or what took their place."""
    found = yield sql("results_before"), (no, number, _INPUT, agent)
    places = yield from _places(no, [item for _, _, item, *_ in found if item is not None], agent)
    inputs = []
    for task, title, item, type_, text, status in found:
        result = None if item is None else item_id(type_, item)
        if (now := places.get(item)) is None:
            inputs.append(Input(task, title, result, text or "", status or ""))
        else:
            inputs.append(_instead(task, title, result, now))
    return tuple(inputs)


def _instead(task: int, title: str, result: str | None, now: ItemRow) -> Input:
    return Input(task, title, now.id, now.text[:_INPUT], now.status, instead_of=result)


def _outcomes(no: int, listed: Sequence[TaskRow], agent: str) -> Steps[dict[int, Input]]:
    """Returns the results of tasks that the agent may see, or what took their place, by the tasks' numbers."""
    done = {row.result: row for row in listed if row.result > 0}
    if not done:
        return {}
    there = yield from load(no, list(done), agent)
    places = yield from _places(no, list(there), agent)
    found: dict[int, Input] = {}
    for number, item in there.items():
        task, now = done[number], places.get(number)
        found[task.number] = (
            Input(task.number, task.title, item.id, item.text[:_INPUT], item.status)
            if now is None
            else _instead(task.number, task.title, item.id, now)
        )
    return found


def with_outcomes(
    no: int, agent: str, listed: Sequence[TaskRow], tasks: Sequence[Task]
) -> Steps[tuple[Task, ...]]:
    """Returns tasks, of which those that are `listed` have their outcomes, as far as the agent may see them."""
    found = yield from _outcomes(no, listed, agent)
    return tuple(
        replace(task, outcome=found[task.number]) if task.number in found else task for task in tasks
    )


def _places(no: int, results: Sequence[int], agent: str) -> Steps[dict[int, ItemRow]]:
    """Returns what took the place of items, by their numbers: the last of each line that the agent may see."""
    places: dict[int, ItemRow] = {}
    ends = {number: number for number in results}
    for _ in range(_LINE):
        if not ends:
            break
        asked = numbers(set(ends.values()))
        after = dict((yield sql("successors"), (no, asked)))
        for root, to, *_ in (yield sql("successions"), (no, asked, agent)):
            after[root] = to
        rows = yield from load(no, after.values(), agent)
        ends = {number: after[end] for number, end in ends.items() if after.get(end) in rows}
        places.update((number, rows[end]) for number, end in ends.items())
    return places


def _reserve_alone(ledger: Ledger, paths: Sequence[str], seconds: float) -> Steps[Taken]:
    """Reserves paths without a task."""
    ledger.note(ChangeKind.CLAIM)
    length = reservations.seconds(seconds)
    lease, until = ledger.next_seq, ledger.now + length
    held = yield from reservations.reserve(ledger, paths, lease=lease, task=0, length=length, until=until)
    data = {"paths": [one.pattern for one in held]}
    given = yield from ledger.emit(EventType.CLAIM_TAKEN, data=data)
    assert given == lease, "a lease is the sequence of its event"
    yield from ledger.close()
    return Taken(None, lease, instant(until), ledger.board.seq, reserved=held)


def prospect(now: int, board: str, agent: str, skills: Sequence[str] | None = None) -> Steps[Prospect]:
    """Returns what an agent that waits for a task may expect."""
    row = yield from get_board(board)
    if row.lifecycle is not Lifecycle.OPEN:
        return Prospect(0, None, row.seq, row.lifecycle)
    able = yield from skills_of(row.no, agent, skills)
    ready = yield from candidates(row.no, agent, able, _TRIED)
    ends = (yield sql("lapse_next_on"), (row.no,))[0][0]
    return Prospect(len(ready), None if ends is None else instant(ends), row.seq)
