"""The tools as a program in the same process calls them: checked arguments in, wire models out, no text.

Each method takes what the tool of its name takes over MCP, and answers what that answers as structured
content.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from blackboard_mcp.protocols.access import EVERY_BOARD, Principal, Role
from blackboard_mcp.protocols.answers import (
    DebateView,
)
from blackboard_mcp.protocols.board import BoardChange, Lifecycle
from blackboard_mcp.protocols.errors import BlackboardError, InvalidInput
from blackboard_mcp.protocols.grants import under
from blackboard_mcp.protocols.items import MAX_BATCH, Item, parse_ref
from blackboard_mcp.protocols.keys import MAX_KEY
from blackboard_mcp.protocols.topics import MAX_TOPIC, is_topic
from blackboard_mcp.protocols.transactions import MAX_READS
from blackboard_mcp.protocols.version_wire import wire_versions
from blackboard_mcp.protocols.wire import (
    BoardAnswer,
    CoreAnswer,
    DebateAnswer,
    EventsAnswer,
    ExplainAnswer,
    ItemsAnswer,
    PostAnswer,
    PruneAnswer,
    SearchAnswer,
    SubscriptionAnswer,
    SubscriptionsAnswer,
    TransactionAnswer,
    ViewAnswer,
    WatchesAnswer,
    wire_debate,
    wire_event,
    wire_item,
    wire_subscription,
)
from pydantic import BaseModel, Field

from ..access.acting import acting, as_member
from ..access.needs import TOOLS
from ..answers.assurance import unassured
from ..answers.explanations import wire_explained
from ..answers.remarks import wire_remarks
from ..answers.rendering import Rendering
from ..answers.transactions import wire_committed
from ..compose import Installation
from ..input.agreement import Agree
from ..input.arguments import Arguments
from ..input.debates import DebateOp, OutcomeName
from ..input.posts import (
    AnyType,
    Edges,
    ExpectedVersion,
    Hits,
    Id,
    Importance,
    Key,
    Metadata,
    Page,
    PostFields,
    PostType,
    Seconds,
    Sequence,
    StatusName,
    Tags,
    Text,
    Ttl,
    VisibilityName,
    WriteFields,
    check_text,
)
from ..input.queries import archive_query, item_query
from ..text.debates import awaited, what_closes
from ..usecases.blackboard import VIEW_BUDGET
from ..usecases.following import News
from ..usecases.searching import wire_found
from ..usecases.stewardship import (
    MAX_CONSTRAINTS,
    MAX_FLAGS,
    MAX_MEMBERS_CHANGED,
    Stewardship,
    wire_board,
    wire_core,
    wire_pruned,
)
from ..usecases.transactions import DebateFields, Transactions, checked, read_of
from .caller import By
from .local_asking import LocalAsking
from .local_groups import Handles, LocalGroups

Words = Annotated[str, Field(max_length=2_000)]
Name = Annotated[str, Field(max_length=64)]
Instant = Annotated[str, Field(max_length=40)]
Members = Annotated[
    dict[Name, Role | None],
    Field(max_length=MAX_MEMBERS_CHANGED),
]
ZoneName = Literal["working", "archive", "all"]
Line = Annotated[str, Field(min_length=1, max_length=2_000)]
Batch = Annotated[list[Annotated[dict[str, Any], Field(max_length=16)]], Field(max_length=MAX_BATCH)]
_EVENTS = 200
_WAIT = 25.0


def of_this_process(agent: str) -> Principal:
    """The principal of an agent in the process: it reaches every board, as far as the members' roles let it."""
    return Principal(agent, agent, {EVERY_BOARD: Role.ADMIN})


