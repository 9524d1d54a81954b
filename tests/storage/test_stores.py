"""Every store of the product runs the conformance kit."""

from __future__ import annotations

from pathlib import Path

from blackboard_mcp.protocols.clock import Clock
from blackboard_mcp.protocols.store import BoardStore
from blackboard_mcp.storage.memory import open_memory_store
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.kit import BoardStoreKit


class TestSqliteFile(BoardStoreKit):
    two_handles = True

    async def open_store(self, folder: Path, clock: Clock) -> BoardStore:
        # Disks are slow on some machines; what `FULL` adds, no test of the kit could see.
        return await SqlBoardStore.open(folder / "board.db", clock=clock, synchronous="NORMAL")


class TestMemory(BoardStoreKit):
    two_handles = False

    async def open_store(self, folder: Path, clock: Clock) -> BoardStore:
        return await open_memory_store(clock=clock)
