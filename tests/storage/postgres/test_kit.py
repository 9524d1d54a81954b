"""The PostgreSQL store runs the conformance kit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import kept_connections
import postgres_server
import pytest
from blackboard_mcp.protocols.clock import Clock
from blackboard_mcp.protocols.store import BoardStore
from blackboard_mcp.storage.postgres.store import open_postgres_store
from blackboard_mcp.storage.testing.kit import BoardStoreKit
from profiles import NIGHTLY


@pytest.fixture(scope="module")
def kept() -> Iterator[asyncio.Runner]:
    with kept_connections.keeping() as runner:
        yield runner


class TestPostgres(BoardStoreKit):
    two_handles = True
    calls_to_cancel = 1_000 if NIGHTLY else 240

    @pytest.fixture
    def _function_scoped_runner(self, kept: asyncio.Runner) -> asyncio.Runner:
        """Overrides the runner of pytest-asyncio: connections live in one loop, so all tests run in it."""
        return kept

    @pytest.fixture(autouse=True)
    async def emptied(self, tmp_path: Path) -> AsyncIterator[None]:
        yield
        postgres_server.give_back(tmp_path)

    async def open_store(self, folder: Path, clock: Clock) -> BoardStore:
        # Plans that are kept were made when tables were empty: without this they go through all that tests deleted.
        address = f"{postgres_server.address(folder)}&enable_seqscan=off"
        return await open_postgres_store(address, clock=clock)
