"""The board store on PostgreSQL, for several machines."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from blackboard_mcp.protocols.clock import Clock, SystemClock
from blackboard_mcp.protocols.errors import StoreError
from blackboard_mcp.storage.store import SqlBoardStore

from .address import Address, needing_driver

if TYPE_CHECKING:
    from .engine import PostgresEngine


class DatabaseClock:
    """The clock of the database, as far as the connection tells: servers whose clocks differ go by one."""

    def __init__(self, engine: PostgresEngine) -> None:
        self._engine = engine

    def now(self) -> datetime:
        """Returns the database's present time in UTC."""
        return datetime.now(UTC) + timedelta(seconds=self._engine.news.ahead)


async def open_postgres_store(
    address: str,
    *,
    clock: Clock | None = None,
    folder: Path | None = None,
    index_at: str | None = None,
    synchronous: bool = True,
) -> SqlBoardStore:
    """Opens the boards at an address `postgresql://…`; makes or migrates their schema if need be.

    `folder` is the data folder of this machine, which holds its index of the archive unless machines share one,
    `index_at` a location. Times are the database's, unless
    another `clock` than the machine's is given.

    Raises:
        InvalidInput: it is no such address, or the driver is not installed.
        StoreTooNew: a newer version of the product migrated the schema.
        StoreBusy: the server did not answer in time.
        StoreError: it refuses us.
    """
    parsed = Address.parse(address)
    with needing_driver():
        from .engine import PostgresEngine
    if index_at is not None:
        reader = f"at {index_at}"
    else:
        reader = "main" if folder is None else await asyncio.to_thread(_reader, folder)
    engine = await PostgresEngine.open(parsed, reader=reader, synchronous=synchronous)
    if clock is None or isinstance(clock, SystemClock):
        clock = DatabaseClock(engine)
    return SqlBoardStore(engine, clock)


def _reader(folder: Path) -> str:
    """Returns the name of the index in a data folder; made up at first, and kept there.

    Raises:
        StoreError: the folder cannot be read or written.
    """
    path = folder / "index-name"
    try:
        with contextlib.suppress(FileExistsError), open(path, "x", encoding="ascii", opener=_private) as file:
            file.write(secrets.token_hex(8))
        return path.read_text("ascii").strip() or "main"
    except OSError as error:
        raise StoreError(f"Cannot use {path}: {error.strerror}.") from error


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
