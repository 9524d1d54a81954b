"""Tests of debates that end by a concession or decision: who confirms it, who is absent, what becomes of the item."""

from __future__ import annotations

import re

import pytest
from blackboard_mcp.protocols.debates import Duty, ObligationState, Outcome
from blackboard_mcp.protocols.errors import Conflict, InvalidInput, Refused
from blackboard_mcp.protocols.items import Item, Status

from ..harness import HandClock, Table
from .debates import answered, argue

CONFIRM = Duty.CONFIRM
SOME = 900


async def contested(at: Table) -> Item:
    """Returns an item by alice that bob and carol criticise."""
    root, _ = await argue(at)
    await at.post("carol", "nor I", "CRITIQUE", critiques=root)
    return root


class DecidingTests:
    # The item's outcome

    async def test_an_author_concedes_in_one_call(self, at: Table) -> None:
        root, critique = await argue(at)
        leaning = await at.post("carol", "so", depends_on=root)
        before = await at.seq()
        await at.concede("alice", root, "I misread the gauge")
        debate = (await at.debate(root)).debate
        assert (debate.state, debate.outcome, debate.closed_by, debate.reason) == (
            "CONSENSUS",
            "falls",
            "alice",
            "conceded: I misread the gauge",
        )
        assert await at.status(root) is Status.INVALIDATED
        assert await at.owed("alice") == await at.owed("bob") == set()
        closed = [e for e in await at.events(after=before) if e.event == "debate.closed"]
        assert [(e.item, e.data["outcome"], e.data["reason"]) for e in closed] == [
            (root.id, "falls", debate.reason)
        ]
        assert [r.id for r in (await at.item(leaning)).retracted] == [root.id]
        for status in ("ACTIVE", "RESOLVED", "DEBATED"):
            with pytest.raises(Conflict):
                await at.change("alice", root, status=status)
        assert await at.status(critique) is Status.ACTIVE
        assert (await at.item(root)).opponents == ("bob",)

    @pytest.mark.parametrize(
        ("writer", "outcome"), [("alice", "amended"), ("alice2", "amended"), ("carol", "falls")]
    )
    async def test_what_is_conceded_is_amended_to_ones_own_item_and_falls_to_anothers(
        self, at: Table, writer: str, outcome: str
    ) -> None:
        await at.store.set_owner("alice2", "alice")
        root, _ = await argue(at)
        leaning = await at.post("carol", "so", depends_on=root)
        better = await at.post(writer, "8 bar")
        await at.concede("alice", root, "", better)
        debate = (await at.debate(root)).debate
        assert (debate.outcome, debate.gave_way_to) == (outcome, better.number)
        now = await at.item(root)
        assert (now.status, now.outcome, now.gave_way_to) == (Status.INVALIDATED, outcome, better.id)
        assert [(r.id, r.by) for r in (await at.item(leaning)).retracted] == [(root.id, better.id)]
        closed = [e for e in await at.events() if e.event == "debate.closed"]
        assert (closed[-1].data["outcome"], closed[-1].data["gave_way_to"]) == (outcome, better.id)

    async def test_what_took_the_place_of_an_item_is_not_doubted_for_resting_on_it(self, at: Table) -> None:
        root, _ = await argue(at)
        between = await at.post("carol", "so", depends_on=root)
        better = await at.post("alice", "8 bar", derived_from=[root, between])
        await at.concede("alice", root, "", better)
        assert [(r.id, r.by) for r in (await at.item(between)).retracted] == [(root.id, better.id)]
        assert (await at.item(better)).retracted == ()
        late = await at.post("dan", "then", depends_on=root)
        await at.change("alice", better, depends_on=late)
        assert (await at.item(late)).retracted
        assert (await at.item(better)).retracted == ()

    async def test_what_is_conceded_falls_to_ones_own_item_that_refutes_it(self, at: Table) -> None:
        root, _ = await argue(at)
        against = await at.post("alice", "not 7 bar", refutes=root)
        await at.concede("alice", root, "", against)
        debate = (await at.debate(root)).debate
        assert (debate.outcome, debate.gave_way_to) == ("falls", against.number)

    async def test_what_took_the_place_of_an_item_leads_on_to_what_took_its_own(self, at: Table) -> None:
        first, _ = await argue(at)
        others = [await at.post("carol", f"{n} bar") for n in range(3)]

        async def told() -> tuple[str, str, bool]:
            now = await at.item(first)
            return now.gave_way_to, now.led_to, now.successor_fell

        await at.concede("alice", first, "", others[0])
        assert await told() == (others[0].id, "", False)
        await at.post("bob", "no", "CRITIQUE", critiques=others[0])
        await at.concede("carol", others[0], "", others[1])
        assert await told() == (others[0].id, others[1].id, False)
        await at.concede("carol", others[1], "", others[2])
        assert await told() == (others[0].id, others[2].id, False)
        await at.change("carol", others[2], status="WITHDRAWN")
        assert await told() == (others[0].id, others[2].id, True)
        nearer = await at.item(others[1])
        assert (nearer.gave_way_to, nearer.led_to, nearer.successor_fell) == (others[2].id, "", True)

    async def test_a_decision_that_an_item_falls_may_name_what_takes_its_place(self, at: Table) -> None:
        root, _ = await argue(at)
        rival = await at.post("carol", "8 bar")
        await at.decide("dave", root, "measured", outcome="falls", to=rival)
        debate = (await at.debate(root)).debate
        assert (debate.outcome, debate.gave_way_to) == ("falls", rival.number)

    async def test_nothing_is_amended_to_what_does_not_stand_for_all_to_see(self, at: Table) -> None:
        root, critique = await argue(at)
        secret = await at.post("alice", "mine", private=True)
        gone = await at.post("alice", "old", status="WITHDRAWN")
        for other in (root, secret, gone):
            with pytest.raises(InvalidInput):
                await at.concede("alice", root, "", other)
        with pytest.raises(InvalidInput, match="to="):
            await at.decide("carol", root, "so", outcome="amended")
        with pytest.raises(InvalidInput):
            await at.decide("carol", root, "so", outcome="stands", to=critique)
        assert await at.state(root) == "OPEN"

    async def test_only_the_side_under_criticism_concedes(self, at: Table) -> None:
        await at.store.set_owner("alice2", "alice")
        root, critique = await argue(at)
        with pytest.raises(Refused, match=re.escape(f'debate(op="withdraw", id="{critique.id}")')):
            await at.concede("bob", root)
        with pytest.raises(Refused, match='op="decide"'):
            await at.concede("carol", root)
        await at.concede("alice2", critique)
        assert (await at.debate(root)).debate.outcome == "falls"
        with pytest.raises(Conflict):
            await at.concede("alice", root)

    async def test_who_wrote_the_version_that_stands_may_concede_it(self, at: Table) -> None:
        root = await at.post("alice", "one", "PLAN", key="k")
        await at.post("dan", "two", "PLAN", key="k")
        await at.post("bob", "no", "CRITIQUE", critiques=root)
        await at.concede("dan", root)
        assert await at.status(root) is Status.INVALIDATED

    @pytest.mark.parametrize("status", ["WITHDRAWN", "INVALIDATED"])
    async def test_taking_back_what_is_criticised_concedes(self, at: Table, status: str) -> None:
        root, _ = await argue(at)
        with pytest.raises(Refused):
            await at.change("bob", root, status=status)
        await at.change("alice", root, status=status)
        debate = (await at.debate(root)).debate
        assert (debate.state, debate.outcome, debate.closed_by) == ("CONSENSUS", "falls", "alice")
        assert await at.status(root) == status
        assert await at.held(root) == set()

    async def test_every_end_says_what_became_of_the_item(self, at: Table, clock: HandClock) -> None:
        root, critique = await answered(at)
        await at.acknowledge("bob", root, "the second log shows it")
        debate = (await at.debate(root)).debate
        assert (debate.outcome, debate.reason) == ("stands", "every critique was answered; agreed: bob")
        (agreed,) = [o for o in debate.obligations if o.duty is Duty.ACKNOWLEDGE]
        assert agreed.reason == "the second log shows it"
        assert await at.status(root) is Status.ACTIVE
        assert (await at.item(root)).outcome == "stands"
        second = await at.post("bob", "still", "CRITIQUE", critiques=root)
        assert (await at.item(root)).outcome == ""
        await at.withdraw("bob", second, "no")
        assert (await at.debate(root)).debate.outcome == "stands"
        await at.open("carol", root)
        await at.withdraw("carol", root)
        assert (await at.debate(root)).debate.outcome == "open"
        await at.configure(debate_expiry_seconds=100)
        await at.post("bob", "yet", "CRITIQUE", critiques=root)
        clock.advance(100)
        await at.store.sweep_debates()
        assert (await at.debate(root)).debate.outcome == "open"
        await at.post("bob", "again", "CRITIQUE", critiques=root)
        await at.decide("carol", root, "measured", outcome="falls")
        assert (await at.debate(root)).debate.outcome == "falls"
        assert await at.status(root) is Status.INVALIDATED
        assert critique.number

    async def test_a_decision_needs_an_outcome(self, at: Table) -> None:
        root, _ = await argue(at)
        for outcome in (None, "open"):
            with pytest.raises(InvalidInput, match=r"stands.*falls.*amended"):
                await at.store.debate_decide(
                    *(at.board, "carol", root.number, "so", []),
                    outcome=None if outcome is None else Outcome(outcome),
                )
        assert await at.state(root) == "OPEN"

    async def test_a_critique_that_falls_is_answered_no_more(self, at: Table) -> None:
        root = await at.post("alice", "root")
        loose = await at.post("bob", "no", "CRITIQUE")
        await at.open("carol", loose)
        await at.change("bob", loose, critiques=root)
        assert (await at.debate(root)).debate.unanswered == (loose.number,)
        await at.decide("dave", loose, "not so", outcome="falls")
        assert await at.state(root) == "WITHDRAWN"

    # Decisions that another owner confirms

    async def test_a_partys_decision_counts_when_another_owner_confirms_it(self, at: Table) -> None:
        root = await contested(at)
        before = await at.seq()
        await at.decide("bob", root, "it burst twice", outcome="falls")
        debate = (await at.debate(root)).debate
        assert debate.state == "OPEN"
        assert [(d.owner, d.agent, d.outcome, d.to, d.reason) for d in debate.decisions] == [
            ("bob", "bob", "falls", 0, "it burst twice")
        ]
        (told,) = await at.events(after=before)
        assert (told.event, told.data) == (
            "debate.pending",
            {"outcome": "falls", "reason": "it burst twice"},
        )
        assert set(told.concerns) == {"alice", "carol"}
        assert await at.owed("carol") == {(root.number, CONFIRM)}
        assert {duty for _, duty in await at.owed("alice")} == {Duty.RESPOND}
        await at.confirm("carol", root)
        debate = (await at.debate(root)).debate
        assert (debate.state, debate.outcome, debate.closed_by, debate.confirmed_by, debate.reason) == (
            *("DECIDED", "falls", "bob", "carol"),
            "it burst twice",
        )
        assert debate.decisions == ()
        assert await at.status(root) is Status.INVALIDATED
        closed = [e for e in await at.events(after=before) if e.event == "debate.closed"]
        assert [(e.agent, e.data["decided_by"]) for e in closed] == [("carol", "bob")]

    async def test_a_party_decides_nothing_alone(self, at: Table) -> None:
        await at.store.set_owner("bob2", "bob")
        root, _ = await argue(at)
        for agent in ("bob", "bob2", "bob"):
            await at.decide(agent, root, "so", outcome="falls")
            assert await at.state(root) == "OPEN"
        for agent in ("bob", "bob2"):
            with pytest.raises(Conflict):
                await at.confirm(agent, root)
        for agent in ("alice",):
            with pytest.raises(Refused, match="concede"):
                await at.confirm(agent, root)
            with pytest.raises(Refused, match="concede"):
                await at.decide(agent, root, "so")
        await at.confirm("dave", root)
        assert await at.state(root) == "DECIDED", "anybody of another owner confirms"

    async def test_two_parties_who_decide_the_same_have_decided(self, at: Table) -> None:
        root = await contested(at)
        await at.decide("bob", root, "so", outcome="falls")
        await at.decide("carol", root, "yes", outcome="stands")
        assert await at.owed("bob") == {(root.number, CONFIRM)}
        assert await at.owed("carol") == set(), "she has said what she thinks"
        await at.decide("carol", root, "or yes", outcome="falls")
        debate = (await at.debate(root)).debate
        assert (debate.state, debate.closed_by, debate.confirmed_by) == ("DECIDED", "bob", "carol")

    async def test_one_confirms_what_one_means(self, at: Table) -> None:
        root = await contested(at)
        await at.decide("bob", root, "so", outcome="falls")
        await at.decide("carol", root, "not so", outcome="stands")
        with pytest.raises(Conflict, match="bob: falls; carol: stands"):
            await at.confirm("dave", root)
        with pytest.raises(Conflict):
            await at.confirm("dave", root, outcome="amended")
        await at.confirm("dave", root, outcome="stands")
        debate = (await at.debate(root)).debate
        assert (debate.outcome, debate.closed_by, debate.confirmed_by) == ("stands", "carol", "dave")

    async def test_nobody_confirms_what_nobody_decided(self, at: Table) -> None:
        root, _ = await argue(at)
        with pytest.raises(Conflict, match='op="decide"'):
            await at.confirm("carol", root)
        with pytest.raises(Conflict):
            await at.confirm("carol", await at.post("alice", "other"))

    async def test_a_critic_who_withdrew_is_no_party_and_its_decision_is_gone(self, at: Table) -> None:
        root = await contested(at)
        await at.decide("bob", root, "so", outcome="falls")
        await at.withdraw("bob", root, "I misread")
        debate = (await at.debate(root)).debate
        assert debate.decisions == ()
        assert await at.owed("carol") == set()
        with pytest.raises(Conflict):
            await at.confirm("carol", root)
        await at.decide("bob", root, "it stands")
        assert await at.state(root) == "DECIDED"

    async def test_a_new_version_is_decided_anew(self, at: Table) -> None:
        root = await at.post("alice", "one", "PLAN", key="k")
        for critic in ("bob", "carol"):
            await at.post(critic, f"no, says {critic}", "CRITIQUE", critiques=root)
        await at.decide("bob", root, "so", outcome="falls")
        await at.post("alice", "two", "PLAN", key="k")
        with pytest.raises(Conflict):
            await at.confirm("carol", root)
        assert CONFIRM not in {duty for _, duty in await at.owed("carol")}

    async def test_who_criticises_on_or_unwatches_need_not_confirm(self, at: Table) -> None:
        root = await contested(at)
        await at.watch("dave", root)
        await at.decide("bob", root, "so", outcome="falls")
        assert (root.number, CONFIRM) in await at.owed("dave")
        await at.unwatch("dave", root)
        await at.post("carol", "for another reason", "CRITIQUE", critiques=root)
        for agent in ("carol", "dave"):
            assert await at.owed(agent) == set()

    async def test_an_agent_of_a_critics_owner_withdraws_for_it(self, at: Table) -> None:
        await at.store.set_owner("bob2", "bob")
        root, critique = await argue(at)
        with pytest.raises(Refused):
            await at.withdraw("carol", critique)
        await at.withdraw("bob2", critique, "he is gone")
        assert await at.state(root) == "WITHDRAWN"
        other = await at.post("bob", "loose", "CRITIQUE")
        with pytest.raises(Conflict):
            await at.withdraw("bob2", other)

    # Named deciders

    async def test_a_named_decider_decides_as_a_critic_too(self, at: Table) -> None:
        root, _ = await argue(at)
        await at.decide("bob", root, "so", "bob", outcome="falls")
        assert await at.state(root) == "DECIDED"

    async def test_where_deciders_are_named_they_confirm_what_others_decide(self, at: Table) -> None:
        root = await contested(at)
        await at.decide("bob", root, "so", "dan", outcome="falls")
        await at.decide("carol", root, "so", "dan", outcome="falls")
        await at.decide("erin", root, "so", "dan", outcome="falls")
        assert await at.state(root) == "OPEN"
        assert await at.owed("dan") == {(root.number, CONFIRM)}
        assert CONFIRM not in {duty for _, duty in await at.owed("carol")}
        with pytest.raises(Refused, match="dan"):
            await at.confirm("erin", root, "dan")
        await at.confirm("dan", root, "dan")
        assert (await at.debate(root)).debate.confirmed_by == "dan"

    async def test_a_named_decider_of_the_authors_side_decides_nothing(self, at: Table) -> None:
        root, _ = await argue(at)
        with pytest.raises(Refused):
            await at.decide("alice", root, "so", "alice")
        await at.decide("carol", root, "so", "alice", outcome="falls")
        assert await at.state(root) == "DECIDED", "no named decider could"

    async def test_deciders_who_stay_away_are_waited_for_no_more(self, at: Table, clock: HandClock) -> None:
        root = await contested(at)
        await at.decide("bob", root, "so", "dan", outcome="falls")
        clock.advance(SOME)
        await at.here("bob", clock.now())
        await at.here("carol", clock.now())
        await at.here("alice", clock.now())
        await at.store.sweep_debates()
        assert CONFIRM in {duty for _, duty in await at.owed("carol")}
        await at.confirm("carol", root, "dan")
        assert await at.state(root) == "DECIDED"

    async def test_a_bystander_decides_when_no_named_decider_comes(self, at: Table, clock: HandClock) -> None:
        root, _ = await argue(at)
        await at.decide("erin", root, "so", "dan", outcome="falls")
        assert await at.state(root) == "OPEN"
        clock.advance(SOME)
        await at.here("erin", clock.now())
        await at.store.sweep_debates()
        await at.decide("erin", root, "so", "dan", outcome="falls")
        assert await at.state(root) == "DECIDED"

    # Presence

    async def test_an_author_who_left_is_waived_in_sight_and_its_critique_stays_unanswered(
        self, at: Table, clock: HandClock
    ) -> None:
        root, critique = await argue(at)
        clock.advance(SOME)
        await at.here("bob", clock.now())
        before = await at.seq()
        assert await at.store.sweep_debates() == [at.board]
        (told,) = await at.events(after=before)
        assert (told.event, told.item, told.agent, told.data) == (
            *("obligation.waived", critique.id, "system"),
            {"watcher": "alice", "duty": "respond", "reason": "away"},
        )
        assert set(told.concerns) == {"alice", "bob"}
        assert await at.owed("alice") == set()
        assert await at.store.sweep_debates() == []
        with pytest.raises(Refused, match="alice, who owes the answer, is away"):
            await at.acknowledge("bob", root)
        await at.watch("carol", root)
        with pytest.raises(Refused):
            await at.acknowledge("carol", root)
        await at.answer("alice", critique, "back again")
        assert (await at.debate(root)).debate.unanswered == ()

    async def test_nobody_is_away_while_nobody_waits(self, at: Table, clock: HandClock) -> None:
        """All parties stopped for the night; an agent outside the debate works on, but does not wait for them."""
        _, critique = await argue(at)
        await at.post("erin", "something else")
        clock.advance(100 * SOME)
        await at.here("erin", clock.now())
        assert await at.store.sweep_debates() in ([], [at.board])
        assert await at.owed("alice") == {(critique.number, Duty.RESPOND)}

    async def test_presence_counts_from_when_one_is_asked(self, at: Table, clock: HandClock) -> None:
        root, critique = await argue(at)
        clock.advance(SOME - 1)
        await at.answer("alice", critique)
        clock.advance(2)
        await at.here("alice", clock.now())
        await at.store.sweep_debates()
        assert (root.number, Duty.ACKNOWLEDGE) in await at.owed("bob"), "he was asked two seconds ago"
        clock.advance(SOME)
        await at.here("alice", clock.now())
        await at.store.sweep_debates()
        assert await at.owed("bob") == set()
        assert await at.state(root) == "OPEN", "nobody but the author is left"

    async def test_who_is_back_first_after_a_night_waits_for_the_others(
        self, at: Table, clock: HandClock
    ) -> None:
        root, _ = await answered(at)
        await at.watch("carol", root)
        clock.advance(40 * SOME)
        await at.acknowledge("bob", root)
        for _ in range(2):
            await at.store.sweep_debates()
            assert await at.owed("carol") == {(root.number, Duty.ACKNOWLEDGE)}, "nobody was there meanwhile"
            clock.advance(SOME // 2)
            await at.here("bob", clock.now())
        assert await at.store.sweep_debates() == [at.board]
        assert (await at.debate(root)).debate.outcome == "stands"

    async def test_who_is_back_second_after_a_night_is_not_waived(self, at: Table, clock: HandClock) -> None:
        root, _ = await answered(at)
        await at.watch("carol", root)
        clock.advance(40 * SOME)
        await at.here("bob", clock.now())
        clock.advance(SOME - 1)
        for agent in ("bob", "carol"):
            await at.here(agent, clock.now())
        clock.advance(SOME - 1)
        await at.here("bob", clock.now())
        assert await at.store.sweep_debates() == []
        assert await at.owed("carol") == {(root.number, Duty.ACKNOWLEDGE)}

    async def test_a_newcomer_waits_for_who_was_away_before_it_came(
        self, at: Table, clock: HandClock
    ) -> None:
        root, critique = await argue(at)
        clock.advance(40 * SOME)
        await at.watch("erin", root)
        assert await at.store.sweep_debates() == []
        clock.advance(SOME)
        await at.here("erin", clock.now())
        assert await at.owed("alice") == {(critique.number, Duty.RESPOND)}
        assert await at.store.sweep_debates() == [at.board]
        assert await at.owed("alice") == set()

    async def test_whoever_makes_a_call_is_there(self, at: Table, clock: HandClock) -> None:
        _, critique = await argue(at)
        for _ in range(3):
            clock.advance(SOME - 1)
            await at.here("alice", clock.now())
            await at.here("bob", clock.now())
            await at.store.sweep_debates()
        assert await at.owed("alice") == {(critique.number, Duty.RESPOND)}

    async def test_a_debate_goes_on_without_a_watcher_who_left(self, at: Table, clock: HandClock) -> None:
        root, _ = await answered(at)
        await at.watch("carol", root)
        await at.acknowledge("bob", root)
        clock.advance(SOME)
        await at.here("bob", clock.now())
        await at.store.sweep_debates()
        debate = (await at.debate(root)).debate
        assert (debate.state, debate.outcome) == ("CONSENSUS", "stands")
        waived = [(o.agent, o.reason) for o in debate.obligations if o.state is ObligationState.WAIVED]
        assert waived == [("carol", "away")]

    async def test_presence_of_nought_waits_for_ever(self, at: Table, clock: HandClock) -> None:
        await at.configure(presence_seconds=0, watch_lease_seconds=0)
        _, critique = await argue(at)
        clock.advance(1_000 * SOME)
        await at.here("bob", clock.now())
        assert await at.store.sweep_debates() == []
        assert await at.owed("alice") == {(critique.number, Duty.RESPOND)}

    async def test_with_a_quorum_votes_are_called_for_when_the_author_left(
        self, at: Table, clock: HandClock
    ) -> None:
        await at.configure(quorum=2)
        root, _ = await argue(at)
        assert await at.owed("bob") == set()
        clock.advance(SOME)
        await at.here("bob", clock.now())
        await at.store.sweep_debates()
        assert await at.owed("bob") == {(root.number, Duty.ACKNOWLEDGE)}
