"""Records of the entries installed in clients' files, used to recognise an entry and to restore a file."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

from blackboard_mcp.protocols.values import dataclass

from . import formats
from .files import state_folder, write


@dataclass(frozen=True, slots=True)
class Part:
    """A value that was put into a file, by its digest. `made` is 1 if its container was made for it, else 0."""

    path: formats.Path
    digest: str
    made: int


@dataclass(frozen=True, slots=True)
class Record:
    """A record of an entry that was installed in a client's file.

    `before` and `after` are digests of the file; `backup` is the path of its former contents.
    """

    client: str
    file: str
    name: str
    parts: tuple[Part, ...]
    before: str | None
    after: str
    backup: str | None
    folder: bool = False
    """`True` if the file's folder was made for the entry."""


def digest(value: Any) -> str:
    """Returns the SHA-256 of a value as JSON, in hexadecimal."""
    return sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def records() -> list[Record]:
    """Returns all records; an empty list if their file is missing or unreadable."""
    try:
        found = json.loads(_notes().read_bytes())["installed"]
        return [
            Record(**{**one, "parts": tuple(Part(tuple(part.pop("path")), **part) for part in one["parts"])})
            for one in found
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []


def record_of(client: str, file: Path, name: str) -> Record | None:
    """Returns the record of an entry, or `None`."""
    known = (client, str(file), name)
    return next((one for one in records() if (one.client, one.file, one.name) == known), None)


def note(new: Record | None, instead: Record | None = None) -> None:
    """Saves a record in place of another; `None` only removes the other."""
    kept = [one for one in records() if one != instead]
    _save([*kept, *([] if new is None else [new])])


def _notes() -> Path:
    return state_folder() / "clients.json"


def _save(kept: Iterable[Record]) -> None:
    _notes().parent.mkdir(0o700, parents=True, exist_ok=True)
    text = json.dumps({"installed": [asdict(one) for one in kept]}, indent=1)
    write(_notes(), text.encode())
