"""How long tests wait for what must come: one bound, far above what a slow and busy machine needs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

PATIENCE: Final = 60.0
"""Seconds after which something that is waited for is taken for missing."""
RUN: Final = 300.0
"""Seconds that a program has which is run to its end: it starts, and does all that it is for."""
WOKEN: Final = 40.0
"""Seconds in which a call that asked to wait for 50, the most there is, ends when it was woken."""

T = TypeVar("T")


def until(found: Callable[[], T], missing: str = "what is waited for does not come") -> T:
    """Looks again and again until there is something, and returns it."""
    end = time.monotonic() + PATIENCE
    while not (seen := found()):
        if time.monotonic() > end:
            raise AssertionError(missing)
        time.sleep(0.01)
    return seen
