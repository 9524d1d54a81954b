"""Room inside a database file: pages that nothing uses any more, given back to the disk.

A new file can shrink while it is written to (`auto_vacuum=INCREMENTAL`). One that was made without that has to be
written anew once, by `compact`. https://sqlite.org/pragma.html#pragma_auto_vacuum
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
"""One page in so many may be free: what is posted next takes it without asking the disk."""
_SPARE_PAGES: Final = 1_024
_SLICE: Final = 128
"""Pages given back at a time; writers wait meanwhile."""


def prepare(raw: driver.Raw) -> None:
    """Let a file that holds nothing yet shrink later on; one that holds something stays as it is."""
    if driver.pragma(raw, "page_count") == 0:
        raw.execute(f"PRAGMA auto_vacuum={_INCREMENTAL}")


def can_shrink(raw: driver.Raw) -> bool:
    """Whether the file gives pages back without being written anew."""
    return bool(driver.pragma(raw, "auto_vacuum") == _INCREMENTAL)


def give_back(raw: driver.Raw) -> None:
    """Give the disk back a few of the free pages where there are many; nothing in a file that cannot shrink.

    Raises:
        Exception: the driver's, say that another process has the lock; nothing was changed.
    """
    free = driver.pragma(raw, "freelist_count")
    if free > _SPARE_PAGES and free * _SPARE_SHARE > driver.pragma(raw, "page_count"):
        raw.execute(f"PRAGMA incremental_vacuum({_SLICE})").fetchall()


def compact(path: Path) -> tuple[int, int]:
    """Write the whole file anew, dense and able to shrink; its bytes before and after. No process may have it open.

    Raises:
        StoreBusy: a process has it open.
        StoreFull: the disk has no room for a second copy and its log.
        StoreError: it cannot be read or written.
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
