"""Copies of an empty board store for tests, made by the real migrations once in each process.

The migrations take most of the time that opening a test's store takes. Existing files are opened and migrated
as usual, and so are new files where a copy cannot be placed.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import closing
from functools import wraps
from pathlib import Path
from typing import Any

from blackboard_mcp.protocols.errors import StoreError
from blackboard_mcp.storage.sqlite import driver, migrate, place
from blackboard_mcp.storage.sqlite.engine import SqliteEngine
from blackboard_mcp.storage.sqlite.opening import APPLICATION_ID, migrations

REAL = "STORES_FROM_MIGRATIONS"
"""An environment variable: if it is set, every store is made by the migrations."""
NOTHING = 0
_PATIENCE = 60.0
_real: Callable[..., None] = migrate.migrate


def install() -> None:
    """Makes new board stores of this process begin as copies from now on."""
    given = SqliteEngine._open

    @wraps(given)
    async def opening(self: SqliteEngine, path: Path | None, scripts: Any, owner: int, *more: Any) -> None:
        if path is not None and _known(scripts, owner):
            _lay(path)
        await given(self, path, scripts, owner, *more)

    @wraps(_real)
    def migrating(raw: driver.Raw, scripts: Any, owner: int, *more: Any, **named: Any) -> None:
        in_memory = not raw.execute("PRAGMA database_list").fetchone()[2] and isinstance(
            raw, driver.library().Connection
        )
        if in_memory and _known(scripts, owner) and migrate.check(raw, owner, len(scripts)) == NOTHING:
            with closing(driver.connect_to_read(template(), unchanging=True)) as source:
                source.backup(raw)
        _real(raw, scripts, owner, *more, **named)

    SqliteEngine._open = opening  # type: ignore[method-assign]
    migrate.migrate = migrating


def take(path: Path) -> None:
    """Makes this process use another process's template."""
    _made.append(path)


def template() -> Path:
    """Returns the path of an empty board store, made on the first call."""
    if not _made:
        folder = tempfile.mkdtemp(prefix="blackboard-template-")
        atexit.register(shutil.rmtree, folder)
        path = Path(folder) / "board.db"
        with closing(driver.connect(str(path))) as raw:
            raw.execute("PRAGMA journal_mode=WAL").fetchall()
            _real(raw, migrations(), APPLICATION_ID, _PATIENCE)
        _made.append(path)
    return _made[0]


_made: list[Path] = []


def _known(scripts: Any, owner: int) -> bool:
    return REAL not in os.environ and owner == APPLICATION_ID and tuple(scripts) == migrations()


def _lay(path: Path) -> None:
    """Puts a copy at the path in one step, unless a file is there or another process puts one there first."""
    if path.exists():
        return
    fresh = path.with_name(f"{path.name}.{os.getpid()}-{id(path)}")
    try:
        place.prepare(fresh)
        try:
            if place.bears_wal(fresh):
                shutil.copyfile(template(), fresh)
                os.link(fresh, path)
        finally:
            fresh.unlink()
    except (OSError, StoreError):
        return  # opening the store will report the fault
