"""Callbacks on events: in order, one at a time, each event repeated until its callback returns."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from blackboard_mcp.protocols.errors import (
    BlackboardError,
    RateLimited,
    StoreClosed,
    StoreDamaged,
    StoreError,
    StoreTooNew,
    Unreachable,
)
from blackboard_mcp.protocols.wire import WireEvent

from .reader import Reader

logger = logging.getLogger(__name__)

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 30.0

Callback = Callable[[WireEvent], Awaitable[object] | object]
OnError = Callable[[WireEvent, Exception, int], bool | None]
"""Called with an event, the error of its callback, and the attempt's number from 1; `True` skips the event."""


def ending() -> bool:
    """Tells whether the present task was cancelled, also where what it ran caught that."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def passes(error: BlackboardError) -> bool:
    """Tells whether the same call may succeed later: the store or the server could not answer it at the moment."""
    lasting = isinstance(error, StoreClosed | StoreDamaged | StoreTooNew)
    return isinstance(error, StoreError | Unreachable | RateLimited) and not lasting


class Hook:
    """A callback that its own task calls for each event, in order.

    A callback that raises is called again with the same event after 0.1 s, then 0.2 s, up to 30 s, until it
    returns; only `on_error` can skip an event. Each failure is logged. Other hooks are not affected. A plain
    function runs in the event loop, so it must be quick; slow work belongs in a coroutine.
    """

    def __init__(self, reader: Reader, callback: Callback, on_error: OnError | None) -> None:
        self._reader = reader
        self._callback = callback
        self._on_error = on_error
        self._task = asyncio.create_task(self._run(), name="board-hook")
        self.failures = 0
        """The number of times that the callback raised."""
        self.error: Exception | None = None
        """The callback's last error while its event is not done; or the error that ended the hook."""

    @property
    def place(self) -> int:
        """The sequence up to which every event is done."""
        return self._reader.place

    @property
    def lag(self) -> int:
        """The number of sequences by which the log was ahead of `place` when last read."""
        return self._reader.lag

    @property
    def running(self) -> bool:
        """Whether the hook still handles events."""
        return not self._task.done()

    async def _run(self) -> None:
        """Takes events and delivers them, until the reader is closed."""
        pause = FIRST_PAUSE
        try:
            while True:
                try:
                    event = await self._reader.take()
                except BlackboardError as error:
                    if not passes(error):
                        raise
                    logger.warning("a hook cannot read on, and tries again: %s", error)
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, LONGEST_PAUSE)
                    continue
                pause = FIRST_PAUSE
                if event is None:
                    return
                await self._deliver(event)
                self._reader.done(event)
                if ending():  # the callback caught its cancellation, and returned
                    return
        except Exception as error:
            self.error = error
            logger.exception("a hook ended at %d", self._reader.place)

    async def _deliver(self, event: WireEvent) -> None:
        """Calls the callback with the event until it returns, or `on_error` skips the event."""
        pause, attempt = FIRST_PAUSE, 0
        while True:
            try:
                done = self._callback(event)
                if inspect.isawaitable(done):
                    await done
            except asyncio.CancelledError as error:
                if ending():
                    raise
                failure: Exception = RuntimeError(f"the callback was cancelled: {error}")
            except Exception as error:
                failure = error
            else:
                self.error = None
                return
            attempt += 1
            self.failures += 1
            self.error = failure
            logger.error("a callback failed on event %d: %r", event.seq, failure, exc_info=failure)
            if self._told(event, failure, attempt):
                self.error = None
                return
            if ending():  # the callback raised something else when it was cancelled
                raise asyncio.CancelledError
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _told(self, event: WireEvent, failure: Exception, attempt: int) -> bool:
        """Calls `on_error`, and tells whether it skips the event."""
        if self._on_error is None:
            return False
        try:
            return self._on_error(event, failure, attempt) is True
        except Exception:
            logger.exception("on_error failed on event %d", event.seq)
            return False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Ends the hook and cancels a running callback, whose event is not done. A second call does nothing."""
        if self._task is not asyncio.current_task():
            self._task.cancel()
            await asyncio.wait([self._task])
        await self._reader.aclose()
