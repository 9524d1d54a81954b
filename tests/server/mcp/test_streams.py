"""One publish reaches every subscriber, and no reader can hurt another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from blackboard_mcp.server.limits.limits import Limits
from blackboard_mcp.server.mcp import streams
from blackboard_mcp.server.mcp.streams import Hub, Subscriber, TooManySubscriptions
from patience import PATIENCE


class Reader:
    """A client that takes one notification whenever it is let."""

    def __init__(self, *, stalled: bool = False) -> None:
        self.got: list[str] = []
        self.reading = asyncio.Event()
        self.news = asyncio.Event()
        if not stalled:
            self.reading.set()

    async def send(self, uri: str) -> None:
        await self.reading.wait()
        self.got.append(uri)
        self.news.set()

    async def has(self, *uris: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while self.got != list(uris):
                self.news.clear()
                await self.news.wait()


@asynccontextmanager
async def running(subscriber: Subscriber, reader: Reader) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(subscriber.run(reader.send))
    try:
        yield task
    finally:
        subscriber.close()
        await asyncio.wait([task], timeout=1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_change_reaches_those_who_want_it_and_nobody_else() -> None:
    hub = Hub()
    one, other = Reader(), Reader()
    first, second = hub.add("a", ["x"]), hub.add("b", ["x", "y"])
    async with running(first, one), running(second, other):
        hub.publish(["y", "z"])
        await other.has("y")
        hub.publish(["x"])
        await one.has("x")
        await other.has("y", "x")


async def test_ten_thousand_changes_between_two_sends_are_one_notification() -> None:
    hub = Hub()
    reader = Reader()
    async with running(hub.add("a", ["x", "last"]), reader):
        for _ in range(10_000):
            hub.publish(["x"])
        hub.publish(["last"])
        await reader.has("x", "last")


async def test_a_stalled_reader_holds_up_nobody_and_costs_its_own_uris() -> None:
    hub = Hub()
    stalled, healthy = Reader(stalled=True), Reader()
    slow = hub.add("a", ["x", "y"])
    async with running(slow, stalled), running(hub.add("b", ["x"]), healthy):
        for count in range(1, 51):
            hub.publish(["x", "y"])
            await healthy.has(*["x"] * count)
        assert len(slow._pending) <= 2
        stalled.reading.set()
        await stalled.has("x", "y", "x")


async def test_a_reader_that_stays_stalled_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "SEND_TIMEOUT_SECONDS", 0.01)
    hub = Hub()
    async with running(hub.add("a", ["x"]), Reader(stalled=True)) as task:
        hub.publish(["x"])
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(task), PATIENCE)


async def test_what_was_unsubscribed_is_not_sent_even_when_pending() -> None:
    hub = Hub()
    reader = Reader()
    subscriber = hub.add("a", ["x", "y"])
    hub.publish(["x", "y"])
    subscriber.unwant("x")
    async with running(subscriber, reader):
        await reader.has("y")


async def test_removed_subscribers_leave_nothing_behind() -> None:
    hub = Hub()
    subscriber = hub.add("a", ["x"])
    hub.remove(subscriber)
    hub.remove(subscriber)
    assert (len(hub), hub.by_uri) == (0, {})


async def test_close_ends_every_stream() -> None:
    hub = Hub()
    async with running(hub.add("a", ["x"]), Reader()) as one, running(hub.add("b"), Reader()) as two:
        hub.close()
        await asyncio.wait_for(asyncio.gather(one, two), PATIENCE)


async def test_streams_and_their_resources_are_limited() -> None:
    hub = Hub(Limits(uris_per_stream=2, streams=2, streams_per_principal=1))
    with pytest.raises(TooManySubscriptions, match="at most 2 resources"):
        hub.add("a", ["x", "y", "z"])
    hub.add("a")
    with pytest.raises(TooManySubscriptions, match="a has 1 open"):
        hub.add("a")
    hub.add("b")
    with pytest.raises(TooManySubscriptions, match="too many open"):
        hub.add("c")
