"""Following a board: durable subscriptions, and waiting for events after a place in its log.

Every method takes the agent's authenticated name and a board id. Nothing here knows MCP, HTTP or SQL.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable
from dataclasses import field, replace
from datetime import timedelta
from typing import Any, Final

from blackboard_mcp.protocols.answers import MOST_UNSEEN, Attention, Log, Subscription
from blackboard_mcp.protocols.errors import BlackboardError, UnknownReference
from blackboard_mcp.protocols.events import BEGUN, LEFT, Event
from blackboard_mcp.protocols.filters import EventFilter, parse_event_filter, rethreaded, threads
from blackboard_mcp.protocols.items import Ref
from blackboard_mcp.protocols.matching import Matcher, matcher
from blackboard_mcp.protocols.names import mentions
from blackboard_mcp.protocols.store import BoardStore
from blackboard_mcp.protocols.values import dataclass

from ..input.idempotency import once_of
from ..limits.rates import Quotas
from ..limits.turns import one_more_turn
from .activity import Activity
from .kept import KEPT_SECONDS, OF_EVENT, OF_UNSEEN, Kept, shown
from .last_seen import Looks
from .lull import Listening, Lull, passes, resting
from .page_size import fitting_events
from .tails import Heard, Tails
from .viewers import Viewers

_END: Final = 1 << 62
"""A sequence that no log reaches."""
_FRESH: Final = 0.05
"""Seconds for which an agent's duties, once read, are fresh enough for the answer's footer."""
_REPORT_EVERY: Final = 5.0
_SKIPPED: Final = 256
"""Number of skipped events from which a call without news moves the cursor; fewer are read again by the next
call.
"""
_USE_SECONDS: Final = 3_600.0
"""Seconds between two records that a subscription is in use."""

_MOST_TOLD: Final = 100
"""Most versions whose beginnings are read for one answer; its text has no room for more."""
_KEPT_ROOM: Final = 8_000_000
_OF_PAGE: Final = 1_000
_MOST_LEFT: Final = 200
"""Most items that one answer names as having left working memory."""

Report = Callable[[float, float | None, str | None], Awaitable[None]]
BoardOf = Callable[[str | None, str], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class NewsPage:
    """Events that a call waited for, in order. `cursor` is the place from which to go on."""

    board: str
    events: tuple[Event, ...]
    cursor: int
    seq: int
    subscription: Subscription | None = None
    texts: dict[tuple[int, int], str] = field(default_factory=dict)
    """Beginnings of posted versions that the agent may see, by item number and version."""
    attention: Attention = field(default_factory=Attention)
    exact: bool = True
    """Whether these are all events after a place, or all that match a filter, and not only those not shown to
    the agent yet.
    """


@dataclass(frozen=True, slots=True)
class _Call:
    """A call that waits: for whom, where, until when on the loop's clock, and for how many events at most."""

    agent: str
    board: str
    seconds: float
    deadline: float
    limit: int
    report: Report | None = None


