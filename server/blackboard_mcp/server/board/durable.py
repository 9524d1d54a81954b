"""Subscriptions as sources of events for streams; a named one keeps its place when the program ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from blackboard_mcp.protocols.errors import Conflict
from blackboard_mcp.protocols.filters import EventFilter, parse_event_filter, rethreaded, threads
from blackboard_mcp.protocols.wire import EventsAnswer, SubscriptionAnswer

POLL_SECONDS = 25.0
"""The time that one call waits for news: many proxies cut a call after a minute."""


class _Waits(Protocol):
    """The calls of a board that a durable source needs."""

    async def subscribe(
        self, filter: Mapping[str, Any] | None = None, *, name: str | None = None
    ) -> SubscriptionAnswer: ...

    async def unsubscribe(self, id_or_name: str) -> None: ...

    async def subscriptions(self) -> list[SubscriptionAnswer]: ...

    async def wait(
        self,
        subscription: str | None = None,
        *,
        since: int | None = None,
        seconds: float = 25.0,
        limit: int = 50,
    ) -> EventsAnswer: ...


class DurableSource:
    """A source of events by a named subscription, which is created at first use and stays."""

    def __init__(self, board: _Waits, filter_: dict[str, Any], name: str) -> None:
        self._board = board
        self._filter = filter_
        self._name = name
        self._id = ""

    async def start(self, since: int | None) -> int:
        """Finds or makes the subscription, and returns its cursor; `since` is ignored.

        Raises:
            Conflict: a subscription of this name has another filter.
        """
        for held in await self._board.subscriptions():
            if held.name == self._name:
                if _threadless(held.filter) != _threadless(self._filter):
                    raise Conflict(
                        f"Your subscription '{self._name}' has another filter: {held.filter}. Nothing was changed; use "
                        f"another name, or unsubscribe('{self._name}') first.",
                        filter=held.filter,
                    )
                break
        else:
            held = await self._board.subscribe(self._filter, name=self._name)
        self._id = held.id
        return held.cursor

    async def fetch(self, after: int, limit: int, seconds: float | None = None) -> EventsAnswer:
        """Confirms the sequence `after`, and returns at most `limit` later events; waits up to `seconds` for one."""
        seconds = POLL_SECONDS if seconds is None else seconds
        return await self._board.wait(self._id, since=after, seconds=seconds, limit=limit)

    async def confirm(self, place: int) -> None:
        """Confirms events up to the sequence `place`."""
        await self._board.wait(self._id, since=place, seconds=0.0, limit=1)

    async def close(self) -> None:
        """Does nothing: the subscription stays."""


class PassingSource(DurableSource):
    """Events through a temporary subscription, which ends with the stream.

    Over MCP only subscriptions have filters, so a stream without a name needs one too.
    """

    async def start(self, since: int | None) -> int:
        """Creates the subscription, and returns `since`, or without it the present end of the log."""
        held = await self._board.subscribe(self._filter, name=self._name)
        self._id = held.id
        return held.cursor if since is None else since

    async def confirm(self, place: int) -> None:
        """Does nothing: no later stream continues from the place."""

    async def close(self) -> None:
        """Ends the subscription."""
        if self._id:
            id_, self._id = self._id, ""
            await self._board.unsubscribe(id_)


def _threadless(filter_: dict[str, Any]) -> EventFilter:
    """Returns a filter for comparison with others, with every thread replaced by 0.

    A stored filter names a thread by its first item, a given one by any item of it; only the board can match
    them.
    """
    given: dict[str, Any] = rethreaded(filter_, dict.fromkeys(threads(filter_), 0))
    return parse_event_filter(given)
