"""Every archive index of the product runs the conformance kit."""

from __future__ import annotations

from pathlib import Path

from blackboard_mcp.protocols.archive import ArchiveIndex
from blackboard_mcp.storage.fts.index import FtsArchiveIndex
from blackboard_mcp.storage.lance.embedders.choice import EmbedderChoice
from blackboard_mcp.storage.lance.index import LanceArchiveIndex
from blackboard_mcp.storage.lance.process import ProcessArchiveIndex
from blackboard_mcp.storage.testing.kit import ArchiveIndexKit
from blackboard_mcp.storage.testing.kit.archive_index import (
    IndexDocumentTests,
    IndexDurabilityTests,
    IndexLifeTests,
    IndexSightTests,
    IndexSummingTests,
    IndexWaitingTests,
)


class TestLance(ArchiveIndexKit):
    async def open_index(self, folder: Path) -> ArchiveIndex:
        return LanceArchiveIndex(folder / "archive", None)


class TestLanceInItsOwnProcess(
    IndexDocumentTests,
    IndexWaitingTests,
    IndexSightTests,
    IndexLifeTests,
    IndexSummingTests,
    IndexDurabilityTests,
):
    """All that is asked in another way; searches and filters in the same way are `TestLance`."""

    async def open_index(self, folder: Path) -> ArchiveIndex:
        return ProcessArchiveIndex(folder / "archive", EmbedderChoice("none"))


class TestFts(ArchiveIndexKit):
    async def open_index(self, folder: Path) -> ArchiveIndex:
        return FtsArchiveIndex(folder / "archive")
