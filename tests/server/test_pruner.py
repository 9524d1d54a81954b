"""When passes run: the background side of pruning, against a store that only counts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from blackboard_mcp.protocols.board import Board, BoardConfig, Core, Lifecycle
from blackboard_mcp.protocols.pruning import PassOutcome
from blackboard_mcp.protocols.store import BoardStore
from blackboard_mcp.server import pruner as pruner_module
from blackboard_mcp.server.pruner import Pruner
from blackboard_mcp.server.tokens import Tokenizers
from patience import PATIENCE

NOTHING = PassOutcome((), 0, 0, 0, 0, (), 1)


class Store:
    """One board of so many tokens, and who asked what of it."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self.looks = 0
        self.passes = 0
        self.busy = 0
        self.on_look: Callable[[], None] = lambda: None

    async def find_board(self, board: str) -> Board:
        self.looks += 1
        self.on_look()
        config = BoardConfig(target_tokens=1_000)
        now = datetime(2026, 11, 21, tzinfo=UTC)
        return Board(board, board, None, Lifecycle.OPEN, config, Core(), 1, now, 1, self.tokens, 0)

    async def lease(self, name: str, holder: str, seconds: float) -> bool:
        self.busy -= 1
        return self.busy < 0

    async def release(self, name: str, holder: str) -> None: ...

    async def summary_requests(self, board: str) -> tuple[list[Any], int]:
        return [], 0

    async def summaries_due(self) -> list[Any]:
        return []

    async def prune(self, board: str, decide: Any, *, reaching: Any = None) -> PassOutcome:
        self.passes += 1
        self.tokens = 600
        return NOTHING


def pruner_of(store: Store) -> Pruner:
    return Pruner(cast(BoardStore, store), Tokenizers(), "me")


async def test_a_kick_in_the_moment_a_pass_ends_starts_another() -> None:
    store = Store(tokens=0)
    pruner = pruner_of(store)

    looked_again = asyncio.Event()

    def on_look() -> None:
        if store.looks == 1:
            # Runs after the step in which the pass ends, before anybody is told that it did.
            asyncio.get_running_loop().call_soon(pruner.kick, "main")
        else:
            looked_again.set()

    store.on_look = on_look
    pruner.kick("main")
    await asyncio.wait_for(looked_again.wait(), PATIENCE)
    await pruner.settle()


async def test_a_pass_that_is_due_waits_for_the_process_that_holds_the_lease(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pruner_module, "_RETRY_SECONDS", 0.0)
    store = Store(tokens=900)
    store.busy = 3
    pruner = pruner_of(store)
    pruner.kick("main")
    async with asyncio.timeout(PATIENCE):
        await pruner.settle()
    assert store.passes == 1
    assert store.looks == 6, "before each try, and twice by the pass itself"
