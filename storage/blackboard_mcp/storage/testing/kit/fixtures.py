"""The fixtures of the kit, and the detection of a backend's optional capabilities."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import ClassVar

import pytest
from blackboard_mcp.protocols.clock import Clock
from blackboard_mcp.protocols.store import BoardStore

from ..harness import CONFIG, HandClock, Table

CAPABILITIES: dict[str, dict[str, bool]] = {}
"""Detected capabilities of each backend that ran, by the name of its class, for a report at the end of a run."""

TWO_HANDLES = "two handles on the same data"


class StoreFixtures:
    """Stores for the tests of a kit, opened by the backend's `open_store` and closed by the fixture."""

    two_handles: ClassVar[bool]
    """Declared by the backend: whether a second `open_store` on the same folder has the same data."""

    async def open_store(self, folder: Path, clock: Clock) -> BoardStore:
        """Opens and returns a store that keeps its data, if it keeps any, in `folder`."""
        raise NotImplementedError

    @pytest.fixture
    def clock(self) -> HandClock:
        """Returns the clock of the test."""
        return HandClock()

    @pytest.fixture
    async def store(self, tmp_path: Path, clock: HandClock) -> AsyncIterator[BoardStore]:
        """Yields an open store."""
        opened = await self.open_store(tmp_path, clock)
        yield opened
        await opened.close()

    @pytest.fixture
    def at(self, store: BoardStore) -> Table:
        """Returns a board of the store, with short forms of calls."""
        return Table(store)

    @pytest.fixture
    async def pair(self, tmp_path: Path, clock: HandClock) -> AsyncIterator[tuple[BoardStore, BoardStore]]:
        """Yields two stores opened on one folder, whether or not they share data."""
        first = await self.open_store(tmp_path, clock)
        second = await self.open_store(tmp_path, clock)
        yield first, second
        await second.close()
        await first.close()

    @pytest.fixture
    async def handles(self, pair: tuple[BoardStore, BoardStore]) -> tuple[Table, Table]:
        """Returns one board through two stores; skips the test if these share no data."""
        name = type(self).__name__
        CAPABILITIES.setdefault(name, {})[TWO_HANDLES] = shared = await share_data(*pair)
        if not shared:
            pytest.skip(f"{name} has no {TWO_HANDLES}")
        return Table(pair[0]), Table(pair[1])

    async def test_capabilities_are_as_declared(self, pair: tuple[BoardStore, BoardStore]) -> None:
        name = type(self).__name__
        CAPABILITIES.setdefault(name, {})[TWO_HANDLES] = shared = await share_data(*pair)
        assert shared == self.two_handles, f"{name}.two_handles is {self.two_handles}; detected: {shared}"


async def share_data(first: BoardStore, second: BoardStore) -> bool:
    """Tells whether one store reads what the other writes."""
    await first.ensure_board("probe", "kit", CONFIG)
    return await second.find_board("probe") is not None
