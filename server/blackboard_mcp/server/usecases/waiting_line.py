"""An order among callers that wait for the same work: whoever waited longest tries first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from heapq import heappop, heappush


class WaitingLine:
    """Lets callers act one at a time, by their places. It belongs to one event loop."""

    def __init__(self) -> None:
        self._busy = False
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    @asynccontextmanager
    async def turn(self, place: int) -> AsyncIterator[None]:
        """Runs the block alone; of those that ask at the same time the lowest place goes first."""
        loop = asyncio.get_running_loop()
        mine = loop.create_future()
        heappush(self._waiting, (place, mine))
        loop.call_soon(self._next)  # others that were woken together with this one ask first
        try:
            await mine
            yield
        finally:
            if mine.done() and not mine.cancelled():
                self._busy = False
                self._next()
            else:
                mine.cancel()

    def _next(self) -> None:
        while not self._busy and self._waiting:
            _, first = heappop(self._waiting)
            if not first.done():
                self._busy = True
                first.set_result(None)
