"""The use cases: what an agent can do on a board, whatever it is connected by.

Every method takes the agent's authenticated name and a board id. Nothing here knows MCP, HTTP or SQL.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from blackboard_mcp.protocols.archive import ArchiveQuery
from blackboard_mcp.protocols.board import Board, BoardConfig
from blackboard_mcp.protocols.debates import StandingWatch
from blackboard_mcp.protocols.errors import InvalidInput, UnknownReference
from blackboard_mcp.protocols.events import Event
from blackboard_mcp.protocols.explain import Explained
from blackboard_mcp.protocols.filters import EventFilter, ItemQuery, parse_event_filter
from blackboard_mcp.protocols.guard import Protection
from blackboard_mcp.protocols.items import Draft, Item, Ref, Zone, parse_ref
from blackboard_mcp.protocols.keys import parse_key
from blackboard_mcp.protocols.store import (
    Attention,
    BoardStore,
    DebateView,
    Once,
    Posted,
    Snapshot,
    Subscription,
)
from blackboard_mcp.protocols.store import (
    Found as FoundItems,
)
from blackboard_mcp.protocols.store import (
    Page as ItemPage,
)
from blackboard_mcp.protocols.tokens import Tokenizer
from blackboard_mcp.protocols.topics import is_topic, parse_topic

from .activity import Activity
from .pruner import Pruner
from .requests import PostFields, check_agent, check_board, digest, draft
from .searching import ArchiveSearch, Found, search, with_neighbours
from .views import View, render_view

VIEW_BUDGET = 1_500
NAMED_IN_FOOTER = 3
"""How many ids a footer names."""
_SCAN = 500
_END = 1 << 62
"""A sequence that no log reaches."""
_COUNTED_INLINE = 20_000
_REPORT_EVERY = 5.0
MAX_EXPLAINED = 20
_LOOKS = 10_000

Report = Callable[[float, float | None, str | None], Awaitable[None]]
DebateOp = Literal["open", "acknowledge", "vote", "withdraw", "decide", "status", "watch", "unwatch"]
_BY_TOPIC = ("watch", "unwatch", "status")


@dataclass(frozen=True, slots=True)
class News:
    """Events that were waited for, in order; `cursor` is where to go on."""

    events: tuple[Event, ...]
    cursor: int
    seq: int
    subscription: Subscription | None
    items: dict[int, Item] = field(default_factory=dict)
    """Present items that the events are about, where the agent may see them."""
    attention: Attention = field(default_factory=Attention)


@dataclass(frozen=True, slots=True)
class Reading:
    """Items read, with what the guard holds of them and why archived ones left."""

    found: FoundItems
    protected: dict[int, Protection]
    left: dict[int, Event]


class Blackboard:
    """Boards in a store, kept inside their budgets, searchable when pruned.

    `deciders` are the agents that may decide debates; with none named, whoever is no party to one may.
    """

    def __init__(
        self,
        store: BoardStore,
        *,
        tokenizer: Tokenizer,
        pruner: Pruner,
        archive: ArchiveSearch,
        activity: Activity,
        config: BoardConfig,
        default_board: str,
        deciders: Sequence[str] = (),
        summarizes: bool = False,
    ) -> None:
        self.store = store
        self.tokenizer = tokenizer
        self.pruner = pruner
        self.archive = archive
        self.activity = activity
        self.config = config
        self.default_board = check_board(default_board)
        self.deciders = tuple(deciders)
        self._summarizes = summarizes
        self._looks: dict[tuple[str, str], int] = {}
        self._owners: dict[str, str] = {}

    async def introduce(self, agent: str, owner: str) -> None:
        """Records whom the agent acts for, once for as long as it says the same.

        Raises:
            InvalidInput: not a name.
        """
        if self._owners.get(agent) == owner:
            return
        await self.store.set_owner(check_agent(agent), check_agent(owner))
        if len(self._owners) >= _LOOKS:
            self._owners.pop(next(iter(self._owners)))
        self._owners[agent] = owner

    # Where the agent looked last: it only serves the footer, and may be forgotten.

    def _look(self, board: str, agent: str) -> int:
        return self._looks.get((board, agent), 0)

    def saw(self, board: str, agent: str, seq: int) -> None:
        """The agent has been shown the board up to `seq`."""
        if len(self._looks) >= _LOOKS and (board, agent) not in self._looks:
            self._looks.pop(next(iter(self._looks)))
        self._looks[board, agent] = max(seq, self._looks.get((board, agent), 0))

    def _noticed(self, board: str, agent: str, seq: int, attention: Attention) -> None:
        """The agent has been told in a footer what is new; where that named all of it, it is news no more."""
        if len(attention.ids) <= NAMED_IN_FOOTER:
            self.saw(board, agent, seq)

    async def board_of(self, board: str | None, agent: str) -> str:
        """The board a call is about; the default board comes into being when it is first named.

        Raises:
            InvalidInput: not a board id.
            UnknownReference: no such board.
        """
        name = check_board(board) if board is not None else self.default_board
        if await self.store.find_board(name) is None:
            if name != self.default_board:
                raise UnknownReference(
                    f"There is no board '{name}'. Nothing was changed; post(board='{name}', …) creates it, "
                    f"the default board is '{self.default_board}'.",
                    board=name,
                )
            await self.store.ensure_board(name, agent, self.config)
        self.activity.seen(name, agent)
        return name

    # Posting

    async def post(
        self, agent: str, board: str | None, posts: Sequence[PostFields], idempotency_key: str | None = None
    ) -> Posted:
        """All of the posts or none."""
        check_agent(agent)
        name = check_board(board) if board is not None else self.default_board
        drafts = await self._drafts(posts)
        once = None if idempotency_key is None else Once(idempotency_key, digest(list(posts)))
        try:
            posted = await self.store.post(
                name, agent, drafts, config=self.config, once=once, look=self._look(name, agent)
            )
        except UnknownReference as error:
            raise _as_asked(error, posts) from None
        self.activity.seen(name, agent)
        self._noticed(name, agent, posted.seq, posted.attention)
        for fields in posts:
            if fields.ttl_seconds is not None:
                self.pruner.expect(fields.ttl_seconds)
        if posted.board.pass_due:
            self.pruner.kick(name)
        return posted

    async def _drafts(self, posts: Sequence[PostFields]) -> list[Draft]:
        """Checked and counted; long texts in a worker thread, so that nobody else waits for the count."""

        def check() -> list[Draft]:
            return [draft(fields, self.tokenizer, place) for place, fields in enumerate(posts)]

        if sum(len(fields.text or "") for fields in posts) > _COUNTED_INLINE:
            return await asyncio.to_thread(check)
        return check()

    async def debate(
        self,
        agent: str,
        board: str | None,
        op: DebateOp,
        id_: str,
        *,
        reason: str = "",
        watchers: Sequence[str] = (),
        approve: bool | None = None,
    ) -> tuple[str, DebateView | Item]:
        """Does `op` and answers with the board and the debate as it stands then."""
        for argument, given, goes_with in (
            ("watchers", bool(watchers), "open"),
            ("approve", approve is not None, "vote"),
        ):
            if given and op != goes_with:
                raise InvalidInput(
                    f'{argument} goes with op="{goes_with}"; with op="{op}" leave it out. Nothing was changed.'
                )
        if is_topic(id_):
            raise InvalidInput(
                f'op="{op}" takes the id of an item, say H-17; topics go with {", ".join(_BY_TOPIC)}. Nothing was '
                "changed."
            )
        ref = parse_ref(id_)
        number = ref.number
        name = await self.board_of(board, agent)
        check_agent(agent)
        match op:
            case "open":
                await self.store.debate_open(name, agent, number, [check_agent(w) for w in watchers])
            case "watch":
                await self.store.debate_watch(name, agent, number)
            case "unwatch":
                await self.store.debate_unwatch(name, agent, number)
            case "vote":
                await self.store.debate_vote(
                    name, agent, number, approve=approve is not False, reason=reason, version=ref.version
                )
            case "acknowledge":
                await self.store.debate_acknowledge(name, agent, number, version=ref.version)
            case "withdraw":
                await self.store.debate_withdraw(name, agent, number, reason)
            case "decide":
                if not reason.strip():
                    raise InvalidInput("A decision needs a reason. Nothing was changed.")
                await self.store.debate_decide(
                    name, agent, number, reason, self.deciders, version=ref.version
                )
            case "status":
                pass
        if op != "status":
            await self._prune_if_due(name)
        state = await self.store.debate_status(name, agent, number, look=self._look(name, agent))
        if isinstance(state, DebateView):
            self._noticed(name, agent, state.seq, state.attention)
        return name, state

    async def watch_topic(
        self, agent: str, board: str | None, op: DebateOp, topic: str
    ) -> tuple[list[StandingWatch], int, Attention]:
        """Begins or ends a standing watch, or does neither; what the agent watches by topic then."""
        named = parse_topic(topic)
        name = await self.board_of(board, agent)
        check_agent(agent)
        if op == "watch":
            await self.store.watch_topic(name, agent, named)
        elif op == "unwatch":
            await self.store.unwatch_topic(name, agent, named)
        held = await self.store.watches(name, agent)
        attention, seq = await self.attention(agent, name)
        return held, seq, attention

    async def attention(self, agent: str, board: str) -> tuple[Attention, int]:
        """What waits for the agent on an existing board, and the board's sequence; it has been told then."""
        log = await self.store.log(board, agent, _END, 1, look=self._look(board, agent))
        self._noticed(board, agent, log.seq, log.attention)
        return log.attention, log.seq

    async def _prune_if_due(self, board: str) -> None:
        found = await self.store.find_board(board)
        if found is not None and found.pass_due:
            self.pruner.kick(board)

    # Reading

    async def view(
        self, agent: str, board: str | None, budget: int = VIEW_BUDGET, *, reserve: int = 0
    ) -> tuple[View, Snapshot]:
        """The board as one agent sees it within a budget of tokens, of which `reserve` stay free."""
        name = await self.board_of(board, agent)
        snapshot = await self.store.snapshot(name, agent, look=self._look(name, agent))
        if not self._summarizes:
            snapshot = replace(snapshot, summaries=())
        view = render_view(snapshot, agent=agent, budget=budget, reserve=reserve, tokenizer=self.tokenizer)
        return view, snapshot

    async def read(self, agent: str, board: str | None, ids: Sequence[str], keys: Sequence[str]) -> Reading:
        name = await self.board_of(board, agent)
        asked: dict[str, str] = {}
        refs: list[Ref] = []
        unread: list[str] = []
        for id_ in ids:
            refs.append(parse_ref(id_))
            asked[_plain(refs[-1])] = id_
        plain: list[str] = []
        for text in keys:
            key, version = parse_key(text)
            if version is None:
                plain.append(key)
                continue
            entry = await self.store.read(name, agent, [], [key])
            if entry.items:
                refs.append(Ref(entry.items[0].number, version))
                asked[_plain(refs[-1])] = text
            else:
                unread.append(text)
        found = await self.store.read(name, agent, refs, plain, look=self._look(name, agent))
        if found.missing or unread:
            found = replace(found, missing=(*unread, *(asked.get(m, m) for m in found.missing)))
        self._noticed(name, agent, found.seq, found.attention)
        numbers = [item.number for item in found.items]
        self.activity.read(name, numbers)
        protected = await self.store.guarded(name, numbers) if numbers else {}
        archived = [item.number for item in found.items if item.zone is Zone.ARCHIVE]
        left = await self.store.why_left(name, agent, archived) if archived else {}
        return Reading(found, protected, left)

    async def explain(
        self, agent: str, board: str | None, ids: Sequence[str], keys: Sequence[str] = ()
    ) -> Explained:
        """What protects each item, what would take it and when, or why it left; at most `MAX_EXPLAINED`.

        Raises:
            InvalidInput: nothing is named, or too much.
        """
        if not 0 < len(ids) + len(keys) <= MAX_EXPLAINED:
            raise InvalidInput(
                f'explain takes 1 to {MAX_EXPLAINED} ids or keys, as in read(ids=["H-17"], explain=true).'
            )
        name = await self.board_of(board, agent)
        asked = {parse_ref(id_).number: id_ for id_ in ids}
        numbers = list(asked)
        unread: list[str] = []
        if keys:
            found = await self.store.read(name, agent, [], [parse_key(key)[0] for key in keys])
            numbers += [item.number for item in found.items]
            unread += found.missing
        explained = await self.store.explain(name, agent, numbers, look=self._look(name, agent))
        self._noticed(name, agent, explained.seq, explained.attention)
        missing = (*unread, *(asked.get(int(number), number) for number in explained.missing))
        return replace(explained, missing=missing)

    async def query(self, agent: str, board: str | None, wanted: ItemQuery) -> ItemPage:
        name = await self.board_of(board, agent)
        page = await self.store.query(name, agent, wanted, look=self._look(name, agent))
        self._noticed(name, agent, page.seq, page.attention)
        self.activity.read(name, [item.number for item in page.items])
        return page

    async def search(
        self,
        agent: str,
        board: str | None,
        query: ArchiveQuery,
        words: ItemQuery,
        *,
        restore: bool,
        neighbours: bool = False,
    ) -> tuple[Found, Attention, int]:
        """The archive's answer; with `restore` what was found is back in working memory afterwards."""
        name = await self.board_of(board, agent)
        named = replace(query, board=name)
        found = await search(self.store, self.archive, agent, named, words)
        if neighbours:
            found = await with_neighbours(self.store, name, agent, found)
        look = self._look(name, agent)
        if restore and found.items:
            check_agent(agent)
            back = await self.store.restore(name, agent, [i.number for i in found.items], look=look)
            if back.working_tokens > back.high_tokens:
                self.pruner.kick(name)
            by_number = {item.number: item for item in back.items}
            items = tuple(by_number[item.number] for item in found.items)
            return replace(found, items=items, seq=back.seq), back.attention, back.seq
        log = await self.store.log(name, agent, _END, 1, look=look)
        return found, log.attention, log.seq

    # Events

    async def subscribe(
        self, agent: str, board: str | None, filter_: dict[str, Any], name: str | None
    ) -> tuple[Subscription, int]:
        parse_event_filter(filter_)
        board_id = await self.board_of(board, agent)
        held = await self.store.subscribe(board_id, agent, name or "", filter_)
        return held, held.cursor

    async def unsubscribe(self, agent: str, board: str | None, id_or_name: str) -> None:
        name = await self.board_of(board, agent)
        if not await self.store.unsubscribe(name, agent, id_or_name):
            raise UnknownReference(
                f"You hold no subscription '{id_or_name}' on '{name}'. Nothing was changed; subscribe() lists "
                "yours."
            )

    async def subscriptions(self, agent: str, board: str | None) -> tuple[list[Subscription], int]:
        name = await self.board_of(board, agent)
        held = await self.store.subscriptions(name, agent)
        found = await self.store.find_board(name)
        return held, 0 if found is None else found.seq

    async def changes_since(self, agent: str, board: str | None, since: int, limit: int) -> News:
        """Events after `since`, without waiting."""
        return await self.wait(agent, board, subscription=None, since=since, seconds=0.0, limit=limit)

    async def wait(
        self,
        agent: str,
        board: str | None,
        *,
        subscription: str | None,
        since: int | None,
        seconds: float,
        limit: int,
        report: Report | None = None,
    ) -> News:
        """Events after a place in the log, as soon as there are any, or none after `seconds`.

        The place is `since`, else the subscription's cursor, else the present end. A subscription's
        cursor moves to the last event delivered; going back with `since` delivers again.

        Raises:
            UnknownReference: no such subscription, or `since` is ahead of the log.
        """
        name = await self.board_of(board, agent)
        held: Subscription | None = None
        condition = EventFilter()
        if subscription is not None:
            held = await self.store.find_subscription(name, agent, subscription)
            if held is None:
                raise UnknownReference(
                    f"You hold no subscription '{subscription[:40]}' on '{name}'; subscribe() lists yours."
                )
            condition = parse_event_filter(held.filter)
        board_now = await self.store.find_board(name)
        end = 0 if board_now is None else board_now.seq
        place = since if since is not None else (end if held is None else held.cursor)
        if place > end:
            raise UnknownReference(f"since={place} is ahead of '{name}', which stands at seq {end}.", seq=end)
        started = place if since is None or held is None else held.cursor
        news = await self._watch(agent, name, condition, place, seconds, limit, report)
        self.activity.seen(name, agent)
        if held is not None and news.cursor != started:
            await self.store.move_cursor(name, agent, held.id, news.cursor)
        numbers = [parse_ref(e.item).number for e in news.events if e.item is not None]
        items: dict[int, Item] = {}
        if numbers:
            found = await self.store.read(name, agent, [Ref(n) for n in dict.fromkeys(numbers)], [])
            items = {item.number: item for item in found.items}
        return News(news.events, news.cursor, news.seq, held, items, news.attention)

    async def _watch(
        self,
        agent: str,
        board: str,
        condition: EventFilter,
        place: int,
        seconds: float,
        limit: int,
        report: Report | None,
    ) -> News:
        loop = asyncio.get_running_loop()
        started = loop.time()
        deadline = started + seconds
        next_report = math.inf if report is None else started + _REPORT_EVERY
        look = self._look(board, agent)
        while True:
            seen = self.store.changes()
            matching: list[Event] = []
            while True:
                log = await self.store.log(board, agent, place, _SCAN, look=look)
                for event in log.events:
                    place = event.seq
                    if condition.matches(event, agent):
                        matching.append(event)
                        if len(matching) == limit:
                            break
                else:
                    place = log.cursor
                if len(matching) == limit or not log.more:
                    break
            now = loop.time()
            if matching or now >= deadline:
                return News(tuple(matching), place, log.seq, None, {}, log.attention)
            if report is not None and now >= next_report:
                next_report = now + _REPORT_EVERY
                await report(round(now - started, 1), seconds, "waiting for news")
            await self.store.wait_for_change(seen, max(0.0, min(deadline, next_report) - now))

    # Figures

    async def board(self, agent: str, board: str | None) -> Board:
        name = await self.board_of(board, agent)
        found = await self.store.find_board(name)
        assert found is not None
        return found

    @staticmethod
    def newest(items: Sequence[Item]) -> datetime | None:
        return max((item.updated_at for item in items), default=None)


def _plain(ref: Ref) -> str:
    """An item as the store names it when it is missing."""
    return str(ref.number) if ref.version is None else f"{ref.number}@{ref.version}"


def _as_asked(error: UnknownReference, posts: Sequence[PostFields]) -> UnknownReference:
    """The same error with items named as the caller named them."""
    missing = error.facts.get("missing")
    if not missing:
        return error
    named: dict[int, str] = {}
    for fields in posts:
        for id_ in (
            *((fields.id,) if fields.id else ()),
            *(i for ids in (fields.edges or {}).values() for i in ids),
        ):
            if not id_.startswith("$"):
                named.setdefault(parse_ref(id_).number, id_)
    asked = [named.get(number, str(number)) for number in missing]
    text = error.message.replace(
        "No item " + ", ".join(str(number) for number in missing[:5]), "No item " + ", ".join(asked[:5]), 1
    )
    return UnknownReference(text, **{**error.facts, "missing": asked})
