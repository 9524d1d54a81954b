"""A database file put in the place of another, which nobody may have open."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from blackboard_mcp.protocols.errors import StoreBusy, StoreDamaged, StoreError
from blackboard_mcp.storage.sqlite import driver, migrate, place

_PATIENCE = 2.0
"""Seconds to wait for a lock of somebody who is about to leave."""


def restore(
    source: Path,
    target: Path,
    aside: Path,
    *,
    application_id: int,
    newest: int,
    finish: Callable[[Path], None] | None = None,
) -> bool:
    """Copies the database `source` to `target`, after a check of the whole of it; whether there was one.

    What was at `target` is then at `aside`. `finish` is given the copy before it is put there, and closes it.

    Raises:
        StoreDamaged: `source` is no database of ours, or is damaged.
        StoreTooNew: a newer version of the product wrote it.
        StoreBusy: a process has `target` open. Nothing was changed.
        StoreError: it cannot be read or written.
    """
    staged = target.with_name(f"{target.name}.{secrets.token_hex(4)}.restoring")
    try:
        place.prepare(staged)
        _copy(source, staged, application_id, newest)
        if finish is not None:
            finish(staged)
        return _swap(staged, target, aside)
    except driver.errors() as error:
        raise driver.translate(error, f"restore {source}") from error
    except OSError as error:
        raise StoreError(
            f"Cannot restore {source}: {error.strerror or error}. Nothing was changed."
        ) from error
    finally:
        for path in (staged, *(staged.with_name(staged.name + end) for end in ("-journal", "-wal", "-shm"))):
            with suppress(OSError):
                path.unlink(missing_ok=True)


def _copy(source: Path, staged: Path, application_id: int, newest: int) -> None:
    raw = driver.connect(str(source))
    try:
        raw.execute("BEGIN")
        try:
            version = migrate.check(raw, application_id, newest)
        except StoreDamaged:
            raise StoreDamaged(f"{source} is a database of another program. Nothing was changed.") from None
        if version == 0:
            raise StoreDamaged(f"{source} holds no boards. Nothing was changed.")
        told = raw.execute("PRAGMA integrity_check(1)").fetchone()[0]
        raw.execute("ROLLBACK")
        if told != "ok":
            raise StoreDamaged(f"{source} is damaged ({told}). Nothing was changed.")
        raw.execute("VACUUM INTO ?", (str(staged),))
    finally:
        raw.close()
    handle = os.open(staged, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _swap(staged: Path, target: Path, aside: Path) -> bool:
    there = target.exists()
    if not there:
        # The log of a file that is gone would be played into the new one.
        for left in ("-wal", "-shm", "-journal"):
            with suppress(FileNotFoundError):
                os.replace(target.with_name(target.name + left), aside.with_name(aside.name + left))
        # Unlike a rename this fails if a server began meanwhile.
        os.link(staged, target)
        _sync_folder(target.parent)
        return False
    raw = driver.connect(str(target))
    try:
        _have_alone(raw, target)
        os.link(target, aside)
        os.replace(staged, target)
        _sync_folder(target.parent)
    finally:
        raw.close()
    return True


def _have_alone(raw: driver.Raw, target: Path) -> None:
    """Holds the database so that nobody else can have it open, with all that was written inside the file."""

    def alone() -> None:
        raw.execute("PRAGMA locking_mode=EXCLUSIVE")
        # Leaving the write-ahead log needs every other connection gone, and brings its content home.
        mode = driver.pragma(raw, "journal_mode=DELETE")
        if mode != "delete":
            raise StoreBusy(_busy(target))
        raw.execute("BEGIN EXCLUSIVE")

    try:
        driver.patiently(alone, _PATIENCE)
    except driver.errors() as error:
        if driver.is_busy(error):
            raise StoreBusy(_busy(target)) from error
        raise


def _busy(target: Path) -> str:
    return (
        f"A process has {target} open: stop every server on that folder first, those that clients "
        "started as well. Nothing was changed."
    )


def _sync_folder(folder: Path) -> None:
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
