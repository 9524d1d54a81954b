"""The time since which a store has been served: its processes share it, and a restart leaves it as it was."""

from __future__ import annotations

from typing import Final

from ...operation import Write
from .rows import Steps, sql

_NAME: Final = "served"
_EVERY: Final = 60_000_000
"""Microseconds after which a process says again that the store is served."""
_STOP: Final = 150_000_000
"""Microseconds without a word after which the store counts as having been stopped."""


def since(opened: int, now: int) -> Steps[int]:
    """Returns the time since which agents can make calls, for a process that opened the store at `opened`.

    It is earlier if other processes serve the store, or did until shortly before: time in which one server follows
    another counts as absence, else nobody would ever count as away where servers are restarted often.
    """
    for began, until in (yield sql("lease_of"), (_NAME,)):
        if opened - until <= _STOP:
            return min(int(began), now)
    return min(opened, now)


def mark(write: Write) -> Steps[None]:
    """Says that the store is served now, unless that was said a short time ago."""
    began = yield from since(write.opened, write.now)
    kept = [(int(holder), until) for holder, until in (yield sql("lease_of"), (_NAME,))]
    if not any(holder == began and write.now - _EVERY < until <= write.now for holder, until in kept):
        yield sql("lease_put"), (_NAME, str(began), write.now)
