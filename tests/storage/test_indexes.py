"""Every archive index of the product runs the conformance kit."""

from __future__ import annotations

from pathlib import Path

from blackboard_mcp.protocols.archive import ArchiveIndex
from blackboard_mcp.storage.fts.index import FtsArchiveIndex
from blackboard_mcp.storage.lance.index import LanceArchiveIndex
from blackboard_mcp.storage.testing.kit import ArchiveIndexKit


class TestLance(ArchiveIndexKit):
    async def open_index(self, folder: Path) -> ArchiveIndex:
        return LanceArchiveIndex(folder / "archive", None)


class TestFts(ArchiveIndexKit):
    async def open_index(self, folder: Path) -> ArchiveIndex:
        return FtsArchiveIndex(folder / "archive")
