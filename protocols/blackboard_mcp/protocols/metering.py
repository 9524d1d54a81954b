"""How long the work of a call takes, whichever thread does it: a meter that goes with the call."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Meter:
    """Seconds of work so far, waiting left out, and how much is worked on in threads just now."""

    __slots__ = ("seconds", "working")

    def __init__(self) -> None:
        self.seconds = 0.0
        self.working = 0

    @contextmanager
    def in_thread(self) -> Iterator[None]:
        """Counts what this thread does within."""
        self.working += 1
        begun = time.thread_time()
        try:
            yield
        finally:
            self.seconds += time.thread_time() - begun
            self.working -= 1


METER: ContextVar[Meter | None] = ContextVar("blackboard_meter", default=None)
"""The meter of the call that is worked on, if one is."""
