"""Following of a board: subscriptions, waiting, and hooks that lose no event."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.filters import parse_event_filter
from blackboard_mcp.protocols.wire import EventsAnswer, SubscriptionAnswer, SubscriptionsAnswer

from ..input.posts import MOST_SECONDS
from .calls import Calls
from .hooks import Callback, Hook, OnError
from .reader import PAGE, Reader
from .streams import EventQueue, EventStream

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
        """A durable place in the log, at the present end; `name` is used once at a time.

        Raises:
            InvalidInput: the filter is none.
        """
        given = {"filter": dict(filter or {}), "name": name}
        return await self._call("subscribe", given, SubscriptionAnswer, once=idempotency_key)

    async def unsubscribe(self, id_or_name: str, *, idempotency_key: str | None = None) -> None:
        """Ends a subscription.

        Raises:
            UnknownReference: the agent holds none of that name.
        """
        await self._call("subscribe", {"unsubscribe": id_or_name}, SubscriptionsAnswer, once=idempotency_key)

    async def subscriptions(self) -> list[SubscriptionAnswer]:
        """Those that the agent holds."""
        return (await self._call("subscribe", {}, SubscriptionsAnswer)).subscriptions

    async def wait(
        self,
        subscription: str | None = None,
        *,
        since: int | None = None,
        seconds: float = 25.0,
        limit: int = 50,
    ) -> EventsAnswer:
        """What others did, or none after `seconds` (0 to 50); `limit` 1 to 200.

        What asks something of the agent ends the wait at once, other news after `lull_seconds` of quiet. Without
        `since` it is what the agent was not shown yet; with it, every event after that sequence. With a subscription
        it is what its filter matches, as soon as there is something: `since` confirms what came up to it; without
        `since` what is delivered is confirmed at once.

        Raises:
            InvalidInput: more seconds than there may be.
            UnknownReference: no such subscription.
            CursorExpired: the subscription was unused for too long, or `since` is no place of the log.
        """
        if not 0 <= seconds <= MOST_SECONDS:
            raise InvalidInput(f"seconds is 0 to {MOST_SECONDS}, not {seconds:g}.")
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
        """Events in order, as an async iterator that waits for more.

        `page` (1 to 200) is how many are asked for, and confirmed, at a time.

        Raises:
            InvalidInput: the filter is none.
        """
        return EventStream(self._reader(filter, since, name, page))

    async def queue(
        self,
        filter: Filter | None = None,
        *,
        maxsize: int = PAGE,
        since: int | None = None,
        name: str | None = None,
    ) -> EventQueue:
        """Events for several workers, at most `maxsize` (1 to 200) in memory; what follows waits in the log.

        Raises:
            InvalidInput: the filter is none.
        """
        reader = self._reader(filter, since, name, maxsize)
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
        """Calls `callback(event)` for each event from now on, until the hook or the board is closed.

        A callback that raises is called again with the same event; `on_error(event, error, attempt)` is told,
        and passes the event over by returning `True`.

        Raises:
            InvalidInput: the filter is none.
        """
        reader = self._reader(filter, since, name, page)
        await self._start(reader)
        hook = Hook(reader, callback, on_error)
        self._readers[reader] = hook
        return hook

    def _reader(self, filter_: Filter | None, since: int | None, name: str | None, page: int) -> Reader:
        given = dict(filter_ or {})
        condition = parse_event_filter(given)
        if name is not None and since is not None:
            raise InvalidInput("since goes without name: a durable stream begins where it stopped.")
        if not 1 <= page <= 200:
            raise InvalidInput(f"{page} events at a time; 1 to 200 are allowed.")
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
