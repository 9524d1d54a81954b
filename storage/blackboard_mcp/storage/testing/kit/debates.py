"""Tests of debates: how they open, who owes what, and who can close them."""

from __future__ import annotations

import asyncio
import re

import pytest
from blackboard_mcp.protocols.debates import Duty, ObligationState
from blackboard_mcp.protocols.errors import Conflict, Refused
from blackboard_mcp.protocols.items import Item, Status, Zone
from blackboard_mcp.protocols.topics import parse_topic

from ..harness import Table, draft, edge

ACK, RESPOND = Duty.ACKNOWLEDGE, Duty.RESPOND


async def argue(at: Table) -> tuple[Item, Item]:
    """Posts an item by alice and a critique of it by bob, and returns both."""
    root = await at.post("alice", "root", "HYPOTHESIS")
    return root, await at.post("bob", "no", "CRITIQUE", critiques=root)


async def answered(at: Table) -> tuple[Item, Item]:
    """Posts the items of `argue` and alice's answer, so that bob can judge it; returns item and critique."""
    root, critique = await argue(at)
    await at.answer("alice", critique)
    return root, critique


class DebateTests:
    async def test_a_critique_opens_a_debate(self, at: Table) -> None:
        root, critique = await argue(at)
        view = await at.debate(root)
        assert (view.debate.state, view.debate.root, view.debate.opened_by) == ("OPEN", root.number, "bob")
        assert view.debate.critiques == (critique.number,)
        assert view.root.status is Status.DEBATED
        assert set(view.items) == {root.number, critique.number}
        assert await at.owed("bob") == set(), "there is nothing to judge yet"
        assert await at.owed("alice") == {(critique.number, RESPOND)}
        assert (await at.debate(critique)).debate == view.debate
        assert (await at.item(critique)).debate == "OPEN"

    async def test_a_critique_of_ones_own_item_opens_none(self, at: Table) -> None:
        root = await at.post("alice", "root")
        await at.post("alice", "no", "CRITIQUE", critiques=root)
        assert (await at.item(root)).debate is None
        assert await at.store.debate_status(at.board, "alice", root.number) == await at.item(root)

    async def test_a_critique_said_twice_is_one(self, at: Table) -> None:
        root = await at.post("alice", "root")
        await at.post("bob", "no", "CRITIQUE", critiques=[root, root])
        assert [str(e.event) for e in (await at.events())[2:]] == ["item.posted", "debate.opened"]

    async def test_everybody_whom_a_debate_obliges_is_concerned_by_its_opening(self, at: Table) -> None:
        root = await at.post("alice", "root")
        named = [f"w{n}" for n in range(32)]
        for n in range(64):
            await at.store.watch_topic(at.board, f"t{n}", parse_topic("type:FACT"))
        await at.open("bob", root, *named)
        opened = (await at.events())[-1]
        assert set(opened.concerns) == {"alice", *named, *(f"t{n}" for n in range(64))}

    async def test_only_a_critique_critiques(self, at: Table) -> None:
        root = await at.post("alice", "root")
        await at.post("bob", "no", "FACT", critiques=root)
        assert (await at.item(root)).debate is None

    async def test_a_further_critique_joins_the_open_debate(self, at: Table) -> None:
        root, first = await argue(at)
        second = await at.post("carol", "nor I", "CRITIQUE", critiques=root)
        third = await at.post("dave", "you are wrong", "CRITIQUE", critiques=first)
        view = await at.debate(root)
        assert view.debate.critiques == (first.number, second.number, third.number)
        assert (await at.store.statistics(at.board, "alice")).open_debates == 1
        assert await at.owed("alice") == {(first.number, RESPOND), (second.number, RESPOND)}
        assert await at.owed("bob") == {(third.number, RESPOND)}
        assert await at.owed("carol") == await at.owed("dave") == set()
        assert view.debate.unanswered == view.debate.critiques
        reply = await at.answer("alice", first)
        await at.answer("bob", third)
        view = await at.debate(root)
        assert view.debate.answers[0] == (first.number, reply.number)
        assert view.debate.unanswered == (second.number,)
        assert await at.owed("carol") == set()
        await at.answer("alice", second)
        for agent in ("bob", "carol", "dave"):
            assert await at.owed(agent) == {(root.number, ACK)}

    async def test_critiques_at_once_make_one_debate(self, at: Table) -> None:
        root = await at.post("alice", "root")
        await asyncio.gather(*(at.post(f"c{n}", "no", "CRITIQUE", critiques=root) for n in range(8)))
        assert (await at.store.statistics(at.board, "alice")).open_debates == 1
        assert len((await at.debate(root)).debate.critiques) == 8

    async def test_a_critique_restores_an_archived_item(self, at: Table) -> None:
        root = await at.post("alice", "root")
        await at.gone(root)
        await at.post("bob", "no", "CRITIQUE", critiques=root)
        now = await at.item(root)
        assert (now.zone, now.status, now.debate) == (Zone.WORKING, Status.DEBATED, "OPEN")
        await at.prune()
        assert await at.zone(root) is Zone.WORKING

    @pytest.mark.parametrize("how", ["replies_to", "critiques", "refutes", "supports"])
    async def test_an_answer_to_the_critique_is_the_response(self, at: Table, how: str) -> None:
        root, critique = await argue(at)
        await at.post("carol", "my view", "REPLY", **edge(how, critique))
        assert await at.owed("alice") == {(critique.number, RESPOND)}
        await at.post("alice", "but", "REPLY", **edge(how, critique))
        assert await at.owed("alice") == set()
        assert await at.state(root) == "OPEN"

    async def test_a_further_critique_asks_for_a_further_answer(self, at: Table) -> None:
        root, critique = await argue(at)
        await at.post("alice", "but", "REPLY", replies_to=critique)
        second = await at.post("bob", "still no", "CRITIQUE", critiques=root)
        assert await at.owed("alice") == {(second.number, RESPOND)}
        assert await at.owed("bob") == set()

    @pytest.mark.parametrize("who", ["alice2", "dan", "carol", "bob"])
    async def test_the_criticised_side_answers(self, at: Table, who: str) -> None:
        """An answer counts if it is by an agent of the author's owner or by the writer of the present version."""
        await at.store.set_owner("alice2", "alice")
        root = await at.post("alice", "one", "PLAN", key="k")
        await at.post("dan", "two", "PLAN", key="k")
        critique = await at.post("bob", "no", "CRITIQUE", critiques=root)
        reply = await at.answer(who, critique)
        debate = (await at.debate(root)).debate
        counts = who in ("alice2", "dan")
        assert debate.answers == (((critique.number, reply.number),) if counts else ())
        assert await at.owed("alice") == (set() if counts else {(critique.number, RESPOND)})
        assert await at.owed("bob") == ({(root.number, ACK)} if counts else set())

    async def test_the_newest_answer_is_named_and_told_to_those_who_judge(self, at: Table) -> None:
        root, critique = await argue(at)
        await at.watch("carol", root)
        first = await at.answer("alice", critique)
        told = (await at.events())[-1]
        assert (told.event, told.item, told.data) == (
            "obligation.met",
            critique.id,
            {"duty": "respond", "answer": first.id},
        )
        assert set(told.concerns) == {"bob", "carol"}
        second = await at.answer("alice", critique, "and more")
        view = await at.debate(root)
        assert view.debate.answers == ((critique.number, second.number),)
        assert view.items[second.number].text == "and more"

    async def test_a_private_answer_is_none(self, at: Table) -> None:
        _, critique = await argue(at)
        await at.post("alice", "but", "REPLY", replies_to=critique, private=True)
        assert await at.owed("alice") == {(critique.number, RESPOND)}

    async def test_a_new_version_of_a_critique_asks_for_a_new_answer(self, at: Table) -> None:
        root = await at.post("alice", "root")
        critique = await at.post("bob", "no", "CRITIQUE", key="why", critiques=root)
        await at.answer("alice", critique)
        await at.acknowledge("alice", root)
        await at.post("bob", "for another reason", "CRITIQUE", key="why")
        assert await at.owed("alice") == {(critique.number, RESPOND)}
        assert await at.owed("bob") == set()
        assert (await at.debate(root)).debate.answers == ()

    # Before there is an answer

    async def test_nobody_acknowledges_before_every_critique_is_answered(self, at: Table) -> None:
        root, first = await argue(at)
        second = await at.post("carol", "nor I", "CRITIQUE", critiques=root)
        await at.watch("dave", root)
        for reply in (None, first):
            if reply is not None:
                await at.answer("alice", reply)
            for agent in ("alice", "bob", "carol", "dave", "erin"):
                before = await at.seq()
                for target in (root, second):
                    with pytest.raises(Refused, match=f"{second.id} has no answer yet"):
                        await at.acknowledge(agent, target)
                assert await at.seq() == before
            assert {await at.state(root)} == {"OPEN"}
        await at.answer("alice", second)
        for agent in ("bob", "carol", "dave"):
            await at.acknowledge(agent, root)
        assert await at.state(root) == "CONSENSUS"

    async def test_the_refusal_names_what_each_can_do_meanwhile(self, at: Table) -> None:
        root, critique = await argue(at)
        for agent, said in (
            ("bob", f'debate(op="withdraw", id="{critique.id}")'),
            ("bob", "alice owes the answer"),
            ("carol", "a CRITIQUE of your own"),
            ("alice", '"replies_to"'),
        ):
            with pytest.raises(Refused, match=re.escape(said)):
                await at.acknowledge(agent, root)

    async def test_watching_before_there_is_an_answer_protects_and_owes_nothing(self, at: Table) -> None:
        root = await at.post("alice", "root")
        await at.watch("carol", root)
        critique = await at.post("bob", "no", "CRITIQUE", critiques=root)
        assert await at.owed("carol") == set()
        with pytest.raises(Refused):
            await at.acknowledge("carol", root)
        assert await at.held(root) == {root.number}
        await at.withdraw("bob", critique)
        assert await at.owed("carol") == {(root.number, ACK)}, "she goes on watching the item"
        assert await at.held(root) == {root.number}

    async def test_a_debate_by_request_asks_its_watchers_at_once(self, at: Table) -> None:
        root = await at.post("alice", "root")
        await at.open("alice", root, "bob")
        assert await at.owed("bob") == {(root.number, ACK)}
        critique = await at.post("carol", "no", "CRITIQUE", critiques=root)
        assert await at.owed("bob") == set()
        await at.withdraw("carol", critique)
        assert await at.owed("bob") == {(root.number, ACK)}

    async def test_a_critic_who_gives_up_by_status_leaves_nothing_to_answer(self, at: Table) -> None:
        root, first = await argue(at)
        second = await at.post("carol", "nor I", "CRITIQUE", critiques=root)
        await at.answer("alice", second)
        assert await at.owed("carol") == set()
        await at.change("bob", first, status="INVALIDATED")
        assert await at.owed("carol") == {(root.number, ACK)}
        assert await at.owed("alice") == set()

    # Consensus

    async def test_consensus_is_when_every_watcher_acknowledged(self, at: Table) -> None:
        root, _ = await answered(at)
        await at.watch("carol", root)
        await at.acknowledge("bob", root)
        assert await at.state(root) == "OPEN"
        await at.acknowledge("carol", root)
        view = await at.debate(root)
        assert (view.debate.state, view.debate.closed_by, view.root.status) == (
            "CONSENSUS",
            "carol",
            "ACTIVE",
        )
        assert view.debate.closed_at is not None
        assert view.debate.outstanding == ()
        assert await at.owed("alice") == set()

    async def test_what_was_still_owed_at_the_end_is_waived_in_sight(self, at: Table) -> None:
        root, critique = await argue(at)
        await at.decide("carol", root)
        waived = [o for o in (await at.debate(root)).debate.obligations if o.state is ObligationState.WAIVED]
        assert {(o.agent, o.item, o.duty) for o in waived} == {
            ("alice", critique.number, RESPOND),
            ("bob", root.number, ACK),
        }
        assert all(o.reason for o in waived)
        events = [e for e in await at.events() if e.event == "obligation.waived"]
        assert {(e.item, e.data["watcher"], e.concerns) for e in events} == {
            (critique.id, "alice", ("alice",)),
            (root.id, "bob", ("bob",)),
        }

    async def test_the_author_alone_never_closes(self, at: Table) -> None:
        root, critique = await argue(at)
        with pytest.raises(Refused):
            await at.acknowledge("alice", root)
        await at.answer("alice", critique)
        with pytest.raises(Conflict):
            await at.acknowledge("alice", await at.post("alice", "unrelated"))
        for attempt in (
            at.withdraw("alice", root),
            at.withdraw("alice", critique),
            at.decide("alice", root),
            at.decide("alice", root, "I may", "alice"),
            at.change("alice", root, status="RESOLVED"),
            at.change("alice", root, status="ACTIVE"),
            at.change("alice", critique, status="RESOLVED"),
        ):
            with pytest.raises(Refused):
                await attempt
        await at.acknowledge("alice", root)
        assert await at.state(root) == "OPEN"

    async def test_who_wrote_the_present_version_never_closes_alone_either(self, at: Table) -> None:
        root = await at.post("alice", "one", "PLAN", key="k")
        await at.post("bob", "two", "PLAN", key="k")
        await at.store.set_owner("bob2", "bob")
        critique = await at.post("carol", "no", "CRITIQUE", critiques=root)
        for agent in ("bob", "bob2"):
            with pytest.raises(Refused, match="for who wrote P-1 as it stands"):
                await at.decide(agent, root)
        await at.answer("bob", critique)
        await at.unwatch("carol", root)
        await at.acknowledge("bob", root)
        await at.acknowledge("bob2", root)
        await at.configure(quorum=1)
        await at.vote("bob", root)
        view = await at.debate(root)
        assert (view.debate.state, view.tally.approving, view.tally.writers) == ("OPEN", (), ("bob",))
        await at.configure(quorum=0)
        await at.acknowledge("alice", root)
        assert await at.state(root) == "CONSENSUS", "two of them agree"

    async def test_an_author_may_doubt_what_another_wrote_into_their_entry(self, at: Table) -> None:
        root = await at.post("alice", "one", "PLAN", key="k")
        await at.post("bob", "two", "PLAN", key="k")
        critique = await at.post("alice", "not so", "CRITIQUE", critiques=root)
        assert await at.owed("bob") == {(critique.number, RESPOND)}
        assert await at.owed("alice") == set()
        await at.answer("bob", critique)
        assert await at.owed("alice") == {(root.number, ACK)}
        await at.acknowledge("alice", root)
        assert await at.state(root) == "OPEN"
        await at.acknowledge("bob", root)
        assert await at.state(root) == "CONSENSUS"

    async def test_the_author_alone_never_closes_a_debate_of_their_own_opening(self, at: Table) -> None:
        root = await at.post("alice", "root")
        await at.open("alice", root)
        await at.acknowledge("alice", root)
        assert await at.state(root) == "OPEN"
        with pytest.raises(Refused):
            await at.withdraw("alice", root)
        with pytest.raises(Refused):
            await at.decide("alice", root)
        await at.acknowledge("bob", root)
        assert await at.state(root) == "CONSENSUS"

    async def test_agreement_nobody_asked_for_counts_in_every_new_debate(self, at: Table) -> None:
        root, _ = await answered(at)
        await at.acknowledge("bob", root)
        await at.open("alice", root)
        await at.acknowledge("bob", root)
        assert await at.state(root) == "CONSENSUS", "bob's part in the first debate does not silence him"

    async def test_an_agreement_by_way_of_a_critique_that_was_withdrawn_counts(self, at: Table) -> None:
        root, first = await argue(at)
        second = await at.post("carol", "nor I", "CRITIQUE", critiques=root)
        await at.withdraw("bob", first)
        await at.answer("alice", second)
        await at.acknowledge("bob", first)
        obligations = (await at.debate(root)).debate.obligations
        assert [o.state for o in obligations if (o.agent, o.duty) == ("bob", ACK)] == ["acknowledged"]
        assert await at.state(root) == "OPEN"

    async def test_acknowledging_nothing_is_a_conflict(self, at: Table) -> None:
        root = await at.post("alice", "root")
        with pytest.raises(Conflict):
            await at.acknowledge("bob", root)

    async def test_acknowledging_by_the_critique_means_its_debate(self, at: Table) -> None:
        root, critique = await answered(at)
        await at.acknowledge("bob", critique)
        assert await at.state(root) == "CONSENSUS"

    # Withdrawing

    async def test_the_last_critique_withdrawn_withdraws_the_debate(self, at: Table) -> None:
        root, critique = await argue(at)
        with pytest.raises(Refused):
            await at.withdraw("carol", root)
        await at.withdraw("bob", critique, "I misread")
        view = await at.debate(root)
        assert (view.debate.state, view.debate.closed_by) == ("WITHDRAWN", "bob")
        assert "I misread" in view.debate.reason
        assert view.root.status is Status.ACTIVE
        assert view.items[critique.number].status is Status.WITHDRAWN
        assert await at.owed("alice") == await at.owed("bob") == set()
        with pytest.raises(Conflict):
            await at.withdraw("bob", critique)

    async def test_withdrawing_by_status_is_the_same(self, at: Table) -> None:
        root, critique = await argue(at)
        await at.change("bob", critique, status="WITHDRAWN")
        assert await at.state(root) == "WITHDRAWN"

    async def test_withdrawing_by_the_root_withdraws_all_of_ones_critiques(self, at: Table) -> None:
        root, first = await argue(at)
        second = await at.post("bob", "and no", "CRITIQUE", critiques=root)
        await at.withdraw("bob", root)
        assert await at.state(root) == "WITHDRAWN"
        assert await at.status(first) is await at.status(second) is Status.WITHDRAWN

    async def test_one_critique_of_two_withdrawn_leaves_the_debate_to_the_other(self, at: Table) -> None:
        root, first = await argue(at)
        second = await at.post("carol", "nor I", "CRITIQUE", critiques=root)
        await at.withdraw("bob", first)
        assert await at.state(root) == "OPEN"
        assert await at.owed("bob") == set()
        assert await at.owed("alice") == {(second.number, RESPOND)}
        await at.answer("alice", second)
        await at.acknowledge("carol", root)
        assert await at.state(root) == "CONSENSUS"

    async def test_a_critique_withdrawn_answers_the_critique_of_it(self, at: Table) -> None:
        root, first = await argue(at)
        second = await at.post("carol", "of the wrong pods", "CRITIQUE", critiques=first)
        third = await at.post("dan", "nor I", "CRITIQUE", critiques=root)
        assert await at.owed("bob") == {(second.number, RESPOND)}
        await at.withdraw("bob", first, "so it is")
        assert await at.owed("bob") == set()
        view = await at.debate(root)
        assert view.debate.unanswered == (third.number,)
        assert view.debate.answers == ((second.number, first.number),)
        told = [e.data for e in await at.events() if e.event == "obligation.waived" and e.item == second.id]
        assert told == [{"watcher": "bob", "duty": RESPOND, "reason": f"{first.id} withdrawn"}]
        await at.answer("alice", third)
        assert await at.owed("carol") == {(root.number, ACK)}
        await at.withdraw("dan", third)
        assert await at.state(root) == "WITHDRAWN", "nobody criticises the item any more"
        assert await at.status(root) is Status.ACTIVE

    async def test_a_withdrawn_critique_cannot_be_criticised(self, at: Table) -> None:
        root, first = await argue(at)
        await at.post("dan", "nor I", "CRITIQUE", critiques=root)
        await at.withdraw("bob", first)
        late = await at.post("carol", "of the wrong pods", "CRITIQUE", critiques=first)
        assert await at.owed("bob") == set()
        assert late.number not in (await at.debate(root)).debate.critiques

    async def test_a_critique_of_two_items_withdrawn_ends_both_debates(self, at: Table) -> None:
        one, two = await at.post("alice", "one"), await at.post("carol", "two")
        critique = await at.post("bob", "no", "CRITIQUE", critiques=[one, two])
        assert await at.state(one) == await at.state(two) == "OPEN"
        await at.withdraw("bob", critique)
        assert await at.state(one) == await at.state(two) == "WITHDRAWN"
        for agent in ("alice", "bob", "carol"):
            assert await at.owed(agent) == set()
        assert await at.held(one, two, critique) == set()

    async def test_a_final_status_of_a_critique_is_not_left(self, at: Table) -> None:
        _, critique = await argue(at)
        for other in ("alice", "carol"):
            with pytest.raises(Refused):
                await at.change(other, critique, status="INVALIDATED")
        await at.change("bob", critique, status="INVALIDATED")
        assert await at.state(critique) == "WITHDRAWN"
        with pytest.raises(Conflict):
            await at.withdraw("bob", critique)
        assert await at.status(critique) is Status.INVALIDATED

    async def test_a_withdrawn_critique_opens_nothing_more(self, at: Table) -> None:
        _, critique = await argue(at)
        await at.withdraw("bob", critique)
        other = await at.post("alice", "other")
        await at.change("bob", critique, critiques=other)
        assert (await at.item(other)).debate is None

    async def test_an_opener_withdraws_what_nobody_argues_any_more(self, at: Table) -> None:
        root = await at.post("alice", "root")
        await at.open("bob", root)
        critique = await at.post("bob", "no", "CRITIQUE", critiques=root)
        await at.withdraw("bob", critique)
        assert await at.state(root) == "OPEN", "it was opened by request"
        await at.withdraw("bob", root, "never mind")
        assert await at.state(root) == "WITHDRAWN"

    # Deciding

    async def test_whoever_is_no_party_decides(self, at: Table) -> None:
        root, _ = await argue(at)
        with pytest.raises(Refused):
            await at.decide("alice", root)
        await at.decide("bob", root)
        assert await at.state(root) == "OPEN", "he is a party"
        await at.decide("carol", root, "it stands")
        view = await at.debate(root)
        assert (view.debate.state, view.debate.closed_by, view.debate.reason) == (
            "DECIDED",
            "carol",
            "it stands",
        )
        with pytest.raises(Conflict):
            await at.decide("carol", root)

    async def test_named_deciders_decide_and_nobody_else(self, at: Table) -> None:
        root, _ = await argue(at)
        await at.decide("carol", root, "", "dave")
        assert await at.state(root) == "OPEN"
        await at.decide("dave", root, "", "dave")
        assert await at.state(root) == "DECIDED"

    async def test_a_closed_debate_stays_closed_and_a_new_critique_opens_another(self, at: Table) -> None:
        root, first = await argue(at)
        await at.decide("carol", root)
        done = (await at.debate(root)).debate
        second = await at.post("dave", "yet", "CRITIQUE", critiques=root)
        fresh = (await at.debate(root)).debate
        assert fresh.id != done.id
        assert (fresh.state, fresh.critiques) == ("OPEN", (second.number,))
        assert (await at.debate(first)).debate == done

    # By request, and watching

    async def test_a_debate_is_opened_by_request_and_joined(self, at: Table) -> None:
        root = await at.post("alice", "root")
        await at.open("bob", root, "carol")
        assert (await at.status(root), await at.state(root)) == (Status.DEBATED, "OPEN")
        await at.open("dave", root, "erin")
        for agent in ("bob", "carol", "dave", "erin"):
            assert await at.owed(agent) == {(root.number, ACK)}
        assert (await at.store.statistics(at.board, "alice")).open_debates == 1

    async def test_a_debate_by_request_restores_an_archived_item(self, at: Table) -> None:
        root = await at.post("alice", "root")
        await at.gone(root)
        await at.open("bob", root)
        assert await at.zone(root) is Zone.WORKING

    async def test_setting_an_item_debated_opens_a_debate(self, at: Table) -> None:
        root = await at.post("alice", "root")
        await at.change("bob", root, status="DEBATED")
        assert await at.state(root) == "OPEN"
        assert await at.owed("bob") == {(root.number, ACK)}

    async def test_a_finished_item_is_not_debated_by_request(self, at: Table) -> None:
        root = await at.post("alice", "root", status="WITHDRAWN")
        with pytest.raises(Conflict):
            await at.open("bob", root)

    async def test_watching_without_a_debate_holds_the_item_until_it_is_acknowledged(self, at: Table) -> None:
        item = await at.post("alice", "a")
        await at.watch("bob", item)
        assert (await at.item(item)).debate is None
        assert await at.held(item) == {item.number}
        await at.prune()
        assert await at.zone(item) is Zone.WORKING
        await at.acknowledge("bob", item)
        assert await at.owed("bob") == set()
        await at.prune()
        assert await at.zone(item) is Zone.ARCHIVE

    async def test_watching_an_archived_item_restores_it(self, at: Table) -> None:
        item = await at.post("alice", "a")
        await at.gone(item)
        await at.watch("bob", item)
        assert await at.zone(item) is Zone.WORKING

    async def test_who_watched_an_item_watches_the_debate_on_it(self, at: Table) -> None:
        root = await at.post("alice", "root")
        await at.watch("carol", root)
        await at.answer("alice", await at.post("bob", "no", "CRITIQUE", critiques=root))
        await at.acknowledge("bob", root)
        assert await at.state(root) == "OPEN"
        await at.acknowledge("carol", root)
        assert await at.state(root) == "CONSENSUS"
        assert await at.held(root) == set()

    async def test_a_batch_may_hold_an_item_and_be_argued_with(self, at: Table) -> None:
        root = await at.post("alice", "root")
        posted = await at.batch(
            "bob", draft("evidence"), draft("no", "CRITIQUE", critiques=root, depends_on=-1)
        )
        assert await at.held(*posted.items) == {2, 3}
