"""Ends of leases: tasks whose holder was not heard of, that need not wait any longer, or that are cancelled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from blackboard_mcp.protocols.agenda import MAX_SWEPT, MAX_WAITING_SECONDS, Attempt, TaskState
from blackboard_mcp.protocols.board import Lifecycle
from blackboard_mcp.protocols.errors import Refused
from blackboard_mcp.protocols.events import SYSTEM, EventType
from blackboard_mcp.protocols.items import item_id
from blackboard_mcp.protocols.runs import Usage
from blackboard_mcp.protocols.sub_boards import BOUND

from ...operation import Write
from ..ledger import serving
from ..ledger.ledger import Ledger, find_board, open_ledger
from ..ledger.rows import Steps, instant, sql
from . import rows
from .rows import MICROS, TaskRow

_BOARDS: Final = 20
LAPSED: Final = "lapsed"
RELEASED: Final = "released"


def begin(write: Write, board: str, agent: str) -> Steps[Ledger]:
    """Returns a ledger for work on the agenda of an open board, after ending leases that have run out.

    Raises:
        UnknownReference: there is no such board.
        Refused: the board takes no posts.
    """
    ledger = yield from open_ledger(write, board, agent)
    if ledger.board.lifecycle is not Lifecycle.OPEN:
        raise Refused(f"Board '{board}' is {ledger.board.lifecycle} and takes no posts. Nothing was changed.")
    yield from end_on(ledger)
    yield from ledger.was_here()
    return ledger


def end_on(ledger: Ledger) -> Steps[int]:
    """Ends leases of the board that have run out, at most `MAX_SWEPT`; returns how many ended or went on.

    A lease lasts as if its holder had been there when the store was started: before, it could make no call.
    """
    due = [n for (n,) in (yield sql("tasks_lapsing"), (ledger.no, ledger.now, MAX_SWEPT))]
    waiting = [n for (n,) in (yield sql("tasks_waiting_over"), (ledger.no, MAX_SWEPT))]
    found = yield from rows.find_tasks(ledger.no, [*due, *waiting]) if due or waiting else _none()
    until = yield from rows.ends(ledger.no, found.values())
    lapsing = yield sql("reservations_lapsing"), (ledger.no, ledger.now, MAX_SWEPT)
    began = (yield from serving.since(ledger.opened, ledger.now)) if found or lapsing else 0
    moved = 0
    for row in found.values():
        if row.state == TaskState.WAITING and row.worker.startswith(BOUND):
            # The board below has the time that it takes: nobody's lease runs.
            yield sql("task_renew"), (ledger.no, row.number, ledger.now + int(MAX_WAITING_SECONDS * MICROS))
            continue
        if row.state == TaskState.WAITING:
            why = "it is over" if row.number in waiting else "it waited for the longest time there is"
            yield from resume(ledger, row, why)
        elif (end := max(until[row.number], began + row.length)) > ledger.now:
            yield sql("task_renew"), (ledger.no, row.number, end)
            yield sql("reservations_renew"), (ledger.no, row.lease, end, row.length)
            continue
        else:
            yield from lapse(ledger, row)
        moved += 1
    for lease, agent, until_then, length, seen in lapsing:
        end = max(until_then, max(seen or 0, began) + length)
        if end > ledger.now:
            yield sql("reservations_renew"), (ledger.no, lease, end, length)
            continue
        yield from drop_reservations(ledger, lease)
        data = {"lease": lease, "holder": agent}
        yield from ledger.emit(EventType.CLAIM_LAPSED, agent=SYSTEM, data=data, concerns=[agent])
        moved += 1
    return moved


def _none() -> Steps[dict[int, TaskRow]]:
    return {}
    yield  # makes this a generator


def lapse(ledger: Ledger, row: TaskRow) -> Steps[None]:
    """Takes a task from a holder that was not heard of, and tells it and whoever planned the task."""
    holder = row.holder
    yield from rows.end_attempt(ledger, row, LAPSED, "")
    yield from drop_reservations(ledger, row.lease)
    yield from rows.move(ledger, row, TaskState.PENDING, why="its last holder was not heard of")
    data = {"task": row.id, "lease": row.lease, "holder": holder}
    concerns = sorted({holder, row.created_by} - {"", SYSTEM})
    yield from ledger.emit(EventType.CLAIM_LAPSED, agent=SYSTEM, data=data, concerns=concerns)


def resume(ledger: Ledger, row: TaskRow, why: str) -> Steps[None]:
    """Lets the clock of a waiting task's lease run again, and tells its holder."""
    waited = row.waits_on
    row.waits_on, row.waits_for, row.until = "", "[]", ledger.now + row.length
    yield from rows.move(ledger, row, TaskState.RUNNING)
    yield sql("reservations_renew"), (ledger.no, row.lease, row.until, row.length)
    data = {"task": row.id, "lease": row.lease, "seconds": row.length / MICROS, "waited": waited, "why": why}
    yield from ledger.emit(EventType.CLAIM_RESUMED, agent=SYSTEM, data=data, concerns=[row.holder])


