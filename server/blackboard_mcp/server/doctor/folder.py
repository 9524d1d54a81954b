"""Checks of the data folder: its permissions, file system, free space, and files that dead processes left."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import Final

from blackboard_mcp.storage.history.transfer import LEFT_AFTER_SECONDS, STAGING
from blackboard_mcp.storage.sqlite import free_space, log_file, place, wakeup

from ..settings.server import Settings
from .findings import Finding, problem, warning

LOW_BYTES = 256 << 20
LARGE_LOG_BYTES = 128 << 20
FILES_SHARE = 0.8


def look(settings: Settings) -> Iterator[Finding]:
    """Yields what is wrong with the data folder."""
    folder, database = settings.folder, settings.database
    yield from _private(folder, database)
    yield from _file_system(database)
    yield from _room(database, settings.limits.free_bytes)
    yield from _log(database)
    yield from _servers(database)
    if left := left_over(settings):
        yield warning(
            "left-over-files",
            f"{len(left)} files or folders were left by processes that died, such as {left[0].name}.",
            "`blackboard-mcp doctor --repair` removes them.",
            repairable=True,
            names=[path.name for path in left[:20]],
        )


def misplaced(settings: Settings) -> Iterator[Finding]:
    """Yields what stands where the data folder or the file of the boards has to be, so that no server can start."""
    folder, database = settings.folder, settings.database
    there = next(path for path in (folder, *folder.parents) if path.exists())
    wrong = there if not there.is_dir() else database if database.is_dir() else None
    if wrong is not None:
        has, needs = ("a folder", "a file") if wrong is database else ("no folder", "a folder")
        yield problem(
            "data-misplaced",
            f"{wrong} is {has}, and boards in {folder} need {needs} there.",
            "Name another data folder with --data, or move away what is there.",
            path=str(wrong),
        )


_RESTORING: Final = tuple(f".restoring{end}" for end in ("", "-journal", "-wal", "-shm"))


def left_over(settings: Settings, seconds: float = LEFT_AFTER_SECONDS) -> list[Path]:
    """Returns the files and folders left by processes that have ended; they can be removed.

    What nobody wrote for `seconds` counts as left. Use 0 only if no process has the folder open.
    """
    folder, database = settings.folder, settings.database
    _, left = wakeup.processes_at(database)
    now = time.time()
    try:
        names = sorted(folder.iterdir())
    except OSError:
        return left
    for path in names:
        ours = path.name.startswith(STAGING) or (
            path.name.startswith(database.name) and path.name.endswith((place.PROBE, *_RESTORING))
        )
        try:
            if ours and now - path.stat().st_mtime >= seconds:
                left.append(path)
        except OSError:
            continue
    return left


def _private(folder: Path, database: Path) -> Iterator[Finding]:
    for path, wanted in ((folder, 0o700), (database, 0o600)):
        if not path.exists():
            continue
        need = os.R_OK | os.W_OK | (os.X_OK if path is folder else 0)
        if not os.access(path, need):
            read_only = place.is_read_only(path)
            yield problem(
                "data-not-writable",
                f"{path} lies on a read-only file system."
                if read_only
                else f"{path} may not be read and written by this user.",
                "Mount it for writing. After an error of the disk the system itself forbids it (`dmesg`)."
                if read_only
                else "Run as the user that the data belongs to, or give it to this one with chown.",
                path=str(path),
            )
        mode = path.stat().st_mode & 0o777
        if sys.platform != "win32" and mode & 0o077:
            yield warning(
                "data-not-private",
                f"{path} has mode {mode:o}: others on this machine may get at what is private on the boards.",
                f"chmod {wanted:o} {quote(str(path))}",
                path=str(path),
                mode=f"{mode:o}",
            )


def _file_system(database: Path) -> Iterator[Finding]:
    if not place.bears_wal(database):
        kind = place.file_system(database)
        yield problem(
            "file-system-shared",
            f"{database.parent} lies on {kind}: locks there cannot be trusted between machines.",
            "Move the data folder to a local disk (`backup`, then `restore` there).",
            kind=kind,
        )


def _room(database: Path, wanted: int) -> Iterator[Finding]:
    disk = shutil.disk_usage(database.parent)
    free, keep = disk.free, free_space.kept_free(disk.total, wanted)
    lacking = place.lack_of_space(database.parent)
    if lacking:
        yield problem(
            "storage-full",
            f"There is no room in {database.parent} ({os.strerror(lacking)}): posts are refused.",
            "Delete or move other files, or enlarge the disk; no restart is needed.",
            free_bytes=free,
        )
    elif free < keep:
        yield problem(
            "storage-low",
            f"{free >> 20} MiB are free in {database.parent}, and servers keep {keep >> 20} (limit free_bytes): posts "
            "are refused.",
            "Delete or move other files, or enlarge the disk; no restart is needed.",
            free_bytes=free,
            kept_free_bytes=keep,
        )
    elif free < max(LOW_BYTES, 2 * keep):
        yield warning(
            "storage-low",
            f"{free >> 20} MiB are free in {database.parent}.",
            "Make room before posts are refused.",
            free_bytes=free,
        )


def _log(database: Path) -> Iterator[Finding]:
    log = database.with_name(database.name + "-wal")
    try:
        size = log.stat().st_size
    except OSError:
        return
    if size > LARGE_LOG_BYTES:
        yield warning(
            "log-large",
            f"The write-ahead log has {size >> 20} MiB: somebody reads for very long, or checkpoints fail.",
            "`blackboard-mcp doctor --repair` empties it; see `storage-full` and `server-not-writing` too.",
            repairable=True,
            bytes=size,
        )
    alive, _ = wakeup.processes_at(database)
    if alive:
        return
    try:
        state = log_file.read_log(log)
    except OSError:
        return
    if state.cut_commits:
        yield problem(
            "log-damaged",
            f"The write-ahead log is damaged after {state.commits} commits: up to {state.cut_commits} later ones, "
            "which were acknowledged, cannot be read.",
            f"Keep a copy of {log}. The next start goes on without them; agents post them again with their "
            "idempotency keys, or restore a backup.",
            commits=state.commits,
            lost_commits=state.cut_commits,
        )


def _servers(database: Path) -> Iterator[Finding]:
    """Yields a problem for each server on this folder that is close to its limit of open files."""
    alive, _ = wakeup.processes_at(database)
    for process in alive:
        try:
            used = len(os.listdir(f"/proc/{process}/fd"))
            lines = Path(f"/proc/{process}/limits").read_text().splitlines()
            words = next(line for line in lines if line.startswith("Max open files")).split()
            limit = int(words[3])
        except (OSError, StopIteration, ValueError, IndexError):
            continue
        if used > FILES_SHARE * limit:
            yield problem(
                "open-files-used",
                f"The server with process id {process} has {used} of {limit} files open: it turns clients away.",
                "Raise LimitNOFILE= of its service, or find who opens so many connections.",
                process=process,
                used=used,
                limit=limit,
            )
