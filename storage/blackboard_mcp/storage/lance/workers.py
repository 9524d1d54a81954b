"""The threads that an archive index works in."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from contextvars import copy_context
from typing import TypeVar

from blackboard_mcp.protocols.errors import ArchiveUnavailable
from blackboard_mcp.protocols.metering import METER

T = TypeVar("T")
logger = logging.getLogger(__name__)

REST_SECONDS = 5.0


def damaged(error: Exception) -> ArchiveUnavailable:
    """Returns the error for a table that the driver cannot use."""
    return ArchiveUnavailable(
        f"The archive index cannot be used ({type(error).__name__}: {str(error)[:300]}). "
        "Nothing is lost: it can be rebuilt from the store.",
        reason="damaged",
    )


def _try(rest: Callable[[], None]) -> None:
    """Runs what threads do at rest; an error there ends nothing, so it is logged."""
    try:
        rest()
    except Exception as error:
        logger.warning("what the archive no longer needs could not be given back: %r", error)


class Workers:
    """A few threads, started at the first call. Errors of the driver leave them as `explained` has them.

    `REST_SECONDS` after the first call since the last rest they call `rest`, if it is given.
    """

    def __init__(
        self,
        rest: Callable[[], None] | None = None,
        explained: Callable[[Exception], ArchiveUnavailable] = damaged,
    ) -> None:
        self._explained = explained
        self._threads: ThreadPoolExecutor | None = None
        self._closed = False
        self._rest = rest
        self._resting: asyncio.TimerHandle | None = None

    async def run(self, work: Callable[[], T]) -> T:
        """Returns the result of `work`, which runs in a thread.

        Its time is counted by the wall clock, since most of the work is done by threads of the driver.
        """
        self.check_open()
        if self._threads is None:
            self._threads = ThreadPoolExecutor(max_workers=3, thread_name_prefix="archive")
        context, loop = copy_context(), asyncio.get_running_loop()
        if self._rest is not None and self._resting is None:
            self._resting = loop.call_later(REST_SECONDS, self._begin_rest, self._rest)
        return await loop.run_in_executor(self._threads, lambda: context.run(self._counted, work))

    def _begin_rest(self, rest: Callable[[], None]) -> None:
        self._resting = None
        if self._threads is not None:
            self._threads.submit(_try, rest)

    def check_open(self) -> None:
        """Refuses work once the index is closed; the process that opens it next does what remains.

        Raises:
            ArchiveUnavailable: it is closed.
        """
        if self._closed:
            raise ArchiveUnavailable("The archive index was closed.", reason="closed")

    def refuse(self) -> None:
        """Refuses work from now on; calls under way continue."""
        self._closed = True
        if self._resting is not None:
            self._resting.cancel()

    async def close(self) -> None:
        """Refuses work from now on, and waits for calls under way. It may be called twice."""
        self.refuse()
        threads, self._threads = self._threads, None
        if threads is not None:
            await asyncio.to_thread(threads.shutdown)

    def _counted(self, work: Callable[[], T]) -> T:
        meter = METER.get()
        with nullcontext() if meter is None else meter.in_thread(time.perf_counter):
            try:
                return work()
            except ArchiveUnavailable:
                raise
            except Exception as error:
                raise self._explained(error) from error
