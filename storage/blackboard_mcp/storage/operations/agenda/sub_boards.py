"""Tasks that a board below does: when the server has to begin or to end one, and what the task's board keeps of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from blackboard_mcp.protocols.agenda import LEASE_SECONDS, MAX_WAITING_SECONDS, NewTask, TaskState, task_id
from blackboard_mcp.protocols.board import Lifecycle
from blackboard_mcp.protocols.changes import ChangeKind
from blackboard_mcp.protocols.errors import InvalidInput, Refused
from blackboard_mcp.protocols.events import SYSTEM, EventType
from blackboard_mcp.protocols.keys import check_key
from blackboard_mcp.protocols.runs import RunState
from blackboard_mcp.protocols.sub_boards import BOUND, COPIED, MAX_ABOVE, MAX_MAPPED, SubBoard, SubDue
from blackboard_mcp.protocols.tokens import CountedText

from ...operation import Write
from ..ledger.ledger import Ledger, find_board, get_board, open_ledger
from ..ledger.rows import BoardRow, Steps, dumps, numbers, sql
from . import lapses, rows
from .rows import MICROS, TaskRow

_LISTED: Final = 500
"""Most tasks that one look for work goes through."""
_WHY: Final = 300


def check(ledger: Ledger, task: NewTask, where: str) -> Steps[None]:
    """Checks that a board may do a new task.

    Raises:
        InvalidInput: a value is not allowed, or the board is the task's own or above it.
        Refused: the board has another parent, or takes no posts.
    """
    sub = task.sub
    if sub is None:
        return
    if task.number:
        raise InvalidInput(
            f"{where}: a task that is planned already cannot go to a board. Nothing was changed; cancel it and plan "
            "another."
        )
    if task.skill or task.worker:
        raise InvalidInput(
            f"{where}: board says who does it, so give neither skill nor worker. Nothing was changed."
        )
    for name, given in (("input", sub.input), ("output", sub.output)):
        if len(given) > MAX_MAPPED:
            raise InvalidInput(
                f"{where}: board.{name} takes at most {MAX_MAPPED} entries. Nothing was changed."
            )
        for key in given:
            check_key(key)
    above = yield from _above(ledger.board)
    if sub.board in above:
        what = "is this board" if sub.board == ledger.board.id else "lies above this board"
        raise InvalidInput(
            f"{where}: '{sub.board}' {what}, so neither could ever end. Nothing was changed; name a board below."
        )
    if len(above) > MAX_ABOVE:
        raise Refused(
            f"{where}: there are {MAX_ABOVE} boards above '{sub.board}' already. Nothing was changed."
        )
    below = yield from find_board(sub.board)
    if below is not None and below.parent != ledger.board.id:
        raise Refused(
            f"{where}: '{sub.board}' is not below '{ledger.board.id}'. Nothing was changed; its admin puts it there: "
            f'board(board="{sub.board}", parent="{ledger.board.id}"). Or name a new board, which comes to lie there.'
        )
    for key in sub.output:
        for kind in COPIED:  # which of them it will be is not known yet
            ledger.note(ChangeKind.POST, key=key, type=kind)


def _above(board: BoardRow) -> Steps[list[str]]:
    """Returns a board and those above it, nearest first."""
    found, above = [board.id], board.parent
    while above is not None and above not in found:
        found.append(above)
        row = yield from find_board(above)
        above = None if row is None else row.parent
    return found


def add(ledger: Ledger, row: TaskRow, sub: SubBoard) -> Steps[None]:
    """Stores what a new task gives to its board and brings back."""
    yield sql("sub_board_add"), (ledger.no, row.number, dumps(asdict(sub)))


def of(no: int, tasks: Sequence[TaskRow]) -> Steps[dict[int, SubBoard]]:
    """Returns what tasks that boards below do give and bring back, by number."""
    wanted = [row.number for row in tasks if row.worker.startswith(BOUND)]
    if not wanted:
        return {}
    return {task: _spec(spec) for task, spec in (yield sql("sub_boards_of"), (no, numbers(wanted)))}


def _spec(spec: str) -> SubBoard:
    return SubBoard(**json.loads(spec))


def are_open() -> Steps[bool]:
    """Tells whether there are tasks of sub-boards that are not over, on boards that are not closed."""
    return bool((yield sql("sub_boards_open"), (str(Lifecycle.CLOSED),))[0][0])


def due(now: int) -> Steps[list[SubDue]]:
    """Returns the tasks that the server has to begin or to end."""
    found: list[SubDue] = []
    listed: Sequence[Any] = yield sql("sub_boards_due"), (str(Lifecycle.OPEN), _LISTED)
    for board, number, state, spec, since in listed:
        at = yield from get_board(board)
        row = yield from rows.get_task(at, number)
        sub = _spec(spec)
        if state == TaskState.PENDING:
            if (yield from _free(at, row, now)):
                found.append(SubDue(board, number, row.title, row.text, sub))
        elif state == TaskState.WAITING:
            over = yield from _outcome(board, sub, since)
            if over is not None:
                trouble, answer, run = over
                found.append(SubDue(board, number, row.title, row.text, sub, row.lease, trouble, answer, run))
    return found


def _outcome(board: str, sub: SubBoard, since: int) -> Steps[tuple[str, int, str] | None]:
    """Returns why a board below gives no answer, its answer and the run that gave it; `None` while it is at work."""
    below = yield from get_board(sub.board)
    if below.parent != board:
        return f"'{sub.board}' is not below this board any more", 0, ""
    ended: Sequence[Any] = yield sql("run_over_since"), (below.no, since)
    if ended:
        number, state, reason, answer = ended[0]
        if state == RunState.FINISHED and answer:
            return "", answer, f"run-{number}"
        return f"its run-{number} was stopped{f': {reason}' if reason else ''}"[:_WHY], 0, f"run-{number}"
    if below.lifecycle is Lifecycle.OPEN:
        return None
    last: Sequence[Any] = yield sql("answer_last"), (below.no, since)
    return ("", last[0][0], "") if last else (f"it was {below.lifecycle} without an ANSWER", 0, "")


def _free(at: BoardRow, row: TaskRow, now: int) -> Steps[bool]:
    """Tells whether a task is ready, its board open, and no other of its board below given to that or done there."""
    if at.lifecycle is not Lifecycle.OPEN or row.state != TaskState.PENDING:
        return False
    if not (yield from rows.values(at, [row], now))[0].ready:
        return False
    bound: Sequence[Any] = yield sql("tasks_bound"), (at.no, row.worker, row.trigger_if, row.number)
    if bound:
        return False
    noted = [number for (number,) in (yield sql("sub_boards_noted"), (at.no, row.worker, row.number))]
    others = list((yield from rows.find_tasks(at.no, noted)).values()) if noted else []
    return not any(task.ready for task in (yield from rows.values(at, others, now)))


def note(write: Write, board: str, number: int) -> Steps[bool]:
    """Notes at which sequence the board below is before it is given anything, unless that is noted already; false, and
    nothing is changed, if the task may not begin.
    """
    at = yield from find_board(board)
    found: Sequence[Any] = [] if at is None else (yield sql("sub_boards_of"), (at.no, numbers([number])))
    below = (yield from find_board(_spec(found[0][1]).board)) if found else None
    if at is None or below is None:
        return False
    row = yield from rows.get_task(at, number)
    if not (yield from _free(at, row, write.now)):
        return False
    yield sql("sub_board_note"), (at.no, number, below.seq)
    return True


def begin(write: Write, board: str, number: int) -> Steps[bool]:
    """Takes the task for the board below it; false, and nothing is changed, if the task is no longer ready."""
    ledger = yield from open_ledger(write, board, SYSTEM)
    row = yield from rows.get_task(ledger.board, number)
    sub = (yield from of(ledger.no, [row])).get(number)
    below = None if sub is None else (yield from find_board(sub.board))
    if sub is None or below is None or below.parent != board:
        return False
    if not (yield from _free(ledger.board, row, ledger.now)):
        return False
    row.attempts += 1
    row.lease, row.holder, row.length = ledger.next_seq, SYSTEM, int(LEASE_SECONDS * MICROS)
    yield from rows.move(ledger, row, TaskState.RUNNING)
    data: dict[str, Any] = {"task": row.id, "title": row.title, "attempt": row.attempts, "board": sub.board}
    yield from ledger.emit(EventType.CLAIM_TAKEN, data=data, concerns=[row.created_by])
    yield sql("sub_board_note"), (ledger.no, number, below.seq)
    yield sql("sub_boards_renote"), (ledger.no, row.worker, number)
    if sub.wait:
        yield from rows.move(ledger, row, TaskState.WAITING)
        row.waits_on = f"board {sub.board}"
        row.until = ledger.now + int(MAX_WAITING_SECONDS * MICROS)
        yield from rows.put(row)
        data = {"task": row.id, "lease": row.lease, "why": row.waits_on, "cites": []}
        yield from ledger.emit(EventType.CLAIM_WAITING, data=data, concerns=[row.created_by])
    else:
        yield from _complete(ledger, row, {}, "")
    yield from ledger.close()
    return True


def end(
    write: Write, board: str, number: int, lease: int, text: CountedText, *, ok: bool, source: str = ""
) -> Steps[bool]:
    """Ends the task with the result of the board below, or as its `fail` says; false, and nothing is changed, if the
    task is not as it was or its board takes no posts.
    """
    ledger = yield from open_ledger(write, board, SYSTEM)
    if ledger.board.lifecycle is not Lifecycle.OPEN:
        return False
    row = yield from rows.get_task(ledger.board, number)
    sub = (yield from of(ledger.no, [row])).get(number)
    if sub is None or row.state != (TaskState.WAITING if lease else TaskState.PENDING):
        return False
    if lease and lease != row.lease:
        return False
    yield sql("sub_board_forget"), (ledger.no, number)
    if ok:
        from .settling import post_result  # it needs this module, by way of the rows

        row.result = yield from post_result(ledger, text, row, {"board": sub.board, "item": source})
        data: dict[str, Any] = {"result": (yield from lapses.cited(ledger.no, [row.result]))[0]}
        yield from _complete(ledger, row, data, "")
    elif sub.fail == "complete":
        yield from _complete(ledger, row, {"why": text.text[:_WHY]}, text.text[:_WHY])
    else:
        row.holder, row.failures = row.holder or SYSTEM, row.failures + 1
        yield from rows.end_attempt(ledger, row, "failed", text.text)
        state = TaskState.FAULTED if row.failures > row.retries else TaskState.PENDING
        yield from rows.move(ledger, row, state, why=text.text)
        data = {"task": row.id, "title": row.title, "lease": row.lease, "note": text.text[:_WHY]}
        data |= {"state": row.state, "left": max(0, row.retries + 1 - row.failures), "board": sub.board}
        yield from ledger.emit(EventType.CLAIM_FAILED, data=data, concerns=[row.created_by])
    yield from ledger.close()
    return True


def _complete(ledger: Ledger, row: TaskRow, more: dict[str, Any], why: str) -> Steps[None]:
    """Completes a task, or sends it to review if it has a result to confirm."""
    data = {"task": row.id, "title": row.title, "lease": row.lease, **more}
    concerns = [row.created_by]
    if row.verify and row.result:
        data["review"] = row.verify
        yield from rows.move(ledger, row, TaskState.REVIEW)
    else:
        yield from rows.move(ledger, row, TaskState.COMPLETED, why=why)
        freed = yield from rows.released_by(ledger, row.number)
        concerns += rows.workers(freed)
        if freed:
            data["freed"] = [task_id(number) for number in freed]
    yield from ledger.emit(EventType.CLAIM_DONE, data=data, concerns=concerns)
    from .settling import replace_rejected  # it needs this module, by way of the rows

    yield from replace_rejected(ledger, row)
