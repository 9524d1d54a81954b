"""Background tasks that end with the work they accompany, and the signals by which a server ends."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

logger = logging.getLogger(__name__)

AGAIN_SECONDS = 2.0
"""Seconds until work in the background that failed begins anew."""


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
    """Does `work` until it ends or this is cancelled, and begins it anew where it fails, which the log says."""
    task = asyncio.current_task()
    assert task is not None
    while not task.cancelling():
        try:
            await work()
            return
        except Exception:
            logger.exception("%s failed, and begins anew", name)
        if not task.cancelling():
            await asyncio.sleep(AGAIN_SECONDS)
            # An import that failed without free file handles took a folder for empty, and would for good.
            importlib.invalidate_caches()


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
