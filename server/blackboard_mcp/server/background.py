"""Background tasks that end with the work they accompany, and the signals by which a server ends."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

from blackboard_mcp.protocols.errors import BlackboardError

logger = logging.getLogger(__name__)

AGAIN_SECONDS = 2.0
"""Seconds until work in the background that failed begins anew."""
_WELL_SECONDS: Final = 60.0
"""Seconds after which work that was begun has gone well, so that the log says if it fails as before."""
T = TypeVar("T")


class Attempts:
    """Work that is done again and again; the log tells a failure once for as long as it stays the same."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._failing: dict[str, str] = {}
        """The failures of the work that failed last time, by the words for it in the log."""

    async def attempt(self, work: Callable[[], Awaitable[T]], otherwise: str) -> T | None:
        """Does a piece of work and returns its result; where it begins to fail in a way, the log says so in the
        words `otherwise`, and the result is `None`.
        """
        try:
            result = await work()
        except Exception as error:  # a store of the operator's may raise anything, and the rest goes on
            self.failed(otherwise, error)
            return None
        self.went_well(otherwise)
        return result

    def failed(self, otherwise: str, error: BaseException) -> None:
        """Logs a failure, unless the work failed in the same way last time."""
        cause = f"{type(error).__name__}: {error}"
        if self._failing.get(otherwise) != cause:
            self._failing[otherwise] = cause
            told = isinstance(error, BlackboardError)
            level = logging.WARNING if told else logging.ERROR
            self._logger.log(level, "%s: %s", otherwise, error, exc_info=not told)

    def went_well(self, otherwise: str) -> None:
        """Notes that the work does not fail any more."""
        self._failing.pop(otherwise, None)


@asynccontextmanager
async def alongside(work: Coroutine[Any, Any, None], name: str) -> AsyncIterator[None]:
    """Runs `work` as a task called `name` while the context is entered, then cancels the task and awaits its end."""
    task = asyncio.create_task(work, name=name)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def kept_up(work: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
    """Does `work` until it ends or this is cancelled, and begins it anew where it fails, which the log says once for
    as long as it fails in the same way.
    """
    task, time = asyncio.current_task(), asyncio.get_running_loop().time
    assert task is not None
    attempts, otherwise = Attempts(logger), f"{name} failed, and begins anew"
    while not task.cancelling():
        begun = time()
        try:
            await work()
            return
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and task.cancelling():
                raise
            if time() >= begun + _WELL_SECONDS:
                attempts.went_well(otherwise)
            attempts.failed(otherwise, error)
        if not task.cancelling():
            await asyncio.sleep(AGAIN_SECONDS)
            # An import that failed without free file handles took a folder for empty, and would for good.
            importlib.invalidate_caches()


async def closed(what: str, close: Callable[[], Awaitable[None]]) -> None:
    """Awaits `close()`; the log tells what it raised, so that what is left is closed, too."""
    task = asyncio.current_task()
    try:
        await close()
    except (Exception, asyncio.CancelledError) as error:
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise
        logger.exception("closing %s failed: %s: %s", what, type(error).__name__, error)


def heeded(task: asyncio.Future[Any]) -> None:
    """Done callback of work that goes on when its caller is gone: asyncio then does not log a failure as a fault."""
    if not task.cancelled():
        task.exception()


def stop_signals() -> tuple[signal.Signals, ...]:
    """Returns SIGINT, SIGTERM, and SIGHUP, which comes when the server's terminal is closed.

    SIGHUP is left out where it is ignored, as under `nohup`, and on Windows, which has none.
    """
    told = [signal.SIGINT, signal.SIGTERM]
    hangup = getattr(signal, "SIGHUP", None)
    if hangup is not None and signal.getsignal(hangup) != signal.SIG_IGN:
        told.append(hangup)
    return tuple(told)
