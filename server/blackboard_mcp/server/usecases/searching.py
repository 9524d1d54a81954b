"""Search of the archive: exact ids first, then the index. Every hit is checked against the store."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import field, replace
from typing import Protocol

from blackboard_mcp.protocols.archive import ArchiveAnswer, ArchiveQuery
from blackboard_mcp.protocols.errors import ArchiveUnavailable
from blackboard_mcp.protocols.events import Event
from blackboard_mcp.protocols.filters import ItemQuery
from blackboard_mcp.protocols.items import LETTERS, Item, Ref, Zone
from blackboard_mcp.protocols.keys import compile_glob
from blackboard_mcp.protocols.late_models import wire
from blackboard_mcp.protocols.store import BoardStore
from blackboard_mcp.protocols.values import dataclass

from ..limits.turns import in_thread
from ..text.snippets import excerpt, held_words

BEHIND = "The search index is behind or being rebuilt; these hits contain every word."
"""Notice of an answer without the index."""
AWAY = "The search index cannot be reached; these hits contain every word."
"""The same where the place of an index that servers share does not answer, or the process of an index."""
SLOW = "The search index takes long to answer; these hits contain every word."
"""The same where it is not known yet whether the index has everything."""
_NOTICES = {"unreachable": AWAY, "ended": AWAY, "slow": SLOW}
FAR = "nothing close: no item has half of the words; nearest:"
"""Notice of an answer that may have nothing to do with the query."""
FAR_THERE = "nothing close in the archive: no item there has half of the words; nearest:"
"""The same where items on the board do have half of the words."""

_IDS = re.compile(
    rf"(?<![\w-])(?:[{''.join(sorted(LETTERS.values()))}])-([0-9]{{1,15}})(?![\w-])", re.IGNORECASE
)
_WORD = re.compile(r"\w")
_NUMBERS = re.compile(r"\s*[0-9]{1,15}(?:[\s,;]+[0-9]{1,15})*\s*\Z")
_NUMBER = re.compile(r"(?<![\w.-])[0-9]{1,15}(?![\w.-])")
_VERSION = re.compile(r"@[0-9]{1,9}(?!\w)")
_NAMED = 10
_DEPTH = 4
"""Candidates asked for per wanted hit, because some may be gone or hidden."""
_LOOKED_INTO_INLINE = 4_000
"""Most characters of hits that are examined on the event loop; more are examined in a thread."""
_PAGE, _PAGES, _PAGES_BESIDE = 200, 5, 2
"""Live items that are looked through: the newest, in pages; fewer beside a search of the archive."""
_LIVE = 3
"""Most live items in an answer."""
_DEEPEST = 1_000
"""Most candidates that the index is asked for; beyond them the store is searched by words."""


class ArchiveSearch(Protocol):
    """The archive's index as the server uses it."""

    async def search(self, query: ArchiveQuery) -> ArchiveAnswer:
        """Returns the hits for a query.

        Raises:
            ArchiveUnavailable: the index cannot answer now.
        """
        ...


