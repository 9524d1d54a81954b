"""A meter of the time that a call's work takes, whichever thread does it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Meter:
    """Seconds of work so far, waiting left out, and how much is worked on in threads just now.

    What is `dear` takes so long by itself that a commit of its own is a small part of it.
    """

    __slots__ = ("dear", "seconds", "working")

    def __init__(self, *, dear: bool = False) -> None:
        self.dear = dear
        self.seconds = 0.0
        self.working = 0

    @contextmanager
    def in_thread(self, clock: Callable[[], float] = time.thread_time) -> Iterator[None]:
        """Counts what this thread does within; by another clock where threads that are not ours work for it."""
        self.working += 1
        begun = clock()
        try:
            yield
        finally:
            self.seconds += clock() - begun
            self.working -= 1

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Within what is counted by the wall clock, leaves out the time that something outside takes to answer."""
        self.working -= 1
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.seconds -= time.perf_counter() - begun
            self.working += 1


METER: ContextVar[Meter | None] = ContextVar("blackboard_meter", default=None)
"""The meter of the call that is worked on, if one is."""
