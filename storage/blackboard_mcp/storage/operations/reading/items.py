"""Reading: items by id and key, queries, the log, the snapshot a view is rendered from, figures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from blackboard_mcp.protocols.answers import (
    Found,
    Log,
    Page,
    Statistics,
    Stretch,
)
from blackboard_mcp.protocols.board import AgentInfo
from blackboard_mcp.protocols.events import Event
from blackboard_mcp.protocols.filters import ItemQuery
from blackboard_mcp.protocols.guard import Protection
from blackboard_mcp.protocols.items import Ref, Zone
from blackboard_mcp.protocols.keys import parse_key

from ..access.visibility import TIMES, expanded
from ..leaving import guard_index
from ..ledger.ledger import attention, attention_after, get_board, load, looked
from ..ledger.rows import ITEM_COLUMNS, ItemRow, Steps, dumps, event_of, instant, micros, numbers, sql
from . import globs as globbing
from .item_states import values


def read(board: str, agent: str, refs: Sequence[Ref], keys: Sequence[str], *, look: int = 0) -> Steps[Found]:
    row = yield from get_board(board)
    found = yield from load(row.no, [ref.number for ref in refs], agent)
    asked: list[tuple[str, ItemRow | None, int | None]] = [
        (
            str(ref.number) + ("" if ref.version is None else f"@{ref.version}"),
            found.get(ref.number),
            ref.version,
        )
        for ref in refs
    ]
    if keys:
        parsed = [parse_key(key) for key in keys]
        by_key = yield from entries(row.no, agent, (key for key, _ in parsed))
        for name, (key, version) in zip(keys, parsed, strict=True):
            entry = by_key.get(key)
            gone = version is None and entry is not None and entry.deleted
            asked.append((name, None if gone else entry, version))
    former = yield from _versions(
        row.no, [(i, v) for _, i, v in asked if i is not None and v is not None and v != i.version]
    )
    missing: list[str] = []
    rows: list[ItemRow] = []
    for name, item, version in asked:
        if item is not None and version is not None and version != item.version:
            item = former.get((item.number, version))
        if item is None:
            missing.append(name)
        else:
            rows.append(item)
    items = yield from values(row, rows, agent)
    waiting = yield from attention(row.no, agent, look)
    return Found(tuple(items), tuple(missing), row.seq, waiting)


def at_version(no: int, item: ItemRow, version: int | None) -> Steps[ItemRow | None]:
    """The item with what belongs to one of its versions as of then, the present one by default; or nothing."""
    if version is None or version == item.version:
        return item
    return (yield from _versions(no, [(item, version)])).get((item.number, version))


def entries(no: int, agent: str, keys: Iterable[str]) -> Steps[dict[str, ItemRow]]:
    """The entry of each of the keys that an agent sees: what stands before tombstones, its own before the shared."""
    rows = yield sql("items_by_key"), (no, dumps(sorted(set(keys))), agent)
    return {r[3]: ItemRow(*r) for r in rows}


def _versions(no: int, wanted: Sequence[tuple[ItemRow, int]]) -> Steps[dict[tuple[int, int], ItemRow]]:
    """Former versions of items, those that there were, each as its item would stand with it."""
    if not wanted:
        return {}
    items = {item.number: item for item, _ in wanted}
    listed = dumps(sorted({(item.number, version) for item, version in wanted}))
    found: dict[tuple[int, int], ItemRow] = {}
    for number, version, text, tags, metadata, tokens, sha256, at, by, status, deleted, writer, written in (
        yield sql("versions"), (no, listed)
    ):
        item = items[number]
        found[number, version] = replace(
            item,
            version=version,
            text=text,
            tags=tags,
            metadata=metadata,
            tokens=tokens,
            sha256=sha256,
            updated_at=at,
            updated_by=by,
            status=status or item.status,
            deleted=deleted,
            written_by=writer,
            written_at=written,
        )
    return found


_SCAN = 500


def query(board: str, agent: str, wanted: ItemQuery, *, look: int = 0) -> Steps[Page]:
    """One page. Conditions that SQL does not have (globs, words of the text) are checked row by row."""
    row = yield from get_board(board)
    text, fixed = _where(row.no, agent, wanted)
    words = [_whole(word) for word in (wanted.text or "").split()]
    before: int | None = wanted.cursor if wanted.cursor is not None else (1 << 62)
    rows: list[ItemRow] = []
    batch = wanted.limit + 1 if not words else _SCAN
    while before is not None and len(rows) <= wanted.limit:
        if wanted.key is not None:
            conditions = globbing.Conditions(text, fixed, wanted.zone)
            numbers_, before = yield from globbing.matching(
                row.no, agent, wanted.key, conditions, before, batch
            )
            found = yield from load(row.no, numbers_, agent)
            listed = [found[number] for number in numbers_]
        else:
            columns = ", ".join(ITEM_COLUMNS)
            statement = f"SELECT {columns} FROM item WHERE {text} AND number < ? ORDER BY number DESC LIMIT ?"  # noqa: S608 - columns and conditions are ours, every value is bound
            listed = [ItemRow(*raw) for raw in (yield statement, (*fixed, before, batch))]
            before = listed[-1].number if len(listed) == batch else None
        for item in listed:
            if not words or _has_words(item, words):
                rows.append(item)
                if len(rows) > wanted.limit:
                    break
    more = len(rows) > wanted.limit
    rows = rows[: wanted.limit]
    items = yield from values(row, rows, agent)
    waiting = yield from attention(row.no, agent, look)
    return Page(tuple(items), rows[-1].number if more else None, row.seq, waiting)


@cache
def _unspaced() -> re.Pattern[str]:
    """Scripts that write words without spaces between them; made at the first search, as it takes long."""
    return re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]")


def _whole(word: str) -> re.Pattern[str]:
    """Finds a word as a whole; within others only where a script has no spaces between words."""
    plain = re.escape(word.casefold())
    if _unspaced().search(word):
        return re.compile(plain)
    before = r"(?<!\w)" if re.match(r"\w", word) else ""
    after = r"(?!\w)" if re.search(r"\w\Z", word) else ""
    return re.compile(before + plain + after)


def _has_words(item: ItemRow, words: Sequence[re.Pattern[str]]) -> bool:
    """Whether every word stands in the item's text or key."""
    haystack = f"{item.key or ''}\n{item.text}".casefold()
    return all(word.search(haystack) for word in words)


