"""Free pages inside a database file, given back to the disk.

A new file can shrink while it is written to (`auto_vacuum=INCREMENTAL`). A file created without that has to be
rewritten once, by `compact`. See https://sqlite.org/pragma.html#pragma_auto_vacuum
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from blackboard_mcp.protocols.errors import StoreBusy, StoreFull
from blackboard_mcp.storage.sqlite import driver
from blackboard_mcp.storage.sqlite.wakeup import processes_at

_INCREMENTAL: Final = 2
_SPARE_SHARE: Final = 4
"""One page in so many may stay free, for the next posts."""
_SPARE_PAGES: Final = 1_024
_SLICE: Final = 128
"""The pages given back at a time, while writers wait."""


def prepare(raw: driver.Raw) -> None:
    """Enables a new, empty file to shrink later on; leaves other files as they are."""
    if driver.pragma(raw, "page_count") == 0:
        raw.execute(f"PRAGMA auto_vacuum={_INCREMENTAL}")


def can_shrink(raw: driver.Raw) -> bool:
    """Tells whether the file can give pages back without being rewritten."""
    return bool(driver.pragma(raw, "auto_vacuum") == _INCREMENTAL)


def give_back(raw: driver.Raw) -> None:
    """Gives some free pages back to the disk if there are many; does nothing to a file that cannot shrink.

    Raises:
        Exception: the driver's error, for example because another process has the lock; nothing was changed.
    """
    free = driver.pragma(raw, "freelist_count")
    if free > _SPARE_PAGES and free * _SPARE_SHARE > driver.pragma(raw, "page_count"):
        raw.execute(f"PRAGMA incremental_vacuum({_SLICE})").fetchall()


def compact(path: Path) -> tuple[int, int]:
    """Rewrites the whole file, dense and able to shrink; returns its bytes before and after.

    Raises:
        StoreBusy: a process has the file open.
        StoreFull: the disk has no room for a second copy and its log.
        StoreError: the file cannot be read or written.
    """
    if alive := processes_at(path)[0]:
        listed = ", ".join(map(str, alive))
        raise StoreBusy(f"{path} is open in processes {listed}: stop them first. Nothing was changed.")
    raw = driver.connect(str(path))
    try:
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        before = path.stat().st_size
        if (free := shutil.disk_usage(path.parent).free) < 2 * before:
            raise StoreFull(
                f"Compacting {path} takes up to {2 * before >> 20} MiB for a while, and {free >> 20} are free. Nothing "
                "was changed. Make room first."
            )
        raw.execute("PRAGMA temp_store=FILE")
        raw.execute("PRAGMA synchronous=FULL")
        raw.execute(f"PRAGMA auto_vacuum={_INCREMENTAL}")
        raw.execute("VACUUM")
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return before, path.stat().st_size
    except driver.errors() as error:
        raise driver.translate(error, f"compact {path}") from error
    finally:
        raw.close()
