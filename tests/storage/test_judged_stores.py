"""A store whose judge allows everything is like the store itself, though each change is tried, undone and repeated."""

from __future__ import annotations

from pathlib import Path

from blackboard_mcp.protocols.changes import EVERYWHERE
from blackboard_mcp.protocols.clock import Clock
from blackboard_mcp.protocols.store import BoardStore
from blackboard_mcp.storage.memory import open_memory_store
from blackboard_mcp.storage.testing.kit.asking import RequestTests
from blackboard_mcp.storage.testing.kit.cancelling import CancellationTests
from blackboard_mcp.storage.testing.kit.debates import DebateTests
from blackboard_mcp.storage.testing.kit.deleting import DeletingTests
from blackboard_mcp.storage.testing.kit.fixtures import StoreFixtures
from blackboard_mcp.storage.testing.kit.judging import Judge
from blackboard_mcp.storage.testing.kit.posting import PostingTests
from blackboard_mcp.storage.testing.kit.repeating import RepeatingTests
from blackboard_mcp.storage.testing.kit.summarising import SummaryTests
from blackboard_mcp.storage.testing.kit.transacting import TransactionTests
from blackboard_mcp.storage.testing.kit.versions import VersionTests
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
