"""The counter of changes that an engine's process knows of, and the tasks that wait for it to grow."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from blackboard_mcp.protocols.errors import StoreClosed


class Changes:
    """A counter of commits that this process made or learned of, and the tasks that wait for it to grow."""

    def __init__(self) -> None:
        self.count = 0
        self.waiting = 0
        self.on_waiting: Callable[[], None] = lambda: None
        self._closed = False
        self._grown = asyncio.Event()

    def bump(self) -> None:
        """Increments the counter and wakes all waiters."""
        self.count += 1
        grown, self._grown = self._grown, asyncio.Event()
        grown.set()

    def close(self) -> None:
        """Wakes all waiters; they and later ones get `StoreClosed`."""
        self._closed = True
        self._grown.set()

    async def wait(self, seen: int, timeout: float, *, hurried: bool = True) -> int:
        """Waits until the counter exceeds `seen`, or for `timeout` seconds, and returns it.

        A wait that is not `hurried` causes no polling of its own: another process's change is then noticed by a
        datagram, or within a second.

        Raises:
            StoreClosed: the store was closed before or meanwhile.
        """
        self.waiting += hurried
        try:
            if self.count <= seen and not self._closed:
                if hurried and self.waiting == 1:
                    self.on_waiting()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(timeout):
                        while self.count <= seen and not self._closed:
                            await self._grown.wait()
        finally:
            self.waiting -= hurried
        if self._closed and self.count <= seen:
            raise StoreClosed("The store was closed while waiting for a change.")
        return self.count
