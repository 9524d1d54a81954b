"""Files that are written completely or not at all, and text on standard input."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import click
from blackboard_mcp.protocols.errors import InvalidInput


def piped(most: int) -> str:
    """Returns the text on standard input, of which at most `most` characters are read.

    Raises:
        InvalidInput: it is not UTF-8, or there is more.
    """
    raw = sys.stdin.buffer.read(4 * most + 1)  # a character has at most four bytes
    too_long = InvalidInput(
        f"At most {most:,} characters are read. Nothing was changed; send less at a time."
    )
    if len(raw) > 4 * most:
        raise too_long
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InvalidInput(
            f"The text on standard input is not UTF-8: line {line} has the byte 0x{raw[error.start]:02x}. Nothing was "
            "changed; convert the text, say with `iconv -f latin1 -t utf-8`."
        ) from None
    if len(text) > most:
        raise too_long
    return text


@contextmanager
def new_file(path: Path, *, force: bool = False) -> Iterator[BinaryIO]:
    """Yields a file to write, readable only by its owner, which gets the name `path` if all goes well.

    Raises:
        click.ClickException: `path` exists (unless `force`) or is a folder, or it cannot be written.
    """
    try:
        with landing(path, force=force) as place, open(_create(place), "wb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror or error}") from error


@contextmanager
def landing(path: Path, *, force: bool = False) -> Iterator[Path]:
    """Yields a path beside `path` for a new file, which is moved to `path` if all goes well.

    Raises:
        click.ClickException: `path` exists (unless `force`) or is a folder.
        OSError: the file cannot be moved there.
    """
    if path.is_dir() or (os.path.lexists(path) and not force):
        hint = "it is a folder" if path.is_dir() else "it is there already; --force replaces it"
        raise click.ClickException(f"nothing was written to {path}: {hint}")
    place = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        yield place
        if force:
            os.replace(place, path)
        else:
            # Unlike a rename this fails if somebody made the file meanwhile.
            os.link(place, path)
            place.unlink()
        _sync_folder(path.parent)
    finally:
        with suppress(OSError):
            place.unlink(missing_ok=True)


def _create(place: Path) -> int:
    return os.open(place, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)


def _sync_folder(folder: Path) -> None:
    # Not every system can sync a folder; there the new name may be lost in a crash.
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
