"""What one owner's agents keep from leaving: a refusal tells each agent of what it may see, and counts all."""

from __future__ import annotations

import pytest
from blackboard_mcp.protocols.board import BoardConfig
from blackboard_mcp.protocols.errors import QuotaExceeded
from blackboard_mcp.storage.memory import open_memory_store
from blackboard_mcp.storage.testing.harness import Table


async def test_a_refusal_names_no_item_of_a_teammate_that_the_agent_may_not_see() -> None:
    store = await open_memory_store()
    try:
        table = Table(store)
        await table.post("carol", "somebody else is here")
        for agent in ("alice", "bob"):
            await store.set_owner(agent, "acme")
        share = int(BoardConfig().low_tokens * BoardConfig().owner_share)
        mine = await table.post("alice", "hers", importance=5, tokens=share // 4)
        shared = await table.post("bob", "the team's", importance=5, tokens=share // 4, team=True)
        hidden = await table.post("bob", "his alone", importance=5, tokens=share // 2, private=True)
        for agent, known in (("alice", [mine, shared]), ("bob", [hidden, mine, shared])):
            with pytest.raises(QuotaExceeded, match="importance 4") as refused:
                await table.post(agent, f"one more of {agent}", importance=5, tokens=share // 4)
            assert refused.value.facts["limit"] == "owner_share"
            assert refused.value.facts["tokens"] > share, "what is hidden counts all the same"
            assert refused.value.facts["items"] == [item.id for item in known]
            assert (hidden.id in str(refused.value)) == (agent == "bob")
    finally:
        await store.close()
