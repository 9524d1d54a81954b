"""Entries whose keys match a glob, newest first, found by an index however large the board is.

There are three ways. For each page, rows are counted up to `_FEW` a way to choose the best:

- *By a part*: entries that have a literal segment of the glob, or as many colons if the glob has no `**`, newest
  first. For `**:x` that reads the entries with the segment `x`, until the page is full.
- *By the range* of keys that begin as the glob does, in working memory alone or everywhere. Keys that do not
  match are skipped in the index, and matches are sorted.
- *Newest first* over all entries, for globs such as `**` or `*x*` that no index helps with.

If every way has many rows, the newest of the best one are examined first, and then the range if the page is not
full. So a page fills soon if much matches, and the range of keys finds the matches if few do.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from blackboard_mcp.protocols.items import Zone
from blackboard_mcp.protocols.keys import Glob, compile_glob, glob_prefix
from blackboard_mcp.protocols.values import dataclass

from ..access.visibility import expanded
from ..ledger.rows import Steps, dumps, sql

_FEW = 2_000
"""The number of rows up to which each way is counted, and which are examined before another way is tried."""
_PARTS = 16
"""The most parts of a glob that are counted."""
_LAST = "\U0010ffff"


@dataclass(frozen=True, slots=True)
class Conditions:
    """What else must be true of an item.

    Attributes:
        text: a SQL condition over `item`.
        bound: the values that it binds.
        zone: the zone that it is limited to; `None` for all.
    """

    text: str
    bound: Sequence[Any]
    zone: Zone | None


def matching(
    no: int, agent: str, key: str, conditions: Conditions, before: int, most: int
) -> Steps[tuple[list[int], int | None]]:
    """Returns at most `most` numbers, below `before`, of entries that match, newest first.

    The second value is the number below which to go on; `None` if there are no more.
    """
    glob = compile_glob(key)
    found: list[int] = []
    parts = _parts(key)
    way, few = yield from _fewest(no, agent, key, parts, conditions.zone, before)
    if way is not None:
        source, bound = _newest(way)
        size, looked = 4 * (most + 1), 0
        while few or looked < _FEW:
            window = f"SELECT min(number), count(*) FROM ({source} LIMIT +?)"  # noqa: S608 - as below
            low, count = (yield window, (no, *bound, before, size))[0]
            listed = yield (
                f"SELECT item.number, item.key FROM ({source}) p CROSS JOIN item "  # noqa: S608 - conditions are ours, every value is bound
                "ON item.board = ? AND item.number = p.number "
                f"WHERE p.number >= ? AND {conditions.text} ORDER BY p.number DESC",
                (no, *bound, before, no, low or before, *conditions.bound),
            )
            found += [number for number, name in listed if glob.matches(name)]
            if len(found) > most:
                return found[:most], found[most - 1]
            if count < size:
                return found, None
            before, looked, size = low, looked + size, 4 * size
    more = yield from _range(no, agent, glob, parts, conditions, before, most + 1 - len(found))
    found += more
    return found[:most], (found[most - 1] if len(found) > most else None)


def _newest(part: str) -> tuple[str, tuple[str, ...]]:
    """Returns SQL for entries with a part in their keys, newest first, and its values.

    `part` is '' for all entries. The SQL still needs the number below which to begin.
    """
    if part:
        by_part = (
            "SELECT number FROM key_part WHERE board = ? AND part = ? AND number < ? ORDER BY number DESC"
        )
        return by_part, (part,)
    everything = "SELECT number FROM item INDEXED BY item_keyed WHERE board = ? AND key IS NOT NULL"
    return f"{everything} AND number < ? ORDER BY number DESC", ()


def _parts(key: str) -> list[str]:
    """Returns the parts that every matching key has: literal segments, and `:` with the number of colons."""
    parts = [segment for segment in dict.fromkeys(key.split(":")) if segment and "*" not in segment]
    if "**" not in key:
        parts.append(f":{key.count(':')}")
    return parts[-_PARTS:]


def _fewest(
    no: int, agent: str, key: str, parts: Sequence[str], zone: Zone | None, before: int
) -> Steps[tuple[str | None, bool]]:
    """Returns the part with the fewest entries, and whether they are fewer than `_FEW`.

    The part is '' for all entries, and `None` if the range of keys is best.
    """
    if "*" not in key:
        return None, True
    low = glob_prefix(key)
    if zone is Zone.WORKING:
        rows = yield sql("live_keys_counted"), (no, low, low + _LAST, _FEW)
    else:
        rows = yield sql("keys_counted"), (no, low, low + _LAST, agent, _FEW)
    if rows[0][0] < _FEW and not parts:
        return None, True
    counted = yield sql("parts_counted"), (no, dumps(parts), before, _FEW)
    part, least = min(counted, key=lambda row: row[1], default=("", _FEW))
    if rows[0][0] < min(least, _FEW):
        return None, True
    return part, least < _FEW


def _range(
    no: int,
    agent: str,
    glob: Glob,
    parts: Sequence[str],
    conditions: Conditions,
    before: int,
    most: int,
) -> Steps[list[int]]:
    """Returns the newest matches below a number, at most `most`, found by the range of their keys."""
    key = glob.text
    bound: list[Any] = [no]
    if conditions.zone is Zone.WORKING:
        source = "item INDEXED BY item_live_key WHERE item.board = ? AND zone = 'working' AND key IS NOT NULL"
    else:
        seen = expanded("FOUND(item.owner, ?)")
        source = f"item INDEXED BY item_key WHERE item.board = ? AND {seen} AND key IS NOT NULL"
        bound += [agent] * seen.count("?")
    if "*" not in key:
        source += " AND key = ?"
        bound.append(key)
    else:
        low = glob_prefix(key)
        source += " AND key >= ? AND key < ? AND key GLOB ?"
        bound += [low, low + _LAST, _rough(key)]
        if "**" not in key:
            source += " AND length(key) - length(replace(key, ':', '')) = ?"
            bound.append(key.count(":"))
    found: list[int] = []
    room = max(_FEW, most)
    while True:
        listed = yield (
            f"SELECT item.number, item.key FROM {source} AND {conditions.text} AND item.number < ? "  # noqa: S608 - conditions are ours, every value is bound
            "ORDER BY item.number DESC LIMIT +?",
            (*bound, *conditions.bound, before, room),
        )
        found += [number for number, name in listed if glob.matches(name)]
        if len(found) >= most or len(listed) < room:
            return found[:most]
        before = listed[-1][0]
        room *= 8


def _rough(key: str) -> str:
    """Returns a SQLite GLOB pattern with at most three stars that every match fits; more stars may be slow."""
    literal = re.split(r"\*+", key)
    middle = max(literal[1:-1], key=len, default="")
    return f"{literal[0]}*{middle}*{literal[-1]}" if middle else f"{literal[0]}*{literal[-1]}"
