"""Free space on the disk of a database, checked now and then, so that writing stops before the disk is full."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from blackboard_mcp.storage.trouble import DiskRoom, Trouble

logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 1.0
"""The seconds for which a check of the disk counts."""
USUAL_BYTES: Final = 256 << 20
"""The bytes that are kept free unless somebody says otherwise."""
_LARGEST_SHARE: Final = 20
"""A small disk keeps less than the usual bytes free: one byte in so many of the whole disk."""
_LAST: Final = 4
"""This part of the kept space (one in so many) stays free even from what ends work."""
_MORE: Final = 8
"""This part (one in so many) must be free in addition before more is written again."""


def kept_free(total: int, wanted: int) -> int:
    """Returns how many bytes of a disk are kept free if `wanted` were asked for: of the usual, at most a twentieth."""
    return min(wanted, total // _LARGEST_SHARE) if wanted == USUAL_BYTES else wanted


class FreeSpace:
    """The room on the disk of a folder, checked at most once in `LOOK_SECONDS`.

    Args:
        folder: a folder on the disk.
        keep: bytes that posts leave free; 0 for none.
        monotonic: returns seconds that only grow.
    """

    def __init__(self, folder: Path, keep: int, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._folder = folder
        self._keep = keep
        self._monotonic = monotonic
        self._next_look = float("-inf")
        self._room = DiskRoom.ALL

    def room(self) -> DiskRoom:
        """Returns what there is room for; any thread may call it."""
        now = self._monotonic()
        if self._keep and now >= self._next_look:
            self._next_look = now + LOOK_SECONDS
            self._look()
        return self._room

    def trouble(self) -> Trouble | None:
        """Returns the same as a trouble of the store, or `None` if there is enough room."""
        match self.room():
            case DiskRoom.ALL:
                return None
            case DiskRoom.ENDING:
                return Trouble("low", "The disk is nearly full: what adds to the boards is refused.")
            case DiskRoom.NOTHING:
                return Trouble("full", "The disk is all but full: what agents write is refused.")

    def _look(self) -> None:
        """Checks the free space, and logs when the room changes."""
        try:
            disk = shutil.disk_usage(self._folder)
        except OSError:
            return  # the next write will report the error
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
    """Returns what there is room for, with `free` bytes of which `keep` should stay free."""
    if free >= keep:
        return DiskRoom.ALL
    return DiskRoom.ENDING if free >= keep // _LAST else DiskRoom.NOTHING
