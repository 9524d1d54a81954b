"""The board store on PostgreSQL, for several machines."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from pathlib import Path

from blackboard_mcp.protocols.clock import Clock, SystemClock
from blackboard_mcp.protocols.errors import InvalidInput, StoreError
from blackboard_mcp.storage.store import SqlBoardStore

from .address import Address


async def open_postgres_store(
    address: str, *, clock: Clock | None = None, folder: Path | None = None, synchronous: bool = True
) -> SqlBoardStore:
    """Opens the boards at an address `postgresql://…`; makes or migrates their schema if need be.

    `folder` is the data folder of this machine, which holds its index of the archive.

    Raises:
        InvalidInput: it is no such address, or the driver is not installed.
        StoreTooNew: a newer version of the product migrated the schema.
        StoreBusy: the server did not answer in time.
        StoreError: it refuses us.
    """
    parsed = Address.parse(address)
    try:
        from .engine import PostgresEngine
    except ModuleNotFoundError as error:
        if error.name != "asyncpg":
            raise
        raise InvalidInput(
            "PostgreSQL needs its driver, which is not installed: pip install 'blackboard-mcp[postgres]'."
        ) from None

    reader = "main" if folder is None else await asyncio.to_thread(_reader, folder)
    engine = await PostgresEngine.open(parsed, reader=reader, synchronous=synchronous)
    return SqlBoardStore(engine, clock or SystemClock())


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