def drop_reservations(ledger: Ledger, lease: int) -> Steps[None]:
    """Ends what a lease reserved."""
    if lease:
        yield sql("reservations_drop"), (ledger.no, lease)


def attempts(no: int, number: int, most: int) -> Steps[tuple[Attempt, ...]]:
    """Returns the last ended attempts at a task, oldest first."""
    listed = yield sql("attempts"), (no, number, most)
    return tuple(
        Attempt(task, agent, lease, how, note, instant(at))
        for task, agent, lease, how, note, at in reversed(listed)
    )


def lapsed_holder(no: int, row: TaskRow) -> Steps[str]:
    """Returns who had the task's newest lease when it lapsed, or an empty string if it did not lapse."""
    last: Sequence[Attempt] = yield from attempts(no, row.number, 1)
    if row.state == TaskState.PENDING and last and last[0].lease == row.lease and last[0].how == LAPSED:
        return last[0].agent
    return ""


def release_all(ledger: Ledger, agent: str, note: str) -> Steps[tuple[str, ...]]:
    """Gives back every task and reservation of an agent that leaves; returns the tasks' ids."""
    listed = [n for (n,) in (yield sql("tasks_of_holder"), (ledger.no, agent, 1_000))]
    found = yield from rows.find_tasks(ledger.no, listed)
    for row in found.values():
        yield from release(ledger, row, note)
    for (lease,) in (yield sql("reservations_of_agent"), (ledger.no, agent)):
        yield from drop_reservations(ledger, lease)
        data = {"lease": lease, "holder": agent, "note": note}
        yield from ledger.emit(EventType.CLAIM_RELEASED, data=data)
    return tuple(row.id for row in found.values())


def release(ledger: Ledger, row: TaskRow, note: str, usage: Usage | None = None) -> Steps[None]:
    """Gives a held task back with a note for the next; whom it is for is told."""
    yield from rows.end_attempt(ledger, row, RELEASED, note)
    yield from drop_reservations(ledger, row.lease)
    yield from rows.move(ledger, row, TaskState.PENDING, why=note, usage=usage)
    data = {"task": row.id, "lease": row.lease, "holder": row.holder or ledger.agent, "note": note}
    concerns = sorted({row.worker or "", row.created_by} - {"", SYSTEM})
    yield from ledger.emit(EventType.CLAIM_RELEASED, data=data, concerns=concerns)


def cancel(ledger: Ledger, row: TaskRow, why: str) -> Steps[None]:
    """Cancels one task that is not over, and tells its holder."""
    concerns = [name for name in (row.holder, row.worker, row.created_by) if name]
    if row.held:
        yield from rows.end_attempt(ledger, row, "cancelled", why)
        yield from drop_reservations(ledger, row.lease)
    yield from rows.move(ledger, row, TaskState.CANCELLED, why=why)
    data = {"task": row.id, "title": row.title}
    yield from ledger.emit(
        EventType.PLAN_CANCELLED, data={**data, "why": why} if why else data, concerns=concerns
    )


def sweep(write: Write) -> Steps[list[str]]:
    """Ends leases that have run out on all boards, `MAX_SWEPT` on each, and takes up conditions that were left to look
    at; returns the boards that changed.
    """
    yield from serving.mark(write)
    due = [row[0] for row in (yield sql("boards_lapsing"), (write.now, _BOARDS))]
    due += [row[0] for row in (yield sql("boards_waiting_over"), (_BOARDS,))]
    due += [row[0] for row in (yield sql("boards_reserving_over"), (write.now, _BOARDS))]
    left = {row[0] for row in (yield sql("boards_due"), (_BOARDS,))}
    changed = []
    for board in dict.fromkeys([*due, *sorted(left)]):
        if (yield from find_board(board)) is None:
            continue
        ledger = yield from open_ledger(write, board, SYSTEM)
        if (yield from end_on(ledger)) or board in left:
            yield from ledger.close()
            changed.append(board)
    return changed


def next_lapse(now: int) -> Steps[float | None]:
    """Returns the seconds until the next lease may end, or `None` if nobody holds a task or reservation."""
    if (yield sql("boards_due"), (1,)):
        return 0.0
    ends = [(yield sql("lapse_next"), ())[0][0], (yield sql("reservation_next"), ())[0][0]]
    due = [end for end in ends if end is not None]
    return max(0.0, (min(due) - now) / MICROS) if due else None


def cited(no: int, wanted: Sequence[int]) -> Steps[list[str]]:
    """Returns the ids of items by number, as far as they exist."""
    types: dict[int, str] = dict((yield sql("item_types"), (no, str(list(wanted)))))
    return [item_id(types[number], number) for number in wanted if number in types]
