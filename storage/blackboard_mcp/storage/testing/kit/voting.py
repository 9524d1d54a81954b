"""Tests of owners and votes: each owner has one vote on a version, and the author's owner has none."""

from __future__ import annotations

import asyncio

import pytest
from blackboard_mcp.protocols.debates import Duty, ObligationState
from blackboard_mcp.protocols.errors import Conflict, Refused, UnknownReference
from blackboard_mcp.protocols.items import Status, Zone

from ..harness import Table
from .debates import answered, argue

ACK = Duty.ACKNOWLEDGE


class VotingTests:
    async def test_an_agent_acts_for_itself_until_somebody_else_is_named(self, at: Table) -> None:
        assert await at.store.owner_of("alice") == "alice"
        await at.store.set_owner("alice", "team")
        await at.store.set_owner("alice", "team")
        assert await at.store.owner_of("alice") == "team"
        assert await at.store.owner_of("team") == "team"
        await at.store.set_owner("alice", "alice")
        assert await at.store.owner_of("alice") == "alice"

    # The author under criticism has no second voice

    async def test_a_second_agent_of_the_authors_owner_makes_no_consensus(self, at: Table) -> None:
        for agent in ("alice", "alice2"):
            await at.store.set_owner(agent, "team")
        root = await at.post("alice", "root")
        await at.open("alice", root)
        await at.acknowledge("alice2", root)
        await at.acknowledge("alice", root)
        assert await at.state(root) == "OPEN"
        await at.acknowledge("bob", root)
        assert await at.state(root) == "CONSENSUS"

    async def test_nobody_who_acts_for_a_party_decides(self, at: Table) -> None:
        for agent in ("alice", "alice2"):
            await at.store.set_owner(agent, "team")
        await at.store.set_owner("bob2", "bob")
        root, _ = await argue(at)
        with pytest.raises(Refused):
            await at.decide("alice2", root, "so")
        await at.decide("bob2", root, "so")
        assert await at.state(root) == "OPEN", "that waits for another owner's word"
        with pytest.raises(Refused):
            await at.decide("alice2", root, "so", "alice2")
        await at.decide("bob2", root, "so", "bob2")
        assert await at.state(root) == "DECIDED", "a named decider may act for a critic"

    async def test_an_opener_of_the_authors_owner_does_not_withdraw(self, at: Table) -> None:
        await at.store.set_owner("alice2", "alice")
        root = await at.post("alice", "root")
        await at.open("alice2", root)
        with pytest.raises(Refused):
            await at.withdraw("alice2", root)

    # Votes

    async def test_a_quorum_in_favour_closes(self, at: Table) -> None:
        await at.configure(quorum=2)
        root, critique = await argue(at)
        await at.vote("carol", root, reason="it holds")
        assert await at.state(root) == "OPEN"
        await at.vote("dave", critique)
        view = await at.debate(root)
        assert (view.debate.state, view.debate.outcome, view.debate.closed_by) == (
            "CONSENSUS",
            "stands",
            "dave",
        )
        assert view.root.status is Status.ACTIVE
        assert view.debate.outstanding == ()
        assert view.tally.approving == ("carol", "dave")
        assert [(v.owner, v.agent, v.version, v.approve, v.reason) for v in view.debate.votes] == [
            ("carol", "carol", 1, True, "it holds"),
            ("dave", "dave", 1, True, ""),
        ]

    async def test_a_quorum_against_invalidates_the_item(self, at: Table) -> None:
        await at.configure(quorum=2)
        root, _ = await argue(at)
        await at.vote("bob", root, False)
        await at.vote("carol", root, False)
        view = await at.debate(root)
        assert (view.debate.state, view.debate.outcome) == ("CONSENSUS", "falls")
        assert view.root.status is Status.INVALIDATED
        closed = [e for e in await at.events() if e.event == "debate.closed"]
        assert [e.data["outcome"] for e in closed] == ["falls"]

    async def test_each_vote_is_an_event(self, at: Table) -> None:
        await at.configure(quorum=3)
        root, _ = await argue(at)
        await at.store.set_owner("carol", "team")
        before = await at.seq()
        await at.vote("carol", root, False, "why not")
        (event,) = await at.events(after=before)
        assert (event.event, event.item, event.agent, event.concerns) == (
            "debate.voted",
            root.id,
            "carol",
            ("alice",),
        )
        assert event.data == {
            "approve": False,
            "owner": "team",
            "version": 1,
            "for": 0,
            "against": 1,
            "reason": "why not",
        }

    async def test_an_owner_has_one_vote_whatever_agents_it_has(self, at: Table) -> None:
        await at.configure(quorum=2)
        for agent in ("carol", "carol2", "carol3"):
            await at.store.set_owner(agent, "team")
        root, _ = await argue(at)
        for agent in ("carol", "carol2", "carol3"):
            await at.vote(agent, root)
        view = await at.debate(root)
        assert (view.debate.state, view.tally.approving) == ("OPEN", ("team",))
        await at.vote("carol2", root, False)
        view = await at.debate(root)
        assert (view.tally.approving, view.tally.rejecting) == ((), ("team",)), "the later vote replaces it"

    async def test_an_agent_that_changes_its_owner_has_one_vote(self, at: Table) -> None:
        await at.configure(quorum=2)
        root, _ = await argue(at)
        for owner in ("one", "two", "three"):
            await at.store.set_owner("carol", owner)
            await at.vote("carol", root)
        assert (await at.debate(root)).tally.approving == ("three",)

    async def test_the_owner_of_the_author_under_criticism_does_not_count(self, at: Table) -> None:
        await at.configure(quorum=1)
        for agent in ("alice", "alice2"):
            await at.store.set_owner(agent, "team")
        root, _ = await argue(at)
        await at.vote("alice", root)
        await at.vote("alice2", root)
        view = await at.debate(root)
        assert (view.debate.state, view.tally.author, view.tally.approving) == ("OPEN", "team", ())
        assert [v.owner for v in view.debate.votes] == ["team"], "it is recorded"
        await at.vote("carol", root)
        assert await at.state(root) == "CONSENSUS"

    async def test_a_new_version_makes_former_votes_count_no_more(self, at: Table) -> None:
        await at.configure(quorum=2)
        root = await at.post("alice", "one", key="plan")
        await at.post("bob", "no", "CRITIQUE", critiques=root)
        await at.vote("carol", root)
        await at.post("alice", "two", key="plan")
        await at.vote("dave", root)
        view = await at.debate(root)
        assert (view.debate.state, view.tally.version, view.tally.approving) == ("OPEN", 2, ("dave",))
        await at.vote("carol", root)
        assert await at.state(root) == "CONSENSUS"

    async def test_a_new_version_asks_again_for_what_was_acknowledged(self, at: Table) -> None:
        root = await at.post("alice", "one", key="plan")
        await at.open("alice", root, "bob", "carol")
        await at.acknowledge("bob", root)
        before = await at.seq()
        await at.post("alice", "two", key="plan")
        assert await at.owed("bob") == {(root.number, ACK)}
        again = [e for e in await at.events(after=before) if e.event == "obligation.added"]
        assert [(e.data, e.concerns) for e in again] == [({"watcher": "bob", "why": "version 2"}, ("bob",))]
        await at.acknowledge("carol", root)
        assert await at.state(root) == "OPEN", "bob has agreed to another text"
        await at.acknowledge("bob", root)
        assert await at.state(root) == "CONSENSUS"

    async def test_with_a_quorum_a_vote_meets_what_the_voter_owed(self, at: Table) -> None:
        await at.configure(quorum=5)
        root, _ = await argue(at)
        await at.vote("bob", root, False)
        assert await at.owed("bob") == set()
        states = {o.agent: o.state for o in (await at.debate(root)).debate.obligations if o.duty == ACK}
        assert states == {"bob": ObligationState.ACKNOWLEDGED}

    async def test_with_a_quorum_acknowledging_does_not_close(self, at: Table) -> None:
        await at.configure(quorum=1)
        root, _ = await answered(at)
        await at.acknowledge("bob", root)
        assert await at.state(root) == "OPEN"

    async def test_without_a_quorum_votes_are_recorded_and_close_nothing(self, at: Table) -> None:
        root, _ = await answered(at)
        for agent in ("bob", "carol", "dave"):
            await at.vote(agent, root)
        view = await at.debate(root)
        assert (view.debate.state, view.tally.quorum) == ("OPEN", 0)
        assert view.tally.approving == ("bob", "carol", "dave")
        assert await at.owed("bob") == {(root.number, ACK)}

    async def test_as_many_against_as_in_favour_close_nothing(self, at: Table) -> None:
        await at.configure(quorum=3)
        root, _ = await argue(at)
        await at.vote("carol", root)
        await at.vote("dave", root, False)
        await at.configure(quorum=1)
        await at.vote("dave", root, False)
        assert await at.state(root) == "OPEN"
        await at.vote("erin", root, False)
        assert await at.state(root) == "CONSENSUS"

    async def test_votes_at_once_close_once(self, at: Table) -> None:
        await at.configure(quorum=2)
        root, _ = await argue(at)
        done = await asyncio.gather(*(at.vote(f"v{n}", root) for n in range(8)), return_exceptions=True)
        assert sum(isinstance(answer, Conflict) for answer in done) == 6
        assert [str(e.event) for e in await at.events()].count("debate.closed") == 1

    async def test_there_is_nothing_to_vote_on_without_an_open_debate(self, at: Table) -> None:
        root, _ = await argue(at)
        await at.decide("carol", root, "so")
        other = await at.post("alice", "other")
        secret = await at.post("alice", "secret", private=True)
        before = await at.seq()
        for target in (root, other):
            with pytest.raises(Conflict):
                await at.vote("dave", target)
        for number in (secret.number, 99):
            with pytest.raises(UnknownReference):
                await at.vote("dave", number)
        assert await at.seq() == before

    async def test_a_new_debate_begins_without_votes(self, at: Table) -> None:
        await at.configure(quorum=2)
        root, _ = await argue(at)
        await at.vote("carol", root)
        await at.decide("dave", root, "so")
        await at.post("bob", "still no", "CRITIQUE", critiques=root)
        assert (await at.debate(root)).tally.approving == ()

    async def test_voting_on_an_archived_item_needs_a_debate_that_brings_it_back(self, at: Table) -> None:
        root = await at.post("alice", "root")
        await at.gone(root)
        with pytest.raises(Conflict):
            await at.vote("bob", root)
        assert await at.zone(root) is Zone.ARCHIVE
        await at.post("bob", "no", "CRITIQUE", critiques=root)
        await at.vote("carol", root)
        assert await at.zone(root) is Zone.WORKING

    async def test_what_rests_on_an_item_that_is_voted_down_is_told(self, at: Table) -> None:
        await at.configure(quorum=1)
        root, _ = await argue(at)
        leaning = await at.post("carol", "so", depends_on=root)
        await at.vote("dave", root, False)
        assert [e.item for e in await at.events() if e.event == "item.doubted"] == [leaning.id]
