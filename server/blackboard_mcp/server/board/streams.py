"""Events as an async iterator, and as a queue for several workers."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from blackboard_mcp.protocols.errors import StoreClosed
from blackboard_mcp.protocols.wire import WireEvent

from .reader import Reader


class EventStream:
    """Events in order: `async for event in board.events({"type": "CRITIQUE"})`.

    It begins on entering with `async with`, or with the first step. An event is done when the next one is
    requested, or when the `async with` block ends without an exception; a durable stream delivers events again
    that were not done. Only one task at a time may iterate. After an exception, iterating can continue.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._last: WireEvent | None = None

    @property
    def place(self) -> int:
        """The sequence up to which everything is done; 0 before the stream begins."""
        return self._reader.place

    @property
    def lag(self) -> int:
        """The number of sequences by which the log was ahead of `place` when last read."""
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
        """Marks the current event as done."""
        if self._last is not None:
            self._reader.done(self._last)
            self._last = None

    async def aclose(self) -> None:
        """Ends the iteration, also for a task that waits in it. The current event is not done."""
        await self._reader.aclose()


class EventQueue:
    """Events for workers: `event = await queue.get()`, then `queue.done(event)`.

    It holds at most `maxsize` events; later ones stay in the log, so none is lost. Several tasks may call
    `get`: each event goes to one of them. A durable queue requests more events when all it gave out are done,
    and after a crash delivers again those that were not. Iterating over it calls both methods.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    @property
    def place(self) -> int:
        """The sequence up to which everything is done."""
        return self._reader.place

    @property
    def lag(self) -> int:
        """The number of sequences by which the log was ahead of `place` when last read."""
        return self._reader.lag

    def qsize(self) -> int:
        """Returns the number of events in memory that `get` has not returned yet."""
        return self._reader.held

    async def get(self) -> WireEvent:
        """Waits for the next event, and returns it.

        Raises:
            StoreClosed: the queue is closed.
        """
        event = await self._reader.take()
        if event is None:
            raise StoreClosed("The queue is closed.")
        return event

    def done(self, event: WireEvent) -> None:
        """Marks an event as done, which only matters for a durable queue. A second call does nothing."""
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
        """Ends the queue, also for tasks that wait in it. Events that are not done are not confirmed."""
        await self._reader.aclose()