def _where(no: int, agent: str, wanted: ItemQuery) -> tuple[str, list[Any]]:
    """The conditions SQL can check, and what they bind."""
    seen = [agent] * TIMES
    parts = [
        "item.board = ?",
        expanded("VISIBLE(item.owner, ?)"),
        f"deleted {'>' if wanted.deleted else '='} 0",
    ]
    bound: list[Any] = [no, *seen]

    def add(condition: str, *bind: Any) -> None:
        parts.append(condition)
        bound.extend(bind)

    if wanted.zone is Zone.WORKING:
        add("zone = 'working'")
    elif wanted.zone is not None:
        add("zone = ?", str(wanted.zone))
    if wanted.types:
        add("type IN (SELECT value FROM json_each(?))", dumps([str(t) for t in wanted.types]))
    if wanted.statuses:
        add("status IN (SELECT value FROM json_each(?))", dumps([str(s) for s in wanted.statuses]))
    if wanted.author is not None:
        add("author = ?", wanted.author)
    if wanted.thread is not None:
        member = expanded(
            "SELECT thread FROM item t WHERE t.board = item.board AND t.number = ? AND VISIBLE(t.owner, ?)"
        )
        add(f"thread = ({member})", wanted.thread, *seen)
    tag_in = "EXISTS (SELECT 1 FROM json_each(item.tags) t WHERE t.value = ?)"
    for tag in wanted.tags:
        add(tag_in, tag)
    for tag in wanted.no_tags:
        add(f"NOT {tag_in}", tag)
    if wanted.any_tags:
        any_of = "SELECT 1 FROM json_each(item.tags) t JOIN json_each(?) w ON w.value = t.value"
        add(f"EXISTS ({any_of})", dumps(list(wanted.any_tags)))
    if wanted.after is not None:
        add("created_at >= ?", micros(wanted.after))
    if wanted.before is not None:
        add("created_at < ?", micros(wanted.before))
    return " AND ".join(parts), bound


def log(board: str, agent: str, after: int, limit: int, *, look: int = 0) -> Steps[Log]:
    row = yield from get_board(board)
    listed = yield sql("events_after"), (row.no, after, agent, limit + 1)
    events = tuple(event_of(raw) for raw in listed[:limit])
    more = len(listed) > limit
    known = yield from looked(row.no, agent, look)
    waiting = yield from attention_after(row.no, agent, known)
    return Log(events, events[-1].seq if more else max(after, row.seq), row.seq, more, waiting, known)


