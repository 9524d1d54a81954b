"""Tests of items for a team: its agents see them as the board sees public ones, and nobody else does by any path."""

from __future__ import annotations

from dataclasses import replace

import pytest
from blackboard_mcp.protocols.answers import Once
from blackboard_mcp.protocols.errors import Conflict, InvalidInput, Refused, UnknownReference
from blackboard_mcp.protocols.items import Item, Visibility
from blackboard_mcp.protocols.transactions import BOARD, Transaction
from blackboard_mcp.protocols.visibility import team_of

from ..harness import CONFIG, Table, draft
from .absence import absent


async def _teams(at: Table) -> None:
    """Makes alice and bob act for acme, carol and dave for other; eve acts for herself."""
    for agent, owner in (("alice", "acme"), ("bob", "acme"), ("carol", "other"), ("dave", "other")):
        await at.store.set_owner(agent, owner)


async def _shared(at: Table) -> tuple[Item, Item]:
    """Posts a public item and a reply to it that alice shares with her team, and returns both."""
    await _teams(at)
    public = await at.post("alice", "public")
    return public, await at.post(
        "alice", "ours @bob @carol", team=True, key="s:k", tags=["hush"], replies_to=public, importance=5
    )


class TeamTests:
    async def test_a_team_item_is_there_for_those_who_act_for_the_same_owner(self, at: Table) -> None:
        public, shared = await _shared(at)
        assert shared.visibility is Visibility.TEAM
        for agent in ("alice", "bob"):
            assert (await at.item(shared, agent)).text == "ours @bob @carol"
            assert shared.number in await at.query(agent, key="s:*")
            assert (await at.item(public, agent)).cited_by == (("replies_to", shared.id),)
            assert shared.id in [event.item for event in await at.events(agent)]
            assert "hush" in await at.store.tags(at.board, agent)
            assert shared.number in {i.number for i in (await at.store.snapshot(at.board, agent)).items}
        assert await at.attention("bob") == (shared.id,)

    async def test_a_team_item_is_absent_for_everybody_else(self, at: Table) -> None:
        public, shared = await _shared(at)
        for _ in ("working", "archive"):
            for agent in ("carol", "eve", "acme2", "system-"):
                await absent(at, agent, shared, public)
            await at.gone(shared)
        assert [n for n, _ in await at.store.unindexed(at.board, "bob", 10)] == [shared.number]

    async def test_nobody_but_the_team_is_concerned_by_a_team_item(self, at: Table) -> None:
        _, shared = await _shared(at)
        told = [event for event in await at.events("bob") if event.item == shared.id]
        assert [event.concerns for event in told] == [("bob",)]
        await at.store.set_owner("carol", "acme")
        assert await at.attention("carol") == (), "who joins later was not told"

    async def test_what_an_agent_sees_follows_whom_it_acts_for(self, at: Table) -> None:
        _, shared = await _shared(at)
        note = await at.post("bob", "bob's own", private=True)
        await at.store.set_owner("bob", "other")
        await at.store.set_owner("eve", "acme")
        assert [await at.sees(agent, shared) for agent in ("alice", "bob", "carol", "eve")] == [
            *(True, False, False),
            True,
        ]
        assert await at.sees("bob", note)
        assert (await at.item(note, "bob")).visibility is Visibility.PRIVATE
        assert await at.attention("bob") == ()
        assert shared.id not in [event.item for event in await at.events("bob")]
        # The author loses sight of it like every agent that leaves the team.
        await at.store.set_owner("alice", "alice")
        assert not await at.sees("alice", shared)
        assert (await at.item(shared, "eve")).author == "alice"

    async def test_who_left_a_team_is_not_shown_its_items_by_repeating_a_call(self, at: Table) -> None:
        await _teams(at)
        once = Once("k", "digest")
        for call in range(2):
            done = await at.batch("alice", draft("of the team", team=True), once=once)
            assert done.repeated == bool(call)
        await at.store.set_owner("alice", "other")
        before = await at.seq()
        with pytest.raises(UnknownReference):
            await at.batch("alice", draft("of the team", team=True), once=once)
        assert await at.seq() == before

    async def test_an_agent_without_an_owner_is_a_team_with_those_who_act_for_it(self, at: Table) -> None:
        note = await at.post("eve", "ours", team=True)
        assert not await at.sees("frank", note)
        await at.store.set_owner("frank", "eve")
        assert await at.sees("frank", note)

    async def test_a_key_is_the_agents_own_before_its_teams_before_the_boards(self, at: Table) -> None:
        await _teams(at)
        shared = await at.post("carol", "of the board", key="k")
        ours = await at.post("alice", "of the team", key="k", team=True)
        theirs = await at.post("dave", "of the other team", key="k", team=True)
        own = await at.post("zoe", "of zoe", key="k", private=True)
        mine = await at.post("alice", "of alice", key="k", private=True)

        async def read(agent: str) -> list[str]:
            return [item.text for item in (await at.store.read(at.board, agent, [], ["k"])).items]

        assert [await read(agent) for agent in ("alice", "bob", "carol", "zoe", "eve")] == [
            *(["of alice"], ["of the team"], ["of the other team"], ["of zoe"]),
            ["of the board"],
        ]
        assert len({shared.number, ours.number, theirs.number, own.number, mine.number}) == 5
        # A post without a visibility goes to the entry that the agent reads under that key.
        for agent, number in (("bob", ours.number), ("alice", mine.number), ("eve", shared.number)):
            said = replace(draft(f"by {agent}", key="k"), visibility=None)
            written = (await at.batch(agent, said)).items[0]
            assert (written.number, written.version) == (number, 2)
        await at.delete("alice", "k", private=True)
        assert await read("alice") == ["by bob"], "what stands comes before tombstones"
        await at.delete("bob", "k", team=True)
        assert await read("alice") == await read("bob") == ["by eve"]

    async def test_a_team_shares_an_entry_and_its_versions(self, at: Table) -> None:
        await _teams(at)
        first = await at.post("alice", "one", key="plan", team=True)
        second = await at.post("bob", "two", key="plan", team=True, expected=1)
        assert (second.number, second.version, second.updated_by) == (first.number, 2, "bob")
        with pytest.raises(Conflict):
            await at.post("alice", "late", key="plan", team=True, expected=1)
        begun = await at.post("carol", "another", key="plan", team=True, expected=0)
        assert (begun.number, begun.version) != (first.number, 3)
        with pytest.raises(InvalidInput, match="visible to your team"):
            await at.store.post(at.board, "alice", [draft("x", on=first, private=True)], config=CONFIG)

    async def test_a_transaction_holds_reads_of_the_team_and_tells_nobody_else_what_moved(
        self, at: Table
    ) -> None:
        await _teams(at)
        await at.post("alice", "one", key="job:a", team=True)
        seq = await at.seq()
        await at.post("alice", "two", key="job:a", team=True)

        async def hold(agent: str) -> dict[str, int]:
            writes = (draft("done", key=f"by:{agent}"),)
            asked = Transaction(writes=writes, reads={"job:*": seq, "job:a": 0, BOARD: seq})
            try:
                await at.store.transact(at.board, agent, asked, config=CONFIG)
            except Conflict as conflict:
                return dict(conflict.facts["moved"])
            return {}

        assert await hold("carol") == {}, "what is hidden moves nothing"
        seq = await at.seq()
        await at.post("alice", "three", key="job:a", team=True)
        assert (await hold("bob"))["job:a"] == 3

    async def test_a_team_item_opens_no_debate_and_has_none(self, at: Table) -> None:
        await _teams(at)
        root = await at.post("carol", "root")
        await at.post("alice", "no", "CRITIQUE", critiques=root, team=True)
        assert (await at.item(root, "bob")).debate is None
        ours = await at.post("alice", "ours", team=True)
        with pytest.raises(Refused, match="is team: a debate"):
            await at.open("bob", ours)
        await at.post("bob", "no", "CRITIQUE", critiques=ours)
        assert (await at.item(ours, "bob")).debate is None
        assert await at.owed("alice") == set()

    async def test_a_thread_shows_no_hidden_beginning(self, at: Table) -> None:
        await _teams(at)
        note = await at.post("alice", "note", private=True)
        shared = await at.post("alice", "ours", team=True, replies_to=note)
        assert shared.thread == shared.number
        assert (await at.item(shared, "bob")).edges == ()
        event = next(e for e in await at.events("bob") if e.item == shared.id)
        assert event.data == {}
        mine = await at.post("alice", "mine", private=True, replies_to=shared)
        assert mine.thread == shared.number
        public = await at.post("alice", "to all", "REPLY", replies_to=shared)
        assert (public.thread, (await at.item(public, "carol")).edges) == (public.number, ())

    async def test_the_same_finding_in_a_team_is_no_support_and_hints_at_nothing(self, at: Table) -> None:
        await _teams(at)
        hidden = await at.post("alice", "The cache is stale after a deploy.", "FACT", team=True)
        posted = await at.batch("carol", draft("The cache is stale after a deploy.", "FACT"))
        assert posted.endorsed == ()
        again = await at.batch("bob", draft("The cache is stale after a deploy.", "FACT", team=True))
        assert again.endorsed == ()
        seen = await at.item(posted.items[0], "carol")
        assert (seen.supporters, (await at.item(hidden, "bob")).supporters) == ((), ())

    async def test_a_retraction_reaches_what_the_team_rests_on_it_and_leads_nowhere_else(
        self, at: Table
    ) -> None:
        await _teams(at)
        source = await at.post("alice", "source", team=True)
        public = await at.post("alice", "public", depends_on=source)
        ours = await at.post("bob", "ours", team=True, depends_on=source)
        mine = await at.post("bob", "mine", private=True, depends_on=ours)
        await at.change("alice", source, status="WITHDRAWN")
        await at.store.spread_retractions()
        assert (await at.item(public, "bob")).retracted == ()
        for item in (ours, mine):
            assert [notice.id for notice in (await at.item(item, "bob")).retracted] == [source.id]
        await at.store.set_owner("bob", "other")
        assert (await at.item(mine, "bob")).retracted == (), "it names what bob sees no more"

    async def test_counts_passes_and_summaries_are_those_of_what_an_agent_sees(self, at: Table) -> None:
        _, shared = await _shared(at)
        assert {a.name: a.posts for a in await at.store.agents(at.board)} == {"alice": 1}
        sources = await at.store.thread_sources(at.board, [1, shared.number])
        assert [item.number for item in sources] == [1]
        await at.gone(shared)
        for agent in ("bob", "carol"):
            ended = (await at.events(agent))[-1]
            assert (ended.event, ended.data["moved"]) == ("prune.ended", 0)
        for agent, waiting in (("bob", 1), ("carol", 0)):
            assert (await at.store.statistics(at.board, agent)).waiting_for_index == waiting
        restored = await at.store.restore(at.board, "bob", [shared.number])
        assert [item.id for item in restored.items] == [shared.id]
        with pytest.raises(UnknownReference):
            await at.store.restore(at.board, "carol", [shared.number])

    async def test_a_repeated_restore_shows_what_its_agent_may_see_by_then(self, at: Table) -> None:
        _, shared = await _shared(at)
        await at.gone(shared)
        once = Once("once", "digest")
        back = await at.store.restore(at.board, "bob", [shared.number], once=once)
        assert [item.id for item in back.items] == [shared.id]
        await at.store.set_owner("bob", "other")
        again = await at.store.restore(at.board, "bob", [shared.number], once=once)
        assert (again.items, again.repeated) == ((), True)

    async def test_that_there_is_more_of_a_log_is_said_of_what_an_agent_sees(self, at: Table) -> None:
        _, shared = await _shared(at)
        for agent, more in (("bob", True), ("carol", False)):
            log = await at.store.log(at.board, agent, 0, 2)
            assert (len(log.events), log.more) == (2, more), agent
        assert (await at.store.log(at.board, "carol", 0, 2)).cursor == await at.seq()
        assert shared.seq == await at.seq()

    async def test_consumer_groups_and_whole_logs_mark_what_a_team_shares(self, at: Table) -> None:
        _, shared = await _shared(at)
        whole = (await at.store.stretches({at.board: 0}, 100))[at.board]
        marked = [event for event in whole.events if event.item == shared.id]
        assert [event.owner for event in marked] == [team_of("acme")]
        owners = await at.store.owners_of(["alice", "carol", "eve"])
        assert owners == {"alice": "acme", "carol": "other", "eve": "eve"}
