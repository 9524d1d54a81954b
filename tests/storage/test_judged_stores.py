"""A store whose judge allows everything is like the store itself, though each change is tried, undone and repeated."""

from __future__ import annotations

from pathlib import Path

from blackboard_mcp.protocols.changes import EVERYWHERE
from blackboard_mcp.protocols.clock import Clock
from blackboard_mcp.protocols.store import BoardStore
from blackboard_mcp.storage.memory import open_memory_store
from blackboard_mcp.storage.testing.asking import RequestTests
from blackboard_mcp.storage.testing.cancelling import CancellationTests
from blackboard_mcp.storage.testing.debates import DebateTests
from blackboard_mcp.storage.testing.deleting import DeletingTests
from blackboard_mcp.storage.testing.fixtures import StoreFixtures
from blackboard_mcp.storage.testing.judging import Judge
from blackboard_mcp.storage.testing.posting import PostingTests
from blackboard_mcp.storage.testing.repeating import RepeatingTests
from blackboard_mcp.storage.testing.summarising import SummaryTests
from blackboard_mcp.storage.testing.transacting import TransactionTests
from blackboard_mcp.storage.testing.versions import VersionTests
from profiles import NIGHTLY


class Judged(StoreFixtures):
    two_handles = False

    async def open_store(self, folder: Path, clock: Clock) -> BoardStore:
        return (await open_memory_store(clock=clock)).judged(Judge(), [EVERYWHERE])


class TestJudged(PostingTests, TransactionTests, RequestTests, Judged):
    """What is judged most."""


class TestJudgedAtNight(
    VersionTests, DeletingTests, DebateTests, RepeatingTests, SummaryTests, CancellationTests, Judged
):
    """The rest."""

    __test__ = NIGHTLY
