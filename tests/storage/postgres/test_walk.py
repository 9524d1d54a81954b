"""Random histories on the PostgreSQL store, against the plain model: the invariants that the store of a file shows."""

from __future__ import annotations

import tempfile
from pathlib import Path

import postgres_server
import pytest
from blackboard_mcp.protocols.clock import Clock
from blackboard_mcp.protocols.store import BoardStore
from blackboard_mcp.storage.postgres.store import open_postgres_store
from blackboard_mcp.storage.testing.walk.machine import Outcome, walk
from blackboard_mcp.storage.testing.walk.walks import stride
from profiles import NIGHTLY

SEEDS = range(10) if NIGHTLY else (13,)
INVARIANTS = [f"I{n}" for n in (*range(1, 9), 10, *range(12, 21), *range(22, 27), 29, 36, 39)]


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    folder = tmp_path_factory.mktemp("walk")

    async def opened(clock: Clock) -> BoardStore:
        place = Path(tempfile.mkdtemp(dir=folder))
        return await open_postgres_store(postgres_server.address(place), clock=clock)

    return walk(opened, stride(4, shrink=False), seeds=list(SEEDS))


def test_the_store_answers_as_the_model_does(walked: Outcome) -> None:
    if walked.error is not None:
        raise walked.error
    walked.assert_held("model")
    walked.assert_held("guard")


@pytest.mark.parametrize("invariant", INVARIANTS)
def test_invariants_hold(walked: Outcome, invariant: str) -> None:
    walked.assert_held(invariant)
