"""Change notifications: one publish, every subscriber, none of them waited for.

Knows subscribers as a set of URIs and a way to send one. Refuses to know protocol generations,
transports and what a URI stands for.

Every subscriber has a task of its own that sends, so a reader that stalls holds up nobody. What is
pending is a set of URIs, so ten thousand changes of one resource between two sends are one
notification, and memory is bounded by what was subscribed.
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
"""What stands for the list of resources where URIs are subscribed to; no resource is called so."""


class TooManySubscriptions(Exception):
    """A limit of the hub; the message says which one and what to do."""


class Subscriber:
    """One stream's pending notifications. Made by `Hub.add`, ended by `Hub.remove`."""

    def __init__(self, hub: Hub, agent: str, counted_as: str) -> None:
        self.agent = agent
        self.counted_as = counted_as
        self.uris: set[str] = set()
        self.closed = False
        self._hub = hub
        self._pending: dict[str, None] = {}
        self._wake = asyncio.Event()

    def want(self, uris: Iterable[str]) -> None:
        """Add URIs to what this stream gets.

        Raises:
            TooManySubscriptions: more than `uris_per_stream` of them; none was added.
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

    def unwant(self, uri: str) -> None:
        """Stop notifying about a URI, also when a change of it is already pending."""
        self.uris.discard(uri)
        self._pending.pop(uri, None)
        self._hub.forget(uri, self)

    def push(self, uri: str) -> None:
        self._pending[uri] = None
        self._wake.set()

    def close(self) -> None:
        """Let `run` return; what is pending is dropped, and a client reads again anyway."""
        self.closed = True
        self._wake.set()

    async def run(self, send: Callable[[str], Awaitable[None]], *, timeout: float | None = None) -> None:
        """Send what gets pending, oldest first, until closed.

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
        self._subscribers: set[Subscriber] = set()
        self._counted = Counted(self.limits.streams, self.limits.streams_per_principal)

    def __len__(self) -> int:
        return len(self._subscribers)

    def add(self, agent: str, uris: Iterable[str] = (), *, counted_as: str | None = None) -> Subscriber:
        """A new subscriber; `counted_as` is whose streams are limited together, else the agent.

        Raises:
            TooManySubscriptions: of the server, of this agent, or of URIs in one stream.
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
        """Forget a subscriber; doing it twice is fine."""
        subscriber.close()
        if subscriber in self._subscribers:
            self._subscribers.remove(subscriber)
            self._counted.leave(subscriber.counted_as)
        for uri in subscriber.uris:
            self.forget(uri, subscriber)
        subscriber.uris = set()

    def agents(self) -> set[str]:
        """Whose the subscribers are."""
        return {subscriber.agent for subscriber in self._subscribers}

    def forget(self, uri: str, subscriber: Subscriber) -> None:
        waiting = self.by_uri.get(uri)
        if waiting is not None:
            waiting.discard(subscriber)
            if not waiting:
                del self.by_uri[uri]

    def publish(self, uris: Iterable[str], agent: str | None = None) -> None:
        """Mark the URIs as changed for whoever wants them, or for one agent. Never waits."""
        for uri in uris:
            for subscriber in self.by_uri.get(uri, ()):
                if agent is None or subscriber.agent == agent:
                    subscriber.push(uri)

    def close(self) -> None:
        """End every stream; the subscribers remove themselves."""
        for subscriber in list(self._subscribers):
            subscriber.close()
