"""The PostgreSQL store runs the conformance kit."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import postgres_server
import pytest
from blackboard_mcp.protocols.clock import Clock
from blackboard_mcp.protocols.store import BoardStore
from blackboard_mcp.storage.postgres.store import open_postgres_store
from blackboard_mcp.storage.testing.kit import BoardStoreKit


class TestPostgres(BoardStoreKit):
    two_handles = True

    @pytest.fixture(autouse=True)
    async def emptied(self, tmp_path: Path) -> AsyncIterator[None]:
        yield
        postgres_server.give_back(tmp_path)

    async def open_store(self, folder: Path, clock: Clock) -> BoardStore:
        return await open_postgres_store(postgres_server.address(folder), clock=clock)