def beginnings(
    board: str, agent: str, wanted: Iterable[tuple[int, int]]
) -> Steps[dict[tuple[int, int], str]]:
    row = yield from get_board(board)
    listed = yield sql("beginnings"), (row.no, dumps(sorted(set(wanted))), agent)
    return {(number, version): text for number, version, text in listed}


def stretches(places: Mapping[str, int], limit: int) -> Steps[dict[str, Stretch]]:
    """The whole log of each board that moved, in the order of `places`."""
    moved = yield sql("boards_beyond"), (dumps(list(places.items())),)
    found: dict[str, Stretch] = {}
    for board, no, seq in moved:
        if limit < 1:
            break
        listed = yield sql("events_whole"), (no, places[board], limit)
        found[board] = Stretch(tuple(event_of(raw) for raw in listed), seq)
        limit -= len(listed)
    return found


def history(board: str, agent: str, number: int, limit: int = 50) -> Steps[tuple[Event, ...]]:
    """What happened to one item, newest first."""
    row = yield from get_board(board)
    listed = yield sql("events_of_item"), (row.no, number, agent, limit)
    return tuple(event_of(raw) for raw in listed)


def statistics(board: str, agent: str) -> Steps[Statistics]:
    row = yield from get_board(board)
    counted = yield sql("status_counts"), (row.no, agent)
    protected = yield from guard_index.protected_figures(row.no, agent)
    open_rows = yield sql("debates_open"), (row.no,)
    waiting = yield sql("waiting_for_index"), (row.no, agent)
    stored = yield sql("stored_by"), (row.no, agent)
    return Statistics(
        board=row.value(),
        counts={(r[0], r[1], r[2]): (r[3], r[4]) for r in counted},
        protected_items=protected[0],
        protected_tokens=protected[1],
        open_debates=len(open_rows),
        waiting_for_index=waiting[0][0],
        stored_bytes=stored[0][0] if stored else 0,
    )


def agents(board: str) -> Steps[list[AgentInfo]]:
    row = yield from get_board(board)
    listed = yield sql("agents"), (row.no,)
    return [AgentInfo(r[0], r[1], instant(r[2]), instant(r[3])) for r in listed]


def tags(board: str, agent: str) -> Steps[list[str]]:
    row = yield from get_board(board)
    return [r[0] for r in (yield sql("tags_of_board"), (row.no, agent))]


def why_left(board: str, agent: str, wanted: Iterable[int]) -> Steps[dict[int, Event]]:
    """For archived items, the event by which each left working memory."""
    row = yield from get_board(board)
    found = yield from load(row.no, wanted, agent)
    left: dict[int, Event] = {}
    for number, item in found.items():
        if item.zone == Zone.ARCHIVE:
            listed = yield sql("pass_of_item"), (row.no, number)
            if listed:
                left[number] = event_of(listed[0])
    return left


def around(board: str, agent: str, wanted: Iterable[int]) -> Steps[dict[int, tuple[int | None, int | None]]]:
    """For visible items, the visible items before and after each in its thread."""
    row = yield from get_board(board)
    rows = yield sql("items_around"), (row.no, numbers(wanted), agent)
    return {number: (before, after) for number, before, after in rows}


def guarded(board: str, wanted: Iterable[int]) -> Steps[dict[int, Protection]]:
    """What the guard holds of the items."""
    row = yield from get_board(board)
    held = yield from guard_index.protections(row.no, wanted)
    return (yield from shown(row.no, "", held))


def shown(no: int, agent: str, held: dict[int, Protection]) -> Steps[dict[int, Protection]]:
    """The protections without the chains that lead over an item the agent may not see."""
    cited = {n for p in held.values() for edge in p.chain for n in (edge.source, edge.target)}
    seen = {row[0] for row in (yield sql("types"), (no, numbers(cited), agent))}
    return {
        n: p if all(e.source in seen and e.target in seen for e in p.chain) else Protection(p.reason)
        for n, p in held.items()
    }


def unindexed(board: str, agent: str, limit: int) -> Steps[list[tuple[int, str]]]:
    """Archived items the index has not learnt of yet: number and text, newest first."""
    row = yield from get_board(board)
    listed = yield sql("outbox_of_board"), (row.no, agent, limit)
    return [(r[0], r[1]) for r in listed]
