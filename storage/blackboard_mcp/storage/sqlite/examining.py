"""Examination of a board file without changing it: while servers use it, when none does, and if it is damaged."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from blackboard_mcp.protocols.errors import BlackboardError, StoreBusy, StoreDamaged
from blackboard_mcp.protocols.items import content_hash, item_id
from blackboard_mcp.protocols.values import dataclass

from ..operations.ledger.rows import config_of, instant, micros, sql
from . import driver, migrate

_FEW = 20
_PAGE = 500
_NEARLY = 0.9


@dataclass
class Examined:
    """The findings about a board file; each list of defects holds at most twenty sentences."""

    schema: int = 0
    refused: str = ""
    """The reason why this program cannot use the file; empty if it can."""
    newer: bool = False
    empty: bool = False
    """The file has nothing in it, as one of 0 bytes; a server that starts makes boards in it."""
    boards: list[str] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)
    dangling: list[str] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    altered: list[str] = field(default_factory=list)
    leases: list[tuple[str, str, datetime]] = field(default_factory=list)
    outbox: int = 0
    outbox_since: datetime | None = None
    last_event: datetime | None = None
    tokens: int = 0
    """The number of access tokens that are valid now."""
    stored: list[tuple[str, str, int, int]] = field(default_factory=list)
    """Board, owner ("" for all owners), stored bytes and limit, for those who nearly reached the limit."""


@dataclass(frozen=True, slots=True)
class WrittenBytes:
    """What is stored in a board file, in bytes as `owner_bytes` counts them."""

    kept: int
    since: datetime | None
    """The time when the oldest stored version was written."""
    recent: list[tuple[str, str, int]]
    """Board, agent, and the bytes that the agent wrote there recently; the largest first."""


@contextmanager
def opened(path: Path) -> Iterator[driver.Raw]:
    """Opens a connection that reads the file and changes nothing, not even what a dead process left.

    Raises:
        BlackboardError: it cannot be opened.
    """
    log = path.with_name(path.name + "-wal")
    with contextlib.ExitStack() as stack:
        try:
            if not log.exists():
                # No process has the file open, since a connection would have created a log.
                raw = driver.connect_to_read(path, unchanging=True)
            else:
                raw = driver.connect_to_read(path)
                try:
                    driver.patiently(lambda: raw.execute("SELECT count(*) FROM sqlite_schema"), 2.0)
                except driver.errors() as error:
                    if driver.is_damage(error) or driver.is_busy(error):
                        stack.callback(raw.close)
                        yield raw
                        return
                    # Reading a log that no process has open needs write access, so a copy is read.
                    raw.close()
                    raw = driver.connect(str(stack.enter_context(_copy(path, log))))
        except driver.errors() as error:
            raise driver.translate(error, f"open {path}") from error
        stack.callback(raw.close)
        yield raw


@contextmanager
def _copy(path: Path, log: Path) -> Iterator[Path]:
    """Copies the file and its log into a temporary folder, and yields the copy's path."""
    with tempfile.TemporaryDirectory(prefix="blackboard-") as folder:
        copy = Path(folder) / path.name
        shutil.copyfile(path, copy)
        with contextlib.suppress(FileNotFoundError):
            shutil.copyfile(log, copy.with_name(copy.name + "-wal"))
        yield copy


def examine(raw: driver.Raw, *, application_id: int, newest: int, now: datetime, whole: bool) -> Examined:
    """Returns the findings about a file; `whole` reads every page and text, which takes long on large files.

    Raises:
        StoreBusy: other processes held the file too long.
    """
    found = Examined()
    looks: list[Any] = [_schema, _figures, partial(_tokens, at=micros(now)), _stored]
    if whole:
        looks += [_pages, _references, _texts]
    for look in looks:
        try:
            driver.patiently(lambda: look(raw, found, application_id, newest), 5.0)  # noqa: B023 - called at once
        except BlackboardError as error:
            found.refused = error.message
            return found
        except driver.errors() as error:
            if driver.is_busy(error):
                raise StoreBusy("Others held the file too long to look at it.") from error
            _note(found.damage, f"{type(error).__name__}: {error}")
        except (OverflowError, ValueError, TypeError, AttributeError, LookupError) as error:
            _note(found.damage, f"a value that none can be: {error}")
        if found.newer or found.empty:
            break
    return found


def _note(notes: list[str], note: str) -> None:
    """Adds a finding to a list, unless the list is full or has it already."""
    if len(notes) < _FEW and note not in notes:
        notes.append(note)


def _schema(raw: driver.Raw, found: Examined, application_id: int, newest: int) -> None:
    """Checks whose file it is, and its schema.

    Raises:
        StoreDamaged: it belongs to another program.
    """
    found.schema = driver.pragma(raw, "user_version")
    owner = driver.pragma(raw, "application_id")
    if owner != application_id:
        if owner or found.schema or raw.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
            raise StoreDamaged("it is a database of another program")
        found.empty = True
    if found.schema > newest:
        found.newer = True
        found.refused = migrate.too_new(found.schema, newest).message


