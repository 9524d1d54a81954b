"""Background tasks that end with the work they accompany, and the signals by which a server ends."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any


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
