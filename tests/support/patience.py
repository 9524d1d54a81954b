"""Time limits for tests that wait: far more than a slow and busy machine needs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

PATIENCE: Final = 60.0
"""The seconds after which an awaited event counts as missing."""
RUN: Final = 300.0
"""The seconds within which a program that runs to its end must finish."""
WOKEN: Final = 40.0
"""The seconds within which a call that may wait 50 (the most allowed) must end after it was woken."""

T = TypeVar("T")


def until(found: Callable[[], T], missing: str = "what is waited for does not come") -> T:
    """Calls `found` until its result is true, and returns that.

    Raises:
        AssertionError: it was not true within `PATIENCE`; the message is `missing`.
    """
    end = time.monotonic() + PATIENCE
    while not (seen := found()):
        if time.monotonic() > end:
            raise AssertionError(missing)
        time.sleep(0.01)
    return seen


async def parked(tails: Any, count: int) -> None:
    """Returns when so many calls wait for news at the tails of an installation."""
    async with asyncio.timeout(PATIENCE):
        while tails._waiting < count:  # noqa: ASYNC110 - the calls set no event
            await asyncio.sleep(0.001)
