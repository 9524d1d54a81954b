"""A place in a board's log that moves on as events are done, for iterators, queues and callbacks.

Nothing runs in the background: the next page is requested when the last one is used up. So a slow reader only
lags behind in the log, which is kept whole, and holds one page in memory however much happens meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from blackboard_mcp.protocols.errors import BlackboardError
from blackboard_mcp.protocols.wire import WireEvent

from .calls import EventSource

logger = logging.getLogger(__name__)

PAGE = 100
MAX_PAGE = 200
_CLOSING_SECONDS = 5.0


class Reader:
    """Hands out events in order, each once, with at most `page` (1 to 200) of them in memory.

    A durable reader requests the next page when the whole last page is done, which confirms that page: after
    a crash at most a page comes again. For other readers an event is done once it is handed out. After a
    failed or cancelled read, `take` can be called again.
    """

    def __init__(
        self,
        source: EventSource,
        *,
        page: int = PAGE,
        since: int | None = None,
        durable: bool = False,
        left: Callable[[Reader], None] | None = None,
    ) -> None:
        self._source = source
        self._page = max(1, min(page, MAX_PAGE))
        self._since = since
        self._durable = durable
        self._left = left
        self._held: deque[WireEvent] = deque()
        self._out: set[int] = set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._read_to: int | None = None
        self._confirmed = 0
        self._seq = 0
        self._reading = asyncio.Lock()
        self._waits: set[asyncio.Timeout] = set()
        self._alone = asyncio.Event()
        self._alone.set()
        self._closed = False

    @property
    def place(self) -> int:
        """The sequence up to which everything is done; 0 before the start is known."""
        if self._out:
            return min(self._out) - 1
        if self._held:
            return self._held[0].seq - 1
        return self._read_to or 0

    @property
    def lag(self) -> int:
        """The number of sequences by which the log was ahead of `place` when last read."""
        return max(0, self._seq - self.place)

    @property
    def held(self) -> int:
        """The number of events in memory that are not handed out yet."""
        return len(self._held)

    @property
    def closed(self) -> bool:
        """Whether the reader was closed."""
        return self._closed

    async def start(self) -> None:
        """Finds the place to begin at; otherwise the first `take` does.

        Raises:
            CursorExpired: `since` is no place of the log.
            Conflict: the durable name belongs to a subscription with another filter.
        """
        async with self._reading:
            await self._begin()

    async def _begin(self) -> int:
        """Returns the sequence up to which the log was read; the first call asks the source where to begin."""
        if self._read_to is None:
            self._confirmed = await self._source.start(self._since)
            self._read_to = self._confirmed
        return self._read_to

    async def take(self) -> WireEvent | None:
        """Waits for the next event and returns it, or `None` once the reader is closed."""
        if self._closed:
            return None
        try:
            async with asyncio.timeout(None) as wait:
                self._waits.add(wait)
                self._alone.clear()
                try:
                    return await self._next()
                finally:
                    self._waits.discard(wait)
                    if not self._waits:
                        self._alone.set()
        except TimeoutError:
            if self._closed:
                return None
            raise

    async def _next(self) -> WireEvent:
        """Returns the next event, and requests a page when none is left in memory."""
        while True:
            if self._held:
                event = self._held.popleft()
                if self._durable:
                    self._out.add(event.seq)
                    self._idle.clear()
                return event
            await self._idle.wait()
            async with self._reading:
                if not self._held and not self._out:
                    after = await self._begin()
                    page = await self._source.fetch(after, self._page)
                    self._confirmed = after
                    self._seq = page.seq
                    self._held.extend(page.events)
                    self._read_to = page.cursor

    def done(self, event: WireEvent) -> None:
        """Marks an event as done, so that it does not come again."""
        self._out.discard(event.seq)
        if not self._out:
            self._idle.set()

    async def aclose(self) -> None:
        """Confirms what is done and ends; tasks that wait in `take` get `None`. A second call does nothing.

        What cannot be confirmed within five seconds is not, and comes again.
        """
        if self._closed:
            return
        place = self.place
        self._closed = True
        now = asyncio.get_running_loop().time()
        for wait in self._waits:
            wait.reschedule(now)
        if self._left is not None:
            self._left(self)
        self._held.clear()
        await self._alone.wait()
        try:
            async with asyncio.timeout(_CLOSING_SECONDS):
                if self._durable and place > self._confirmed:
                    await self._source.confirm(place)
                await self._source.close()
        except (BlackboardError, TimeoutError) as error:
            # Events that are not confirmed come again, as after a crash.
            logger.warning("a stream was closed without its last word: %s", error or "no answer in time")
