"""Rows of stages and milestones, and the values that callers get of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, Final

from blackboard_mcp.protocols.agenda import MAX_OPEN_TASKS, TaskState, task_id
from blackboard_mcp.protocols.conditions import mentions, parse_condition
from blackboard_mcp.protocols.errors import UnknownReference
from blackboard_mcp.protocols.stages import STAGE_OVER, Stage, StageState, stage_id

from ..ledger.ledger import Ledger
from ..ledger.rows import BoardRow, Steps, instant, numbers, sql

UNKNOWN: Final = 2
"""The value of `needed` before the stage becomes available."""
OPEN: Final = frozenset({StageState.ACTIVE, StageState.FAULTED})
"""States in which work in a stage goes on."""
_NAMED: Final = 5


@dataclass(slots=True)
class StageRow:
    """A row of `stage`: its fields are the columns. Times are in microseconds since 1970."""

    board: int
    number: int
    parent: int
    title: str
    kind: str
    state: str
    entry_if: str
    exit_if: str
    required_if: str
    needed: int
    """1 if its parent waits for it, 0 if not, `UNKNOWN` before it becomes available."""
    entry_held: int
    manual: int
    autocomplete: int
    created_by: str
    moved_at: int
    why: str = ""

    @property
    def id(self) -> str:
        """The id, as agents see it."""
        return stage_id(self.number)

    @property
    def milestone(self) -> bool:
        """Tells whether it is a milestone."""
        return self.kind == "milestone"


_COLUMNS: Final = attrgetter(*(field.name for field in fields(StageRow)))


def add(row: StageRow) -> Steps[None]:
    """Stores a new stage, with what its conditions mention."""
    yield sql("stage_add"), _COLUMNS(row)
    yield from mention(row.board, "stage", row.number, [row.entry_if, row.exit_if])


def put(row: StageRow) -> Steps[None]:
    """Stores a changed stage."""
    yield sql("stage_put"), _COLUMNS(row)


def mention(no: int, kind: str, number: int, conditions: Iterable[str]) -> Steps[None]:
    """Remembers what the conditions of a stage or task mention, so that changes of it find them."""
    terms = {term for text in conditions if text for term in mentions(parse_condition(text))}
    for term in sorted(terms):
        yield sql("term_add"), (no, term, kind, number)


def find_stages(no: int, wanted: Iterable[int]) -> Steps[dict[int, StageRow]]:
    """Returns those of the stages that exist, by number."""
    return {row[1]: StageRow(*row) for row in (yield sql("stages_get"), (no, numbers(wanted)))}


def get_stage(board: BoardRow, number: int) -> Steps[StageRow]:
    """Returns one stage.

    Raises:
        UnknownReference: it does not exist.
    """
    found = yield from find_stages(board.no, [number])
    if number not in found:
        raise UnknownReference(
            f"There is no stage {stage_id(number)} on '{board.id}'. Nothing was changed; stage() lists the stages.",
            missing=[stage_id(number)],
        )
    return found[number]


def under(ledger: Ledger, number: int) -> Steps[list[StageRow]]:
    """Returns the stages and milestones in a stage that are not over."""
    found = [StageRow(*row) for row in (yield sql("stages_under"), (ledger.no, number))]
    return [row for row in found if row.state not in STAGE_OVER]


def values(no: int, found: Sequence[StageRow]) -> Steps[tuple[Stage, ...]]:
    """Returns stages as callers get them, in the order of `found`."""
    tasks: dict[int, list[tuple[int, str, int]]] = {}
    named = numbers(row.number for row in found)
    for number, stage, state, required in (yield sql("tasks_of_stages"), (no, named, MAX_OPEN_TASKS)):
        tasks.setdefault(stage, []).append((number, state, required))
    parents = yield from find_stages(no, {row.parent for row in found if row.parent})
    inside: dict[int, list[StageRow]] = {}
    for row in found:
        if row.parent and row.state not in STAGE_OVER:
            inside.setdefault(row.parent, []).append(row)
    return tuple(
        _value(row, parents.get(row.parent), tasks.get(row.number, ()), inside.get(row.number, ()))
        for row in found
    )


def _value(
    row: StageRow, parent: StageRow | None, tasks: Sequence[tuple[int, str, int]], inside: Sequence[StageRow]
) -> Stage:
    faulted = [number for number, state, required in tasks if required and state == TaskState.FAULTED]
    return Stage(
        number=row.number,
        title=row.title,
        kind="milestone" if row.milestone else "stage",
        parent=row.parent,
        state=StageState(row.state),
        entry=row.entry_if,
        exit=row.exit_if,
        required=bool(row.needed),
        manual=bool(row.manual),
        autocomplete=bool(row.autocomplete),
        created_by=row.created_by,
        moved_at=instant(row.moved_at),
        why=_why(row, parent, tasks, faulted, inside),
        tasks=tuple(number for number, _, _ in tasks),
        faulted=tuple(faulted),
    )


def _why(
    row: StageRow,
    parent: StageRow | None,
    tasks: Sequence[tuple[int, str, int]],
    faulted: Sequence[int],
    inside: Sequence[StageRow],
) -> str:
    """Returns what keeps a stage from its next state, or why it is in this one."""
    match row.state:
        case StageState.AVAILABLE:
            if parent is not None and parent.state not in OPEN:
                return f"{parent.id} is {parent.state}"
            return f"waits for {row.entry_if}"
        case StageState.FAULTED:
            return f"FAULTED in it: {_listed(map(task_id, faulted))}"
        case StageState.ACTIVE:
            waits: list[Any] = [task_id(number) for number, _, required in tasks if required]
            waits += [child.id for child in inside if child.needed]
            if not waits:
                waits = [*(task_id(number) for number, _, _ in tasks), *(child.id for child in inside)]
            return f"waits for {_listed(waits) if waits else 'its first task'}"
    return row.why


def _listed(ids: Iterable[str]) -> str:
    named = list(ids)
    more = f" +{len(named) - _NAMED}" if len(named) > _NAMED else ""
    return ", ".join(named[:_NAMED]) + more
