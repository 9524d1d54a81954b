"""Tests of the guard: what is protected, over how many steps, and that no policy overrides it."""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import Future

import pytest
from blackboard_mcp.protocols.items import Item, Zone
from blackboard_mcp.protocols.pruning import Move, Plan, Workspace

from ..harness import HandClock, Table, draft, edge, everything
from .debates import argue

CHAINS = {
    "replies": ["replies_to"] * 7,
    "supports": ["supports"] * 7,
    "refutes": ["refutes"] * 7,
    "mixed": ["replies_to", "supports", "refutes", "replies_to", "supports", "critiques", "refutes"],
}


class GuardTests:
    @pytest.mark.parametrize("chain", CHAINS)
    async def test_a_chain_that_leads_to_a_debate_is_protected_to_its_end(
        self, at: Table, chain: str
    ) -> None:
        root = await at.post("alice", "root")
        members = [root]
        for kind in CHAINS[chain]:
            members.append(await at.post("alice", kind, **edge(kind, members[-1])))
        await at.post("bob", "no", "CRITIQUE", critiques=root)
        outcome = await at.prune()
        assert outcome.moved == ()
        assert await at.held(*members) == {m.number for m in members}
        longest = (await at.store.guarded(at.board, [members[-1].number]))[members[-1].number]
        assert len(longest.chain) == len(members) - 1
        assert root.id in longest.reason

    async def test_a_chain_that_leads_away_from_a_debate_is_protected_to_its_end(self, at: Table) -> None:
        members = [await at.post("alice", "0")]
        for n in range(7):
            members.append(await at.post("alice", str(n), depends_on=members[-1]))
        await at.post("bob", "no", "CRITIQUE", critiques=members[-1])
        assert (await at.prune()).moved == ()

    async def test_what_depends_on_a_debated_item_is_not_protected(self, at: Table) -> None:
        root, _ = await argue(at)
        dependent = await at.post("carol", "later", depends_on=root)
        assert {moved for moved, _, _ in (await at.prune()).moved} == {dependent.id}

    async def test_a_chain_runs_through_archived_items(self, at: Table) -> None:
        members = [await at.post("alice", "0")]
        for n in range(7):
            members.append(await at.post("alice", str(n), supports=members[-1]))
        await at.gone(*members[1:-1])
        await at.post("bob", "no", "CRITIQUE", critiques=members[0])
        await at.prune()
        assert await at.zone(members[-1]) is Zone.WORKING
        assert [await at.zone(m) for m in members[1:-1]] == [Zone.ARCHIVE] * 6
        await at.decide("carol", members[0])
        await at.prune()
        assert await at.zone(members[-1]) is Zone.ARCHIVE

    async def test_what_two_debates_hold_stays_until_both_are_over(self, at: Table) -> None:
        one, two = await at.post("alice", "one"), await at.post("alice", "two")
        between = await at.post("carol", "both", "REPLY", replies_to=[one, two])
        await at.open("bob", one)
        await at.open("bob", two)
        await at.decide("carol", one)
        assert await at.held(one, two, between) == {one.number, two.number, between.number}
        await at.decide("carol", two)
        assert await at.held(one, two, between) == set()

    async def test_what_a_debate_leans_on_stays_when_the_debate_that_held_it_first_is_over(
        self, at: Table
    ) -> None:
        one, two = await at.post("alice", "one"), await at.post("alice", "two")
        await at.open("bob", one)
        far = await at.post("carol", "far", supports=one)
        near = await at.post("carol", "near", supports=one, depends_on=far)
        await at.open("bob", two)
        await at.change("alice", two, depends_on=near)
        await at.decide("carol", one)
        assert await at.held(one, two, near, far) == {one.number, two.number, near.number, far.number}
        chain = (await at.store.guarded(at.board, [one.number]))[one.number].chain
        assert (chain[0].source, chain[0].target) == (two.number, near.number)
        await at.decide("carol", two)
        assert await at.held(one, two, near, far) == set()

    @pytest.mark.parametrize("kind", ["derived_from", "supersedes", "analyzed_by"])
    async def test_edges_that_say_where_something_came_from_do_not_protect(
        self, at: Table, kind: str
    ) -> None:
        root, _ = await argue(at)
        source = await at.post("carol", "source")
        to_source = await at.post("alice", "x", supports=root, **edge(kind, source))
        to_root = await at.post("carol", "y", **edge(kind, root))
        await at.prune()
        assert await at.held(source, to_root) == set()
        # Items that members cite stay without the guard, too, while there is room.
        assert await at.zone(source) is (Zone.WORKING if kind == "derived_from" else Zone.ARCHIVE)
        assert await at.zone(to_root) is Zone.ARCHIVE
        assert await at.zone(to_source) is Zone.WORKING

    async def test_a_critique_stays_until_its_debate_is_over(self, at: Table) -> None:
        root, critique = await argue(at)
        await at.prune()
        assert await at.zone(critique) is Zone.WORKING
        await at.post("alice", "but", "REPLY", replies_to=critique)
        await at.prune()
        assert await at.zone(critique) is Zone.WORKING
        await at.acknowledge("bob", root)
        await at.prune()
        assert await at.zone(critique) is Zone.ARCHIVE

    @pytest.mark.parametrize("type_", ["CONSTRAINT", "HOT_ISSUE"])
    async def test_active_constraints_and_open_hot_issues_are_protected(self, at: Table, type_: str) -> None:
        law = await at.post("alice", "law", type_)
        await at.prune()
        assert await at.zone(law) is Zone.WORKING
        await at.change("alice", law, status="RESOLVED")
        await at.prune()
        assert await at.zone(law) is Zone.ARCHIVE

    async def test_an_unmet_obligation_protects_until_it_is_met_or_waived(self, at: Table) -> None:
        item = await at.post("alice", "a")
        await at.watch("bob", item)
        await at.watch("carol", item)
        for agent in ("bob", "carol"):
            await at.prune()
            assert await at.zone(item) is Zone.WORKING, agent
            await at.acknowledge(agent, item)
        await at.prune()
        assert await at.zone(item) is Zone.ARCHIVE

    async def test_a_pass_tells_the_policy_what_is_protected_and_moves_only_the_rest(self, at: Table) -> None:
        root, critique = await argue(at)
        free = await at.post("carol", "one two three")
        told: list[Workspace] = []

        def greedy(space: Workspace) -> Plan:
            told.append(space)
            return everything(space)

        outcome = await at.prune(greedy)
        assert [c.number for c in told[0].candidates if c.number in told[0].protected] == [2, 1]
        assert outcome.moved == ((free.id, 4, "all of it"),)
        assert (outcome.tokens_before, outcome.tokens_after) == (5, 2)
        assert (outcome.protected_items, outcome.protected_tokens) == (2, 2)
        assert outcome.seq == await at.seq()
        assert (await at.prune()).moved == ()
        assert await at.held(root, critique) == {1, 2}

    async def test_a_policy_that_names_nonsense_moves_nothing_twice(self, at: Table) -> None:
        root, critique = await argue(at)
        free = await at.post("carol", "one two three")
        gone = await at.post("carol", "gone")
        await at.gone(gone)
        before = await at.standing()
        outcome = await at.gone(free, free, root, critique, gone, 0, -5, 999, free)
        assert [moved for moved, _, _ in outcome.moved] == [free.id]
        board = await at.standing()
        assert board.working_items == before.working_items - 1 == 2
        assert board.working_tokens == before.working_tokens - 3
        assert board.archived_items == before.archived_items + 1 == 2

    async def test_a_dry_run_says_what_would_go_and_moves_nothing(self, at: Table) -> None:
        await argue(at)
        free = await at.post("carol", "free")
        before = await at.store.snapshot(at.board, "alice")
        outcome = await at.prune(apply=False)
        assert [moved for moved, _, _ in outcome.moved] == [free.id]
        assert await at.store.snapshot(at.board, "alice") == before
        assert (await at.prune()).moved == outcome.moved

    async def test_what_others_post_or_cannot_see_makes_an_item_go_no_sooner(self, at: Table) -> None:
        log = await at.post("alice", "log", "LOG")
        old = await at.post("alice", "old")
        await at.post("bob", "better", supersedes=old)
        await at.post("alice", "mine alone", private=True, supersedes=old)
        await at.change("bob", log, analyzed_by=await at.post("bob", "note", private=True))
        told: list[Workspace] = []

        def look(space: Workspace) -> Plan:
            told.append(space)
            return Plan()

        await at.prune(look, apply=False)
        seen = {c.number: c for c in told[0].candidates}
        assert not seen[old.number].superseded
        assert not seen[log.number].analysed

    async def test_a_pass_describes_its_candidates(self, at: Table, clock: HandClock) -> None:
        log = await at.post("alice", "log", "LOG", importance=1, ttl=10)
        old = await at.post("alice", "old", "CONSTRAINT")
        note = await at.post("bob", "note", private=True)
        await at.post("alice", "new", "CONSTRAINT", supersedes=old)
        await at.change("bob", log, analyzed_by=await at.post("bob", "analysis"))
        root, _ = await argue(at)
        await at.decide("carol", root)
        clock.advance(10)
        told: list[Workspace] = []

        def look(space: Workspace) -> Plan:
            told.append(space)
            return Plan()

        await at.prune(look, apply=False)
        by_number = {c.number: c for c in told[0].candidates}
        assert by_number[log.number].analysed
        assert by_number[log.number].expired
        assert by_number[old.number].superseded
        assert by_number[note.number].private
        assert by_number[root.number].debated_before
        assert (
            told[0].tokens
            == (await at.standing()).working_tokens
            == sum(c.tokens for c in by_number.values())
        )
        seqs = [c.seq for c in told[0].candidates]
        assert seqs == sorted(seqs)

    async def test_a_critique_during_a_pass_comes_before_it_or_brings_its_target_back(
        self, at: Table
    ) -> None:
        item = await at.post("alice", "a")
        loop = asyncio.get_running_loop()
        critique: list[Future[Item]] = []

        def meanwhile(space: Workspace) -> Plan:
            posting = at.post("bob", "no", "CRITIQUE", critiques=item)
            critique.append(asyncio.run_coroutine_threadsafe(posting, loop))
            with contextlib.suppress(TimeoutError):  # time for a store that lets the post past its pass
                critique[0].result(timeout=0.2)
            return Plan(moves=(Move(item.number, 4, "free when it was looked at"),))

        await at.prune(meanwhile)
        await asyncio.wrap_future(critique[0])
        now = await at.item(item)
        assert (now.zone, now.debate) == (Zone.WORKING, "OPEN")
        assert await at.held(item) == {item.number}

    async def test_what_is_pruned_is_in_one_zone_with_its_counts(self, at: Table) -> None:
        await at.batch("alice", *(draft(f"{n} words here") for n in range(10)))
        await at.gone(*range(1, 7))
        await at.store.restore(at.board, "bob", [2, 3])
        board = await at.standing()
        assert (board.working_items, board.archived_items, board.working_tokens) == (6, 4, 18)
        working, archived = await at.query(), await at.query(zone=Zone.ARCHIVE)
        assert sorted(working + archived) == list(range(1, 11))