@dataclass(frozen=True, slots=True)
class Around:
    """The items before and after a hit in its thread, as far as the agent may see them."""

    before: Item | None = None
    after: Item | None = None


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Archived items, best first. `mode` says what answered, `left` by which event each item left, by number.
    `far` says that no item may have anything to do with the query.

    `held` says how many of the query's words each item and its author's name hold, of how many, by item number.
    `live` are items on the board that hold half of them, the best few; `None` if the board was not searched.
    `beside` is the id of the item next to a hit in its thread by which it was found, by the hit's number. `zone` is
    where it was searched, `None` for everywhere.
    `excerpts` are the parts of long texts that match the query, by item number. `neighbours` are the items
    around each hit in its thread, by the hit's number, where they were asked for.
    """

    items: tuple[Item, ...]
    mode: str
    notice: str
    left: dict[int, Event]
    seq: int
    excerpts: dict[int, str] = field(default_factory=dict)
    neighbours: dict[int, Around] = field(default_factory=dict)
    far: bool = False
    held: dict[int, tuple[int, int]] = field(default_factory=dict)
    live: tuple[Item, ...] | None = None
    beside: dict[int, str] = field(default_factory=dict)
    zone: Zone | None = None


async def search(
    store: BoardStore, archive: ArchiveSearch, agent: str, query: ArchiveQuery, words: ItemQuery
) -> SearchResult:
    """Returns the archived items that match `query` and that the agent may see; `words` is the same query for
    the store.

    Without text it lists, newest first. Ids alone find those items and no others. When the index cannot
    answer, the store is searched by words, and the notice says so.
    """
    board, limit, words = query.board, query.limit, replace(words, zone=Zone.ARCHIVE)
    if query.thread is not None:
        # The caller may name any item of a thread, but the index knows the thread by its first item.
        named = await store.read(board, agent, [Ref(query.thread)], [])
        query = replace(query, thread=named.items[0].thread if named.items else query.thread)
    if not query.text.strip():
        page = await store.query(board, agent, words)
        return await _with_reasons(store, board, agent, list(page.items), "listing", "", page.seq)
    query = replace(query, text=_VERSION.sub("", query.text) if _IDS.search(query.text) else query.text)
    if _NUMBERS.match(query.text):
        numbers = list(dict.fromkeys(int(n) for n in re.findall("[0-9]+", query.text)))[:limit]
        if exact := await _confirm(store, agent, query, words, numbers):
            return await _with_reasons(store, board, agent, exact, "exact", "", 0)
    exact = await _exact(store, agent, query, words)
    if _IDS.search(query.text) and not _WORD.search(_IDS.sub(" ", query.text)):
        notice = await _live(store, agent, query)
        return await _with_reasons(store, board, agent, exact, "exact", notice, 0)
    notice = ""
    query = replace(query, viewer=(await store.viewers(board, [agent]))[agent])
    starts: dict[int, int] = {}
    lenders: dict[int, int] = {}
    try:
        depth = min(limit * _DEPTH, _DEEPEST)
        known = {item.number for item in exact}
        while True:
            answer = await archive.search(replace(query, limit=depth))
            ranked = [hit.number for hit in answer.hits if hit.number not in known]
            items = [*exact, *await _first(store, agent, query, words, ranked, limit - len(exact))]
            if len(items) >= limit or len(answer.hits) < depth or depth == _DEEPEST:
                break
            depth = min(depth * _DEPTH, _DEEPEST)  # others' private items must not crowd out visible ones
        mode, notice = str(answer.mode), answer.notice
        starts = {hit.number: hit.start for hit in answer.hits}
        lenders = {hit.number: hit.beside for hit in answer.hits if hit.beside}
        if len(items) < limit and len(answer.hits) >= depth:
            page = await store.query(board, agent, words)
            known |= {item.number for item in items}
            items += [item for item in page.items if item.number not in known]
    except ArchiveUnavailable as error:
        page = await store.query(board, agent, words)
        items = [*exact, *(i for i in page.items if i.number not in {e.number for e in exact})]
        mode, notice = "lexical", _NOTICES.get(error.facts.get("reason", ""), BEHIND)
    items = items[:limit]

    def looked_into() -> tuple[dict[int, tuple[int, int]], dict[int, str]]:
        counts = ((item.number, _held(item, query.text, starts.get(item.number, 0))) for item in items)
        parts = ((i.number, excerpt(i.text, query.text, starts.get(i.number))) for i in items)
        held = {number: count for number, count in counts if count is not None}
        return held, {number: part for number, part in parts if part is not None}

    long = sum(len(item.text) for item in items) > _LOOKED_INTO_INLINE
    held, excerpts = await in_thread(looked_into) if long else looked_into()
    far = bool(items) and not exact and bool(held) and not any(map(_is_half, held.values()))
    found = await _with_reasons(store, board, agent, items, mode, notice, 0)
    beside = await _named(
        store, board, agent, {i.number: lenders[i.number] for i in items if i.number in lenders}
    )
    return replace(found, excerpts=excerpts, far=far, held=held, beside=beside)


def _held(item: Item, query: str, start: int = 0) -> tuple[int, int] | None:
    """Returns how many of the query's words an item's author, tags and text hold together, and how many there are."""
    name = f"{' '.join((item.author, *item.tags))} "
    return held_words(name + item.text, query, start + len(name) if start else 0)


def _is_half(held: tuple[int, int]) -> bool:
    return 2 * held[0] >= held[1]


async def _named(store: BoardStore, board: str, agent: str, lenders: dict[int, int]) -> dict[int, str]:
    """Returns the same map with ids instead of the numbers that it maps to, as far as the agent may see them."""
    if not lenders:
        return {}
    read = await store.read(board, agent, [Ref(n) for n in sorted(set(lenders.values()))], [])
    ids = {item.number: item.id for item in read.items}
    return {hit: ids[lender] for hit, lender in lenders.items() if lender in ids}


async def with_live(
    store: BoardStore, board: str, agent: str, words: ItemQuery, found: SearchResult
) -> SearchResult:
    """Returns the result with the items on the board that hold at least half of the words of the query."""
    if not words.text or found.mode == "exact" or held_words("", words.text) is None:
        return found
    close = await _close(store, board, agent, words, _PAGES_BESIDE)
    return replace(found, live=tuple(item for _, item in close[:_LIVE]))


async def search_board(store: BoardStore, board: str, agent: str, words: ItemQuery) -> SearchResult:
    """Returns the items on the board that match `words` and hold at least half of its text; without text it lists."""
    if not words.text or held_words("", words.text) is None:
        page = await store.query(board, agent, words)
        return SearchResult(
            page.items, "listing" if not words.text else "lexical", "", {}, 0, zone=Zone.WORKING
        )
    close = (await _close(store, board, agent, words, _PAGES))[: words.limit]
    held = {item.number: count for count, item in close}
    items = tuple(item for _, item in close)
    return SearchResult(items, "lexical", "", {}, 0, held=held, zone=Zone.WORKING)


async def _close(
    store: BoardStore, board: str, agent: str, words: ItemQuery, pages: int
) -> list[tuple[tuple[int, int], Item]]:
    """Returns the live items that hold at least half of the words, and how many of how many; the best first."""
    text, live = words.text or "", list[Item]()
    wanted = replace(words, text=None, zone=Zone.WORKING, limit=_PAGE)
    for _ in range(pages):
        page = await store.query(board, agent, wanted)
        live += page.items
        if page.cursor is None:
            break
        wanted = replace(wanted, cursor=page.cursor)

    def close() -> list[tuple[tuple[int, int], Item]]:
        counts = ((_held(item, text) or (0, 1), item) for item in live)
        half = [one for one in counts if _is_half(one[0])]
        return sorted(half, key=lambda one: (-one[0][0], -one[1].number))

    return await in_thread(close)


async def with_neighbours(store: BoardStore, board: str, agent: str, found: SearchResult) -> SearchResult:
    """Returns the result with the items around each hit that the agent may see, except other hits."""
    hits = [item.number for item in found.items]
    around = await store.around(board, agent, hits) if hits else {}
    wanted = {n for pair in around.values() for n in pair if n is not None} - set(hits)
    read = await store.read(board, agent, [Ref(n) for n in sorted(wanted)], []) if wanted else None
    there = {item.number: item for item in read.items} if read is not None else {}
    neighbours = {
        number: Around(there.get(before or 0), there.get(after or 0))
        for number, (before, after) in around.items()
        if before in there or after in there
    }
    return replace(found, neighbours=neighbours)


def wire_found(found: SearchResult, seq: int, left: dict[int, str]) -> wire.SearchAnswer:
    """Returns the search result as a structured answer; `left` maps item numbers to the reason why each left."""
    ids = {item.number: item.id for item in found.items}
    neighbours = [
        wire.WireNeighbour(of=ids[number], place=place, item=wire.wire_item(item))
        for number in ids
        for place, item in (
            ("before", found.neighbours.get(number, Around()).before),
            ("after", found.neighbours.get(number, Around()).after),
        )
        if item is not None
    ]
    far = FAR_THERE if found.live else FAR
    return wire.SearchAnswer(
        items=[wire.wire_item(item) for item in found.items],
        seq=seq,
        mode=found.mode,
        notice=f"{far.removesuffix('; nearest:')}. {found.notice}".strip() if found.far else found.notice,
        left={ids[number]: why for number, why in left.items() if number in ids},
        excerpts={ids[number]: part for number, part in found.excerpts.items() if number in ids},
        neighbours=neighbours,
        held={ids[number]: list(count) for number, count in found.held.items() if number in ids},
        live=[wire.wire_item(item) for item in found.live or ()],
    )


def ids_alone(text: str) -> list[str]:
    """Returns the ids in a text that holds nothing else, at most ten; an empty list where it has other words."""
    if _WORD.search(_IDS.sub(" ", _VERSION.sub("", text))):
        return []
    return list(dict.fromkeys(found.group().upper() for found in _IDS.finditer(text)))[:_NAMED]


def numbers_as_ids(text: str) -> str:
    """Returns a text of ids and numbers alone with a letter before each number, and any other text as it is."""
    bare = _VERSION.sub("", text)
    return text if _WORD.search(_NUMBER.sub(" ", _IDS.sub(" ", bare))) else _NUMBER.sub(r"F-\g<0>", bare)


async def _exact(store: BoardStore, agent: str, query: ArchiveQuery, words: ItemQuery) -> list[Item]:
    named = list(dict.fromkeys(int(n) for n in _IDS.findall(query.text)))[: query.limit]
    return await _confirm(store, agent, query, words, named) if named else []


async def restored_before(
    store: BoardStore, agent: str, query: ArchiveQuery, items: tuple[Item, ...], seq: int
) -> SearchResult:
    """Returns the answer to a repeated call that restored `items`, with what became of others that it names."""
    named = ids_alone(query.text)
    notice = await _live(store, agent, query, {item.number for item in items}) if named else ""
    return SearchResult(items, "repeated", notice, {}, seq)


async def _live(store: BoardStore, agent: str, query: ArchiveQuery, but: Collection[int] = ()) -> str:
    """Returns a sentence on the named items that are not in the archive, apart from some; it may be empty."""
    numbers = dict.fromkeys(int(n) for n in _IDS.findall(query.text))
    refs = [Ref(n) for n in list(numbers)[: query.limit] if n not in but]
    found = await store.read(query.board, agent, refs, [])
    live = [item.id for item in found.items if item.zone is not Zone.ARCHIVE]
    deleted = [item.id for item in found.items if item.deleted and item.forgotten is None]
    said = [f"not archived, read() has it: {', '.join(live)}"] if live else []
    said += [f'deleted, read(ids=["{id_}@*"]) has its versions' for id_ in deleted]
    gone = [item.id for item in found.items if item.forgotten is not None]
    said += [f'{id_} was forgotten, read(ids=["{id_}"]) says by whose decision' for id_ in gone]
    return "; ".join(said)


async def _confirm(
    store: BoardStore, agent: str, query: ArchiveQuery, words: ItemQuery, numbers: list[int]
) -> list[Item]:
    """Returns the items that are archived now, visible to the agent and within the filters, in the given
    order.
    """
    if not numbers:
        return []
    found = await store.read(query.board, agent, [Ref(n) for n in numbers], [])
    return [i for i in found.items if i.zone is Zone.ARCHIVE and not i.deleted and _fits(i, query, words)]


async def _first(
    store: BoardStore, agent: str, query: ArchiveQuery, words: ItemQuery, numbers: list[int], wanted: int
) -> list[Item]:
    """Returns the first `wanted` items that `_confirm` accepts, in batches, because most hits are accepted."""
    found: list[Item] = []
    while numbers and len(found) < wanted:
        found += await _confirm(store, agent, query, words, numbers[:wanted])
        numbers = numbers[wanted:]
    return found


def _fits(item: Item, query: ArchiveQuery, words: ItemQuery) -> bool:
    tags = set(item.tags)
    return (
        not tags & set(words.no_tags)
        and (words.key is None or (item.key is not None and compile_glob(words.key).matches(item.key)))
        and (not words.statuses or item.status in words.statuses)
        and (not words.any_tags or bool(tags & set(words.any_tags)))
        and (not query.types or str(item.type) in query.types)
        and set(query.tags) <= set(item.tags)
        and query.author in (None, item.author)
        and query.thread in (None, item.thread)
        and (query.after is None or item.created_at >= query.after)
        and (query.before is None or item.created_at < query.before)
    )


async def _with_reasons(
    store: BoardStore, board: str, agent: str, items: list[Item], mode: str, notice: str, seq: int
) -> SearchResult:
    left = await store.why_left(board, agent, [item.number for item in items]) if items else {}
    return SearchResult(tuple(items), mode, notice, left, seq)
