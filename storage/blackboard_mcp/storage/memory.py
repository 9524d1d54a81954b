"""The in-memory store: boards that live as long as the process, for tests, notebooks and trial runs."""

from __future__ import annotations

from blackboard_mcp.protocols.clock import Clock

from .store import SqlBoardStore


async def open_memory_store(*, clock: Clock | None = None) -> SqlBoardStore:
    """A board store without a file: the same operations as on disk, on a private SQLite database in memory.

    It keeps the whole bargain of `BoardStore` but durability: what it holds ends with `close`, and no
    other store, in this process or another, sees it. Reads wait for writes, since both share the one
    connection. `clock` is the machine's own when it is not given.
    """
    return await SqlBoardStore.open(None, clock=clock)
