"""The core tool set: post, read, query, query_archive, subscribe, wait and debate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any

from blackboard_mcp.protocols.answers import Attention, Owed
from blackboard_mcp.protocols.board import Lifecycle
from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.filters import Latest
from blackboard_mcp.protocols.items import MAX_BATCH, Zone
from blackboard_mcp.protocols.keys import MAX_KEY
from blackboard_mcp.protocols.late_models import version_wire, wire
from blackboard_mcp.protocols.literals import ZoneName
from blackboard_mcp.protocols.sightings import Way
from pydantic import Field, WithJsonSchema

from ..access.needs import TOOLS
from ..answers.explanations import wire_explained
from ..answers.remarks import wire_remarks
from ..answers.rendering import FOOTER_TOKENS, Rendering
from ..input import posts as requests
from ..input.agreement import Agree
from ..input.arguments import UNLISTED, Arguments
from ..input.posts import (
    MOST_SECONDS,
    ONE_OR_MORE,
    AnyType,
    Edges,
    ExpectedVersion,
    Hits,
    Id,
    Importance,
    Key,
    Metadata,
    Page,
    PostedType,
    PostFields,
    SequenceNumber,
    StatusName,
    Tags,
    Text,
    Ttl,
    VisibilityName,
)
from ..input.queries import archive_query, item_query
from ..text.lines import one_line
from ..text.tokens import count_lines
from ..usecases.blackboard import VIEW_BUDGET, Blackboard
from ..usecases.following import NewsPage
from ..usecases.page_size import check_fits, fitting_found, fitting_page
from ..usecases.redaction import wire_for
from ..usecases.searching import ids_alone, wire_found
from .debate import DebateTool
from .tool import Answer, Caller, ToolSet

ITEMS_BUDGET = 6_000
MAX_BUDGET = 200_000
EVENTS_PAGE = 50
WAIT_SECONDS = 25.0

KeyRef = Annotated[str, Field(max_length=MAX_KEY + 12)]
"""A key, optionally with a version after it."""
BoardId = Annotated[str, Field(max_length=64)]
Agent = Annotated[str, Field(max_length=64)]
Words = Annotated[str, Field(max_length=2_000)]
Name = Annotated[str, Field(max_length=64)]
Instant = Annotated[str, Field(max_length=40)]
Reason = Annotated[str, Field(max_length=2_000)]
Budget = Annotated[
    int,
    Field(ge=1, le=MAX_BUDGET),
    WithJsonSchema({"type": "integer", "description": "tokens"}),
]
Batch = Annotated[
    list[Annotated[dict[str, Any], Field(max_length=16)]],
    Field(max_length=MAX_BATCH),
]
_AWAITED = 8
"""Most duties of others that are read for a wait that brought nothing."""
_ARCHIVED = 3
"""Archived items that a query shows when it found nothing on the board."""
Cursor = Annotated[str, Field(max_length=20)]
WaitSeconds = Annotated[float, Field(ge=0), WithJsonSchema({"type": "number", "maximum": MOST_SECONDS})]
"""Seconds to wait. More than the maximum counts as the maximum, because another wait costs less than an
error.
"""
EventsPage = Annotated[int, Field(ge=1, le=200, json_schema_extra={UNLISTED: True})]
_OtherStatus = Annotated[StatusName, WithJsonSchema({"type": "string", "maxLength": 11, UNLISTED: True})]
_OTHER = Field(json_schema_extra={UNLISTED: True})
"""Mark for arguments that programs give or another tool also takes; they are left out of the published
schema.
"""
Filter = Annotated[
    dict[str, Any],
    Field(max_length=16, description="key event agent tags type thread mentions; all any not"),
]


class CoreTools:
    """The seven tools that every client gets."""

    def __init__(self, board: Blackboard, rendering: Rendering) -> None:
        self._board = board
        self._say = rendering
        self._batch = Arguments("post.items", PostFields)

    def register(self, tools: ToolSet) -> None:
        """Adds the seven tools."""
        tools.add(
            self.post,
            name="post",
            title="Post to the board",
            description=(
                "CRITIQUE of another's opens debate. key: entry (status DELETED). id: change all but text "
                "(WITHDRAWN RESOLVED)."
            ),
            needs=TOOLS["post"],
            quick=True,
            output=lambda: wire.PostAnswer,
        )
        tools.add(
            self.read,
            name="read",
            title="Read the board",
            description=(
                "Read the shared board: no arguments = your view; ids (H-17, H-17@2) or keys = items whole, "
                "archived too; explain = why they stay or left (alone: the board); since = changes."
            ),
            needs=TOOLS["read"],
            read_only=True,
            quick=True,
            output=lambda: wire.ReadAnswer,
        )
        tools.add(
            self.query,
            name="query",
            title="List items",
            description=(
                "List items with all words of text, newest first (also any_tags, no_tags; "
                'latest="tag": newest item per tag). zone=all: archived too. key: glob, ** crosses segments.'
            ),
            needs=TOOLS["query"],
            read_only=True,
            quick=True,
            output=lambda: wire.ItemsAnswer,
        )
        tools.add(
            self.query_archive,
            name="query_archive",
            title="Search the archive",
            description=(
                "Search the archive by meaning and words, and the board (filters: as query; neighbours). "
                "restore=true brings it back."
            ),
            needs=TOOLS["query_archive"],
            output=lambda: wire.SearchAnswer,
        )
        tools.add(
            self.subscribe,
            name="subscribe",
            title="Follow events",
            description=(
                "Follow events durably: filter → subscription id for wait. unsubscribe=id ends one; no "
                "arguments list yours."
            ),
            needs=TOOLS["subscribe"],
            quick=True,
            output=lambda: wire.SubscribeAnswer,
        )
        tools.add(
            self.wait,
            name="wait",
            title="Wait for news",
            description=(
                "What others did and you were not shown: at once if it concerns you, else once it is quiet (missing "
                "numbers: yours, between others, bookkeeping). since: all after it; subscription: its matches."
            ),
            needs=TOOLS["wait"],
            read_only=True,
            output=lambda: wire.EventsAnswer,
        )
        DebateTool(self._board, self._say).register(tools)

    async def post(
        self,
        caller: Caller,
        text: Text | None = None,
        type: PostedType | None = None,
        importance: Importance | None = None,
        tags: Tags | None = None,
        edges: Edges | None = None,
        key: Key | None = None,
        expected_version: ExpectedVersion | None = None,
        id: Id | None = None,
        status: StatusName | None = None,
        visibility: VisibilityName | None = None,
        ttl_seconds: Ttl | None = None,
        metadata: Metadata | None = None,
        agree: Annotated[Agree, ONE_OR_MORE] | None = None,
        thread: Annotated[Id, _OTHER] | None = None,
        idempotency_key: Annotated[str, Field(min_length=1, max_length=200), _OTHER] | None = None,
        items: Batch | None = None,
        board: BoardId | None = None,
    ) -> Answer:
        """Posts one item from its fields, or several from `items`."""
        # The tool set checked every value before this call, so the model need not.
        single = requests.unchecked(
            text=text,
            type=type,
            importance=importance,
            tags=tags,
            edges=edges,
            key=key,
            expected_version=expected_version,
            id=id,
            status=status,
            visibility=visibility,
            ttl_seconds=ttl_seconds,
            metadata=metadata,
            agree=agree,
            thread=thread,
        )
        if items:
            beside = single.digest_part()
            own = ", ".join(name for name in beside if name in requests.OF_ONE)
            if own:
                raise InvalidInput(
                    f"Each of items has its own text, key, id and expected_version; beside items leave out {own}. "
                    "Other fields beside items count for each of them that does not give its own. Nothing was changed."
                )
            posts = [self._batch_item(n, item, beside) for n, item in enumerate(items, 1)]
        else:
            posts = [single]
        if caller.once_key is not None and idempotency_key not in (None, caller.once_key):
            raise InvalidInput(
                "post has one idempotency_key as its argument and another in _meta. Nothing was changed; give one."
            )
        once_key = idempotency_key if caller.once_key is None else caller.once_key
        posted = await self._board.post(caller.agent, board, posts, once_key)
        wired = wire_for(caller.agent)
        return Answer(
            lambda: self._say.posted(posted, caller.agent, posts),
            lambda: wire.PostAnswer(
                items=[wired(item) for item in posted.items],
                seq=posted.seq,
                repeated=posted.repeated,
                endorsed=[posted.items[place].id for place in posted.endorsed],
                remarks=wire_remarks(posted),
            ),
            shortens=True,
        )

    def _batch_item(self, place: int, item: dict[str, Any], beside: dict[str, Any]) -> PostFields:
        try:
            return requests.with_shared(dict(self._batch.part(item)), beside, place - 1)
        except InvalidInput as error:
            raise InvalidInput(f"Item {place} of items: {error.message}", item=place, **error.facts) from None

    async def read(
        self,
        caller: Caller,
        ids: Annotated[list[Id], Field(max_length=100), ONE_OR_MORE] | None = None,
        keys: Annotated[list[KeyRef], Field(max_length=100), ONE_OR_MORE] | None = None,
        budget: Budget | None = None,
        since: SequenceNumber | None = None,
        explain: bool | None = None,
        board: BoardId | None = None,
    ) -> Answer:
        """Returns the caller's view, whole items (`ids`, `keys`), changes (`since`), or explanations
        (`explain`).
        """
        agent = caller.agent
        if explain:
            if since is not None or budget is not None:
                raise InvalidInput("explain goes with ids or keys alone, without since and budget.")
            explained = await self._board.explain(agent, board, ids or [], keys or [])
            return Answer(
                lambda: self._say.explained(explained), lambda: wire_explained(explained, self._say.now())
            )
        if since is not None:
            if ids or keys:
                raise InvalidInput("read takes since, or ids and keys, not both.")
            news = await self._board.following.changes_since(agent, board, since, 200)
            return self._news(caller, news, budget or VIEW_BUDGET, Way.READ)
        if ids or keys:
            reading = await self._board.read(agent, board, ids or [], keys or [])
            found = reading.found
            if caller.takes_messages:
                check_fits(found.items)
            text, told = "", [item.number for item in found.items]
            if caller.reads_text:
                text, read = self._by(reading.board).reading(reading, budget or ITEMS_BUDGET)
                told = told if caller.structured else read
            attention = self._board.looks.told(
                reading.board, agent, found.seq, found.attention, told, Way.READ
            )
            return Answer(
                lambda: self._say.with_footer(text, found.seq, attention),
                lambda: wire.ItemsAnswer(
                    items=[wire.wire_item(item) for item in found.items],
                    seq=found.seq,
                    missing=list(found.missing),
                    versions=[version_wire.wire_versions(listed) for listed in reading.versions],
                ),
            )
        reserve = FOOTER_TOKENS if caller.reads_text else 0
        most = budget or VIEW_BUDGET
        view, snapshot = await self._board.view(agent, board, most, reserve=reserve)
        attention = self._board.looks.viewed(snapshot, agent, view)
        await self._board.rules.saw(snapshot.board.id, agent, snapshot.rules)
        footed = view.text
        if caller.reads_text:
            footed = self._say.with_footer(footed, snapshot.board.seq, attention)

        def tokens(text: str) -> int:
            return count_lines(text.split("\n"), self._board.tokenizers.on(snapshot.board.id))

        text = self._say.view(footed, view.at, lambda: most - tokens(footed))
        return Answer(
            text,
            lambda: wire.ViewAnswer(
                view=text,
                tokens=tokens(text),
                seq=snapshot.board.seq,
                shown=list(view.shown),
                stubs=list(view.stubs),
                hidden=view.hidden,
            ),
        )

    async def query(
        self,
        caller: Caller,
        text: Words | None = None,
        type: AnyType | None = None,
        key: Annotated[str, Field(max_length=MAX_KEY)] | None = None,
        tags: Tags | None = None,
        author: Agent | None = None,
        status: StatusName | None = None,
        thread: Id | None = None,
        zone: ZoneName | None = None,
        limit: Page | None = None,
        cursor: Cursor | None = None,
        any_tags: Annotated[Tags, _OTHER] | None = None,
        no_tags: Annotated[Tags, _OTHER] | None = None,
        after: Instant | None = None,
        before: Instant | None = None,
        latest: Annotated[Latest, _OTHER] | None = None,
        board: BoardId | None = None,
    ) -> Answer:
        """Lists items that match all given arguments; with `latest`, those that are the newest of a group."""
        wanted = item_query(
            text=text,
            type=type,
            key=key,
            tags=tags,
            author=author,
            status=status,
            thread=thread,
            zone=zone,
            limit=limit,
            cursor=cursor,
            any_tags=any_tags,
            no_tags=no_tags,
            after=after,
            before=before,
            latest=latest,
        )
        page = await self._board.query(caller.agent, board, wanted)
        archived = None
        if not (page.items or wanted.cursor or caller.structured) and wanted.zone is Zone.WORKING:
            there = replace(wanted, zone=Zone.ARCHIVE, limit=_ARCHIVED)
            archived = await self._board.query(caller.agent, board, there)
        if caller.takes_messages:
            page = fitting_page(page)
        return Answer(
            lambda: self._say.page(page, archived, ids_alone(text or ""), wanted),
            lambda: wire.ItemsAnswer(
                items=[wire.wire_item(item) for item in page.items],
                cursor=None if page.cursor is None else str(page.cursor),
                seq=page.seq,
            ),
        )

    async def query_archive(
        self,
        caller: Caller,
        text: Words | None = None,
        type: AnyType | None = None,
        tags: Annotated[Tags, _OTHER] | None = None,
        author: Annotated[Agent, _OTHER] | None = None,
        after: Annotated[Instant, _OTHER] | None = None,
        before: Annotated[Instant, _OTHER] | None = None,
        limit: Hits | None = None,
        restore: bool = False,
        thread: Annotated[Id, _OTHER] | None = None,
        neighbours: Annotated[bool, _OTHER] = False,
        any_tags: Annotated[Tags, _OTHER] | None = None,
        no_tags: Annotated[Tags, _OTHER] | None = None,
        key: Annotated[str, Field(max_length=MAX_KEY), _OTHER] | None = None,
        status: _OtherStatus | None = None,
        zone: Annotated[ZoneName, _OTHER] | None = None,
        board: BoardId | None = None,
    ) -> Answer:
        """Searches the archive, and with `restore` moves the found items back to working memory."""
        query, words = archive_query(
            text=text,
            type=type,
            tags=tags,
            author=author,
            after=after,
            before=before,
            limit=limit,
            thread=thread,
            any_tags=any_tags,
            no_tags=no_tags,
            key=key,
            status=status,
            zone=zone,
        )
        found, waiting, seq = await self._board.search(
            caller.agent,
            board,
            query,
            words,
            restore=restore,
            neighbours=neighbours,
            once_key=caller.once_key if restore else None,
        )
        if caller.takes_messages and not restore:
            found = fitting_found(found)
        return Answer(
            lambda: self._say.found(found, waiting, seq, restored=restore),
            lambda: wire_found(
                found, seq, {number: self._say.why(event) for number, event in found.left.items()}
            ),
            shortens=restore,
        )

    async def subscribe(
        self,
        caller: Caller,
        filter: Filter | None = None,
        name: Name | None = None,
        unsubscribe: Annotated[str, Field(max_length=64)] | None = None,
        board: BoardId | None = None,
    ) -> Answer:
        """Makes or ends a subscription; without arguments it lists the caller's."""
        agent = caller.agent
        if unsubscribe is not None:
            if filter is not None or name is not None:
                raise InvalidInput("subscribe takes unsubscribe alone. Nothing was changed.")
            await self._board.following.unsubscribe(agent, board, unsubscribe, once_key=caller.once_key)
            held, seq = await self._board.following.subscriptions(agent, board)
            left = sum(s.expired_at is None for s in held)
            text = f"ended {one_line(unsubscribe)}; {left} left"
            return Answer(
                lambda: self._say.with_footer(text, seq),
                lambda: wire.wire_subscriptions(held, seq, ended=unsubscribe),
            )
        if filter is None and name is None:
            held, seq = await self._board.following.subscriptions(agent, board)
            return Answer(
                lambda: self._say.subscriptions(held, seq), lambda: wire.wire_subscriptions(held, seq)
            )
        if name is not None:
            requests.check_text(name)
        new, seq = await self._board.following.subscribe(
            agent, board, filter or {}, name, once_key=caller.once_key
        )
        return Answer(lambda: self._say.subscribed(new), lambda: wire.wire_subscription(new, seq))

    async def wait(
        self,
        caller: Caller,
        subscription: Annotated[str, Field(max_length=64)] | None = None,
        since: SequenceNumber | None = None,
        seconds: WaitSeconds | None = None,
        limit: EventsPage | None = None,
        board: BoardId | None = None,
    ) -> Answer:
        """Waits for news and returns the events."""
        news = await self._board.following.wait(
            caller.agent,
            board,
            subscription=subscription,
            since=since,
            seconds=WAIT_SECONDS if seconds is None else min(seconds, MOST_SECONDS),
            limit=limit or EVENTS_PAGE,
            report=caller.report,
        )
        shortened = seconds is not None and seconds > MOST_SECONDS
        others: Mapping[str, datetime] | None = None
        awaited: Sequence[tuple[str, Owed]] = ()
        stands = Lifecycle.OPEN
        if caller.reads_text and not news.events and seconds != 0:
            found = await self._board.store.find_board(news.board)
            if found is not None and found.lifecycle is not Lifecycle.OPEN:
                stands = found.lifecycle  # nobody there does what is waited for
            else:
                others = await self._board.others_here(news.board, caller.agent)
                awaited = await self._board.store.awaited(news.board, caller.agent, _AWAITED)
        return self._news(
            caller,
            news,
            VIEW_BUDGET,
            Way.WAIT,
            shortened=shortened,
            others=others,
            awaited=awaited,
            stands=stands,
        )

    def _by(self, board: str) -> Rendering:
        return self._say.by(self._board.tokenizers.on(board))

    def _news(
        self,
        caller: Caller,
        news: NewsPage,
        budget: int,
        way: Way,
        *,
        shortened: bool = False,
        others: Mapping[str, datetime] | None = None,
        awaited: Sequence[tuple[str, Owed]] = (),
        stands: Lifecycle = Lifecycle.OPEN,
    ) -> Answer:
        """Returns events as text and as a structured answer, and records that the caller was shown them."""

        def told(shown: list[int]) -> Attention:
            if caller.structured:
                shown = [event.seq for event in news.events]
            self._board.looks.read(news.board, caller.agent, news.events, shown, way)
            return self._board.looks.delivered(news.board, caller.agent, news.seq, news.attention, shown)

        if caller.reads_text:
            text = self._by(news.board).news(news, caller.agent, budget, told, others, awaited, stands)
            if shortened:
                text = f"a wait is {MOST_SECONDS} seconds at most; to go on, wait again\n{text}"
        else:
            text, _ = "", told([event.seq for event in news.events])
        return Answer(
            text,
            lambda: wire.EventsAnswer(
                events=[wire.wire_event(e) for e in news.events],
                cursor=news.cursor,
                seq=news.seq,
                subscription=None if news.subscription is None else news.subscription.id,
            ),
        )
