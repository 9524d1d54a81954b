"""The troubles that keep a store from writing while it still reads, and the room that the disk leaves."""

from __future__ import annotations

from contextvars import ContextVar
from enum import IntEnum
from typing import Literal

from blackboard_mcp.protocols.values import dataclass


@dataclass(frozen=True, slots=True)
class Trouble:
    """The reason why the last attempt to write failed or was limited.

    Attributes:
        kind: `low`: little room is left, and reserved for what ends work. `full`: no room is left. Writes work again
            when there is room. `stopped`: the disk failed, or the file was replaced; only a restart allows writes.
        message: the reason in words.
    """

    kind: Literal["low", "full", "stopped"]
    message: str


class DiskRoom(IntEnum):
    """What may still be written.

    `ALL`: everything. `ENDING`: only what ends work, such as answers that are owed. `NOTHING`: nothing by agents.
    """

    NOTHING = 0
    ENDING = 1
    ALL = 2


ROOM: ContextVar[DiskRoom] = ContextVar("blackboard_room", default=DiskRoom.ALL)
"""The room for the current transaction; an engine sets it where it runs operations."""
