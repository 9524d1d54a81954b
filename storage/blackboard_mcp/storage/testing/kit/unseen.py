"""Tests of changes not shown to an agent yet: which count, how many, and what is kept of those that it was shown."""

from __future__ import annotations

from dataclasses import replace

from blackboard_mcp.protocols.agreements import Ask
from blackboard_mcp.protocols.answers import MOST_SHOWN, MOST_UNSEEN, Attention, Log, Look, Once
from blackboard_mcp.protocols.items import Draft, ItemType
from blackboard_mcp.protocols.read_rules import ReadRule
from blackboard_mcp.protocols.remarks import RemarkKind
from blackboard_mcp.protocols.store import BoardStore

from ..harness import HandClock, Table, draft
from .filling import filled

_END = 1 << 62


async def log(at: Table, agent: str, look: int = 0) -> Log:
    """Returns an empty page of the log, for its `attention` and `look`."""
    return await at.store.log(at.board, agent, _END, 1, look=look)


async def unseen(at: Table, agent: str, look: int = 0) -> list[int]:
    """Returns the sequences of the changes that the agent was not shown."""
    return [seq for seq, _ in (await log(at, agent, look)).attention.fresh]


async def shown(at: Table, agent: str, look: Look) -> None:
    """Records what the agent was shown."""
    await at.store.record_activity(at.board, {}, {}, {agent: look})


async def crossed(at: Table, *drafts: Draft, look: int) -> list[tuple[int, list[int], int]]:
    """Bob posts; returns what he is told of unseen posts: place in his call, numbers, and how many are not named."""
    posted = await at.batch("bob", *drafts, look=look)
    return [
        (remark.place, [item.number for item in remark.about], remark.more)
        for remark in posted.remarks
        if remark.kind is RemarkKind.UNSEEN
    ]


