"""The file of a write-ahead log, read without SQLite.

SQLite ends a log at the first frame with a wrong checksum and says nothing about the rest. This module counts the
rest: later frames of the same log, and the commits among them, which are lost. Format:
https://sqlite.org/fileformat2.html#the_write_ahead_log
"""

from __future__ import annotations

import logging
import shutil
import struct
import time
from pathlib import Path

from blackboard_mcp.protocols.values import dataclass

from .wakeup import processes_at

logger = logging.getLogger(__name__)

_MAGIC = 0x377F0682
_HEADER, _FRAME = 32, 24


@dataclass(frozen=True, slots=True)
class LogState:
    """Frames and commits of a log up to its first wrong checksum, and (`cut_…`) after it."""

    frames: int = 0
    commits: int = 0
    cut_frames: int = 0
    cut_commits: int = 0


def read_log(log: Path) -> LogState:
    """Returns the counts for a log that no process writes to now; all are 0 if there is none.

    Raises:
        OSError: it cannot be read.
    """
    try:
        raw = log.read_bytes()
    except FileNotFoundError:
        return LogState()
    if len(raw) < _HEADER + _FRAME:
        return LogState()
    magic, _, page = struct.unpack_from(">III", raw)
    good = magic & ~1 == _MAGIC and 512 <= page <= 65_536 and page & (page - 1) == 0
    order = ">" if magic & 1 else "<"
    sums = (0, 0)
    if good:
        sums = _add(sums, raw[:24], order)
        good = sums == struct.unpack_from(">II", raw, 24)
    if not good:
        return _lost_with_its_head(raw)
    salts = raw[16:24]
    frames = commits = cut_frames = cut_commits = pending = 0
    whole = True
    for at in range(_HEADER, len(raw) - _FRAME - page + 1, _FRAME + page):
        if raw[at + 8 : at + 16] != salts:
            # The frame is from before the log was reset, or its salts are damaged.
            if whole and _follows(raw, at + _FRAME + page, salts):
                whole = False
                cut_frames += 1
            elif whole:
                break
            continue
        commit = raw[at + 4 : at + 8] != b"\0\0\0\0"
        if whole:
            sums = _add(_add(sums, raw[at : at + 8], order), raw[at + _FRAME : at + _FRAME + page], order)
            whole = sums == struct.unpack_from(">II", raw, at + 16)
        if whole:
            frames += 1
            pending += 1
            if commit:
                commits, pending = commits + 1, 0
        else:
            cut_frames += 1
            cut_commits += commit
    return LogState(frames, commits, cut_frames + (pending if cut_frames else 0), cut_commits)


def _follows(raw: bytes, at: int, salts: bytes) -> bool:
    """Tells whether the frame at this offset has the log's salts."""
    return raw[at + 8 : at + 16] == salts


def _lost_with_its_head(raw: bytes) -> LogState:
    """Returns the counts for a log with a damaged header, which SQLite ignores; assumes our page size."""
    page = 4_096
    places = range(_HEADER, len(raw) - _FRAME - page + 1, _FRAME + page)
    first = raw[_HEADER + 8 : _HEADER + 16]
    mine = [at for at in places if raw[at + 8 : at + 16] == first]
    return LogState(0, 0, len(mine), sum(raw[at + 4 : at + 8] != b"\0\0\0\0" for at in mine))


def _add(sums: tuple[int, int], data: bytes, order: str) -> tuple[int, int]:
    """Returns the checksum after more data; `order` is the byte order for `struct`."""
    one, two = sums
    words = iter(struct.unpack(f"{order}{len(data) // 4}I", data))
    for first, second in zip(words, words, strict=True):
        one = (one + first + two) & 0xFFFFFFFF
        two = (two + second + one) & 0xFFFFFFFF
    return one, two


def tell_of_loss(path: Path) -> None:
    """Logs an error if a dead process's log is damaged, since SQLite silently drops the commits behind the damage.

    The log is kept under another name beside the file.
    """
    log = path.with_name(path.name + "-wal")
    try:
        # A log that other processes write to may be incomplete, and they will recover it.
        if not log.exists() or processes_at(path)[0]:
            return
        state = read_log(log)
        if not state.cut_commits:
            return
        kept = log.with_name(f"{log.name}.damaged-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}")
        shutil.copyfile(log, kept)
        kept.chmod(0o600)
    except OSError as error:
        logger.error("the write-ahead log %s cannot be looked at: %s", log, error)
        return
    logger.error(
        "the write-ahead log is damaged after %d commits: up to %d later ones, which were acknowledged, are lost; it "
        "is kept as %s. Restore a backup, or let agents repeat their last posts with the same idempotency keys",
        state.commits,
        state.cut_commits,
        kept,
    )
