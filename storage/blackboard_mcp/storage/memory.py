"""The in-memory store: boards that exist as long as the process, for tests, notebooks and trial runs."""

from __future__ import annotations

from pathlib import Path

from blackboard_mcp.protocols.clock import Clock

from .store import SqlBoardStore


async def open_memory_store(*, clock: Clock | None = None) -> SqlBoardStore:
    """Opens a board store without a file: the operations run on a private SQLite database in memory.

    It keeps the whole contract of `BoardStore` except durability: its content ends with `close`, and no other store
    sees it. Reads wait for writes, since both share the one connection. `clock` defaults to the system's clock.
    """
    return await SqlBoardStore.open(None, clock=clock)


class MemoryStore:
    """The in-memory store for `--store`: a server whose boards end with it."""

    @classmethod
    async def open(cls, folder: Path, *, clock: Clock) -> SqlBoardStore:
        """Opens a board store in memory; `folder` stays as it is."""
        return await open_memory_store(clock=clock)
