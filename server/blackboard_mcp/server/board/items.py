"""Posting and reading of items, as calls for programs."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, TypedDict

from blackboard_mcp.protocols.board import AgentInfo
from blackboard_mcp.protocols.errors import InvalidInput, UnknownReference
from blackboard_mcp.protocols.filters import Latest
from blackboard_mcp.protocols.items import EdgeKind, ItemType, Status, Visibility
from blackboard_mcp.protocols.late_models import board_wire
from blackboard_mcp.protocols.literals import (
    EdgeName,
    PostTypeName,
    StatusName,
    TypeName,
    VisibilityName,
    ZoneName,
)
from blackboard_mcp.protocols.wire import (
    EventsAnswer,
    ExplainAnswer,
    ItemsAnswer,
    PostAnswer,
    SearchAnswer,
    TransactionAnswer,
    ViewAnswer,
    WireItem,
)
from pydantic import ConfigDict, TypeAdapter

from .calls import Calls, listed, mapped, maps

if TYPE_CHECKING:
    from blackboard_mcp.protocols.board_wire import BoardsAnswer, StatisticsAnswer, WirePanel

PAGE = 200
_READ = 100
_AGENTS = TypeAdapter(list[AgentInfo], config=ConfigDict(defer_build=True))

Edges = Mapping[EdgeName | EdgeKind, Sequence[str]]
"""Ids of items by the kind of edge, such as `{"supports": ["F-1"]}`."""


class Post(TypedDict, total=False):
    """One post of a batch: the arguments of `post` by name. In `edges`, `$1` means the batch's first item."""

    text: str
    type: PostTypeName
    importance: int
    tags: list[str]
    edges: dict[EdgeName, list[str]]
    key: str
    expected_version: int
    id: str
    status: StatusName
    visibility: VisibilityName
    ttl_seconds: float
    metadata: dict[str, Any]
    agree: list[str]
    thread: str


class Query:
    """Items of a query, newest first, as an async iterator that requests page after page.

    Items posted meanwhile are not in later pages. It holds at most one page in memory.
    """

    def __init__(self, ask: Callable[[str | None], Awaitable[ItemsAnswer]]) -> None:
        self._ask = ask
        self._page: deque[WireItem] = deque()
        self._cursor: str | None = None
        self._more = True

    def __aiter__(self) -> Query:
        return self

    async def __anext__(self) -> WireItem:
        while not self._page:
            if not self._more:
                raise StopAsyncIteration
            self._page.extend((await self.page()).items)
        return self._page.popleft()

    async def page(self) -> ItemsAnswer:
        """Returns the next page of the query; after the last page it begins again with the first."""
        answer = await self._ask(self._cursor)
        self._cursor = answer.cursor
        self._more = answer.cursor is not None
        return answer

    async def all(self) -> list[WireItem]:
        """Returns all remaining items as a list."""
        return [item async for item in self]


