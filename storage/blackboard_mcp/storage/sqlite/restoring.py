"""Replacing a database file by another one, while no process has it open."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from blackboard_mcp.protocols.errors import StoreBusy, StoreDamaged, StoreError
from blackboard_mcp.storage.sqlite import driver, migrate, place
from blackboard_mcp.storage.sqlite.wakeup import processes_at

_PATIENCE = 2.0
"""The seconds to wait for the lock of a process that is about to end."""


def restore(
    source: Path,
    target: Path,
    aside: Path,
    *,
    application_id: int,
    newest: int,
    finish: Callable[[Path], None] | None = None,
) -> bool:
    """Copies the database `source` to `target`, after a full check; returns whether `target` existed.

    The former `target` is then at `aside`. `finish` is called with the copy's path before it takes its place; it must
    close the copy. What it takes over from the tokens of `target` must stay as it is until then.

    Raises:
        StoreDamaged: `source` is not our database, or is damaged.
        StoreTooNew: a newer version of the product wrote it.
        StoreBusy: a process has `target` open, or changed its tokens meanwhile. Nothing was changed.
        StoreError: it cannot be read or written.
    """
    staged = target.with_name(f"{target.name}.{secrets.token_hex(4)}.restoring")
    try:
        place.prepare(staged)
        tokens = _tokens_of(target)
        _copy(source, staged, application_id, newest)
        if finish is not None:
            finish(staged)
        return _swap(staged, target, aside, tokens)
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
    """Checks the whole `source`, and writes a synced copy.

    Raises:
        StoreDamaged: `source` is not our database, or is damaged.
        StoreTooNew: a newer version of the product wrote it.
    """
    raw = driver.connect(str(source))
    try:
        raw.execute("BEGIN")
        try:
            version = migrate.check(raw, application_id, newest)
        except StoreDamaged:
            raise StoreDamaged(f"{source} is a database of another program. Nothing was changed.") from None
        if version == 0:
            raise StoreDamaged(f"{source} holds no boards. Nothing was changed.")
        told = driver.unsound(raw, 1)
        raw.execute("ROLLBACK")
        if told:
            raise StoreDamaged(f"{source} is damaged ({told[0]}). Nothing was changed.")
        raw.execute("VACUUM INTO ?", (str(staged),))
    finally:
        raw.close()
    handle = os.open(staged, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _tokens_of(target: Path) -> list[tuple[Any, ...]]:
    """Returns the ids of the tokens of a database and when they were revoked; none if they cannot be read."""
    if not target.exists():
        return []
    raw = driver.connect(str(target))
    try:
        return _tokens(raw)
    finally:
        raw.close()


def _tokens(raw: driver.Raw) -> list[tuple[Any, ...]]:
    try:
        return raw.execute("SELECT id, revoked_at FROM token ORDER BY id").fetchall()
    except driver.errors() as error:
        if driver.is_busy(error):
            raise
        return []  # it is damaged, or from before there were tokens


def _swap(staged: Path, target: Path, aside: Path, tokens: list[tuple[Any, ...]]) -> bool:
    """Moves the former target aside and the copy into its place; returns whether there was a target.

    Raises:
        StoreBusy: it has other tokens than `tokens`.
    """
    there = target.exists()
    if not there:
        _log_aside(target, aside)
        # Unlike a rename, this fails if a server created the file meanwhile.
        os.link(staged, target)
        _sync_folder(target.parent)
        return False
    raw = driver.connect(str(target))
    try:
        try:
            _have_alone(raw, target)
        except driver.errors() as error:
            if not driver.is_damage(error):
                raise
            # A damaged file takes no lock. Servers that run say so beside it.
            if processes_at(target)[0]:
                raise StoreBusy(_busy(target)) from error
            _log_aside(target, aside)
        if _tokens(raw) != tokens:
            raise StoreBusy(
                f"A token of {target.parent} was made or revoked meanwhile. Nothing was changed; restore again."
            )
        os.link(target, aside)
        os.replace(staged, target)
        _sync_folder(target.parent)
    finally:
        raw.close()
    return True


def _log_aside(target: Path, aside: Path) -> None:
    """Moves the log of the former file aside: SQLite would apply it to the new one."""
    for left in ("-wal", "-shm", "-journal"):
        with suppress(FileNotFoundError):
            os.replace(target.with_name(target.name + left), aside.with_name(aside.name + left))


def _have_alone(raw: driver.Raw, target: Path) -> None:
    """Locks the database exclusively, with its log's content moved into the file.

    Raises:
        StoreBusy: another process has it open.
    """

    def alone() -> None:
        raw.execute("PRAGMA locking_mode=EXCLUSIVE")
        # Leaving WAL mode requires that no other connection exists, and moves the log's content into the file.
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
    """Returns the message for a target that a process has open."""
    return (
        f"A process has {target} open: stop every server on that folder first, those that clients "
        "started as well. Nothing was changed."
    )


def _sync_folder(folder: Path) -> None:
    """Syncs a folder, so that its renamed files survive a crash."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