class UnseenTests:
    async def test_what_is_unseen_is_what_the_log_has_that_is_news_to_the_agent(
        self, store: BoardStore, clock: HandClock
    ) -> None:
        at = await filled(store, clock, resting=0)
        known = await log(at, "bob")
        assert known.look == Look(7, [9], [11]), "what the board was filled with"
        for agent in ("alice", "bob", "carol", "dora", "eve", "nobody"):
            look = (await log(at, agent)).look
            news = [
                event.seq
                for event in await at.events(agent)
                if event.is_news_to(agent) and event.seq > look and event.seq not in look.above
            ]
            assert await unseen(at, agent) == news[:MOST_UNSEEN], agent
            assert len(news) > 5

    async def test_own_acts_and_bookkeeping_are_no_news(self, at: Table) -> None:
        a = await at.post("alice", "a")
        assert await unseen(at, "alice") == []
        assert await unseen(at, "bob") == [a.seq]
        critique = await at.post("bob", "no", "CRITIQUE", critiques=a)
        await at.watch("carol", a)
        reply = await at.answer("alice", critique)
        await at.acknowledge("carol", a)
        events = {event.seq: str(event.event) for event in await at.events("alice")}
        assert [events[seq] for seq in await unseen(at, "alice", a.seq)] == ["item.posted", "debate.opened"]
        assert {"obligation.added", "obligation.met"} <= set(events.values())
        assert await unseen(at, "bob", a.seq) == [reply.seq], "the answer, not that the duty is met"

    async def test_what_leaves_is_news_to_nobody_whom_it_does_not_concern(self, at: Table) -> None:
        old = await at.post("alice", "old", "LOG")
        seq = await at.seq()
        await at.gone(old)
        assert await at.seq() > seq
        assert await unseen(at, "bob", seq) == []

    async def test_what_one_may_not_see_is_not_unseen(self, at: Table) -> None:
        await at.post("alice", "public")
        before = await unseen(at, "bob")
        await at.post("alice", "canary", private=True)
        assert await unseen(at, "bob") == before

    async def test_shown_sequences_are_left_out_and_the_place_is_the_first_that_was_not(
        self, at: Table
    ) -> None:
        one, two, three = [await at.post("alice", text) for text in ("one", "two", "three")]
        attention = (await log(at, "bob")).attention
        assert attention.fresh == tuple((item.seq, item.number) for item in (one, two, three))
        assert (attention.unseen, attention.settled) == (3, one.seq - 1)
        left = (await log(at, "bob", Look(one.seq, [three.seq]))).attention
        assert (left.fresh, left.settled) == (((two.seq, two.number),), two.seq - 1)
        done = (await log(at, "bob", Look(one.seq, [two.seq, three.seq]))).attention
        assert (done.fresh, done.settled) == ((), await at.seq())

    async def test_no_more_than_so_many_are_counted_the_first_ones(self, at: Table) -> None:
        items = [await at.post("alice", f"{n}") for n in range(MOST_UNSEEN + 5)]
        attention = (await log(at, "bob")).attention
        assert attention.fresh == tuple((item.seq, item.number) for item in items[:MOST_UNSEEN])
        assert attention.settled == items[0].seq - 1
        rest = (await log(at, "bob", items[MOST_UNSEEN - 1].seq)).attention
        assert rest.unseen == 5

    async def test_the_attention_of_the_last_answer_changes_no_answer(self, at: Table) -> None:
        left: dict[str, Attention] = {}
        looks = {"bob": Look(), "carol": Look()}
        for agent in ("alice", "bob"):
            await at.store.set_owner(agent, "acme")
        await at.configure()

        async def same() -> None:
            for agent, look in looks.items():
                whole = (await log(at, agent, look)).attention
                again = Look(look, look.above, look.told, left.get(agent))
                assert (await log(at, agent, again)).attention == whole, agent
                left[agent] = whole

        posts = [await at.post("alice", "one"), await at.post("alice", "two", team=True)]
        await same()
        posts += [await at.post("bob", "three"), await at.post("alice", "canary", private=True)]
        await same()
        looks = {"bob": Look(posts[0].seq), "carol": Look(0, [posts[2].seq])}
        await same()
        await at.store.set_owner("carol", "acme")
        await same()
        await at.store.set_owner("bob", "other")
        await same()
        await at.store.set_read_rules([ReadRule("notes", ("carol",), types=(ItemType.LOG,))])
        await at.batch("alice", replace(draft("note", "LOG"), visibility=None))
        await same()
        assert {agent: one.team for agent, one in left.items()} == {"bob": None, "carol": None}
        await at.store.set_read_rules([])
        await same()
        for n in range(MOST_UNSEEN + 5):
            posts.append(await at.post("alice", f"{n}"))
            if n % 20 == 0:
                await same()
        looks["carol"] = Look(posts[5].seq)
        await same()
        assert left["bob"].unseen == MOST_UNSEEN
        assert {agent: one.team for agent, one in left.items()} == {"bob": "other", "carol": "acme"}

    async def test_what_the_last_answer_left_is_not_looked_for_again(self, at: Table) -> None:
        await at.post("alice", "one")
        first = (await log(at, "bob")).attention
        found = replace(first, fresh=(*first.fresh, (1, 99)))  # what no log has shows where it is from
        assert (await log(at, "bob", Look(left=found))).attention.fresh == found.fresh
        later = await at.post("alice", "two")
        assert (await log(at, "bob", Look(left=found))).attention.fresh == (
            *found.fresh,
            (later.seq, later.number),
        )

    async def test_every_answer_says_what_is_unseen(self, at: Table) -> None:
        a = await at.post("alice", "a")
        found = await at.store.read(at.board, "bob", [], [])
        snapshot = await at.store.snapshot(at.board, "bob")
        posted = await at.post("bob", "b")
        told: list[Attention] = [found.attention, snapshot.attention, (await log(at, "bob")).attention]
        assert [one.fresh for one in told] == [((a.seq, a.number),)] * 3
        assert posted.seq > a.seq

    async def test_what_was_shown_adds_up_and_is_joined_with_what_a_caller_knows(self, at: Table) -> None:
        items = [await at.post("alice", f"{n}") for n in range(6)]
        seqs = [item.seq for item in items]
        await shown(at, "bob", Look(seqs[0], [seqs[2]], [seqs[3]]))
        assert await unseen(at, "bob") == [seqs[1], *seqs[3:]]
        assert await unseen(at, "carol") == seqs, "what one was shown is nothing to another"
        await shown(at, "bob", Look(0, [seqs[4]], [seqs[5]]))
        known = (await log(at, "bob")).look
        assert known == Look(seqs[0], [seqs[2], seqs[4]], [seqs[3], seqs[5]])
        assert await unseen(at, "bob", Look(0, [seqs[1]])) == [seqs[3], seqs[5]]
        await shown(at, "bob", Look(seqs[3]))
        assert (await log(at, "bob")).look == Look(seqs[3], [seqs[4]], [seqs[5]])
        await shown(at, "bob", Look(seqs[1]))
        assert (await log(at, "bob")).look == Look(seqs[3], [seqs[4]], [seqs[5]]), "it never goes back"

    async def test_what_is_kept_is_bounded_and_loses_the_last(self, at: Table) -> None:
        await at.post("alice", "a")
        await shown(at, "bob", Look(0, range(2, MOST_SHOWN + 50), range(2, MOST_SHOWN + 50)))
        known = (await log(at, "bob")).look
        assert known.above == frozenset(range(2, MOST_SHOWN + 2))
        assert known.told == frozenset(range(50, MOST_SHOWN + 50))

    async def test_what_was_shown_changes_no_board(self, at: Table) -> None:
        await at.post("alice", "a")
        before = await at.seq()
        await shown(at, "bob", Look(1))
        await at.store.record_activity("elsewhere", {}, {}, {"bob": Look(1)})
        assert await at.seq() == before

    async def test_another_handle_knows_what_was_shown(self, handles: tuple[Table, Table]) -> None:
        one, other = handles
        a = await one.post("alice", "a")
        await shown(one, "bob", Look(a.seq))
        assert await unseen(other, "bob") == []

    async def test_findings_that_fell_and_left_are_listed_newest_first(self, at: Table) -> None:
        fell = [await at.post("alice", f"it is {n}", "HYPOTHESIS") for n in range(3)]
        mine = await at.post("alice", "mine", "FACT", private=True)
        log = await at.post("alice", "so it went", "LOG")
        stands = await at.post("alice", "it stands", "HYPOTHESIS")
        live = await at.post("alice", "not so", "HYPOTHESIS")
        for item in (*fell, mine, log, live):
            await at.change("alice", item, status="WITHDRAWN")
        await at.gone(*fell, mine, log, stands)
        numbers = [item.number for item in reversed(fell)]
        assert await at.store.fallen(at.board, "bob", 10) == (*numbers,)
        assert await at.store.fallen(at.board, "alice", 10) == (mine.number, *numbers)
        assert await at.store.fallen(at.board, "bob", 2) == (*numbers[:2],)
        assert await at.store.fallen(at.board, "bob", 0) == ()

    async def test_who_is_awaited_is_told_to_those_who_see_the_item(self, at: Table) -> None:
        claim = await at.post("alice", "it is so")
        critique = await at.post("bob", "it is not", "CRITIQUE", critiques=claim)
        note = await at.post("alice", "mine", private=True)
        await at.post("alice", "not so", "CRITIQUE", critiques=note, private=True)
        told = await at.store.awaited(at.board, "carol", 8)
        assert [(agent, owed.id, owed.duty) for agent, owed in told] == [("alice", critique.id, "respond")]
        assert await at.store.awaited(at.board, "alice", 8) == ()
        await at.post("alice", "because", "REPLY", replies_to=critique)
        told = await at.store.awaited(at.board, "alice", 8)
        assert [(agent, owed.id, owed.duty) for agent, owed in told] == [("bob", claim.id, "acknowledge")]
        assert len(await at.store.awaited(at.board, "carol", 0)) == 0

    async def test_who_objects_is_not_awaited_to_agree(self, at: Table) -> None:
        plan = (await at.batch("alice", replace(draft("We go", "PLAN"), agree=Ask(("bob", "carol"))))).items[
            0
        ]
        critique = await at.post("bob", "it is on strike", "CRITIQUE", critiques=plan)
        told = await at.store.awaited(at.board, "dave", 8)
        assert [(agent, owed.id) for agent, owed in told] == [("carol", plan.id), ("alice", critique.id)]
        await at.withdraw("bob", critique)
        told = await at.store.awaited(at.board, "dave", 8)
        assert {(agent, owed.id) for agent, owed in told} == {("bob", plan.id), ("carol", plan.id)}

    async def test_a_post_is_told_what_others_wrote_on_its_subject_that_its_author_was_not_shown(
        self, at: Table
    ) -> None:
        shown_before = await at.post("alice", "seen", "HYPOTHESIS")
        look = shown_before.seq
        guess = await at.post("alice", "it was the pool", "HYPOTHESIS")
        await at.post("alice", "a fact")
        await at.post("alice", "a guess in an entry", "HYPOTHESIS", key="guess:1")
        given_up = await at.post("alice", "it was the rain", "HYPOTHESIS")
        await at.change("alice", given_up, status="WITHDRAWN")
        await at.post("alice", "a guess of hers alone", "HYPOTHESIS", private=True)
        await at.post("bob", "his own", "HYPOTHESIS")
        assert await crossed(at, draft("it was the disk", "HYPOTHESIS"), look=look) == [
            (0, [guess.number], 0)
        ]
        for other in (draft("another fact"), draft("also kept", "HYPOTHESIS", key="guess:2")):
            assert await crossed(at, other, look=look) == []
        assert await crossed(at, draft("nobody slept", "HYPOTHESIS"), look=await at.seq()) == []

    async def test_who_replies_is_told_of_other_replies_and_critiques_of_the_same_alone(
        self, at: Table
    ) -> None:
        one, other = await at.post("alice", "one"), await at.post("alice", "other")
        look = await at.seq()
        reply = await at.post("carol", "so it is", "REPLY", replies_to=one)
        critique = await at.post("carol", "no", "CRITIQUE", critiques=one)
        await at.post("carol", "that too", "REPLY", replies_to=other)
        await at.post("carol", "for it", supports=one)
        said = (draft("I think so", "REPLY", replies_to=one), draft("elsewhere", "FACT", supports=other))
        assert await crossed(at, *said, look=look) == [(0, [reply.number, critique.number], 0)]

    async def test_whoever_rests_on_an_entry_is_told_of_the_version_that_it_was_not_shown(
        self, at: Table
    ) -> None:
        costs = await at.post("bob", "bob 3", key="costs")
        other = await at.post("alice", "as it was", key="other")
        fact = await at.post("alice", "a fact")
        hers = await at.post("alice", "hers", key="hers")
        look = await at.seq()
        newer = await at.post("alice", "bob 3, alice 4", key="costs")
        await at.post("bob", "his own change", key="hers")
        drafts = [
            draft("we pay 3", "DECISION", depends_on=costs, derived_from=fact),
            draft("and this rests on the other", depends_on=other, supports=hers),
        ]
        assert await crossed(at, *drafts, look=look) == [(0, [costs.number], 0)]
        posted = await at.batch("bob", draft("it is dear", derived_from=costs), look=look)
        assert [(one.version, one.text) for r in posted.remarks for one in r.about] == [
            (newer.version, "bob 3, alice 4")
        ]
        assert await crossed(at, draft("we pay 7", depends_on=costs), look=await at.seq()) == []

    async def test_only_a_version_counts_as_not_shown_and_not_what_else_became_of_an_entry(
        self, at: Table
    ) -> None:
        costs = await at.post("bob", "bob 3", key="costs")
        look = await at.seq()
        await at.change("carol", costs, importance=5)
        await at.post("carol", "why 3?", "CRITIQUE", critiques=costs)
        assert await crossed(at, draft("we pay 3", "DECISION", depends_on=costs), look=look) == []
        look = await at.seq()
        await at.post("bob", "bob 3, alice 4", key="costs")
        await at.change("alice", costs, importance=4)
        posted = await at.batch("alice", draft("we pay 7", "DECISION", depends_on=costs), look=look)
        assert [(one.version, one.written_by) for r in posted.remarks for one in r.about] == [(2, "bob")]
        look = await at.seq()
        await at.post("alice", "bob 3, alice 5", key="costs")
        await at.post("bob", "bob 3, alice 6", key="costs")
        assert await crossed(at, draft("we pay 9", "FACT", derived_from=costs), look=look) == []

    async def test_what_rests_on_an_entry_names_the_version_that_was_written_after_it(
        self, at: Table, clock: HandClock
    ) -> None:
        costs = await at.post("bob", "bob 3", key="costs")
        fixed = await at.post("bob", "as it stays", key="fixed")
        clock.advance(seconds=1)
        first = await at.post("bob", "we pay 3", "DECISION", depends_on=costs, derived_from=fixed)
        clock.advance(seconds=1)
        await at.post("alice", "bob 3, alice 4", key="costs")
        clock.advance(seconds=1)
        second = await at.post("bob", "we pay 7", "DECISION", depends_on=costs)
        assert (await at.item(first.number)).newer == (f"{costs.id}@2",)
        assert (await at.item(second.number)).newer == ()
        assert (await at.item(costs.number)).newer == ()
        clock.advance(seconds=1)
        await at.change("bob", costs, importance=5)
        assert (await at.item(second.number)).newer == (), "its text is the same"

    async def test_the_newest_three_are_named_and_once_in_a_call(self, at: Table) -> None:
        look = (await at.post("alice", "a")).seq
        asked = [(await at.post("alice", f"question {n}", "QUESTION")).number for n in range(5)]
        plan = (await at.post("alice", "a plan", "PLAN")).number
        drafts = [
            draft("a fact"),
            draft("which?", "QUESTION"),
            draft("who?", "QUESTION"),
            draft("mine", "PLAN"),
        ]
        assert await crossed(at, *drafts, look=look) == [(1, asked[-3:], 2), (3, [plan], 0)]
        once = Once("try", "digest")
        for repeated in (False, True):
            posted = await at.batch("bob", draft("when?", "QUESTION"), once=once, look=look)
            kinds = [remark.kind for remark in posted.remarks]
            assert posted.repeated is repeated
            assert (RemarkKind.UNSEEN in kinds) is not repeated