class Items(Calls):
    """Calls to post, read and search items, entries, views and the archive."""

    async def post(
        self,
        text: str | None = None,
        *,
        type: PostTypeName | ItemType | None = None,
        importance: int | None = None,
        tags: Sequence[str] | None = None,
        edges: Edges | None = None,
        key: str | None = None,
        expected_version: int | None = None,
        id: str | None = None,
        status: StatusName | Status | None = None,
        visibility: VisibilityName | Visibility | None = None,
        ttl_seconds: float | None = None,
        metadata: Mapping[str, Any] | None = None,
        agree: Sequence[str] | None = None,
        thread: str | None = None,
        idempotency_key: str | None = None,
    ) -> WireItem:
        """Posts an item, a version of an entry (`key`), or a change of an item (`id`); returns the item.

        `type` is FACT unless given; `importance` is 1 to 5. `expected_version` 0 means that the entry must not
        exist. Calls with the same `idempotency_key` apply once. `agree` names agents who are asked to agree to
        the item, or `all` who are present, and may contain the number of agreements that suffice; the item's
        `agreement` says who agreed. `thread` names an item of the conversation that a new item joins.

        Raises:
            InvalidInput: an argument is not valid.
            UnknownReference: an edge or id names an item that does not exist.
            Conflict: the entry or item is not at `expected_version` but at `facts["current_version"]`.
            Refused: the board does not accept such a post.
        """
        given: dict[str, Any] = {
            "text": text,
            "type": _word(type),
            "importance": importance,
            "tags": _listed(tags),
            "edges": _edges(edges),
            "key": key,
            "expected_version": expected_version,
            "id": id,
            "status": _word(status),
            "visibility": _word(visibility),
            "ttl_seconds": ttl_seconds,
            "metadata": mapped(metadata),
            "agree": listed(agree),
            "thread": thread,
        }
        answer = await self._call("post", given, PostAnswer, once=idempotency_key)
        return answer.items[0]

    async def post_all(
        self,
        posts: Iterable[Post],
        *,
        type: PostTypeName | ItemType | None = None,
        tags: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        thread: str | None = None,
        idempotency_key: str | None = None,
    ) -> PostAnswer:
        """Posts all of them, at most 100, or none; returns the items in the order of the posts.

        `type`, `tags`, `metadata` and `thread` count for each post that does not give its own. A `thread` of `$1` is
        the conversation that the first post begins.

        Raises:
            InvalidInput, Conflict, Refused: as `post`; nothing was changed.
        """
        batch = [{name: _plain(value) for name, value in post.items()} for post in maps(posts)]
        if not batch:
            raise InvalidInput("post_all takes at least one post. Nothing was changed.")
        shared: dict[str, Any] = {
            "type": _word(type),
            "tags": _listed(tags),
            "metadata": mapped(metadata),
            "thread": thread,
        }
        return await self._call("post", {"items": batch, **shared}, PostAnswer, once=idempotency_key)

    async def delete(
        self,
        key: str | None = None,
        *,
        id: str | None = None,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> WireItem:
        """Deletes an entry by its key or `id`, and returns its tombstone, which is the next version.

        Former versions stay readable. The next post to the key gets the version after the tombstone's.

        Raises:
            UnknownReference: there is no such entry.
            Conflict: it is not at `expected_version`.
            Refused: it is protected, for example by a debate.
        """
        return await self.post(
            key=key,
            id=id,
            status="DELETED",
            expected_version=expected_version,
            idempotency_key=idempotency_key,
        )

    async def clear(
        self, pattern: str, *, expected: int | None = None, idempotency_key: str | None = None
    ) -> tuple[WireItem, ...]:
        """Deletes the agent's own entries under a pattern of keys, and returns the tombstones.

        For stewards it deletes all of them. All go or none. What the guard holds stays. At most 100 go in one call.

        Raises:
            Conflict: `expected` was not given, or another number would go. Nothing was changed; the facts
                `would_delete` and `held` have the keys, and `count` the number to expect.
        """
        write = {"key": pattern, "status": "DELETED", "expected": expected}
        asked = {"writes": [{name: value for name, value in write.items() if value is not None}]}
        done = await self._call("transaction", asked, TransactionAnswer, once=idempotency_key)
        return tuple(done.items)

    async def read(self, ids: Sequence[str] = (), keys: Sequence[str] = ()) -> ItemsAnswer:
        """Returns whole items by id (`H-17`, `H-17@2`) and entries by key, at most 100 of each.

        `missing` of the answer names those that do not exist.
        """
        if not ids and not keys:
            raise InvalidInput("read takes ids or keys; view() is what the agent sees of the board.")
        return await self._call("read", {"ids": _listed(ids), "keys": _listed(keys)}, ItemsAnswer)

    async def get(self, key: str) -> WireItem:
        """Returns the entry at `key`; with `key@2` its version 2.

        Raises:
            UnknownReference: there is none, or it was deleted.
        """
        found = await self.find(key)
        if found is None:
            raise UnknownReference(f"There is no entry '{str(key)[:200]}' on '{self.name}'.", missing=[key])
        return found

    async def find(self, key: str) -> WireItem | None:
        """Returns the entry at `key`, or `None` if there is none or it was deleted."""
        found = await self.read(keys=[key])
        return found.items[0] if found.items else None

    async def item(self, id: str) -> WireItem:
        """Returns the item with that id, in working memory or archived; `H-17@2` is its version 2.

        Raises:
            UnknownReference: there is no such item.
        """
        found = await self.read(ids=[id])
        if not found.items:
            raise UnknownReference(f"There is no item '{str(id)[:40]}' on '{self.name}'.", missing=[id])
        return found.items[0]

    async def versions(self, key: str | None = None, *, id: str | None = None) -> list[WireItem]:
        """Returns every version of an entry or item, oldest first. Pass the `id` of an entry that was deleted.

        Raises:
            InvalidInput: neither or both of key and id are given.
            UnknownReference: there is no such item.
        """
        if (key is None) == (id is None):
            raise InvalidInput(
                'versions takes a key or an id, as in versions("plan:1") or versions(id="F-1").'
            )
        last = await self.get(key) if key is not None else await self.item(id or "")
        found: list[WireItem] = []
        for first in range(1, last.version + 1, _READ):
            wanted = range(first, min(first + _READ, last.version + 1))
            found += (await self.read(ids=[f"{last.id}@{version}" for version in wanted])).items
        return found

    def query(
        self,
        text: str | None = None,
        *,
        type: TypeName | ItemType | None = None,
        key: str | None = None,
        tags: Sequence[str] | None = None,
        any_tags: Sequence[str] | None = None,
        no_tags: Sequence[str] | None = None,
        author: str | None = None,
        status: StatusName | Status | None = None,
        thread: str | None = None,
        zone: ZoneName | None = None,
        after: datetime | None = None,
        before: datetime | None = None,
        latest: Latest | None = None,
        page: int = PAGE,
    ) -> Query:
        """Returns items that match all conditions, newest first: `async for item in board.query(tags=["db"])`.

        `text` means that every word of it occurs in the item. `key` is a glob: `*` matches within a segment,
        `**` across segments. `zone` is `working` (the default), `archive` or `all`. `latest` keeps the newest item
        of each tag (apart from `tags`; with `any_tags` only of these), key, author or thread, in all zones unless
        `zone` is given. `after` and `before` without a time zone are taken as UTC. `page` (1 to 200) is the number of
        items requested at a time.
        """
        given = {
            "text": text,
            "type": _word(type),
            "key": key,
            "tags": _listed(tags),
            "any_tags": _listed(any_tags),
            "no_tags": _listed(no_tags),
            "author": author,
            "status": _word(status),
            "thread": thread,
            "zone": _word(zone),
            "after": _moment(after),
            "before": _moment(before),
            "latest": latest,
            "limit": page,
        }

        async def ask(cursor: str | None) -> ItemsAnswer:
            return await self._call("query", {**given, "cursor": cursor}, ItemsAnswer)

        return Query(ask)

    async def query_archive(
        self,
        text: str | None = None,
        *,
        type: TypeName | ItemType | None = None,
        tags: Sequence[str] | None = None,
        author: str | None = None,
        thread: str | None = None,
        after: datetime | None = None,
        before: datetime | None = None,
        limit: int = 10,
        any_tags: Sequence[str] | None = None,
        no_tags: Sequence[str] | None = None,
        key: str | None = None,
        status: StatusName | Status | None = None,
        zone: ZoneName | None = None,
        neighbours: bool = False,
        restore: bool = False,
    ) -> SearchAnswer:
        """Returns archived items, best match first, by meaning and words; without `text`, newest first.

        With `text`, `live` of the answer are items on the board that hold half of its words, unless `restore`
        or the zone `archive` is asked for. The zone `working` searches the board alone. `limit` is 1 to 100.
        `after` and `before` without a time zone are taken as UTC. `neighbours` adds the items before and after each
        hit in its thread. `restore` brings the hits back to working memory. `mode` of the answer says which kind of
        search found them.
        """
        given = {
            "text": text,
            "type": _word(type),
            "tags": _listed(tags),
            "author": author,
            "thread": thread,
            "after": _moment(after),
            "before": _moment(before),
            "limit": limit,
            "any_tags": _listed(any_tags),
            "no_tags": _listed(no_tags),
            "key": key,
            "status": _word(status),
            "zone": _word(zone),
            "neighbours": neighbours or None,
            "restore": restore or None,
        }
        return await self._call("query_archive", given, SearchAnswer)

    async def view(self, budget: int | None = None) -> ViewAnswer:
        """Returns the board as the agent sees it, as text of at most `budget` tokens (1,500 unless given)."""
        return await self._call("read", {"budget": budget}, ViewAnswer)

    async def explain(self, ids: Sequence[str] = (), keys: Sequence[str] = ()) -> ExplainAnswer:
        """Explains what protects each item, when it would leave, or why it left; at most 20 items in all."""
        given = {"ids": _listed(ids) or None, "keys": _listed(keys) or None, "explain": True}
        return await self._call("read", given, ExplainAnswer)

    async def changes(self, since: int) -> EventsAnswer:
        """Returns at most 200 events after a sequence, without waiting; `cursor` is the place to continue from.

        Raises:
            InvalidInput: `since` is not a number.
            CursorExpired: `since` is not a place of the log.
        """
        if since is None:  # without it the call would read the board
            raise InvalidInput("changes() needs the sequence after which to begin, say board.seq.")
        return await self._call("read", {"since": since}, EventsAnswer)

    async def agents(self) -> list[AgentInfo]:
        """Returns the agents that were ever active on the board, by name."""
        return _AGENTS.validate_python((await self._figures("agents"))["agents"])

    async def panels(self) -> list[WirePanel]:
        """Returns the panels of the board but `working`, as the agent sees them, in the order of its settings.

        An item is in the panel that its first tag names, `panel:NAME`; `query(tags=…)` and filters find it by that.
        """
        panels = (await self._figures("panels"))["panels"]
        return [board_wire.WirePanel.model_validate(panel) for panel in panels]

    async def boards(self) -> BoardsAnswer:
        """Returns the boards that the agent may read; `default` is the one for MCP calls that name no board."""
        return board_wire.BoardsAnswer.model_validate(await self._figures("boards"))

    async def statistics(self) -> StatisticsAnswer:
        """Returns figures of the board, as far as the agent may know them."""
        return board_wire.StatisticsAnswer.model_validate(await self._figures("stats"), extra="ignore")


def _word(value: str | None) -> str | None:
    """Returns the plain string of an enumeration's member, or `None`."""
    return None if value is None else str(value)


def _listed(values: Sequence[str] | None) -> list[Any] | None:
    """Returns the texts as a list, or `None`; the tools refuse a `None` among them.

    Raises:
        InvalidInput: a single text was given, or what is no list.
    """
    texts = listed(values)
    return None if texts is None else [text if text is None else str(text) for text in texts]


def _plain(value: Any) -> Any:
    """Returns the plain string of an enumeration's member; other values are returned unchanged."""
    return str(value) if isinstance(value, str) else value


def _moment(given: datetime | None) -> Any:
    """Returns a time as the tools take it; they refuse what is none."""
    return given.isoformat() if isinstance(given, date) else given  # a datetime is a date as well


def _edges(given: Edges | None) -> dict[str, Any] | None:
    edges = mapped(given)
    return None if edges is None else {str(kind): listed(ids) for kind, ids in edges.items()}
