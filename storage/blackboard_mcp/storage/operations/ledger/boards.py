"""Boards: creation, core and configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace

from blackboard_mcp.protocols.answers import Once
from blackboard_mcp.protocols.board import NEXT, Board, BoardChange, BoardConfig, Core, Lifecycle
from blackboard_mcp.protocols.changes import ChangeKind
from blackboard_mcp.protocols.errors import Conflict, InvalidInput
from blackboard_mcp.protocols.events import EventType
from blackboard_mcp.protocols.tokens import Count

from ...operation import Write
from ..access import members
from . import token_counts
from .idempotency import repeatable
from .ledger import Ledger, create_ledger, find_board, get_board, open_ledger
from .rows import BoardRow, Steps, config_json, core_json, differences, sql


def ensure(write: Write, board: str, agent: str, config: BoardConfig, parent: str = "") -> Steps[Board]:
    """Returns the board, and creates it with `config`, below `parent`, if it does not exist."""
    ledger = yield from create_ledger(write, board, agent, config)
    if ledger.board.seq >= ledger.first_seq:
        if parent:
            yield from _check_parent(board, parent)
            ledger.board.parent = parent
            yield from _store(ledger.board)
            yield from ledger.emit(EventType.BOARD_CHANGED, data={"parent": True})
        yield from ledger.close()
    return ledger.board.value()


def find(board: str) -> Steps[Board | None]:
    """Returns the board, or `None` if it does not exist."""
    row = yield from find_board(board)
    return None if row is None else row.value()


def list_all() -> Steps[list[Board]]:
    """Returns all boards, ordered by id."""
    return [BoardRow.of(row).value() for row in (yield sql("boards"), ())]


@repeatable(Core)
def set_core(
    write: Write, board: str, agent: str, core: Core, *, expected_version: int, once: Once | None = None
) -> Steps[Core]:
    """Replaces the core, and returns the new one, whose version is one higher.

    Raises:
        UnknownReference: the board does not exist.
        Conflict: the core is not at `expected_version`.
    """
    ledger = yield from open_ledger(write, board, agent)
    current = ledger.board.core
    if current.version != expected_version:
        other = f", not {expected_version}" if expected_version else ""
        raise Conflict(
            f"The core of '{board}' is at version {current.version}{other}. Nothing was changed; core() shows it, and "
            f"if your change still fits, repeat it with expected_version={current.version}.",
            current_version=current.version,
        )
    ledger.note(ChangeKind.CORE)
    fresh = replace(core, version=current.version + 1)
    yield sql("board_core"), (ledger.no, core_json(fresh))
    ledger.board.core = fresh
    parts = [
        {"objective": c.objective, "constraints": c.constraints, "flags": c.flags} for c in (current, fresh)
    ]
    data = {"version": fresh.version, **differences(*parts)}
    yield from ledger.emit(EventType.CORE_CHANGED, data=data)
    yield from ledger.close()
    return fresh


@repeatable(Board)
def change(
    write: Write,
    board: str,
    agent: str,
    wanted: BoardChange,
    closing: Callable[[Ledger], Steps[None]],
    opening: Callable[[Ledger], Steps[None]],
    *,
    count: Count | None = None,
    counted: Mapping[str, int] | None = None,
    once: Once | None = None,
) -> Steps[Board]:
    """Makes the changes in `wanted`, and returns the board; if nothing differs, nothing is written.

    `closing` is done before the board is closed, and `opening` after it is opened.

    A change of the tokenizer needs `count`, the new tokenizer's function. `counted` maps hashes of texts to
    counts made with it before this transaction; only the other texts are counted here.

    Raises:
        UnknownReference: the board or its parent does not exist.
        InvalidInput: the parent would close a cycle, settings contradict each other, or `count` is missing.
        Conflict: the board's lifecycle does not allow that move, or a setting is not as expected.
        Forbidden: a member's role exceeds the caller's grant.
        Refused: the agent would lose its own right to administer, or there are too many members.
    """
    ledger = yield from open_ledger(write, board, agent)
    row = ledger.board
    former = _told(row)
    for name, value in wanted.expected_settings.items():
        if getattr(row.config, name) != value:
            raise Conflict(
                f"The setting {name} of '{board}' is not as expected. Nothing was changed; look at the settings again.",
                setting=name,
            )
    changed: dict[str, object] = {}
    if wanted.lifecycle is not None and wanted.lifecycle is not row.lifecycle:
        if wanted.lifecycle not in NEXT[row.lifecycle]:
            allowed = ", ".join(sorted(NEXT[row.lifecycle])) or "none: a closed board stays closed"
            raise Conflict(
                f"Board '{board}' is {row.lifecycle} and cannot become {wanted.lifecycle}. Allowed: {allowed}. "
                "Nothing was changed.",
                lifecycle=str(row.lifecycle),
            )
        if wanted.lifecycle is Lifecycle.CLOSED:
            row.lifecycle = Lifecycle.OPEN  # what `closing` posts was contributed while it was
            yield from closing(ledger)
        row.lifecycle = wanted.lifecycle
        changed["lifecycle"] = str(row.lifecycle)
    if wanted.title is not None and wanted.title != row.title:
        row.title = wanted.title
        changed["title"] = row.title[:80]
    if wanted.parent is not None and wanted.parent != (row.parent or ""):
        yield from _check_parent(board, wanted.parent)
        row.parent = wanted.parent or None
        changed["parent"] = True  # without the parent's id: readers of the log may have no access to it
    config = replace(row.config, **wanted.settings)
    if config != row.config:
        if (clash := config.clash()) is not None:
            raise InvalidInput(f"{clash} Nothing was changed.")
        changed["settings"] = sorted(wanted.settings)
    if "tokenizer" in wanted.settings:
        if count is None:
            raise InvalidInput("Another tokenizer needs something that counts by it. Nothing was changed.")
        # Naming the present tokenizer again corrects counts that older versions made with another one.
        if (yield from token_counts.recount(ledger, count, counted or {})) or config != row.config:
            changed["settings"] = sorted(wanted.settings)
            changed["tokenizer"] = [row.config.tokenizer, config.tokenizer]
    row.config = config
    for name in changed.keys() - {"settings"}:
        ledger.note(ChangeKind.BOARD, name=name)
    for name in wanted.settings if "settings" in changed else ():
        ledger.note(ChangeKind.BOARD, name=name)
    if changed:
        yield from _store(row)
        yield from ledger.emit(EventType.BOARD_CHANGED, data=changed | differences(former, _told(row)))
    if changed.get("lifecycle") == Lifecycle.OPEN:
        yield from opening(ledger)
    if (yield from members.change(ledger, wanted.members, write.grant)) or changed:
        yield from ledger.close()
    return row.value()


def _store(row: BoardRow) -> Steps[None]:
    yield (
        sql("board_change"),
        (row.no, row.title, row.parent, str(row.lifecycle), config_json(row.config)),
    )


def _told(row: BoardRow) -> dict[str, object]:
    """Returns what the event of a change tells of a board: all but its parent, which readers may not know."""
    return {"lifecycle": str(row.lifecycle), "title": row.title, **asdict(row.config)}


def _check_parent(board: str, parent: str) -> Steps[None]:
    """Checks that the new parent exists, and is neither the board nor below it; "" means no parent.

    Raises:
        UnknownReference: the parent does not exist.
        InvalidInput: the parent is the board itself, or lies below it.
    """
    above: str | None = parent or None
    while above is not None:
        if above == board:
            raise InvalidInput(f"'{parent}' lies below '{board}': a parent must not. Nothing was changed.")
        above = (yield from get_board(above)).parent
