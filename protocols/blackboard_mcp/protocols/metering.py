"""A meter of the working time of a call, in all threads."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar


class Meter:
    """The seconds that a call has worked so far, without waiting, and the number of its threads working now.

    A call is `dear` if its work takes so long that a commit of its own adds little to it. One that is `steady` as well
    gives way to no other once it writes.
    """

    __slots__ = ("dear", "seconds", "steady", "working")

    def __init__(self, *, dear: bool = False, steady: bool = False) -> None:
        self.dear = dear
        self.steady = steady
        self.seconds = 0.0
        self.working = 0

    @contextmanager
    def in_thread(
        self, clock: Callable[[], float] = time.thread_time, most: float = math.inf
    ) -> Iterator[None]:
        """Counts the time of this thread inside the `with` block.

        `clock` returns seconds; pass another if threads that are not our own do part of the work. No more than `most`
        seconds count.
        """
        self.working += 1
        begun = clock()
        try:
            yield
        finally:
            self.seconds += min(clock() - begun, most)
            self.working -= 1

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Leaves out the time that an outside service takes to answer, within time counted by the wall clock."""
        self.working -= 1
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.seconds -= time.perf_counter() - begun
            self.working += 1


@contextmanager
def shared(
    meters: Sequence[Meter], clock: Callable[[], float] = time.thread_time, most: float = math.inf
) -> Iterator[None]:
    """Counts the time inside the `with` block for several calls, in equal parts.

    `clock` and `most` are as for `Meter.in_thread`.
    """
    for meter in meters:
        meter.working += 1
    begun = clock()
    try:
        yield
    finally:
        spent = min(clock() - begun, most)
        for meter in meters:
            meter.seconds += spent / len(meters)
            meter.working -= 1


METER: ContextVar[Meter | None] = ContextVar("blackboard_meter", default=None)
"""The meter of the present call, if it has one."""