class Following:
    """Use cases for agents that follow boards.

    `board_of` returns the id of the board that a call is about, as `Blackboard.board_of` does.
    """

    def __init__(self, store: BoardStore, looks: Looks, board_of: BoardOf, activity: Activity) -> None:
        self._store = store
        self._looks = looks
        self._board_of = board_of
        self._activity = activity
        self.quotas = Quotas()
        self._returning: set[asyncio.Future[None]] = set()
        self.viewers = Viewers(store)
        self.tails = Tails(store, self.viewers)
        self.kept: Kept[NewsPage] = Kept(store, _KEPT_ROOM, _size)
        """The pages of changes that agents read since the last commit."""

    async def subscribe(
        self,
        agent: str,
        board: str | None,
        filter_: dict[str, Any],
        name: str | None,
        *,
        once_key: str | None = None,
    ) -> tuple[Subscription, int]:
        """Makes a subscription and returns it with its cursor.

        Raises:
            InvalidInput: the filter is not valid.
            UnknownReference: the filter names a thread that is not there.
        """
        parse_event_filter(filter_)
        board_id = await self._board_of(board, agent)
        self.quotas.charge(agent, board_id)
        once = once_of(once_key, "subscribe", filter=filter_, name=name)
        filter_ = await with_threads(self._store, board_id, agent, filter_)
        most = self.quotas.limits.subscriptions_per_agent
        held = await self._store.subscribe(board_id, agent, name or "", filter_, once=once, most=most)
        return held, held.cursor

    async def unsubscribe(
        self, agent: str, board: str | None, id_or_name: str, *, once_key: str | None = None
    ) -> None:
        """Ends the subscription with this id or name.

        Raises:
            UnknownReference: the agent has no such subscription.
        """
        name = await self._board_of(board, agent)
        self.quotas.charge(agent, name)
        once = once_of(once_key, "unsubscribe", subscription=id_or_name)
        if not await self._store.unsubscribe(name, agent, id_or_name, once=once):
            raise UnknownReference(
                f"You hold no subscription '{id_or_name}' on '{name}'. Nothing was changed; subscribe() lists "
                "yours."
            )

    async def subscriptions(self, agent: str, board: str | None) -> tuple[list[Subscription], int]:
        """Returns the agent's subscriptions, and the board's sequence."""
        name = await self._board_of(board, agent)
        held = await self._store.subscriptions(name, agent)
        found = await self._store.find_board(name)
        return held, 0 if found is None else found.seq

    async def changes_since(self, agent: str, board: str | None, since: int, limit: int) -> NewsPage:
        """Returns, without waiting, all events after `since` that the agent may see, at most `limit`.

        While nothing is committed, the same page is kept.

        Raises:
            CursorExpired: `since` is no place in the log.
        """
        name = await self._board_of(board, agent)
        stamp = self.kept.stamp()  # before anything is read
        look = self._looks.of(name, agent)
        asked = (name, agent, shown(look), since, limit)
        if (kept := self.kept.find(asked, stamp)) is not None:
            await one_more_turn(KEPT_SECONDS)
            return kept
        log = await self._store.log(name, agent, since, limit, look=look, place=since, texts=_MOST_TOLD)
        self._activity.seen(name, agent)
        events, cursor = _fitting(Heard(log.events, log.cursor))
        page = NewsPage(name, events, cursor, log.seq, texts=log.texts, attention=log.attention)
        return self.kept.keep(asked, stamp, page)

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
    ) -> NewsPage:
        """Waits for events for the agent, and returns them, or none after `seconds`.

        Events that ask something of the agent end the wait at once. After other events the call waits for a
        lull, and returns all of them together. With neither a subscription nor `since`, the call returns
        events that the agent was not shown yet; an agent that was never answered before gets only events from
        now on. With `since` it returns every event after it; the agent's own acts, bookkeeping and events
        between others do not end the wait. Where a footer gave the agent `since` before it was shown
        everything up to there, those events come first, so no number in a footer skips anything.

        With a subscription the call returns, as soon as there are any, the events that its filter matches
        after `since`, or after the subscription's cursor. Without `since` the cursor moves to the end of the
        delivered events: of two calls at once, each event goes to one. `since` confirms everything up to it:
        the cursor moves there, never back, and later events are delivered again until a later call confirms
        them. A cancelled call does not move the cursor past the events it found.

        Raises:
            UnknownReference: there is no such subscription.
            CursorExpired: the subscription was unused for too long, or `since` is no place in the log.
        """
        name = await self._board_of(board, agent)
        call = _Call(agent, name, seconds, asyncio.get_running_loop().time() + seconds, limit, report)
        if subscription is None:
            if since is not None:
                await self.place(name, since)
            news = await self._news(call, since)
            self._activity.seen(name, agent)
            return await self._with_texts(name, agent, news)
        if since is not None:
            await self.place(name, since)
        while True:
            held = await self._held(name, agent, subscription, since)
            place = held.cursor if since is None else since
            condition = parse_event_filter(held.filter, stored=True)
            news = await self._watch(call, condition, place)
            self._activity.seen(name, agent)
            news = replace(await self._with_texts(name, agent, news), subscription=held)
            if since is not None or (not news.events and news.cursor - place < _SKIPPED):
                return news
            if await self._deliver(name, agent, held, news.cursor):
                return news
            # Another call delivered these events in the meantime: go on after them.

    async def _news(self, call: _Call, since: int | None) -> NewsPage:
        agent, board = call.agent, call.board
        log, viewer = await asyncio.gather(self._log(agent, board), self.viewers.of(agent, board))
        look = log.look
        lull = Lull(agent, self.quotas.limits.lull_seconds)

        def fresh(event: Event) -> bool:
            return event.is_news_to(agent) and event.seq not in look.above and event.visible_to(viewer)

        if since is not None:
            first: tuple[Event, ...] = ()
            if since in look.told:
                unseen = await self.tails.after(board, fresh, look, end=since, limit=call.limit, seconds=0.0)
                first = tuple(event for event in unseen.events if event.seq <= since)
            if len(first) == call.limit:
                return NewsPage(board, first, since, log.seq, attention=log.attention)

            def news_to_it(event: Event) -> bool:
                return event.is_news_to(agent) and event.visible_to(viewer)

            *_, log = await self._hear(call, news_to_it, since, log, lull, first)
            news = await self._whole(agent, board, since, log, call.limit - len(first))
            return replace(news, events=(*first, *news.events))
        # News begins now for newcomers to a board with a long past, who read the view instead.
        begins = look.is_of_newcomer and log.attention.unseen >= MOST_UNSEEN
        place = log.seq if begins else int(look)
        events, cursor, log = await self._hear(call, fresh, place, log, lull)
        left = await self.tails.after(
            board,
            lambda event: event.event in LEFT and not fresh(event) and event.visible_to(viewer),
            place,
            end=cursor,
            limit=_MOST_LEFT,
            seconds=0.0,
        )
        gone = tuple(event for event in left.events if event.seq <= cursor and event.seq not in look.above)
        told = tuple(sorted((*events, *gone), key=lambda event: event.seq))
        return NewsPage(board, told, max(cursor, since or 0), log.seq, attention=log.attention, exact=False)

    async def _log(self, agent: str, board: str) -> Log:
        """Returns the board's sequence, what waits for the agent, and what it was shown."""
        return await self._store.log(board, agent, _END, 1, look=self._looks.of(board, agent))

    async def _whole(self, agent: str, board: str, place: int, log: Log, limit: int) -> NewsPage:
        """Returns all events after a place that the agent may see, up to the sequence at which `log` was
        read.
        """
        wanted = matcher(EventFilter(), await self.viewers.of(agent, board))
        heard = await self.tails.after(board, wanted, place, end=log.seq, limit=limit, seconds=0.0)
        events, cursor = _fitting(heard)
        return NewsPage(board, events, cursor, max(log.seq, cursor), attention=log.attention)

    async def place(self, board: str, since: int | None) -> int:
        """Returns `since`, or the end of the log for `None`.

        Raises:
            CursorExpired: `since` is no place in the log.
        """
        end = await self._store.end_of_log(board, since)
        return end if since is None else since

    async def resume(self, agent: str, board: str, subscription: str, since: int | None) -> Subscription:
        """Returns a subscription for a stream to continue. `since` confirms all events up to it.

        Raises:
            UnknownReference: there is no such subscription.
            CursorExpired: the subscription was unused for too long, or `since` is no place in the log.
        """
        if since is not None:
            await self.place(board, since)
        return await self._held(board, agent, subscription, since)

    async def _held(self, board: str, agent: str, subscription: str, since: int | None) -> Subscription:
        """Returns the subscription with its cursor moved to `since`, and records that it is in use.

        Raises:
            UnknownReference: there is no such subscription.
        """
        held = await self._store.find_subscription(board, agent, subscription)
        if held is None:
            raise UnknownReference(
                f"You hold no subscription '{subscription[:40]}' on '{board}'; subscribe() lists yours."
            )
        found = await self._store.find_board(board)
        lease = 0 if found is None else found.config.subscription_lease_seconds
        stale = timedelta(seconds=min(_USE_SECONDS, lease / 10))
        confirmed = max(held.cursor, since or 0)
        if confirmed > held.cursor or (lease and self._activity.clock.now() - held.used_at > stale):
            await self._store.move_cursor(board, agent, held.id, confirmed)
        return replace(held, cursor=confirmed)

    async def _deliver(self, board: str, agent: str, held: Subscription, cursor: int) -> bool:
        """Moves the cursor past the events to deliver; returns false when another call moved it first."""
        moving = asyncio.ensure_future(
            self._store.move_cursor(board, agent, held.id, cursor, since=held.cursor)
        )
        try:
            return await asyncio.shield(moving)
        except asyncio.CancelledError:
            # The events reach nobody, but the write cannot be stopped: move the cursor back after it.
            returning = asyncio.ensure_future(self._return(moving, board, agent, held))
            self._returning.add(returning)
            returning.add_done_callback(self._returning.discard)
            raise

    async def _return(self, moving: asyncio.Future[bool], board: str, agent: str, held: Subscription) -> None:
        with contextlib.suppress(BlackboardError):
            if await moving:
                await self._store.return_cursor(board, agent, held.id, held.cursor)

    async def settle(self) -> None:
        """Returns when the cursors that cancelled calls had moved are back in place."""
        while self._returning:
            await asyncio.wait(list(self._returning))

    async def _with_texts(self, board: str, agent: str, news: NewsPage) -> NewsPage:
        told = [
            (event.number, event.version or 1)
            for event in news.events
            if event.number is not None and event.event in BEGUN
        ]
        if not told:
            return news
        return replace(news, texts=await self._store.beginnings(board, agent, told[:_MOST_TOLD]))

    async def watch(
        self,
        agent: str,
        board: str,
        condition: EventFilter,
        since: int,
        *,
        seconds: float,
        limit: int,
        texts: bool = False,
    ) -> NewsPage:
        """Waits for events after `since` that match `condition`, and returns them; with the beginnings of
        versions if `texts`.
        """
        call = _Call(agent, board, seconds, asyncio.get_running_loop().time() + seconds, limit)
        news = await self._watch(call, condition, since)
        self._activity.seen(board, agent)
        self._looks.streamed(
            board, agent, [event.seq for event in news.events], since, news.cursor, condition
        )
        return await self._with_texts(board, agent, news) if texts else news

    async def _watch(self, call: _Call, condition: EventFilter, place: int) -> NewsPage:
        agent, board = call.agent, call.board
        log, viewer = await asyncio.gather(self._log(agent, board), self.viewers.of(agent, board))
        wanted = matcher(condition, viewer)
        events, cursor, log = await self._hear(call, wanted, place, log)
        return NewsPage(board, events, cursor, log.seq, attention=log.attention)

    async def _hear(
        self,
        call: _Call,
        wanted: Matcher,
        place: int,
        log: Log,
        lull: Lull | None = None,
        before: tuple[Event, ...] = (),
    ) -> tuple[tuple[Event, ...], int, Log]:
        """Waits for wanted events after a place.

        Returns the events, the place up to which these are all, and a fresh reading of the board's log.
        Without `lull` the first wanted event ends the wait. Events in `before` were found earlier and count
        for the lull.
        """
        agent, board, report = call.agent, call.board, call.report
        loop = asyncio.get_running_loop()
        started = looked = call.deadline - call.seconds
        next_report = math.inf if report is None else loop.time() + _REPORT_EVERY
        until = call.deadline
        most = call.limit - len(before)
        found: list[Event] = []
        listening = None if lull is None else Listening(lull, wanted, loop.time)
        first = lull is not None  # a lull begins with the events already there, so collect them first
        while True:
            room = most - len(found)
            condition, patience = wanted, max(0.0, min(until, next_report) - loop.time())
            if first:
                patience = 0.0
            elif listening is not None:
                condition, listening.room = listening, room
            heard = await self.tails.after(board, condition, place, end=log.seq, limit=room, seconds=patience)
            place = heard.cursor
            news = list(heard.events) if listening is None else listening.news(heard.events, place)
            found += news
            now = loop.time()
            if lull is None or listening is None:
                until = now if news else until
            elif news or (first and before):
                slept = not first and all(passes(event, agent) for event in news)
                if not (first or slept):
                    log, looked = await self._log(agent, board), now
                news = [*before, *news] if first else news
                named = await self._names(agent, board, resting(news, agent))
                at = listening.heard_at if slept else now
                until = min(call.deadline, lull.hears(news, log.attention.owed, at, named=named))
            elif first:
                lull.begin(log.attention.owed)
            first = False
            if now >= until and looked == now and place < log.seq and len(found) < most:
                continue  # what ends the wait is in the log, but not heard yet
            if now >= until or len(found) >= most or self.tails.released:
                if len(found) > most:
                    del found[most:]
                    place = found[-1].seq
                if place > log.seq or now - looked > _FRESH:
                    log = await self._log(agent, board)
                return (*_fitting(Heard(tuple(found), place)), log)
            if report is not None and now >= next_report:
                next_report = now + _REPORT_EVERY
                await report(round(now - started, 1), call.seconds, "waiting for news")

    async def _names(self, agent: str, board: str, versions: list[tuple[int, int]]) -> bool:
        """Tells whether the text of one of these versions mentions the agent."""
        if not versions:
            return False
        texts = await self._store.beginnings(board, agent, versions[:_MOST_TOLD])
        return any(agent in mentions(text) for text in texts.values())


def _fitting(heard: Heard) -> tuple[tuple[Event, ...], int]:
    """Returns the events that fit into one answer, and the place up to which these are all."""
    events = heard.events[: fitting_events(heard.events)]
    return events, events[-1].seq if len(events) < len(heard.events) else heard.cursor


def _size(page: NewsPage) -> int:
    listed = OF_EVENT * len(page.events) + OF_UNSEEN * len(page.attention.fresh)
    return _OF_PAGE + listed + sum(map(len, page.texts.values()))


async def with_threads(store: BoardStore, board: str, agent: str, filter_: dict[str, Any]) -> dict[str, Any]:
    """Returns the filter with each thread named by its first item, whichever of its items the caller named.

    Raises:
        UnknownReference: an item is not there, or the agent may not see it.
    """
    named = {number: number for number in threads(filter_)}
    if not named:
        return filter_
    found = await store.read(board, agent, [Ref(number) for number in named], [])
    if found.missing:
        raise UnknownReference(
            f"filter.thread: no item {', '.join(found.missing)} on board '{board}'. Nothing was changed; query() lists "
            "what is there.",
            missing=list(found.missing),
        )
    named_anew: dict[str, Any] = rethreaded(filter_, {item.number: item.thread for item in found.items})
    return named_anew
