"""Events as an async iterator, and as a queue for several workers."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from blackboard_mcp.protocols.errors import StoreClosed
from blackboard_mcp.protocols.wire import WireEvent

from .reader import Reader


class EventStream:
    """Events in order: `async for event in board.events({"type": "CRITIQUE"})`.

    It begins where `async with` is entered, or with the first step. An event is done when the next one is
    asked for, or when the `async with` block ends without an exception; a durable stream delivers again what
    was not done. One task at a time may iterate. An exception leaves it usable: iterating goes on.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._last: WireEvent | None = None

    @property
    def place(self) -> int:
        """The sequence up to which everything is done; `since` for a stream that goes on from here."""
        return self._reader.place

    @property
    def lag(self) -> int:
        """How far the log went beyond `place` when it was last read."""
        return self._reader.lag

    async def __aenter__(self) -> Self:
        await self._reader.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._finish()
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WireEvent:
        self._finish()
        event = await self._reader.take()
        if event is None:
            raise StopAsyncIteration
        self._last = event
        return event

    def _finish(self) -> None:
        if self._last is not None:
            self._reader.done(self._last)
            self._last = None

    async def aclose(self) -> None:
        """Ends the iteration, also for a task that waits in it. The event in hand is not done."""
        await self._reader.aclose()


class EventQueue:
    """Events for workers: `event = await queue.get()`, then `queue.done(event)`.

    It holds at most `maxsize` events; what is not asked for yet stays in the log, and nothing is dropped.
    Several tasks may get: each event goes to one of them. A durable queue delivers again, after a crash, what
    was not done, and reads on when all it gave out is done. Iterating it does both.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    @property
    def place(self) -> int:
        """The sequence up to which everything is done."""
        return self._reader.place

    @property
    def lag(self) -> int:
        """How far the log went beyond `place` when it was last read."""
        return self._reader.lag

    def qsize(self) -> int:
        """How many events are in memory and wait to be got."""
        return self._reader.held

    async def get(self) -> WireEvent:
        """The next event, as soon as there is one.

        Raises:
            StoreClosed: the queue is closed.
        """
        event = await self._reader.take()
        if event is None:
            raise StoreClosed("The queue is closed.")
        return event

    def done(self, event: WireEvent) -> None:
        """The event was worked off. It only matters for a durable queue, and calling it twice is safe."""
        self._reader.done(event)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> EventStream:
        return EventStream(self._reader)

    async def aclose(self) -> None:
        """Ends the queue, also for tasks that wait in it. What was got and is not done is not confirmed."""
        await self._reader.aclose()
