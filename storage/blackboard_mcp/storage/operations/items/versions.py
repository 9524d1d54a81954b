"""The versions of an item: who wrote each and when, with their facts but without texts."""

from __future__ import annotations

import json

from blackboard_mcp.protocols.answers import Amendment, Version, Versions
from blackboard_mcp.protocols.items import Status

from ..ledger.ledger import get_board, load
from ..ledger.rows import FORGOTTEN, Steps, event_of, instant, sql
from ..reading.items import entries

_LISTED = 20
"""The most amendments of an item that are listed, newest first."""


def versions(
    board: str, agent: str, of: int | str, *, upto: int | None = None, limit: int = 50
) -> Steps[Versions | None]:
    """Returns at most `limit` versions of an item, newest first; `None` if the agent sees no such item.

    `of` is its number or key. `upto` is the newest version wanted; without it the latest amendments come along.

    Raises:
        UnknownReference: the board does not exist.
    """
    row = yield from get_board(board)
    if isinstance(of, str):
        item = (yield from entries(row.no, agent, [of])).get(of)
    else:
        item = (yield from load(row.no, [of], agent)).get(of)
    if item is None:
        return None
    top = item.version if upto is None else upto
    rows = list((yield sql("version_now"), (row.no, item.number))) if top >= item.version else []
    rows += yield sql("version_list"), (row.no, item.number, top, limit + 1 - len(rows))
    listed = tuple(
        Version(
            version=r[0],
            created_by=r[1],
            created_at=instant(r[2]),
            updated_by=r[3],
            updated_at=instant(r[4]),
            tokens=r[5],
            sha256=r[6],
            status=Status(r[7]) if r[7] else None,
            deleted=bool(r[8]),
            forgotten=r[8] == FORGOTTEN,
            tags=tuple(json.loads(r[9])),
        )
        for r in rows[:limit]
    )
    more = rows[limit][0] if len(rows) > limit else None
    amended = (yield from _amendments(row.no, item.number, agent)) if upto is None else ()
    return Versions(item.number, item.id, item.key, item.version, listed, more, row.seq, amended)


def _amendments(no: int, item: int, agent: str) -> Steps[tuple[Amendment, ...]]:
    """Returns the last changes to an item's importance, tags, metadata, time to live and status, if the agent may
    see it.
    """
    found = []
    for row in (yield sql("amendments_of_item"), (no, item, agent, _LISTED)):
        event = event_of(row)
        was, now = dict(event.data.get("was", {})), dict(event.data.get("now", {}))
        if "status" in event.data:
            was["status"], now["status"] = event.data["status"]
        found.append(Amendment(event.seq, event.agent, event.at, event.version or 0, was, now))
    return tuple(found)
