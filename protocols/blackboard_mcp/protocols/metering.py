"""How long the work of a call takes, whichever thread does it: a meter that goes with the call."""

from __future__ import annotations

from contextvars import ContextVar


class Meter:
    """Seconds of work so far, waiting left out."""

    __slots__ = ("seconds",)

    def __init__(self) -> None:
        self.seconds = 0.0


METER: ContextVar[Meter | None] = ContextVar("blackboard_meter", default=None)
"""The meter of the call that is worked on, if one is."""
