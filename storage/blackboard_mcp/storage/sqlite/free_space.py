"""Free space on the disk of a database: looked at now and then, so that writing stops before the disk does."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from blackboard_mcp.storage.disk_room import DiskRoom
from blackboard_mcp.storage.trouble import Trouble

logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 1.0
"""How long what was seen is taken to be so."""
_LARGEST_SHARE: Final = 20
"""At most one part in so many of the disk is kept free."""
_LAST: Final = 4
"""One part in so many of what is kept free is for what ends work."""
_MORE: Final = 8
"""So much more (one part in that many) must be free before more is written again."""


def kept_free(total: int, wanted: int) -> int:
    """How many bytes of a disk are kept free where `wanted` are."""
    return min(wanted, total // _LARGEST_SHARE)


class FreeSpace:
    """What the disk of a folder has room for, seen at most once in `LOOK_SECONDS`.

    Args:
        keep: bytes that posting leaves free; 0 for none.
        monotonic: seconds that only grow.
    """

    def __init__(self, folder: Path, keep: int, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._folder = folder
        self._keep = keep
        self._monotonic = monotonic
        self._next_look = float("-inf")
        self._room = DiskRoom.ALL

    def room(self) -> DiskRoom:
        """What there is room for; any thread may ask."""
        now = self._monotonic()
        if self._keep and now >= self._next_look:
            self._next_look = now + LOOK_SECONDS
            self._look()
        return self._room

    def trouble(self) -> Trouble | None:
        """The same for those who ask how the store does."""
        match self.room():
            case DiskRoom.ALL:
                return None
            case DiskRoom.ENDING:
                return Trouble("low", "The disk is nearly full: what adds to the boards is refused.")
            case DiskRoom.NOTHING:
                return Trouble("full", "The disk is all but full: what agents write is refused.")

    def _look(self) -> None:
        try:
            disk = shutil.disk_usage(self._folder)
        except OSError:
            return  # the next write tells
        keep = kept_free(disk.total, self._keep)
        room = _room(disk.free, keep)
        if room > self._room:
            room = max(self._room, _room(disk.free, keep + keep // _MORE))
        if room is self._room:
            return
        self._room = room
        if room is DiskRoom.ALL:
            logger.warning("%s has %d MiB free: posts are taken again", self._folder, disk.free >> 20)
            return
        logger.error(
            "%s has %.1f MiB free and keeps %.1f (limit free_bytes): %s. Delete or move other files, or enlarge the "
            "disk; no restart is needed",
            self._folder,
            disk.free / (1 << 20),
            keep / (1 << 20),
            "what adds to the boards is refused, what ends work is taken"
            if room is DiskRoom.ENDING
            else "what agents write is refused, reading goes on",
        )


def _room(free: int, keep: int) -> DiskRoom:
    if free >= keep:
        return DiskRoom.ALL
    return DiskRoom.ENDING if free >= keep // _LAST else DiskRoom.NOTHING