class LocalTools:
    """The tools over an open installation, for any agent and board."""

    def __init__(self, opened: Installation) -> None:
        self._board = opened.blackboard
        asking = LocalAsking(opened)
        self._of: dict[str, object] = {
            "consume": LocalGroups(opened),
            "request": asking,
            "respond": asking,
        }
        self._steward = Stewardship(opened.blackboard)
        self._say = Rendering(opened.blackboard.tokenizers.launched, opened.clock)
        self._transactions = Transactions(opened.blackboard)
        self._batch = Arguments("post.items", PostFields)
        self._write = Arguments("transaction.writes", WriteFields)
        self._debated = Arguments("transaction.debates", DebateFields)
        self._tools: dict[str, tuple[Arguments, Callable[..., Awaitable[BaseModel]]]] = {}

    async def call(self, tool: str, caller: By, arguments: dict[str, Any]) -> BaseModel:
        """What the tool answers.

        Raises:
            InvalidInput: arguments that the tool does not take; nothing was changed.
        """
        if tool not in self._tools:
            function = getattr(self._of.get(tool, self), tool)
            self._tools[tool] = (Arguments(tool, function), function)
        checked, function = self._tools[tool]
        try:
            return await self._checked(tool, caller, checked.check(arguments), function)
        except BlackboardError as error:
            if TOOLS[tool].only_reads(arguments):
                unassured(error)
            raise

    async def _checked(
        self, tool: str, caller: By, given: dict[str, Any], function: Callable[..., Awaitable[BaseModel]]
    ) -> BaseModel:
        principal = of_this_process(caller.agent)
        grant = await self._board.rights.enter(principal, TOOLS[tool].of(given), caller.board)
        with acting(as_member(principal, grant)), under(grant):
            return await function(caller, **given)

    async def post(
        self,
        caller: By,
        text: Text | None = None,
        type: PostType | None = None,
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
        agree: Agree | None = None,
        items: Batch | None = None,
    ) -> PostAnswer:
        if items:
            posts = [self._post_fields(place, item) for place, item in enumerate(items, 1)]
        else:
            single = PostFields.model_construct(
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
            )
            posts = [single]
        posted = await self._board.post(caller.agent, caller.board, posts, caller.once)
        return PostAnswer(
            items=[wire_item(item) for item in posted.items],
            seq=posted.seq,
            repeated=posted.repeated,
            endorsed=[posted.items[place].id for place in posted.endorsed],
            remarks=wire_remarks(posted),
        )

    def _post_fields(self, place: int, item: dict[str, Any]) -> PostFields:
        try:
            return PostFields.model_construct(**self._batch.check(item))
        except InvalidInput as error:
            raise InvalidInput(f"Item {place} of items: {error.message}", item=place, **error.facts) from None

    async def read(
        self,
        caller: By,
        ids: Annotated[list[Id], Field(max_length=100)] | None = None,
        keys: Annotated[list[Key], Field(max_length=100)] | None = None,
        budget: Annotated[int, Field(ge=1, le=200_000)] | None = None,
        since: Sequence | None = None,
        explain: bool | None = None,
    ) -> ViewAnswer | ItemsAnswer | EventsAnswer | ExplainAnswer:
        agent, board = caller.agent, caller.board
        if explain:
            explained = await self._board.explain(agent, board, ids or [], keys or [])
            return wire_explained(explained, self._say.now())
        if since is not None:
            news = await self._board.following.changes_since(agent, board, since, _EVENTS)
            return self._news(agent, news)
        if ids or keys:
            reading = await self._board.read(agent, board, ids or [], keys or [])
            found = reading.found
            shown = [item.number for item in found.items]
            self._board.looks.told(board, agent, found.seq, found.attention, shown)
            items = [wire_item(item) for item in found.items]
            versions = [wire_versions(listed) for listed in reading.versions]
            return ItemsAnswer(items=items, seq=found.seq, missing=list(found.missing), versions=versions)
        view, snapshot = await self._board.view(agent, board, budget or VIEW_BUDGET)
        self._board.looks.viewed(snapshot, agent, view)
        return ViewAnswer(
            view=view.text,
            tokens=view.tokens,
            seq=snapshot.board.seq,
            shown=list(view.shown),
            stubs=list(view.stubs),
            hidden=view.hidden,
        )

    async def query(
        self,
        caller: By,
        text: Words | None = None,
        type: AnyType | None = None,
        key: Annotated[str, Field(max_length=MAX_KEY)] | None = None,
        tags: Tags | None = None,
        author: Name | None = None,
        status: StatusName | None = None,
        thread: Id | None = None,
        zone: ZoneName | None = None,
        limit: Page | None = None,
        cursor: Annotated[str, Field(max_length=20)] | None = None,
        any_tags: Tags | None = None,
        no_tags: Tags | None = None,
        after: Instant | None = None,
        before: Instant | None = None,
    ) -> ItemsAnswer:
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
        )
        page = await self._board.query(caller.agent, caller.board, wanted)
        return ItemsAnswer(
            items=[wire_item(item) for item in page.items],
            cursor=None if page.cursor is None else str(page.cursor),
            seq=page.seq,
        )

    async def query_archive(
        self,
        caller: By,
        text: Words | None = None,
        type: AnyType | None = None,
        tags: Tags | None = None,
        author: Name | None = None,
        after: Instant | None = None,
        before: Instant | None = None,
        limit: Hits | None = None,
        restore: bool = False,
        thread: Id | None = None,
        neighbours: bool = False,
    ) -> SearchAnswer:
        query, words = archive_query(
            text=text,
            type=type,
            tags=tags,
            author=author,
            after=after,
            before=before,
            limit=limit,
            thread=thread,
        )
        found, _, seq = await self._board.search(
            caller.agent,
            caller.board,
            query,
            words,
            restore=restore,
            neighbours=neighbours,
            once_key=caller.once if restore else None,
        )
        return wire_found(found, seq, {number: self._say.why(event) for number, event in found.left.items()})

    async def subscribe(
        self,
        caller: By,
        filter: Annotated[dict[str, Any], Field(max_length=16)] | None = None,
        name: Name | None = None,
        unsubscribe: Name | None = None,
    ) -> SubscriptionAnswer | SubscriptionsAnswer:
        following, agent, board = self._board.following, caller.agent, caller.board
        if unsubscribe is not None:
            await following.unsubscribe(agent, board, unsubscribe, once_key=caller.once)
        elif filter is not None or name is not None:
            check_text(name or "")
            new, seq = await following.subscribe(agent, board, filter or {}, name, once_key=caller.once)
            return wire_subscription(new, seq)
        held, seq = await following.subscriptions(agent, board)
        listed = [wire_subscription(one, seq) for one in held]
        return SubscriptionsAnswer(subscriptions=listed, seq=seq, ended=unsubscribe)

    async def wait(
        self,
        caller: By,
        subscription: Name | None = None,
        since: Sequence | None = None,
        seconds: Seconds | None = None,
        limit: Page | None = None,
    ) -> EventsAnswer:
        news = await self._board.following.wait(
            caller.agent,
            caller.board,
            subscription=subscription,
            since=since,
            seconds=_WAIT if seconds is None else seconds,
            limit=limit or 50,
        )
        return self._news(caller.agent, news)

    def _news(self, agent: str, news: News) -> EventsAnswer:
        events = [event.seq for event in news.events]
        self._board.looks.delivered(news.board, agent, news.seq, news.attention, events)
        return EventsAnswer(
            events=[wire_event(event) for event in news.events],
            cursor=news.cursor,
            seq=news.seq,
            subscription=None if news.subscription is None else news.subscription.id,
        )

    async def debate(
        self,
        caller: By,
        op: DebateOp,
        id: Annotated[str, Field(max_length=MAX_TOPIC)],
        reason: Annotated[str, Field(max_length=2_000)] = "",
        watchers: Annotated[list[Name], Field(max_length=32)] | None = None,
        approve: bool | None = None,
        outcome: OutcomeName | None = None,
        to: Annotated[str, Field(max_length=40)] | None = None,
    ) -> DebateAnswer | WatchesAnswer:
        check_text(reason)
        agent, board = caller.agent, caller.board
        if is_topic(id) and op in ("watch", "unwatch", "status") and not watchers and approve is None:
            held, seq, _ = await self._board.watch_topic(agent, board, op, id, once_key=caller.once)
            return WatchesAnswer(watches=[watch.topic for watch in held], seq=seq)
        name, state = await self._board.debate(
            agent,
            board,
            op,
            id,
            reason=reason,
            watchers=watchers or (),
            approve=approve,
            outcome=outcome,
            to=to,
            once_key=caller.once,
        )
        if isinstance(state, Item):
            _, seq = await self._board.attention(agent, name)
            return DebateAnswer(item=state.id, state=None, seq=seq)
        seen = await self._board.last_seen(name, awaited(state)) if op == "status" else None
        return _debated(id, state, seen)

    async def core(
        self,
        caller: By,
        objective: Annotated[str, Field(max_length=20_000)] | None = None,
        constraints: Annotated[list[Line], Field(max_length=MAX_CONSTRAINTS)] | None = None,
        flags: Annotated[
            dict[Annotated[str, Field(min_length=1, max_length=100)], bool], Field(max_length=MAX_FLAGS)
        ]
        | None = None,
        expected_version: ExpectedVersion = 0,
    ) -> CoreAnswer:
        if objective is None and constraints is None and flags is None:
            return wire_core(*await self._steward.core(caller.agent, caller.board))
        core, seq = await self._steward.set_core(
            caller.agent,
            caller.board,
            expected_version,
            objective=objective,
            constraints=constraints,
            flags=flags,
            once_key=caller.once,
        )
        return wire_core(core, seq)

    async def board(
        self,
        caller: By,
        title: Annotated[str, Field(min_length=1, max_length=200)] | None = None,
        parent: Name | None = None,
        lifecycle: Literal["open", "settled", "closed"] | None = None,
        settings: Annotated[dict[str, Any], Field(max_length=16)] | None = None,
        members: Members | None = None,
    ) -> BoardAnswer:
        check_text(title or "")
        change = BoardChange(
            title=title,
            parent=parent,
            lifecycle=None if lifecycle is None else Lifecycle(lifecycle),
            settings=settings or {},
            members=members or {},
        )
        state = await self._steward.change_board(caller.agent, caller.board, change, once_key=caller.once)
        return wire_board(state, await self._steward.members(state.id), self._steward.access(state))

    async def prune(self, caller: By, dry_run: bool = False) -> PruneAnswer:
        outcomes = await self._steward.prune(caller.agent, caller.board, dry_run=dry_run)
        return wire_pruned(outcomes, dry_run)

    async def transaction(
        self,
        caller: By,
        reads: Annotated[
            dict[Annotated[str, Field(max_length=MAX_KEY + 1)], Any], Field(max_length=MAX_READS)
        ]
        | None = None,
        writes: Batch | None = None,
        debates: Batch | None = None,
        group: Name | None = None,
        ack: Handles | None = None,
    ) -> TransactionAnswer:
        done = await self._transactions.transact(
            caller.agent,
            caller.board,
            {name: read_of(name, given) for name, given in (reads or {}).items()},
            [
                WriteFields.model_construct(**checked(self._write, "Write", place, given))
                for place, given in enumerate(writes or (), 1)
            ],
            [
                DebateFields.model_construct(**checked(self._debated, "Debate", place, given))
                for place, given in enumerate(debates or (), 1)
            ],
            caller.once,
            group=group,
            ack=ack or (),
        )
        return wire_committed(done, ack)


def _debated(id_: str, state: DebateView, seen: Mapping[str, datetime] | None) -> DebateAnswer:
    number = parse_ref(id_).number
    item = state.items[number].id if number in state.items else id_
    return wire_debate(
        *(item, state.debate, state.items, state.seq),
        tally=state.tally,
        closes=what_closes(state),
        last_seen=seen,
    )