def _figures(raw: driver.Raw, found: Examined, *_: Any) -> None:
    """Finds the boards, gaps in their logs, leases, the outbox and the last event."""
    found.boards = [board for (board,) in raw.execute(sql("examine_boards"))]
    found.gaps = [
        f"board {board} counts {seq} events, and its log has {count}, the last is {last}"
        for board, seq, count, last in raw.execute(sql("examine_gaps")).fetchmany(_FEW)
    ]
    (last,) = raw.execute(sql("examine_last_event")).fetchone()
    found.last_event = None if last is None else instant(last)
    found.leases = [
        (name, holder, instant(until)) for name, holder, until in raw.execute(sql("examine_leases"))
    ]
    found.outbox, since = raw.execute(sql("examine_outbox")).fetchone()
    found.outbox_since = None if since is None else instant(since)


def _tokens(raw: driver.Raw, found: Examined, _: int, newest: int, *, at: int) -> None:
    """Counts the valid access tokens at a time in microseconds since 1970."""
    if found.schema == newest:  # an older schema may have no table of tokens
        (found.tokens,) = raw.execute(sql("examine_tokens"), (at,)).fetchone()


def _stored(raw: driver.Raw, found: Examined, _: int, newest: int) -> None:
    """Finds boards and owners that nearly reached their limit of stored bytes."""
    if found.schema < newest:
        return
    for board, config, owner, stored in raw.execute(sql("examine_stored")):
        bounds = config_of(config)
        most = bounds.owner_bytes if owner else bounds.board_bytes
        if most and stored > _NEARLY * most and len(found.stored) < _FEW:
            found.stored.append((board, owner, stored, most))


def written(raw: driver.Raw, after: datetime) -> WrittenBytes:
    """Returns the bytes that the file stores, and who wrote how many after a time. Reads every item.

    Raises:
        StoreError: the file cannot be read.
    """
    try:
        kept, since = driver.patiently(lambda: raw.execute(sql("examine_kept")).fetchone(), 5.0)
        recent = raw.execute(sql("examine_written"), (micros(after),)).fetchall()
    except driver.errors() as error:
        raise driver.translate(error, "say what was written") from error
    return WrittenBytes(kept or 0, None if since is None else instant(since), recent)


def _pages(raw: driver.Raw, found: Examined, *_: Any) -> None:
    """Finds damaged pages, by SQLite's integrity check."""
    for line in driver.unsound(raw, _FEW):
        _note(found.damage, line)


def _references(raw: driver.Raw, found: Examined, *_: Any) -> None:
    """Finds rows that refer to missing rows."""
    for table, rowid, parent, _key in raw.execute("PRAGMA foreign_key_check").fetchmany(_FEW):
        _note(found.dangling, f"row {rowid} of {table} refers to a {parent} that is not there")


def _texts(raw: driver.Raw, found: Examined, _: int, newest: int) -> None:
    """Finds texts that differ from their hash, except for forgotten content."""
    forgets = found.schema == newest  # an older schema has no forgotten content
    for name in ("examine_texts", "examine_former_texts"):
        place = -(1 << 62)
        while rows := raw.execute(sql(name), (place, _PAGE)).fetchall():
            place = rows[-1][0]
            for _rowid, board, number, type_, version, text, sha256 in rows:
                if not (isinstance(text, str) and content_hash(text) == sha256) and not (
                    text == ""
                    and forgets
                    and raw.execute(sql("examine_forgotten"), (board, number, version)).fetchone()
                ):
                    _note(found.altered, f"{item_id(type_, number)}@{version} on board {board}")


def copy_whole(raw: driver.Raw, target: Path) -> None:
    """Writes a copy of the database, as of now, to a new file.

    Raises:
        StoreError: it cannot be read or written.
    """
    try:
        driver.patiently(lambda: raw.execute("VACUUM INTO ?", (str(target),)), 5.0)
    except driver.errors() as error:
        raise driver.translate(error, "copy the database") from error


def free_leases(path: Path, after: int) -> int:
    """Deletes leases that end later than `after`, in microseconds since 1970; returns how many.

    Raises:
        StoreError: the file cannot be written.
    """
    with _writing(path, "free leases") as raw:
        return int(raw.execute(sql("examine_leases_free"), (after,)).rowcount)


def empty_log(path: Path) -> bool:
    """Moves the log's content into the file and empties the log; returns false if readers prevent it.

    Raises:
        StoreError: the file cannot be written.
    """
    with _writing(path, "empty the log") as raw:
        return bool(raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0)


@contextmanager
def _writing(path: Path, doing: str) -> Iterator[driver.Raw]:
    """Opens a connection that writes, and translates the driver's errors; `doing` as in `driver.translate`."""
    raw = driver.connect(str(path))
    try:
        raw.execute("PRAGMA busy_timeout=2000")
        raw.execute("PRAGMA synchronous=FULL")
        yield raw
    except driver.errors() as error:
        raise driver.translate(error, doing) from error
    finally:
        raw.close()
