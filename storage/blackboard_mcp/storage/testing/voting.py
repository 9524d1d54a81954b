"""The kit on whom agents act for, and on votes: each owner has one."""

from __future__ import annotations

from .harness import Table


class VotingTests:
    async def test_an_agent_acts_for_itself_until_somebody_else_is_named(self, at: Table) -> None:
        assert await at.store.owner_of("alice") == "alice"
        await at.store.set_owner("alice", "team")
        await at.store.set_owner("alice", "team")
        assert await at.store.owner_of("alice") == "team"
        assert await at.store.owner_of("team") == "team"
        await at.store.set_owner("alice", "alice")
        assert await at.store.owner_of("alice") == "alice"
