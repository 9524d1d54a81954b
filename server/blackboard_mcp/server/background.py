"""Work that goes on beside other work, and ends with it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def alongside(work: Coroutine[Any, Any, None], name: str) -> AsyncIterator[None]:
    """Runs `work` as a task of that name for as long as it is entered; then the task is cancelled and awaited."""
    task = asyncio.create_task(work, name=name)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
