"""Following of a board, as calls for programs: subscriptions, waiting, streams, and hooks that lose no event."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final
from weakref import WeakKeyDictionary

from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.filters import parse_event_filter
from blackboard_mcp.protocols.wire import EventsAnswer, SubscriptionAnswer, SubscriptionsAnswer

from ..input.posts import MOST_SECONDS
from .calls import Calls, bounded, callable_, counted, mapped
from .hooks import Callback, Hook, OnError
from .reader import PAGE, Reader
from .streams import EventQueue, EventStream

_LAST: Final = 2**53
"""The highest sequence that a call may name."""
_MOST_EVENTS: Final = 200
"""The most events that a stream or queue asks for at a time."""

Filter = Mapping[str, Any]
"""A filter of events as `subscribe` takes it: `{"type": "CRITIQUE", "not": {"agent": "bob"}}`; empty matches all."""


class Follows(Calls):
    """Calls to follow the events of a board.

    `since` is the sequence after which to begin; without it a stream begins at the present end, and a durable
    one where it stopped. `name` makes a stream durable: the board keeps its place under that name of the
    agent, and confirms it page by page as events are done. After a crash at most a page is delivered again;
    each event carries its `seq`, by which a program can tell what it has done. Each name has one reader at a
    time.
    """

    def __init__(self) -> None:
        self._readers: WeakKeyDictionary[Reader, Hook | None] = WeakKeyDictionary()

    async def subscribe(
        self, filter: Filter | None = None, *, name: str | None = None, idempotency_key: str | None = None
    ) -> SubscriptionAnswer:
        """Creates a subscription, which is a durable place in the log, at its present end.

        An agent's subscriptions have different names.

        Raises:
            InvalidInput: the filter is not valid.
        """
        given = {"filter": mapped(filter) or {}, "name": name}
        return await self._call("subscribe", given, SubscriptionAnswer, once=idempotency_key)

    async def unsubscribe(self, id_or_name: str, *, idempotency_key: str | None = None) -> None:
        """Ends a subscription.

        Raises:
            UnknownReference: the agent has no such subscription.
        """
        await self._call("subscribe", {"unsubscribe": id_or_name}, SubscriptionsAnswer, once=idempotency_key)

    async def subscriptions(self) -> list[SubscriptionAnswer]:
        """Returns the agent's subscriptions."""
        return (await self._call("subscribe", {}, SubscriptionsAnswer)).subscriptions

    async def wait(
        self,
        subscription: str | None = None,
        *,
        since: int | None = None,
        seconds: float = 25.0,
        limit: int = 50,
    ) -> EventsAnswer:
        """Waits up to `seconds` (0 to 50) for news by others, and returns at most `limit` (1 to 200) events.

        News that asks something of the agent ends the wait at once, other news after `lull_seconds` of quiet.
        Without `since` the result holds events that the agent was not shown yet; with it, every event after
        that sequence. With a subscription the wait ends with the first events that match its filter: `since`
        confirms the events up to it, and without `since` the returned events are confirmed at once. If nothing
        happened, the result has no events.

        Raises:
            InvalidInput: `seconds` is out of bounds.
            UnknownReference: there is no such subscription.
            CursorExpired: the subscription was unused for too long, or `since` is not a place of the log.
        """
        bounded(seconds, "seconds", 0, MOST_SECONDS)
        given = {"subscription": subscription, "since": since, "seconds": seconds, "limit": limit}
        return await self._call("wait", given, EventsAnswer)

    def events(
        self,
        filter: Filter | None = None,
        *,
        since: int | None = None,
        name: str | None = None,
        page: int = PAGE,
    ) -> EventStream:
        """Returns events in order, as an async iterator that waits for more.

        `page` (1 to 200) is the number of events that it requests, and confirms, at a time.

        Raises:
            InvalidInput: the filter is not valid.
        """
        return EventStream(self._reader(filter, since, name, counted(page, "page", 1, _MOST_EVENTS)))

    async def queue(
        self,
        filter: Filter | None = None,
        *,
        maxsize: int = PAGE,
        since: int | None = None,
        name: str | None = None,
    ) -> EventQueue:
        """Returns a queue of events for several workers; at most `maxsize` (1 to 200) are in memory at a time.

        Raises:
            InvalidInput: the filter is not valid.
        """
        reader = self._reader(filter, since, name, counted(maxsize, "maxsize", 1, _MOST_EVENTS))
        await self._start(reader)
        return EventQueue(reader)

    async def on(
        self,
        filter: Filter | None,
        callback: Callback,
        *,
        since: int | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
        page: int = PAGE,
    ) -> Hook:
        """Calls `callback(event)` for each event from now on, until the hook or the board is closed; returns the hook.

        A callback that raises is called again with the same event. Before that, `on_error(event, error,
        attempt)` is called; if it returns `True`, the event is skipped.

        Raises:
            InvalidInput: the filter is not valid, or the callback cannot be called.
        """
        callable_(callback, "callback")
        if on_error is not None:
            callable_(on_error, "on_error")
        reader = self._reader(filter, since, name, counted(page, "page", 1, _MOST_EVENTS))
        await self._start(reader)
        hook = Hook(reader, callback, on_error)
        self._readers[reader] = hook
        return hook

    def _reader(self, filter_: Filter | None, since: int | None, name: str | None, page: int) -> Reader:
        """Returns a new reader of events, which ends with the board."""
        given = mapped(filter_) or {}
        condition = parse_event_filter(given)
        if name is not None and since is not None:
            raise InvalidInput("since goes without name: a durable stream begins where it stopped.")
        if since is not None:
            counted(since, "since", 0, _LAST)
        reader = Reader(
            self._source(given, condition, name),
            page=page,
            since=since,
            durable=name is not None,
            left=self._forget,
        )
        self._readers[reader] = None
        return reader

    def _forget(self, reader: Reader) -> None:
        self._readers.pop(reader, None)

    @staticmethod
    async def _start(reader: Reader) -> None:
        try:
            await reader.start()
        except BaseException:
            await reader.aclose()
            raise

    async def _leave(self) -> None:
        """Ends every stream, queue and hook of this board."""
        closing = [
            (reader if hook is None else hook).aclose() for reader, hook in list(self._readers.items())
        ]
        await asyncio.gather(*closing)
