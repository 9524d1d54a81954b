"""Moves of stages: by their conditions, by what is in them, and by hand.

The rules are CMMN's. A stage is entered as its entry condition becomes true while its parent is ACTIVE. It is COMPLETED
when what it needs is over, TERMINATED when its exit condition holds or by hand. What is in it ends or pauses with it.
"""

from __future__ import annotations

from typing import Any, Final

from blackboard_mcp.protocols.agenda import MAX_OPEN_TASKS
from blackboard_mcp.protocols.answers import Once
from blackboard_mcp.protocols.changes import ChangeKind
from blackboard_mcp.protocols.errors import InvalidInput, Refused
from blackboard_mcp.protocols.events import SYSTEM, EventType
from blackboard_mcp.protocols.stages import (
    MAX_WHY,
    STAGE_OVER,
    StageOp,
    Stages,
    StageState,
    stage_id,
)

from ...operation import Write
from ..agenda import rows as tasks
from ..agenda.lapses import begin, cancel
from ..ledger.idempotency import Form, repeatable
from ..ledger.ledger import Ledger, get_board
from ..ledger.rows import Steps, numbers, sql
from . import rows
from .judging import holds
from .rows import OPEN, StageRow

_WORKERS: Final = 20
_FROM: Final[dict[StageOp, frozenset[StageState]]] = {
    "start": frozenset({StageState.AVAILABLE, StageState.ENABLED}),
    "suspend": frozenset({StageState.ACTIVE, StageState.FAULTED}),
    "resume": frozenset({StageState.SUSPENDED}),
    "terminate": frozenset(StageState) - STAGE_OVER,
}
"""The states in which each operation is allowed."""


def advance(ledger: Ledger, row: StageRow) -> Steps[None]:
    """Moves a stage as far as its conditions and what is in it demand."""
    while (yield from _step(ledger, row)):
        pass


def _step(ledger: Ledger, row: StageRow) -> Steps[bool]:
    """Moves a stage to its next state; tells whether it moved."""
    if row.state in STAGE_OVER:
        return False
    if row.parent:
        parent = (yield from rows.find_stages(ledger.no, [row.parent]))[row.parent]
        if parent.state not in OPEN:
            yield from _latch(ledger, row, parent)
            return False
    if row.state == StageState.AVAILABLE:
        return (yield from _enter(ledger, row))
    if row.exit_if and (yield from holds(ledger, row.exit_if)):
        yield from end(ledger, row, StageState.TERMINATED, f"exit: {row.exit_if}")
        return True
    if row.state not in OPEN:
        return False
    found = yield sql("stage_tasks"), (ledger.no, row.number)
    faulted = bool(found[0][4])
    if faulted != (row.state == StageState.FAULTED):
        yield from _move(ledger, row, StageState.FAULTED if faulted else StageState.ACTIVE, "")
        return True
    if faulted or not (yield from _is_complete(ledger, row, *found[0])):
        return False
    yield from end(ledger, row, StageState.COMPLETED, "")
    return True


def _latch(ledger: Ledger, row: StageRow, parent: StageRow) -> Steps[None]:
    """Remembers that an entry condition held while the parent was suspended."""
    waits = parent.state == StageState.SUSPENDED and row.state == StageState.AVAILABLE and not row.entry_held
    if waits and (yield from _may_enter(ledger, row)):
        row.entry_held = 1
        yield from rows.put(row)


def _may_enter(ledger: Ledger, row: StageRow) -> Steps[bool]:
    return bool(row.entry_held or not row.entry_if or (yield from holds(ledger, row.entry_if)))


def _enter(ledger: Ledger, row: StageRow) -> Steps[bool]:
    if not (yield from _may_enter(ledger, row)):
        return False
    row.entry_held = 1
    if row.milestone:
        yield from end(ledger, row, StageState.COMPLETED, row.entry_if)
    elif row.manual:
        yield from _move(ledger, row, StageState.ENABLED, f'waits for stage(id="{row.id}", op="start")')
    else:
        yield from _move(ledger, row, StageState.ACTIVE, "")
    return True


def _is_complete(
    ledger: Ledger, row: StageRow, any_: int, needs: int, open_: int, needs_open: int, _: int, busy: int
) -> Steps[bool]:
    """Tells whether nothing keeps a stage from being COMPLETED; an empty one waits for what comes into it."""
    inside = [StageRow(*found) for found in (yield sql("stages_under"), (ledger.no, row.number))]
    if not (any_ or inside):
        return False
    left = [child for child in inside if child.state not in STAGE_OVER]
    if row.autocomplete and (needs or any(child.needed for child in inside)):
        active = {*OPEN, StageState.SUSPENDED}
        return not (busy or needs_open or any(child.needed or child.state in active for child in left))
    return not (open_ or left)


def _move(ledger: Ledger, row: StageRow, state: StageState, why: str, *, by: str = SYSTEM) -> Steps[None]:
    """Moves one stage, and tells whoever defined it; of an ACTIVE one, also those whom its tasks are for."""
    ledger.staged.append(row.number)
    before, row.state, row.why, row.moved_at = row.state, str(state), why, ledger.now
    yield from rows.put(row)
    if state in STAGE_OVER:
        yield sql("terms_drop"), (ledger.no, "stage", row.number)
    concerns = [row.created_by]
    if state is StageState.ACTIVE:
        for child in (yield from rows.under(ledger, row.number)):
            yield from set_needed(ledger, child)
        concerns += [name for (name,) in (yield sql("workers_of_stage"), (ledger.no, row.number, _WORKERS))]
    data: dict[str, Any] = {"stage": row.id, "title": row.title, "kind": row.kind, "from": before}
    data |= {"to": row.state, "why": why} if why else {"to": row.state}
    yield from ledger.emit(EventType.STAGE_MOVED, agent=by, data=data, concerns=concerns)


