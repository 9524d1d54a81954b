"""Files that are written completely or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import click


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
