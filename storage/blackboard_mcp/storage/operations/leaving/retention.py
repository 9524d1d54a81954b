"""Forgetting: archived items lose their content by an operator's decision, and keep a tombstone that says so.

A forgotten item keeps its number, type, key, author, times and edges, and the sha256 of every version. Everything
else that agents wrote into it is removed, also from the log, and so are the reasons that they gave about it. Items
stay that the guard protects, that are watched, or that live items rest on; the transaction that forgets checks
this.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta

from blackboard_mcp.protocols.events import SYSTEM, EventType
from blackboard_mcp.protocols.items import Forgotten, item_id
from blackboard_mcp.protocols.retention import Forgettable, Retention

from ...operation import Write
from ..items import endorsements
from ..ledger.ledger import Ledger, get_board, load_any, open_ledger
from ..ledger.rows import ItemRow, Steps, cut, dumps, instant, numbers, sql

Page = tuple[int | None, tuple[Forgettable, ...]]


def page(now: int, board: str, retention: Retention, after: int, limit: int = 200) -> Steps[Page]:
    """Returns the items that may be forgotten in the next part of a board's archive, and its last number or `None`."""
    row = yield from get_board(board)
    listed = [found[0] for found in (yield sql("archive_numbers"), (row.no, after, limit))]
    due = yield from _due(row.no, listed, retention, now)
    return (listed[-1] if len(listed) == limit else None), due


def forget(write: Write, board: str, wanted: Iterable[int], retention: Retention) -> Steps[tuple[str, ...]]:
    """Forgets all versions of those of the items that may be forgotten now, and returns their ids."""
    ledger: Ledger = yield from open_ledger(write, board, SYSTEM)
    due = yield from _due(ledger.no, list(wanted), retention, write.now) if retention.covers(board) else ()
    if not due:
        return ()
    listed = numbers(one.number for one in due)
    rows = yield from load_any(ledger.no, [one.number for one in due])
    yield from _forget_reasons(ledger, listed)
    gone: list[tuple[int, int]] = []
    said = {"by": cut(retention.decided_by, 100), "why": cut(retention.reason, 300)}
    for number in sorted(rows):
        row = rows[number]
        yield from endorsements.forget(ledger.no, row)
        seq = yield from ledger.emit(
            EventType.ITEM_FORGOTTEN, replace(row, tags="[]", metadata="{}"), data=said
        )
        gone.append((number, seq))
    ledger.archived -= len(gone)
    moved = dumps(gone)
    yield sql("items_forget"), (ledger.no, moved)
    yield sql("versions_forget"), (ledger.no, listed)
    yield sql("endorsements_forget"), (ledger.no, listed)
    yield sql("outbox_add_all"), (ledger.no, moved)
    yield from ledger.close()
    return tuple(one.id for one in due)


def _forget_reasons(ledger: Ledger, listed: str) -> Steps[None]:
    """Deletes the words in which agents ended, judged or declined something about these items."""
    told = ("events_forget", "duties_forget", "requests_forget", "declined_forget", "kept_forget")
    for name in (*told, "deliveries_forget"):
        yield sql(name), (ledger.no, listed)
    found = numbers(row[0] for row in (yield sql("debates_on"), (ledger.no, listed)))
    for name in ("debates_forget", "votes_forget", "decisions_forget"):
        yield sql(name), (ledger.no, found)
    yield sql("kept_drop"), (ledger.no, ledger.now)


def any_() -> Steps[bool]:
    """Tells whether anything was ever forgotten."""
    return bool((yield sql("anything_forgotten"), ()))


def told(no: int, rows: Sequence[ItemRow]) -> Steps[dict[tuple[int, int], Forgotten]]:
    """Returns when, by whom and why items were forgotten, by pairs of number and version."""
    wanted = [row for row in rows if row.forgotten]
    if not wanted:
        return {}
    found: dict[tuple[int, int], Forgotten] = {}
    listed = yield sql("forgotten_by"), (no, numbers(row.number for row in wanted))
    for row in wanted:
        for number, version, at, data in listed:
            if number == row.number and version >= row.version:
                said = json.loads(data)
                found[row.number, row.version] = Forgotten(instant(at), said["by"], said["why"])
                break
    return found


def _due(no: int, listed: Sequence[int], retention: Retention, now: int) -> Steps[tuple[Forgettable, ...]]:
    """Returns those of the items that may be forgotten now."""
    until = {str(kind): now - after // timedelta(microseconds=1) for kind, after in retention.after.items()}
    rows = yield sql("forgettable"), (no, numbers(listed), dumps(until))
    return tuple(
        Forgettable(number, item_id(type_, number), author, instant(created_at), size)
        for number, type_, author, created_at, size in rows
    )
