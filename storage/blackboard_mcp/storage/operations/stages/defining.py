"""Stages and milestones that are defined, and all of them as they stand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from blackboard_mcp.protocols.answers import Once
from blackboard_mcp.protocols.changes import ChangeKind
from blackboard_mcp.protocols.errors import InvalidInput, QuotaExceeded, Refused
from blackboard_mcp.protocols.events import EventType
from blackboard_mcp.protocols.stages import (
    MAX_DEFINED,
    MAX_DEPTH,
    MAX_ENDED,
    MAX_STAGE_TITLE,
    MAX_STAGES,
    STAGE_OVER,
    NewStage,
    Stages,
    StageState,
    parse_stage,
    stage_id,
)

from ...operation import Write
from ..agenda.lapses import begin
from ..ledger.idempotency import repeatable
from ..ledger.ledger import Ledger, get_board
from ..ledger.rows import Steps, sql
from . import moving, rows
from .judging import check_condition, named
from .rows import OPEN, StageRow


@repeatable(moving.form)
def define(
    write: Write, board: str, agent: str, stages: Sequence[NewStage], *, once: Once | None = None
) -> Steps[Stages]:
    """Defines stages and milestones, all or nothing, and returns those, as they stand after it.

    Raises:
        InvalidInput: a condition or value is not allowed; the place in the condition is named.
        UnknownReference: the parent, or a task or stage in a condition, does not exist.
        Refused: the parent is over, a title is taken, or it would be too deep.
        QuotaExceeded: there are `MAX_STAGES` already.
    """
    if not 0 < len(stages) <= MAX_DEFINED:
        raise InvalidInput(f"Define 1 to {MAX_DEFINED} stages in a call. Nothing was changed.")
    ledger = yield from begin(write, board, agent)
    first = yield from count_new(ledger, len(stages))
    numbered = range(first, first + len(stages))
    yield from add_all(ledger, stages, [stage_id(n) for n in numbered], "define")
    yield from ledger.close()
    found = yield from rows.find_stages(ledger.no, numbered)
    return Stages((yield from rows.values(ledger.no, [found[n] for n in numbered])), ledger.board.seq)


def add_all(ledger: Ledger, items: Sequence[Any], ids: Sequence[str], argument: str) -> Steps[None]:
    """Defines those of the items of a call that are stages; `ids` are the ids of all of its items.

    Raises:
        InvalidInput, UnknownReference, Refused: as `define`.
    """
    for place, item in enumerate(items):
        if not isinstance(item, NewStage):
            continue
        where = f"{'Stage' if argument == 'define' else 'Item'} {place + 1} of {argument}"
        _check(item, where)
        parent = _parent(item.parent, ids, place, where)
        texts = [named(text.strip(), ids, where) for text in (item.entry, item.exit, item.required)]
        for text in texts:
            yield from check_condition(ledger, text, where, ids)
        stage = replace(item, entry=texts[0], exit=texts[1], required=texts[2])
        yield from _add(ledger, parse_stage(ids[place]), stage, parent, where)
        ledger.board.conditional = 1


def count_new(ledger: Ledger, new: int) -> Steps[int]:
    """Returns the number of the first of so many new stages.

    Raises:
        QuotaExceeded: there are `MAX_STAGES` already.
    """
    first = (yield sql("stage_last"), (ledger.no,))[0][0] + 1
    open_ = (yield sql("stages_open"), (ledger.no,))[0][0]
    if open_ + new > MAX_STAGES:
        raise QuotaExceeded(
            f"'{ledger.board.id}' has {open_} stages that are not over, and {MAX_STAGES} is the limit. Nothing was "
            'changed; stage(id="G-…", op="terminate") ends one that nobody needs.'
        )
    return int(first)


def _check(stage: NewStage, where: str) -> None:
    """Checks the values of a stage.

    Raises:
        InvalidInput: one is not allowed.
    """
    title = stage.title.strip()
    if not title or len(title) > MAX_STAGE_TITLE or any(c in title for c in '\n"'):
        raise InvalidInput(
            f"{where}: a title is one line of 1 to {MAX_STAGE_TITLE} characters without double quotes. Nothing was "
            "changed."
        )
    if stage.kind == "milestone" and (stage.exit or stage.manual):
        raise InvalidInput(
            f"{where}: a milestone has neither exit nor manual: it is reached when its entry holds. Nothing was "
            "changed."
        )


def _parent(parent: int, ids: Sequence[str], place: int, where: str) -> int:
    """Returns the number of the parent; a negative one is a place before this one in the same call.

    Raises:
        InvalidInput: there is no such place, or no stage in it.
    """
    if parent >= 0:
        return parent
    if -parent > place or not ids[-parent - 1].startswith("G"):
        raise InvalidInput(
            f"{where}: parent '${-parent}' is no stage before it in this call. Nothing was changed; define a stage "
            "before what is in it."
        )
    return parse_stage(ids[-parent - 1])


def _add(ledger: Ledger, number: int, stage: NewStage, parent: int, where: str) -> Steps[None]:
    ledger.note(ChangeKind.STAGE)
    title = stage.title.strip()
    taken = yield sql("stage_titled"), (ledger.no, title)
    if taken:
        raise Refused(
            f"{where}: {stage_id(taken[0][0])} has the title '{title}' and is not over. Nothing was changed; choose "
            "another title.",
            stage=stage_id(taken[0][0]),
        )
    above: StageRow | None = None
    if parent:
        above = yield from rows.get_stage(ledger.board, parent)
        if above.state in STAGE_OVER or above.milestone:
            what = "a milestone, which has no stages" if above.milestone else above.state
            raise Refused(
                f"{where}: {above.id} is {what}. Nothing was changed; name a stage that is not over."
            )
        depth = (yield sql("stage_depth"), (ledger.no, parent))[0][0]
        if depth >= MAX_DEPTH:
            raise Refused(f"{where}: stages lie within {MAX_DEPTH} others at most. Nothing was changed.")
    row = StageRow(
        board=ledger.no,
        number=number,
        parent=parent,
        title=title,
        kind=stage.kind,
        state=str(StageState.AVAILABLE),
        entry_if=stage.entry.strip(),
        exit_if=stage.exit.strip(),
        required_if=stage.required.strip() or "true",
        needed=rows.UNKNOWN,
        entry_held=0,
        manual=int(stage.manual),
        autocomplete=int(stage.autocomplete),
        created_by=ledger.agent,
        moved_at=ledger.now,
    )
    yield from rows.add(row)
    if above is None or above.state in OPEN:
        yield from moving.set_needed(ledger, row)
    data = {"stage": row.id, "title": title, "kind": row.kind, "entry": row.entry_if, "exit": row.exit_if}
    data["parent"] = stage_id(parent) if parent else ""
    yield from ledger.emit(
        EventType.STAGE_DEFINED, data={name: value for name, value in data.items() if value}
    )


def stages(board: str, agent: str) -> Steps[Stages]:
    """Returns the stages of a board that are not over and the newest that are, each after its parent."""
    row = yield from get_board(board)
    wanted = [n for (n,) in (yield sql("stages_listed"), (row.no, MAX_ENDED))]
    found = yield from rows.find_stages(row.no, wanted)
    return Stages((yield from rows.values(row.no, list(_in_order(found)))), row.seq, row.lifecycle)


def _in_order(found: dict[int, StageRow]) -> Iterator[StageRow]:
    """Returns stages by number, each followed by what is in it; one whose parent is not there stands alone."""
    inside: dict[int, list[StageRow]] = {}
    for row in found.values():
        inside.setdefault(row.parent if row.parent in found else 0, []).append(row)

    def below(number: int) -> Iterator[StageRow]:
        for row in inside.get(number, ()):
            yield row
            yield from below(row.number)

    return below(0)
