"""Notifications of changes: one publish reaches every subscriber and waits for none.

Knows a subscriber as a set of URIs and a function that sends one. Knows no protocol generations and no
transports, and not what a URI stands for.

Each subscriber has its own sending task, so a stalled reader delays nobody else. Pending changes are a set of
URIs: ten thousand changes of one resource between two sends become one notification, and memory is bounded by
the subscriptions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from blackboard_mcp.server.limits.concurrency import Counted
from blackboard_mcp.server.limits.limits import Limits

logger = logging.getLogger(__name__)

SEND_TIMEOUT_SECONDS: Final = 30.0
RESOURCE_LIST: Final = "list:resources"
"""The pseudo-URI by which streams subscribe to the list of resources; no resource has it."""


class TooManySubscriptions(Exception):
    """Raised when a limit of the hub is reached; the message names the limit and what to do."""


class Subscriber:
    """The pending notifications of one stream. `Hub.add` makes it and `Hub.remove` ends it."""

    def __init__(self, hub: Hub, agent: str, counted_as: str) -> None:
        self.agent = agent
        self.counted_as = counted_as
        self.uris: set[str] = set()
        self.closed = False
        self._hub = hub
        self._pending: dict[str, None] = {}
        self._wake = asyncio.Event()

    def want(self, uris: Iterable[str]) -> None:
        """Subscribes this stream to URIs.

        Raises:
            TooManySubscriptions: the stream would have more than `uris_per_stream`; none was added.
        """
        new = [uri for uri in dict.fromkeys(uris) if uri not in self.uris]
        most = self._hub.limits.uris_per_stream
        if len(self.uris) + len(new) > most:
            raise TooManySubscriptions(
                f"a stream takes at most {most} resources (limit uris_per_stream); subscribe to fewer"
            )
        self.uris.update(new)
        for uri in new:
            self._hub.by_uri.setdefault(uri, set()).add(self)
        if new:
            self._hub.heard.set()

    def unwant(self, uri: str) -> None:
        """Unsubscribes this stream from a URI, and drops a change of it that is still pending."""
        self.uris.discard(uri)
        self._pending.pop(uri, None)
        self._hub.forget(uri, self)

    def push(self, uri: str) -> None:
        """Marks a URI as changed, so that `run` sends it."""
        self._pending[uri] = None
        self._wake.set()

    def close(self) -> None:
        """Makes `run` return. Pending changes are dropped: a client reads again after it reconnects."""
        self.closed = True
        self._wake.set()

    async def run(self, send: Callable[[str], Awaitable[None]], *, timeout: float | None = None) -> None:
        """Sends pending URIs, oldest first, until closed.

        Raises:
            TimeoutError: one send took longer than `timeout` seconds (default `SEND_TIMEOUT_SECONDS`); it is
                pending again.
        """
        limit = SEND_TIMEOUT_SECONDS if timeout is None else timeout
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._pending and not self.closed:
                uri = next(iter(self._pending))
                del self._pending[uri]
                try:
                    async with asyncio.timeout(limit):
                        await send(uri)
                except TimeoutError:
                    self.push(uri)
                    raise
            if self.closed:
                return


class Hub:
    """All subscribers of one server, found by URI."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.by_uri: dict[str, set[Subscriber]] = {}
        self.heard = asyncio.Event()
        """Set while any URI has a subscriber."""
        self._subscribers: set[Subscriber] = set()
        self._counted = Counted(self.limits.streams, self.limits.streams_per_principal)

    def __len__(self) -> int:
        """Returns the number of subscribers."""
        return len(self._subscribers)

    def add(self, agent: str, uris: Iterable[str] = (), *, counted_as: str | None = None) -> Subscriber:
        """Adds and returns a new subscriber.

        `counted_as` is the account whose streams are limited together, by default the agent.

        Raises:
            TooManySubscriptions: the server or the account has too many streams, or this one too many URIs.
        """
        subscriber = Subscriber(self, agent, counted_as or agent)
        match self._counted.enter(subscriber.counted_as):
            case "all":
                raise TooManySubscriptions(
                    "the server has too many open subscriptions (limit streams); try again later"
                )
            case "each":
                raise TooManySubscriptions(
                    f"{subscriber.counted_as} has {self.limits.streams_per_principal} open subscription streams (limit "
                    "streams_per_principal); close some of them first"
                )
        try:
            subscriber.want(uris)
        except TooManySubscriptions:
            self._counted.leave(subscriber.counted_as)
            raise
        self._subscribers.add(subscriber)
        return subscriber

    def remove(self, subscriber: Subscriber) -> None:
        """Removes a subscriber and ends its stream. A second call does nothing."""
        subscriber.close()
        if subscriber in self._subscribers:
            self._subscribers.remove(subscriber)
            self._counted.leave(subscriber.counted_as)
        for uri in subscriber.uris:
            self.forget(uri, subscriber)
        subscriber.uris = set()

    def agents(self) -> set[str]:
        """Returns the names of the agents that have a subscriber."""
        return {subscriber.agent for subscriber in self._subscribers}

    def forget(self, uri: str, subscriber: Subscriber) -> None:
        """Ends one subscriber's interest in a URI; does nothing if there was none."""
        waiting = self.by_uri.get(uri)
        if waiting is not None:
            waiting.discard(subscriber)
            if not waiting:
                del self.by_uri[uri]
                if not self.by_uri:
                    self.heard.clear()

    def publish(self, uris: Iterable[str], agent: str | None = None) -> None:
        """Marks the URIs as changed for all their subscribers, or only for those of one agent. Never waits."""
        for uri in uris:
            for subscriber in self.by_uri.get(uri, ()):
                if agent is None or subscriber.agent == agent:
                    subscriber.push(uri)

    def close(self) -> None:
        """Ends every stream. Each stream's task then removes its own subscriber."""
        for subscriber in list(self._subscribers):
            subscriber.close()