def set_needed(ledger: Ledger, row: StageRow) -> Steps[None]:
    """Evaluates whether the parent of a stage waits for it; once, as it becomes available."""
    if row.needed == rows.UNKNOWN:
        row.needed = int((yield from holds(ledger, row.required_if)))
        yield from rows.put(row)


def end(ledger: Ledger, row: StageRow, state: StageState, why: str, *, by: str = SYSTEM) -> Steps[None]:
    """Ends a stage: what is in it and not over is TERMINATED or CANCELLED."""
    reason = f"{row.id} {state}"
    for child in (yield from rows.under(ledger, row.number)):
        yield from end(ledger, child, StageState.TERMINATED, reason)
    left = yield sql("tasks_of_stages"), (ledger.no, numbers([row.number]), MAX_OPEN_TASKS)
    for task in (yield from tasks.find_tasks(ledger.no, [number for number, *_ in left])).values():
        yield from cancel(ledger, task, reason)
    yield from _move(ledger, row, state, why, by=by)


def _pause(ledger: Ledger, row: StageRow, why: str, *, by: str = SYSTEM) -> Steps[None]:
    """Suspends a stage and the stages in it that are under way."""
    for child in (yield from rows.under(ledger, row.number)):
        if child.state in OPEN:
            yield from _pause(ledger, child, f"with {row.id}")
    yield from _move(ledger, row, StageState.SUSPENDED, why, by=by)


def _resume(ledger: Ledger, row: StageRow, why: str, *, by: str = SYSTEM) -> Steps[None]:
    """Resumes a stage, and the stages in it that were suspended with it."""
    yield from _move(ledger, row, StageState.ACTIVE, why, by=by)
    for child in (yield from rows.under(ledger, row.number)):
        if child.state == StageState.SUSPENDED and child.why == f"with {row.id}":
            yield from _resume(ledger, child, "")


def _moved_again(kept: list[Any]) -> Steps[Stages]:
    """Returns the stages that a repeated call defined or moved, as they are now."""
    board, named, seq = kept
    row = yield from get_board(board)
    found = yield from rows.find_stages(row.no, named)
    return Stages((yield from rows.values(row.no, [found[n] for n in named if n in found])), seq)


def form(given: dict[str, Any]) -> Form[Stages]:
    """Returns how the answer to a call that moves stages is kept."""
    return Form(lambda made: [given["board"], [one.number for one in made.stages], made.seq], _moved_again)


@repeatable(form)
def move(
    write: Write,
    board: str,
    agent: str,
    number: int,
    op: StageOp,
    why: str = "",
    *,
    once: Once | None = None,
) -> Steps[Stages]:
    """Starts, suspends, resumes or terminates a stage, and returns the stages that moved, it first.

    Raises:
        UnknownReference: there is no such stage.
        Refused: its state, its parent's or the agent does not allow it.
    """
    if len(why) > MAX_WHY:
        raise InvalidInput(f"why has more than {MAX_WHY:,} characters. Nothing was changed.")
    ledger = yield from begin(write, board, agent)
    row = yield from rows.get_stage(ledger.board, number)
    ledger.note(ChangeKind.STAGE, name=row.id)
    if ledger.agent != row.created_by and not ledger.steward:
        raise Refused(
            f"{row.id} was defined by {row.created_by}: they or a steward move it. Nothing was changed; ask them: "
            f'post(type="QUESTION", text="@{row.created_by} …").',
            defined_by=row.created_by,
        )
    yield from _check_move(ledger, row, op)
    match op:
        case "start":
            row.entry_held = 1
            yield from _move(ledger, row, StageState.ACTIVE, why, by=agent)
        case "suspend":
            yield from _pause(ledger, row, why, by=agent)
        case "resume":
            yield from _resume(ledger, row, why, by=agent)
        case "terminate":
            yield from end(ledger, row, StageState.TERMINATED, why, by=agent)
    yield from ledger.close()
    found = yield from rows.find_stages(ledger.no, [number, *ledger.staged])
    listed = [found[number], *(one for one in found.values() if one.number != number)]
    return Stages((yield from rows.values(ledger.no, listed)), ledger.board.seq)


def _check_move(ledger: Ledger, row: StageRow, op: StageOp) -> Steps[None]:
    """Checks that an operation is allowed in the stage's state and its parent's.

    Raises:
        Refused: it is not; it says what is.
    """
    if row.milestone and op != "terminate":
        raise Refused(
            f"{row.id} is a milestone: it is reached when {row.entry_if or 'its stage is active'}. Nothing was "
            'changed; op="terminate" gives it up.'
        )
    state = StageState(row.state)
    if state not in _FROM[op]:
        able = [f'op="{other}"' for other in _FROM if state in _FROM[other]]
        hint = f"; {' or '.join(able)} would do" if able else "; stage() lists those that are not over"
        raise Refused(f"{row.id} is {state}. Nothing was changed{hint}.", state=row.state)
    if row.parent and op in ("start", "resume"):
        parent = (yield from rows.find_stages(ledger.no, [row.parent]))[row.parent]
        if parent.state not in OPEN:
            raise Refused(
                f"{row.id} is in {stage_id(row.parent)}, which is {parent.state}. Nothing was changed; "
                f"{stage_id(row.parent)} comes first.",
                state=parent.state,
            )
