"""Following a board: durable subscriptions, and waiting for what comes after a place in its log.

Every method takes the agent's authenticated name and a board id. Nothing here knows MCP, HTTP or SQL.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from blackboard_mcp.protocols.errors import UnknownReference
from blackboard_mcp.protocols.events import Event
from blackboard_mcp.protocols.filters import EventFilter, parse_event_filter
from blackboard_mcp.protocols.items import Item, Ref, parse_ref
from blackboard_mcp.protocols.store import Attention, BoardStore, Subscription

from .activity import Activity
from .looks import Looks

_SCAN: Final = 500
_REPORT_EVERY: Final = 5.0

Report = Callable[[float, float | None, str | None], Awaitable[None]]
BoardOf = Callable[[str | None, str], Awaitable[str]]


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


class Following:
    """What agents follow on the boards of a store.

    `board_of` gives the board that a call is about, as `Blackboard.board_of` does.
    """

    def __init__(self, store: BoardStore, looks: Looks, board_of: BoardOf, activity: Activity) -> None:
        self._store = store
        self._looks = looks
        self._board_of = board_of
        self._activity = activity

    async def subscribe(
        self, agent: str, board: str | None, filter_: dict[str, Any], name: str | None
    ) -> tuple[Subscription, int]:
        parse_event_filter(filter_)
        board_id = await self._board_of(board, agent)
        held = await self._store.subscribe(board_id, agent, name or "", filter_)
        return held, held.cursor

    async def unsubscribe(self, agent: str, board: str | None, id_or_name: str) -> None:
        name = await self._board_of(board, agent)
        if not await self._store.unsubscribe(name, agent, id_or_name):
            raise UnknownReference(
                f"You hold no subscription '{id_or_name}' on '{name}'. Nothing was changed; subscribe() lists "
                "yours."
            )

    async def subscriptions(self, agent: str, board: str | None) -> tuple[list[Subscription], int]:
        name = await self._board_of(board, agent)
        held = await self._store.subscriptions(name, agent)
        found = await self._store.find_board(name)
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
        name = await self._board_of(board, agent)
        held: Subscription | None = None
        condition = EventFilter()
        if subscription is not None:
            held = await self._store.find_subscription(name, agent, subscription)
            if held is None:
                raise UnknownReference(
                    f"You hold no subscription '{subscription[:40]}' on '{name}'; subscribe() lists yours."
                )
            condition = parse_event_filter(held.filter)
        board_now = await self._store.find_board(name)
        end = 0 if board_now is None else board_now.seq
        place = since if since is not None else (end if held is None else held.cursor)
        if place > end:
            raise UnknownReference(f"since={place} is ahead of '{name}', which stands at seq {end}.", seq=end)
        started = place if since is None or held is None else held.cursor
        news = await self._watch(agent, name, condition, place, seconds, limit, report)
        self._activity.seen(name, agent)
        if held is not None and news.cursor != started:
            await self._store.move_cursor(name, agent, held.id, news.cursor)
        numbers = [parse_ref(e.item).number for e in news.events if e.item is not None]
        items: dict[int, Item] = {}
        if numbers:
            found = await self._store.read(name, agent, [Ref(n) for n in dict.fromkeys(numbers)], [])
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
        look = self._looks.of(board, agent)
        while True:
            seen = self._store.changes()
            matching: list[Event] = []
            while True:
                log = await self._store.log(board, agent, place, _SCAN, look=look)
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
            await self._store.wait_for_change(seen, max(0.0, min(deadline, next_report) - now))
