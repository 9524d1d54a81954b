"""Reading: items by id and key, queries, the log, and figures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import Any

from blackboard_mcp.protocols.answers import (
    Found,
    Log,
    Owed,
    Page,
    Statistics,
    Stretch,
)
from blackboard_mcp.protocols.board import AgentInfo
from blackboard_mcp.protocols.debates import Duty
from blackboard_mcp.protocols.events import BEGUN, Event
from blackboard_mcp.protocols.filters import ItemQuery
from blackboard_mcp.protocols.guard import Protection
from blackboard_mcp.protocols.items import Ref, Zone, item_id
from blackboard_mcp.protocols.keys import parse_key
from blackboard_mcp.protocols.panels import PANEL
from blackboard_mcp.protocols.pruning import may_return

from ..access.visibility import TIMES, expanded
from ..leaving import guard_index
from ..ledger.ledger import attention, attention_to, get_board, load, standing_of
from ..ledger.places import check_place
from ..ledger.rows import (
    ITEM_COLUMNS,
    BoardRow,
    ItemRow,
    Steps,
    dumps,
    event_of,
    instant,
    kinds_of,
    micros,
    numbers,
    sql,
    versions_asked,
)
from . import globs as globbing
from . import kept_events
from .item_states import values
from .kept_events import KeptEvents


def read(board: str, agent: str, refs: Sequence[Ref], keys: Sequence[str], *, look: int = 0) -> Steps[Found]:
    """Returns items by id and by key, in the order asked, and names what is missing.

    The key of a deleted entry counts as missing; its versions and its number do not.
    """
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
    kinds = yield from kinds_of(row.no)
    archived = any(item.zone == Zone.ARCHIVE for item in rows)
    items = yield from values(row, rows, agent, kinds, answers=archived)
    waiting = yield from attention(row.no, agent, look)
    held = yield from guard_index.protections(row.no, [item.number for item in items], kinds=kinds)
    large = [
        item.number
        for item in rows
        if item.zone == Zone.ARCHIVE
        and not may_return(row.config, row.working_tokens, item.tokens, item.importance)
    ]
    guarded = yield from shown(row.no, "", held)
    return Found(tuple(items), tuple(missing), row.seq, waiting, guarded, frozenset(large), row.lifecycle)


def at_version(no: int, item: ItemRow, version: int | None) -> Steps[ItemRow | None]:
    """Returns the item as it was in a version, `None` if there is none; `version` `None` means the present one."""
    if version is None or version == item.version:
        return item
    return (yield from _versions(no, [(item, version)])).get((item.number, version))


def entries(no: int, agent: str, keys: Iterable[str]) -> Steps[dict[str, ItemRow]]:
    """Returns the entry that each key names for the agent: existing ones first, then its own before shared ones."""
    rows = yield sql("items_by_key"), (no, dumps(sorted(set(keys))), agent)
    return {r[3]: ItemRow(*r) for r in rows}


def _versions(no: int, wanted: Sequence[tuple[ItemRow, int]]) -> Steps[dict[tuple[int, int], ItemRow]]:
    """Returns former versions, by number and version; what has no versions is as it is now."""
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
    """Returns a page of matching items, newest first. Globs, words and groups are compared row by row after the SQL."""
    row = yield from get_board(board)
    text, fixed = _where(row.no, agent, wanted)
    words = [_whole(word) for word in (wanted.text or "").split()]
    first = 1 << 62 if wanted.cursor is None else wanted.cursor
    # The newest of each group may stand on a former page.
    before: int | None = first if wanted.latest is None else 1 << 62
    groups: set[Any] = set()
    rows: list[ItemRow] = []
    batch = wanted.limit + 1 if not words and wanted.latest is None else _SCAN
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
            statement = (
                f"SELECT {columns} FROM item WHERE {text} AND number < ? ORDER BY number DESC LIMIT +?"  # noqa: S608 - columns and conditions are ours, every value is bound
            )
            listed = [ItemRow(*raw) for raw in (yield statement, (*fixed, before, batch))]
            before = listed[-1].number if len(listed) == batch else None
        for item in listed:
            if words and not _has_words(item, words):
                continue
            if wanted.latest is not None:
                new = _groups(item, wanted) - groups
                groups |= new
                if not new or item.number >= first:
                    continue
            rows.append(item)
            if len(rows) > wanted.limit:
                break
    more = len(rows) > wanted.limit
    rows = rows[: wanted.limit]
    items = yield from values(row, rows, agent, answers=True)
    waiting = yield from attention(row.no, agent, look)
    return Page(tuple(items), rows[-1].number if more else None, row.seq, waiting)


def _groups(item: ItemRow, wanted: ItemQuery) -> set[Any]:
    """Returns the groups of an item of which the newest is wanted."""
    if wanted.latest == "tag":
        tags = set(item.tag_list())
        return tags & set(wanted.any_tags) if wanted.any_tags else tags - set(wanted.tags)
    if wanted.latest == "key":
        return set() if item.key is None else {item.key}
    return {item.author if wanted.latest == "author" else item.thread}


@cache
def _unspaced() -> re.Pattern[str]:
    """Returns a pattern for scripts without spaces between words; it is made at first use, as that takes long."""
    return re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]")


def _whole(word: str) -> re.Pattern[str]:
    """Returns a pattern that finds a word as a whole; in scripts without spaces, also within other words."""
    plain = re.escape(word.casefold())
    if _unspaced().search(word):
        return re.compile(plain)
    before = r"(?<!\w)" if re.match(r"\w", word) else ""
    after = r"(?!\w)" if re.search(r"\w\Z", word) else ""
    return re.compile(before + plain + after)


def _has_words(item: ItemRow, words: Sequence[re.Pattern[str]]) -> bool:
    """Tells whether every word is in the item's text or key."""
    haystack = f"{item.key or ''}\n{item.text}".casefold()
    return all(word.search(haystack) for word in words)


