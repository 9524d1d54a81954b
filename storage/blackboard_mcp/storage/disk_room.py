"""The room that the disk leaves to writers, as a transaction finds it."""

from __future__ import annotations

from contextvars import ContextVar
from enum import IntEnum


class DiskRoom(IntEnum):
    """What is still written: `NOTHING` that agents ask for, what ends work (`ENDING`), `ALL`."""

    NOTHING = 0
    ENDING = 1
    ALL = 2


ROOM: ContextVar[DiskRoom] = ContextVar("blackboard_room", default=DiskRoom.ALL)
"""That of the transaction under way; an engine sets it where it runs operations."""
