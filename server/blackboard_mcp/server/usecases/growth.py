"""The growth of a data folder: bytes a day, who writes them, and when posts will stop at this rate."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from blackboard_mcp.protocols.errors import BlackboardError
from blackboard_mcp.protocols.values import dataclass
from blackboard_mcp.storage.sqlite import examining, free_space

from ..settings.server import Settings

LOOK_BACK: Final = timedelta(days=7)
_LEAST: Final = timedelta(days=1)
_WRITERS: Final = 3
_FAR: Final = timedelta(days=36_500)


@dataclass(frozen=True, slots=True)
class Growth:
    """The bytes that a data folder gains a day, estimated from recent writes."""

    days: float
    """Days that were measured, from one to seven."""
    database_bytes: int
    """Bytes a day that the boards' file gains."""
    index_bytes: int
    """Bytes a day that the archive's index gains."""
    writers: tuple[tuple[str, str, float], ...]
    """Those who wrote most: board, agent and share of the bytes written, from 0 to 1."""
    free_bytes: int
    """Bytes that may still be written before posts are refused."""
    stops_at: datetime | None
    """The time at which posts would be refused, at this rate; `None` for more than a hundred years ahead."""

    def line(self) -> str:
        """Returns the growth as one sentence."""
        most = ", ".join(f"{agent} on {board} {share:.0%}" for board, agent, share in self.writers)
        return (
            f"growth: {_megabytes(self.database_bytes + self.index_bytes)} a day over the last {self.days:.1f} days, "
            f"{_megabytes(self.database_bytes)} of it the boards' file and {_megabytes(self.index_bytes)} the search "
            f"index; most was written by {most}. {_megabytes(self.free_bytes)} may still be written: at this "
            f"rate {self._end()}."
        )

    def short(self) -> str:
        """Returns a shorter sentence, without files and writers."""
        a_day = self.database_bytes + self.index_bytes
        return f"growth {_megabytes(a_day)} a day in the data folder: at this rate {self._end()}"

    def _end(self) -> str:
        if self.stops_at is None:
            return "posts do not stop in a hundred years"
        return f"posts stop on {self.stops_at:%Y-%m-%d}"

    def facts(self) -> dict[str, Any]:
        """Returns the same as JSON values for programs."""
        stops = None if self.stops_at is None else self.stops_at.isoformat()
        writers = [
            {"board": board, "agent": agent, "share": round(share, 3)} for board, agent, share in self.writers
        ]
        return {**asdict(self), "writers": writers, "stops_at": stops}


def measure(settings: Settings, now: datetime) -> Growth | None:
    """Measures the growth of the last days; reads all items.

    The size of the folder is set in proportion to the bytes ever written and to those written lately. Returns
    `None` for a folder younger than a day, one that cannot be read, or one without recent writes.
    """
    try:
        with examining.opened(settings.database) as raw:
            written = examining.written(raw, now - LOOK_BACK)
        disk = shutil.disk_usage(settings.folder)
        recent = sum(size for _, _, size in written.recent)
    except (BlackboardError, OSError, OverflowError, ValueError, TypeError):
        return None  # other checks report what is wrong with it
    if written.since is None or now - written.since < _LEAST or not 0 < recent <= written.kept:
        return None
    days = min(LOOK_BACK, now - written.since) / timedelta(days=1)
    share = recent / written.kept / days
    database, index = round(_size(settings.database) * share), round(_size(settings.index) * share)
    free = max(0, disk.free - free_space.kept_free(disk.total, settings.limits.free_bytes))
    left = free / max(1, database + index)
    return Growth(
        days=round(days, 1),
        database_bytes=database,
        index_bytes=index,
        writers=tuple((board, agent, size / recent) for board, agent, size in written.recent[:_WRITERS]),
        free_bytes=free,
        stops_at=now + timedelta(days=left) if left < _FAR.days else None,
    )


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    total = 0
    for file in files:
        try:
            total += file.stat().st_size if file.is_file() else 0
        except OSError:
            continue  # the index deleted the file in the meantime
    return total


def _megabytes(size: int) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.1f} MB"