def _where(no: int, agent: str, wanted: ItemQuery) -> tuple[str, list[Any]]:
    """Returns the conditions that SQL can check, and the values that they bind."""
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
        if tag.startswith(PANEL):  # first of its item's tags, so an index has it
            add(expanded("PANELLED(item.tags) AND PANEL OF item.tags = ?"), tag.removeprefix(PANEL))
        else:
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


_REACH = 10_000
"""Events that one look at a log goes through at most for who reads on: others may keep all of them to themselves."""


def log(
    board: str,
    agent: str,
    after: int,
    limit: int,
    *,
    look: int = 0,
    place: int | None = None,
    texts: int = 0,
    kept: KeptEvents,
) -> Steps[Log]:
    """Returns at most `limit` events after a sequence, in order, as far as the agent may see them.

    A `place` is checked as `end_of_log` does; with one, at most `_REACH` events are gone through, and the caller goes
    on from the log's cursor. With the events come the beginnings of at most so many `texts`. `kept` are events that
    this store read before.
    """
    row = yield from get_board(board)
    if place is not None:
        yield from check_place(row, place)
    reach = row.seq
    if place is not None and row.seq - after > _REACH:
        ((reach,),) = yield sql("log_reach"), (row.no, after, _REACH)  # sequences may have gaps
    whole = min(reach - after, limit) <= kept_events.FEW
    name = "events_after" if whole else "log_stamps"
    listed = (yield sql(name), (row.no, after, agent, limit + 1, reach)) if after < row.seq else []
    full = len(listed) > limit
    del listed[limit:]
    events = [event_of(raw) for raw in listed] if whole else []
    if not whole:
        events = yield from kept_events.events_of(row.no, agent, listed, kept)
    told = islice([event for event in events if event.event in BEGUN and event.item is not None], texts)
    wanted = [(event.number or 0, event.version or 1) for event in told]
    begun = (yield from _beginnings(row, agent, wanted)) if wanted else {}
    standing = yield from standing_of(row.no, agent, look)
    waiting = yield from attention_to(row.no, agent, standing)
    cursor = events[-1].seq if full else max(after, reach)
    return Log(tuple(events), cursor, row.seq, full or reach < row.seq, waiting, standing[0], begun)


