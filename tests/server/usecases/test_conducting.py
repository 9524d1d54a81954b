"""The conductor, which chooses who has the next turn of a run, beside agents that leave meanwhile."""

from __future__ import annotations

from typing import Any, cast

from blackboard_mcp.protocols.runs import Run
from blackboard_mcp.protocols.store import BoardStore
from blackboard_mcp.server.strategies.strategies import Strategies
from blackboard_mcp.server.usecases.conducting import Conductor
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.harness import HandClock, Table
from blackboard_mcp.storage.testing.kit.running import look, start


class Left:
    """A store in which the coordinator leaves just before it is asked."""

    def __init__(self, store: BoardStore) -> None:
        self._store = store

    async def ask_coordinator(self, board: str, run: int, stamp: int, instruction: str) -> Run:
        await self._store.leave(board, "erin", "done")
        return await self._store.ask_coordinator(board, run, stamp, instruction)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def test_the_fallback_chooses_at_once_where_the_coordinator_leaves_as_it_is_to_be_asked() -> None:
    store = await SqlBoardStore.open(None, clock=HandClock())
    at = Table(store)
    await at.configure()
    await store.join(at.board, "erin", role="leads")
    await start(at, coordinator="erin", strategy="coordinator")
    conductor = Conductor(cast(BoardStore, Left(store)), Strategies(), "me")
    await conductor.kick(at.board)
    turns = [(turn.agent, turn.kind) for turn in (await look(at)).turns]
    assert turns == [("bob", "contribute")]
    await store.close()
