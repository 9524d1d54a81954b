"""The room that the disk leaves for writes, as a transaction finds it."""

from __future__ import annotations

from contextvars import ContextVar
from enum import IntEnum


class DiskRoom(IntEnum):
    """What may still be written.

    `ALL`: everything. `ENDING`: only what ends work, such as answers that are owed. `NOTHING`: nothing by agents.
    """

    NOTHING = 0
    ENDING = 1
    ALL = 2


ROOM: ContextVar[DiskRoom] = ContextVar("blackboard_room", default=DiskRoom.ALL)
"""The room for the current transaction; an engine sets it where it runs operations."""