def beginnings(
    board: str, agent: str, wanted: Iterable[tuple[int, int]]
) -> Steps[dict[tuple[int, int], str]]:
    """Returns the beginnings of texts by pairs of item number and version, for items that the agent may see."""
    row = yield from get_board(board)
    return (yield from _beginnings(row, agent, wanted))


def _beginnings(
    row: BoardRow, agent: str, wanted: Iterable[tuple[int, int]]
) -> Steps[dict[tuple[int, int], str]]:
    listed = yield sql("beginnings"), (row.no, versions_asked(wanted), agent)
    return {(number, version): text for number, version, text in listed}


def stretches(places: Mapping[str, int], limit: int) -> Steps[dict[str, Stretch]]:
    """Returns all events after the sequence in `places`, for each board that has any, whoever may see them.

    There are at most `limit` events in all; boards for which none are left are omitted.
    """
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
    """Returns at most `limit` events about one item, newest first."""
    row = yield from get_board(board)
    listed = yield sql("events_of_item"), (row.no, number, agent, limit)
    return tuple(event_of(raw) for raw in listed)


def statistics(board: str, agent: str) -> Steps[Statistics]:
    """Returns figures of the board, as far as the agent may know them."""
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
    """Returns the agents that were ever active on the board."""
    row = yield from get_board(board)
    listed = yield sql("agents"), (row.no,)
    return [AgentInfo(r[0], r[1], instant(r[2]), instant(r[3])) for r in listed]


def awaited(board: str, agent: str, most: int) -> Steps[tuple[tuple[str, Owed], ...]]:
    """Returns what other agents owe on items that the agent may see, oldest first, as pairs of agent and duty."""
    row = yield from get_board(board)
    rows = yield sql("awaited_of_others"), (row.no, agent, most)
    return tuple((name, Owed(item_id(type_, item), Duty(duty))) for name, item, duty, type_ in rows)


def fallen(board: str, agent: str, most: int) -> Steps[tuple[int, ...]]:
    """Returns numbers of findings that fell and left working memory, and that the agent may see, newest first."""
    row = yield from get_board(board)
    return tuple(number for (number,) in (yield sql("findings_fallen_archived"), (row.no, agent, most)))


def tags(board: str, agent: str) -> Steps[list[str]]:
    """Returns tags of items in working memory, most used first."""
    row = yield from get_board(board)
    return [r[0] for r in (yield sql("tags_of_board"), (row.no, agent))]


def why_left(board: str, agent: str, wanted: Iterable[int]) -> Steps[dict[int, Event]]:
    """Returns the event by which each archived item left working memory, by item number."""
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
    """Returns the numbers of the visible items before and after each item in its thread; `None` at an end."""
    row = yield from get_board(board)
    rows = yield sql("items_around"), (row.no, numbers(wanted), agent)
    return {number: (before, after) for number, before, after in rows}


def guarded(board: str, wanted: Iterable[int]) -> Steps[dict[int, Protection]]:
    """Returns the protection of those of the items that are protected, by number; for everybody to see."""
    row = yield from get_board(board)
    held = yield from guard_index.protections(row.no, set(wanted))
    return (yield from shown(row.no, "", held))


def shown(no: int, agent: str, held: dict[int, Protection]) -> Steps[dict[int, Protection]]:
    """Returns the protections, without chains that contain an item that the agent may not see."""
    cited = {n for p in held.values() for edge in p.chain for n in (edge.source, edge.target)}
    if not cited:
        return held
    seen = {row[0] for row in (yield sql("types"), (no, numbers(cited), agent))}
    return {
        n: p if all(e.source in seen and e.target in seen for e in p.chain) else Protection(p.reason)
        for n, p in held.items()
    }


def unindexed(board: str, agent: str, limit: int) -> Steps[list[tuple[int, str]]]:
    """Returns number and text of archived items that the index has not received yet, newest first."""
    row = yield from get_board(board)
    listed = yield sql("outbox_of_board"), (row.no, agent, limit)
    return [(r[0], r[1]) for r in listed]
