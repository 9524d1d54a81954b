"""Tests of questions that wait for an agent, of open work, which leaves late, and of restored items."""

from __future__ import annotations

import pytest
from blackboard_mcp.protocols.debates import Duty
from blackboard_mcp.protocols.errors import Conflict, QuotaExceeded
from blackboard_mcp.protocols.items import Item, Zone
from blackboard_mcp.protocols.pruning import Candidate, Plan, Workspace
from blackboard_mcp.protocols.remarks import RemarkKind

from ..harness import HandClock, Table, draft
from .planning import plan, settle, take


async def wonder(at: Table, text: str = "@bob which port?", agent: str = "alice", **said: object) -> Item:
    """Posts a question, and returns it."""
    return await at.post(agent, text, "QUESTION", **said)


async def seen(at: Table) -> dict[int, Candidate]:
    """Returns working memory as a pass sees it, by item number."""
    told: list[Workspace] = []

    def look(space: Workspace) -> Plan:
        told.append(space)
        return Plan()

    await at.prune(look, apply=False)
    return {c.number: c for c in told[0].candidates}


class QuestionTests:
    async def test_a_question_stays_until_whom_it_names_answers(self, at: Table) -> None:
        question = await wonder(at, "@bob, @carol: which port?")
        assert await at.owed("bob") == await at.owed("carol") == {(question.number, Duty.RESPOND)}
        assert question.id in await at.attention("bob", await at.seq())
        assert await at.held(question) == {question.number}
        await at.prune()
        assert await at.zone(question) is Zone.WORKING
        await at.post("bob", "5432", "REPLY", replies_to=question)
        assert (await at.owed("bob"), await at.owed("carol")) == (set(), {(question.number, Duty.RESPOND)})
        await at.post("carol", "the usual one", replies_to=question)
        assert await at.owed("carol") == set()
        await at.prune()
        assert await at.zone(question) is Zone.ARCHIVE

    async def test_a_question_that_names_nobody_asks_whom_it_replies_to(self, at: Table) -> None:
        claim = await at.post("bob", "the pool is exhausted")
        question = await wonder(at, "how do you know?", replies_to=claim)
        of_nobody = await wonder(at, "does anybody know?")
        assert await at.owed("bob") == {(question.number, Duty.RESPOND)}
        assert await at.held(question, of_nobody) == {question.number}
        named = await wonder(at, "@carol do you?", replies_to=claim)
        assert await at.owed("carol") == {(named.number, Duty.RESPOND)}
        assert len(await at.owed("bob")) == 1

    async def test_a_word_for_everybody_asks_nobody_by_name(self, at: Table) -> None:
        asked = await at.post("alice", "@everyone @all @me Which port?", "QUESTION")
        assert await at.held(asked) == set()
        both = await at.post("alice", "@all, but first of all @bob: which host?", "QUESTION")
        assert await at.owed("bob") == {(both.number, Duty.RESPOND)}
        assert await at.owed("all") == set()

    async def test_an_answer_by_anybody_lets_off_who_alone_was_asked_in_sight(self, at: Table) -> None:
        question = await wonder(at, "@bob which port?")
        before = await at.seq()
        answer = await at.post("dan", "5432", "ANSWER", replies_to=question)
        assert await at.owed("bob") == set()
        (waived,) = [e for e in await at.events("bob", before) if e.event == "obligation.waived"]
        assert (waived.data["watcher"], waived.data["reason"]) == ("bob", f"answered in {answer.id}")
        assert {"alice", "bob"} <= set(waived.concerns)

    async def test_of_several_each_is_asked_for_its_own_answer(self, at: Table) -> None:
        question = await wonder(at, "@bob @carol what did you measure?")
        for place, agent in enumerate(("bob", "dan", "bob")):
            await at.post(agent, f"{place} leaks", "ANSWER", replies_to=question)
            assert (await at.owed("bob"), await at.owed("carol")) == (
                set(),
                {(question.number, Duty.RESPOND)},
            )
        assert await at.held(question) == {question.number}
        before = await at.seq()
        await at.change("alice", question, status="RESOLVED")
        assert await at.owed("carol") == set()
        (waived,) = [e for e in await at.events("carol", before) if e.event == "obligation.waived"]
        assert (waived.data["watcher"], set(waived.concerns)) == ("carol", {"carol"})

    async def test_who_is_asked_and_for_whom_a_question_waits_is_remarked(self, at: Table) -> None:
        posted = await at.batch("alice", draft("@bob @carol which port?", "QUESTION"))
        assert [(r.kind, r.fields) for r in posted.remarks] == [(RemarkKind.ASKS, ("bob", "carol"))]
        question = posted.items[0]
        for agent, waits in (("bob", ("carol",)), ("carol", ())):
            answer = draft(f"{agent}: 5432", "ANSWER", replies_to=question)
            told = (await at.batch(agent, answer, look=await at.seq())).remarks
            assert [(r.kind, r.fields, r.about[0].id) for r in told] == [
                (RemarkKind.ANSWERS, waits, question.id)
            ]
        assert (await at.batch("alice", draft("does anybody know?", "QUESTION"))).remarks == ()

    async def test_a_name_in_other_case_than_one_on_the_board_is_remarked(self, at: Table) -> None:
        await at.post("bob", "here")
        asked = draft("@Bob @zoe which port?", "QUESTION")
        found = {r.fields for r in (await at.batch("alice", asked)).remarks if r.kind is RemarkKind.UNKNOWN}
        assert found == {("Bob", "bob")}, "zoe may come yet"

    async def test_a_question_in_return_is_no_answer(self, at: Table) -> None:
        question = await wonder(at)
        back = await wonder(at, "which database?", "bob", replies_to=question)
        assert await at.owed("bob") == {(question.number, Duty.RESPOND)}
        assert await at.owed("alice") == {(back.number, Duty.RESPOND)}

    async def test_an_acknowledgement_is_no_answer(self, at: Table) -> None:
        question = await wonder(at)
        with pytest.raises(Conflict, match="an answer meets that"):
            await at.acknowledge("bob", question)
        assert await at.owed("bob") == {(question.number, Duty.RESPOND)}

    @pytest.mark.parametrize("how", ["RESOLVED", "WITHDRAWN", "superseded", "conceded"])
    async def test_a_question_that_is_over_asks_nobody(self, at: Table, how: str) -> None:
        question = await wonder(at)
        if how == "superseded":
            await wonder(at, "@carol which port?", supersedes=question)
            assert await at.zone(question) is Zone.ARCHIVE
        elif how == "conceded":
            await at.post("carol", "We use no port.", "CRITIQUE", critiques=question)
            await at.concede("alice", question)
        else:
            await at.change("alice", question, status=how)
        assert await at.owed("bob") == set()
        assert question.number not in await at.held(question)

    async def test_what_nobody_answers_lapses_in_sight_of_the_asker(
        self, at: Table, clock: HandClock
    ) -> None:
        await at.post("alice", "first")
        question = await wonder(at)
        clock.advance(6 * 86_400)
        await at.store.sweep_debates()
        assert await at.owed("bob")
        clock.advance(86_400)
        before = await at.seq()
        assert at.board in await at.store.sweep_debates()
        assert await at.owed("bob") == set()
        event = (await at.events("alice", before))[0]
        assert (event.event, event.item, event.data["reason"]) == (
            "obligation.waived",
            question.id,
            "no answer in 7 days",
        )
        assert set(event.concerns) == {"alice", "bob"}
        await at.configure(question_expiry_seconds=0)
        await wonder(at, "@bob and now?")
        clock.advance(365 * 86_400)
        await at.store.sweep_debates()
        assert await at.owed("bob")

    async def test_a_new_version_of_a_question_asks_anew(self, at: Table) -> None:
        first = await wonder(at, key="q")
        await at.post("bob", "5432", "ANSWER", replies_to=first)
        await wonder(at, "@bob and the host?", key="q")
        assert await at.owed("bob") == {(first.number, Duty.RESPOND)}

    async def test_nobody_is_asked_what_they_cannot_see(self, at: Table) -> None:
        note = await wonder(at, private=True)
        for agent in ("bob", "alice"):
            await at.store.set_owner(agent, "ours")
        ours = await wonder(at, "@bob @carol which port?", team=True)
        assert (await at.owed("bob"), await at.owed("carol")) == ({(ours.number, Duty.RESPOND)}, set())
        assert await at.held(note, ours) == {ours.number}
        await at.post("bob", "5432", "ANSWER", team=True, replies_to=ours)
        assert await at.owed("bob") == set()

    async def test_who_asks_much_is_refused_while_others_are_there(self, at: Table) -> None:
        await at.post("bob", "here")
        for n in range(3):
            await wonder(at, f"@bob {n}", tokens=600)
        with pytest.raises(QuotaExceeded, match="a QUESTION without @"):
            await wonder(at, "@bob 3", tokens=600)
        await wonder(at, "anybody 3", tokens=600)

    # Open work

    async def test_open_work_is_told_apart(self, at: Table) -> None:
        for type_ in ("PROBLEM", "PLAN", "DECISION", "QUESTION", "FACT", "HYPOTHESIS"):
            await at.post("alice", type_.lower(), type_)
        ground = await at.post("alice", "ground")
        top = await at.post("bob", "top", depends_on=ground)
        assert [n for n, c in (await seen(at)).items() if c.open_work] == [1, 2, 3, 4, ground.number]
        await at.change("alice", 1, status="RESOLVED")
        await at.post("alice", "another plan", "PLAN", supersedes=2)
        await at.post("bob", "so", "REPLY", replies_to=4)
        await at.change("bob", top, status="WITHDRAWN")
        assert [n for n, c in (await seen(at)).items() if c.open_work] == [3, 9]
        await at.post("bob", "mine alone", private=True, depends_on=5)
        assert not (await seen(at))[5].open_work

    async def test_a_result_that_an_open_task_comes_after_is_open_work(self, at: Table) -> None:
        (first,) = await plan(at, "survey")
        (second,) = await plan(at, "build", after=(first,))
        (third,) = await plan(at, "ship", after=(second,))
        await take(at, "bob", first)
        posted = (await settle(at, "bob", "done", first, "nine stations")).item
        assert posted is not None

        async def told() -> set[int]:
            return {n for n, c in (await seen(at)).items() if c.open_work}

        assert await told() == {posted.number}
        better = await at.post("bob", "ten stations", "FACT", supersedes=posted)
        assert await told() == {better.number}
        await at.post("carol", "eleven", "RESULT", supersedes=better)
        assert await told() == {better.number}, "bob has not agreed"
        best = await at.post("bob", "twelve", "RESULT", supersedes=better)
        assert await told() == {best.number}
        await take(at, "carol", second)
        assert await told() == {best.number}
        built = (await settle(at, "carol", "done", second, "the table")).item
        assert built is not None
        assert await told() == {built.number}
        await at.store.plan(at.board, "alice", [], cancel=[third])
        assert await told() == set()

    async def test_what_rests_on_what_is_told_as_far_as_all_see_it(self, at: Table) -> None:
        fact, other = await at.post("alice", "fact"), await at.post("alice", "other")
        claim = await at.post("bob", "claim", "HYPOTHESIS", derived_from=fact)
        plan = await at.post("bob", "plan", "PLAN", depends_on=fact)
        await at.post("bob", "log", "LOG", derived_from=fact)
        await at.post("bob", "note", importance=5, private=True, derived_from=other)
        told = await seen(at)
        assert told[fact.number].bears == (claim.number, plan.number)
        assert told[other.number].bears == ()
        await at.change("bob", claim, status="INVALIDATED")
        against = await at.post("carol", "it is not", refutes=claim)
        told = await seen(at)
        assert told[fact.number].bears == (plan.number,)
        assert told[against.number].bears == (claim.number,)
        assert told[claim.number].fell

    async def test_what_was_changed_read_or_cited_lately_is_fresh(self, at: Table, clock: HandClock) -> None:
        items = [await at.post("alice", f"item {n}") for n in range(5)]
        clock.advance(599)
        assert all(c.fresh for c in (await seen(at)).values())
        clock.advance(2)
        assert not any(c.fresh for c in (await seen(at)).values())
        await at.store.record_activity(at.board, {}, {items[0].number: (1, clock.now())})
        await at.post("bob", "so", derived_from=items[1])
        await at.change("alice", items[2], importance=3)
        await at.post("bob", "mine alone", private=True, derived_from=items[3])
        assert [n for n, c in (await seen(at)).items() if c.fresh and n <= 5] == [1, 2, 3]
        await at.configure(fresh_seconds=0)
        assert not any(c.fresh for c in (await seen(at)).values())

    async def test_who_is_concerned_by_open_work_that_leaves_is_told(self, at: Table) -> None:
        plan = await at.post("alice", "@bob drains the basin", "PLAN")
        await at.post("carol", "then I fill it", depends_on=plan)
        fact = await at.post("alice", "@bob a fact")
        before = await at.seq()
        await at.gone(plan, fact)
        left = {e.item: set(e.concerns) for e in await at.events("bob", before) if e.event == "item.archived"}
        assert left == {plan.id: {"alice", "bob", "carol"}, fact.id: set()}
        for agent in ("alice", "bob", "carol"):
            assert plan.id in await at.attention(agent, before)

    # What open debates cite

    async def test_what_members_of_an_open_debate_cite_stays_with_them(self, at: Table) -> None:
        beyond = await at.post("carol", "a source of the source")
        fact = await at.post("alice", "fact", derived_from=beyond)
        deeper = await at.post("alice", "deeper")
        other = await at.post("dave", "elsewhere", derived_from=deeper)
        mine = await at.post("bob", "mine")
        claim = await at.post("alice", "claim", "HYPOTHESIS", derived_from=fact)
        against = await at.post("bob", "no", "CRITIQUE", critiques=claim, derived_from=(deeper, mine))
        outcome = await at.prune()
        assert {id_ for id_, _, _ in outcome.moved} == {other.id, beyond.id}
        told = (await at.store.explain(at.board, "carol", [fact.number])).explanations[0]
        assert told.protection is not None
        assert told.protection.reason == "cited in an open debate"
        await at.withdraw("bob", against)
        assert {fact.id, deeper.id, mine.id} <= {id_ for id_, _, _ in (await at.prune()).moved}

    async def test_a_note_that_cites_keeps_nothing_for_others(self, at: Table) -> None:
        fact = await at.post("alice", "fact")
        claim = await at.post("alice", "claim", "HYPOTHESIS")
        await at.post("bob", "no", "CRITIQUE", critiques=claim)
        await at.post("bob", "mine alone", "REPLY", private=True, replies_to=claim, derived_from=fact)
        assert fact.id in {id_ for id_, _, _ in (await at.prune()).moved}

    async def test_what_debates_cite_stays_as_far_as_there_is_room_and_the_rest_is_named(
        self, at: Table
    ) -> None:
        small = await at.post("alice", "small", tokens=400)
        large = await at.post("alice", "large", importance=4, tokens=1_000)
        other = await at.post("alice", "other", importance=4, tokens=1_000)
        plain = await at.post("dave", "plain")
        claim = await at.post("alice", "claim", "HYPOTHESIS", derived_from=(small, large, other))
        await at.post("bob", "no", "CRITIQUE", critiques=claim)
        told = (await at.store.explain(at.board, "bob", [large.number, other.number])).explanations
        assert [e.protection is not None for e in told] == [True, False]
        assert told[1].turn is not None
        assert told[1].turn.crowded
        outcome = await at.prune()
        why = {id_: why for id_, _, why in outcome.moved}
        assert set(why) == {other.id, plain.id}
        assert "cited in an open debate" in why[other.id]
        assert "debate" not in why[plain.id]
        ended = [e for e in await at.events("bob") if e.event == "prune.ended"]
        assert ended[-1].data["crowded"] == [other.id]

    async def test_what_a_settled_debate_rested_on_stays_a_while(self, at: Table, clock: HandClock) -> None:
        measured = await at.post("carol", "measured")
        logged = await at.post("alice", "logged")
        plain = await at.post("dave", "plain")
        claim = await at.post("alice", "claim", "HYPOTHESIS")
        against = await at.post("bob", "no", "CRITIQUE", critiques=claim, derived_from=measured)
        await at.post("alice", "look", "REPLY", replies_to=against, derived_from=logged)
        await at.acknowledge("bob", claim.number)
        assert await at.held(claim) == set()
        left = {id_ for id_, _, _ in (await at.prune()).moved}
        assert left >= {plain.id, against.id}
        assert not left & {measured.id, logged.id}
        told = (await at.store.explain(at.board, "carol", [measured.number])).explanations[0]
        assert told.protection is not None
        assert told.protection.reason == "cited in a debate that was settled lately"
        clock.advance(3_600)
        assert {measured.id, logged.id} <= {id_ for id_, _, _ in (await at.prune()).moved}

    async def test_what_a_debate_without_an_outcome_rested_on_leaves_with_the_rest(self, at: Table) -> None:
        measured = await at.post("carol", "measured")
        claim = await at.post("alice", "claim", "HYPOTHESIS")
        against = await at.post("bob", "no", "CRITIQUE", critiques=claim, derived_from=measured)
        await at.withdraw("bob", against)
        assert measured.id in {id_ for id_, _, _ in (await at.prune()).moved}

    # What was restored

    async def test_what_was_restored_stays_for_a_while(self, at: Table, clock: HandClock) -> None:
        item = await at.post("alice", "a")
        await at.gone(item)
        await at.store.restore(at.board, "bob", [item.number])
        clock.advance(3_599)
        assert (await at.gone(item)).moved == ()
        told = (await at.store.explain(at.board, "bob", [item.number])).explanations[0]
        assert told.protection is not None
        assert told.protection.reason == "restored from the archive lately"
        clock.advance(1)
        assert [id_ for id_, _, _ in (await at.gone(item)).moved] == [item.id]

    async def test_so_many_events_of_agents_end_it_as_well(self, at: Table) -> None:
        item = await at.post("alice", "a")
        await at.gone(item)
        await at.store.restore(at.board, "bob", [item.number])
        for n in range(49):
            await at.gone(await at.post("alice", f"more {n}"))
        assert (await at.gone(item)).moved == ()
        await at.post("alice", "one more")
        assert len((await at.gone(item)).moved) == 1

    async def test_what_was_restored_stays_as_far_as_there_is_room(self, at: Table) -> None:
        old = await at.post("alice", "old", tokens=1_000)
        new = await at.post("alice", "new", tokens=1_000)
        note = await at.post("bob", "note", tokens=1_000, private=True)
        small = await at.post("alice", "small", tokens=400)
        await at.prune()
        for agent, item in (("bob", old), ("bob", new), ("bob", note), ("bob", small)):
            await at.store.restore(at.board, agent, [item.number])
        assert {id_ for id_, _, _ in (await at.prune()).moved} == {old.id, note.id}
        await at.configure(restored_seconds=0)
        assert {id_ for id_, _, _ in (await at.prune()).moved} == {new.id, small.id}
