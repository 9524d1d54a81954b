"""Tests of use: what a policy learns about readers of items, and when agents were last active."""

from __future__ import annotations

from datetime import datetime, timedelta

from blackboard_mcp.protocols.access import Role
from blackboard_mcp.protocols.board import BoardChange
from blackboard_mcp.protocols.pruning import Candidate, Plan, Workspace

from ..harness import HandClock, Table


async def candidates(at: Table) -> dict[int, Candidate]:
    """Returns working memory as a pass sees it, by item number."""
    seen: list[Candidate] = []

    def look(space: Workspace) -> Plan:
        seen.extend(space.candidates)
        return Plan()

    await at.prune(look, apply=False)
    return {c.number: c for c in seen}


async def used(at: Table) -> dict[int, tuple[int, datetime | None]]:
    """Returns the number of reads and the last one, by item number."""
    return {number: (c.reads, c.last_read) for number, c in (await candidates(at)).items()}


class UseTests:
    async def test_reads_add_up_and_the_last_one_counts(self, at: Table, clock: HandClock) -> None:
        await at.post("alice", "a")
        await at.post("alice", "b")
        assert await used(at) == {1: (0, None), 2: (0, None)}
        now = clock.now()
        await at.store.record_activity(at.board, {}, {1: (2, now + timedelta(seconds=9))})
        await at.store.record_activity(at.board, {}, {1: (3, now)})
        assert await used(at) == {1: (5, now + timedelta(seconds=9)), 2: (0, None)}

    async def test_an_agent_that_was_there_is_last_seen_then_and_never_earlier(
        self, at: Table, clock: HandClock
    ) -> None:
        await at.post("alice", "a")
        later = clock.now() + timedelta(seconds=5)
        await at.store.record_activity(at.board, {"alice": later}, {})
        await at.store.record_activity(at.board, {"alice": clock.now()}, {})
        agents = await at.store.agents(at.board)
        assert [(a.name, a.posts, a.last_seen) for a in agents] == [("alice", 1, later)]

    async def test_a_member_that_may_only_read_is_not_there(self, at: Table, clock: HandClock) -> None:
        await at.post("alice", "a")
        first = clock.now()
        for role, there in ((Role.OBSERVER, first), (Role.SUMMARISER, first), (Role.CONTRIBUTOR, None)):
            await at.store.change_board(at.board, "bob", BoardChange(members={"alice": role}))
            clock.advance(5)
            await at.store.record_activity(at.board, {"alice": clock.now()}, {})
            (alice,) = (a for a in await at.store.agents(at.board) if a.name == "alice")
            assert alice.last_seen == (there or clock.now())

    async def test_use_changes_no_board_and_passes_over_what_is_not_there(
        self, at: Table, clock: HandClock
    ) -> None:
        await at.post("alice", "a")
        before, log, item = await at.standing(), await at.events(), await at.item(1)
        now = clock.now()
        await at.store.record_activity(at.board, {"alice": now, "nobody": now}, {1: (1, now), 99: (1, now)})
        await at.store.record_activity("elsewhere", {"alice": now}, {1: (1, now)})
        assert await at.store.find_board("elsewhere") is None
        assert (await at.standing(), await at.events(), await at.item(1)) == (before, log, item)
        assert [a.name for a in await at.store.agents(at.board)] == ["alice"]
        assert await used(at) == {1: (1, now)}

    async def test_what_both_handles_record_adds_up(
        self, handles: tuple[Table, Table], clock: HandClock
    ) -> None:
        one, two = handles
        await one.post("alice", "a")
        for at in (one, two, one):
            await at.store.record_activity(at.board, {}, {1: (2, clock.now())})
        assert await used(one) == await used(two) == {1: (6, clock.now())}
