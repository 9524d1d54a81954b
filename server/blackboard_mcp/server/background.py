"""Background tasks that end with the work they accompany."""

from __future__ import annotations

import asyncio
import contextlib
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
