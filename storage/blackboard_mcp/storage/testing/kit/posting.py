"""Tests of posting: batches, edges, threads, idempotency, statuses, and who may change what."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from blackboard_mcp.protocols.answers import (
    Once,
)
from blackboard_mcp.protocols.errors import (
    BlackboardError,
    Conflict,
    InvalidInput,
    Refused,
    RulesMoved,
    UnknownReference,
)
from blackboard_mcp.protocols.items import (
    IMPORTANCE,
    TRANSITIONS,
    Edge,
    EdgeKind,
    ItemType,
    Status,
    Visibility,
    Zone,
    content_hash,
    item_id,
)
from blackboard_mcp.protocols.store import BoardStore

from ..harness import HandClock, Table, draft


class PostingTests:
    async def test_a_new_item_joins_the_conversation_that_it_names(self, at: Table) -> None:
        a = await at.post("alice", "a")
        b = await at.post("bob", "b", replies_to=a)
        c = await at.post("carol", "c", thread=b)
        assert (c.thread, c.thread_id, c.edges) == (a.number, a.id, ())
        assert (await at.events())[-1].thread == a.number
        begun = (await at.batch("alice", draft("d"), draft("e", thread=-1))).items
        assert [item.thread for item in begun] == [begun[0].number] * 2
        hidden = await at.post("bob", "f", private=True)
        own = await at.post("bob", "g", private=True, thread=hidden)
        assert own.thread == hidden.number
        seq = await at.seq()
        for wrong, error in (
            (draft("x", thread=hidden), UnknownReference),
            (draft("x", thread=99), UnknownReference),
            (draft("x", thread=a, replies_to=begun[0]), InvalidInput),
            (draft(None, on=c, thread=begun[0], tags=["t"]), InvalidInput),
        ):
            with pytest.raises(error):
                await at.batch("carol", wrong)
        with pytest.raises(InvalidInput, match="Not everybody"):
            await at.post("bob", "x", thread=hidden)
        assert await at.seq() == seq

    async def test_a_new_item_has_what_the_draft_said_and_the_defaults_of_its_type(
        self, at: Table, clock: HandClock
    ) -> None:
        for place, type_ in enumerate(ItemType, 1):
            item = await at.post("alice", f"about {type_}", type_, tags=["b", "a"], metadata={"n": [1, None]})
            assert item.id == item_id(type_, place)
            assert (item.version, item.status, item.zone) == (1, Status.ACTIVE, Zone.WORKING)
            assert (item.author, item.importance) == ("alice", IMPORTANCE[type_])
            assert (item.tags, item.metadata) == (("b", "a"), {"n": [1, None]})
            assert (item.thread, item.visibility, item.key) == (item.number, Visibility.BOARD, None)
            assert item.created_at == item.updated_at == clock.now()
            assert item == await at.item(item)

    async def test_every_text_comes_back_byte_for_byte_with_its_hash(self, at: Table) -> None:
        texts = ["", " \t\r\n ", "naïve ☃ 𝄞 e\u0301", "a\x00b", "'; DROP TABLE item; --", "x" * 200_000]
        for text in texts:
            item = await at.post("alice", text)
            await at.gone(item)
            again = await at.item(item)
            assert again.zone is Zone.ARCHIVE
            assert again.text == text
            assert again.sha256 == content_hash(text)

    async def test_boards_number_their_items_apart(self, store: BoardStore) -> None:
        one, two = Table(store, "one"), Table(store, "two")
        first = await one.post("alice", "here")
        other = await two.post("alice", "there")
        assert (first.number, other.number) == (1, 1)
        assert (await one.item(1)).text == "here"
        with pytest.raises(UnknownReference):
            await two.post("alice", "on another board", supports=2)
        assert [board.id for board in await store.boards()] == ["one", "two"]

    async def test_a_batch_is_posted_in_the_order_of_its_drafts(self, at: Table) -> None:
        posted = await at.batch("alice", draft("a"), draft("b", "LOG"), draft("c"))
        assert [item.id for item in posted.items] == ["F-1", "L-2", "F-3"]
        assert posted.seq == await at.seq()
        assert posted.board == await at.standing()

    async def test_a_batch_is_all_or_nothing(self, at: Table) -> None:
        await at.post("alice", "before")
        before = await at.standing()
        with pytest.raises(UnknownReference) as told:
            await at.batch("alice", draft("a"), draft("b", key="k"), draft("c", supports=99))
        assert told.value.facts["missing"] == [99]
        assert await at.standing() == before
        assert not await at.sees("alice", 2)
        assert (await at.store.read(at.board, "alice", [], ["k"])).missing == ("k",)

    async def test_a_failed_first_post_makes_no_board(self, at: Table) -> None:
        with pytest.raises(UnknownReference):
            await at.post("alice", "lost", supports=7)
        assert await at.store.find_board(at.board) is None
        assert await at.store.boards() == []

    async def test_a_batch_reference_names_an_earlier_item_of_the_batch(self, at: Table) -> None:
        await at.post("alice", "before")
        posted = await at.batch(
            "alice", draft("a"), draft("b", supports=-1), draft("c", depends_on=[-1, -2], replies_to=1)
        )
        a, b, c = posted.items
        assert b.edges == (Edge(b.number, EdgeKind.SUPPORTS, a.number),)
        assert {(e.kind, e.target) for e in c.edges} == {
            (EdgeKind.DEPENDS_ON, a.number),
            (EdgeKind.DEPENDS_ON, b.number),
            (EdgeKind.REPLIES_TO, 1),
        }

    @pytest.mark.parametrize("place", [-1, -2, -3, -100])
    async def test_a_batch_reference_forward_or_to_itself_is_refused(self, at: Table, place: int) -> None:
        with pytest.raises(InvalidInput):
            await at.batch("alice", draft("a", supports=place), draft("b"))
        assert await at.store.find_board(at.board) is None

    async def test_edges_are_seen_from_both_ends(self, at: Table) -> None:
        a = await at.post("alice", "a")
        b = await at.post("bob", "b", supports=a, derived_from=a)
        expected = (Edge(2, EdgeKind.DERIVED_FROM, 1), Edge(2, EdgeKind.SUPPORTS, 1))
        assert b.edges == expected
        assert (await at.item(a)).incoming == expected
        assert (await at.item(a)).edges == ()

    async def test_the_same_edge_twice_is_one(self, at: Table) -> None:
        a = await at.post("alice", "a")
        b = await at.post("alice", "b", supports=[a, a])
        assert len(b.edges) == 1

    async def test_an_edge_to_an_archived_item_resolves(self, at: Table) -> None:
        a = await at.post("alice", "a")
        await at.gone(a)
        b = await at.post("bob", "b", derived_from=a)
        assert b.edges[0].target == a.number
        assert (await at.item(a)).zone is Zone.ARCHIVE

    async def test_an_item_has_no_edge_to_itself(self, at: Table) -> None:
        a = await at.post("alice", "a", key="a")
        with pytest.raises(InvalidInput):
            await at.change("alice", a, supports=a)
        assert (await at.item(a)).edges == ()

    async def test_replies_and_critiques_continue_a_thread_and_other_edges_do_not(self, at: Table) -> None:
        a = await at.post("alice", "a")
        reply = await at.post("bob", "b", "REPLY", replies_to=a)
        critique = await at.post("carol", "c", "CRITIQUE", critiques=reply)
        other = await at.post("bob", "d", supports=a)
        assert (reply.thread, critique.thread, other.thread) == (1, 1, other.number)

    @pytest.mark.parametrize("length", [1, 2, 6])
    async def test_depends_on_has_no_cycle(self, at: Table, length: int) -> None:
        first = await at.post("alice", "0", key="k")
        last = first
        for step in range(length):
            last = await at.post("alice", str(step + 1), depends_on=last)
        await at.prune()
        before = await at.standing()
        with pytest.raises(InvalidInput):
            await at.post("alice", "again", key="k", depends_on=last)
        with pytest.raises(InvalidInput):
            await at.change("alice", first, depends_on=last)
        assert await at.standing() == before
        assert (await at.item(first)).version == 1
        assert (await at.change("alice", first, supports=last)).edges, "other kinds may close a circle"

    async def test_numbers_are_never_used_again(self, at: Table) -> None:
        used: set[int] = set()
        for turn in range(3):
            posted = await at.batch("alice", draft(f"a {turn}"), draft(f"b {turn}"))
            fresh = {item.number for item in posted.items}
            assert not fresh & used
            used |= fresh
            await at.prune()
            with pytest.raises(UnknownReference):
                await at.post("alice", "lost", supports=1000)

    async def test_many_posts_at_once_each_have_their_number_and_place_in_the_log(self, at: Table) -> None:
        await asyncio.gather(*(at.post(f"agent-{n % 4}", str(n)) for n in range(40)))
        assert sorted(await at.query(limit=100)) == list(range(1, 41))
        assert [event.seq for event in await at.events()] == list(range(1, 42))

    # Idempotency

    async def test_an_idempotency_key_applies_once_and_answers_the_same(self, at: Table) -> None:
        once = Once("try", "digest")
        first = await at.batch("alice", draft("a"), draft("b", supports=-1), once=once)
        await at.post("bob", "between")
        before = await at.standing()
        again = await at.batch("alice", draft("a"), draft("b", supports=-1), once=once)
        assert again.repeated
        assert not first.repeated
        assert [i.id for i in again.items] == [i.id for i in first.items]
        assert again.seq == first.seq
        assert await at.standing() == before

    async def test_an_idempotency_key_with_other_content_is_refused(self, at: Table) -> None:
        await at.batch("alice", draft("a"), once=Once("try", "digest"))
        before = await at.standing()
        with pytest.raises(InvalidInput):
            await at.batch("alice", draft("b"), once=Once("try", "other"))
        assert await at.standing() == before

    async def test_an_idempotency_key_belongs_to_its_agent(self, at: Table) -> None:
        await at.batch("alice", draft("a"), once=Once("try", "digest"))
        other = await at.batch("bob", draft("b"), once=Once("try", "digest"))
        assert not other.repeated
        assert other.items[0].author == "bob"

    async def test_a_failed_call_does_not_use_its_idempotency_key_up(self, at: Table) -> None:
        once = Once("try", "digest")
        with pytest.raises(UnknownReference):
            await at.batch("alice", draft("a", supports=1), once=once)
        assert not (await at.batch("alice", draft("a"), once=once)).repeated

    async def test_a_retry_that_overtakes_the_first_try_applies_once(self, at: Table) -> None:
        posted = await asyncio.gather(*(at.batch("alice", draft("a"), once=Once("t", "d")) for _ in range(8)))
        assert sorted(p.repeated for p in posted) == [False] + [True] * 7
        assert {p.items[0].number for p in posted} == {1}
        assert await at.query() == [1]

    # Rules

    async def test_a_board_with_rules_takes_only_what_was_checked_against_those(self, at: Table) -> None:
        a = await at.post("alice", "a", key="k")
        await at.configure(validation='[{"max_bytes":9}]')
        before = await at.standing()
        for unchecked in (draft("b"), draft("b", key="k"), draft(None, on=a, metadata={"m": 1})):
            for stale in ("", "[]"):
                with pytest.raises(RulesMoved):
                    await at.batch("alice", draft(None, on=a, tags=["t"]), replace(unchecked, checked=stale))
        assert await at.standing() == before
        await at.batch("alice", replace(draft("b", key="k"), checked='[{"max_bytes":9}]'))
        await at.change("alice", a, status="RESOLVED")
        await at.configure(validation="")
        await at.batch("alice", replace(draft("c"), checked='[{"max_bytes":9}]'))

    # Changes of items

    async def test_the_text_of_an_item_without_key_is_fixed(self, at: Table) -> None:
        a = await at.post("alice", "a")
        with pytest.raises(InvalidInput):
            await at.change("alice", a, text="b")
        assert await at.item(a) == a

    async def test_the_author_changes_what_may_change_and_silence_changes_nothing(
        self, at: Table, clock: HandClock
    ) -> None:
        a = await at.post("alice", "a", importance=2, tags=["x"], metadata={"m": 1}, ttl=60)
        clock.advance()
        b = await at.change("alice", a, importance=5)
        assert (b.importance, b.tags, b.metadata, b.expires_at) == (5, ("x",), {"m": 1}, a.expires_at)
        assert (b.text, b.version, b.sha256) == ("a", 1, a.sha256)
        assert (b.created_at, b.updated_at, b.seq) == (a.created_at, clock.now(), await at.seq())
        before = await at.seq()
        c = await at.change("alice", a, tags=[], metadata={})
        assert (c.importance, c.tags, c.metadata, c.seq) == (5, (), {}, before + 1)

    async def test_only_the_author_changes_an_item_without_key(self, at: Table) -> None:
        a = await at.post("alice", "a")
        before = await at.standing()
        for change in ({"importance": 1}, {"tags": ["t"]}, {"metadata": {"a": 1}}, {"ttl": 1.0}):
            with pytest.raises(Refused):
                await at.change("bob", a, **change)
        assert await at.standing() == before
        assert await at.item(a) == a

    async def test_only_the_author_adds_edges_but_anyone_says_what_analyses_it(self, at: Table) -> None:
        a = await at.post("alice", "a", "LOG")
        b = await at.post("bob", "b")
        with pytest.raises(Refused):
            await at.change("bob", a, supports=b)
        changed = await at.change("bob", a, analyzed_by=b)
        assert changed.edges == (Edge(1, EdgeKind.ANALYZED_BY, 2),)
        assert (await at.change("alice", a, supports=b)).edges[-1] == Edge(1, EdgeKind.SUPPORTS, 2)

    async def test_a_new_edge_is_a_change_of_its_item(self, at: Table) -> None:
        a, b = await at.post("alice", "a"), await at.post("alice", "b")
        changed = await at.change("alice", a, supports=b)
        assert changed.seq == await at.seq() > b.seq

    async def test_an_edge_that_is_there_already_changes_nothing(self, at: Table) -> None:
        a = await at.post("alice", "a")
        c = await at.post("bob", "c", "CRITIQUE", critiques=a)
        await at.withdraw("bob", c)
        before = await at.standing()
        await at.change("bob", c, critiques=a)
        assert await at.standing() == before
        assert await at.state(a) == "WITHDRAWN"

    async def test_a_change_of_a_missing_item_is_refused(self, at: Table) -> None:
        await at.post("alice", "a")
        with pytest.raises(UnknownReference):
            await at.change("alice", 2, importance=1)

    @pytest.mark.parametrize("after", Status)
    @pytest.mark.parametrize("before", Status)
    async def test_statuses_move_along_the_declared_transitions(
        self, at: Table, before: Status, after: Status
    ) -> None:
        item = await at.post("alice", "a")
        if before is not Status.ACTIVE:
            await at.change("alice", item, status=before)
        if before is Status.DEBATED and after in (Status.RESOLVED, Status.ACTIVE):
            with pytest.raises(Refused):
                await at.change("alice", item, status=after)
            await at.decide("bob", item)
            before = Status.ACTIVE
        was = await at.standing()
        if after is before:
            await at.change("alice", item, status=after)
            assert (await at.standing()).seq == was.seq
        elif after in TRANSITIONS[before]:
            changed = await at.change("alice", item, status=after)
            assert changed.status is after
            debated = {after: "OPEN"} if after is Status.DEBATED else {before: "CONSENSUS"}
            if Status.DEBATED in (before, after):
                assert changed.debate == debated[Status.DEBATED], "an author who takes it back concedes"
        else:
            with pytest.raises(Conflict):
                await at.change("alice", item, status=after)
            assert await at.standing() == was
        assert await at.status(item) is after or after not in TRANSITIONS[before]

    async def test_a_new_item_may_come_with_a_status(self, at: Table) -> None:
        assert (await at.post("alice", "a", status="RESOLVED")).status is Status.RESOLVED
        assert (await at.post("alice", "a", status="DEBATED")).debate == "OPEN"

    async def test_only_the_author_withdraws(self, at: Table) -> None:
        a = await at.post("alice", "a")
        with pytest.raises(Refused):
            await at.change("bob", a, status="WITHDRAWN")
        assert (await at.change("alice", a, status="WITHDRAWN")).status is Status.WITHDRAWN

    async def test_reopening_an_archived_item_brings_it_back(self, at: Table) -> None:
        a = await at.post("alice", "a", status="RESOLVED")
        await at.gone(a)
        back = await at.change("alice", a, status="ACTIVE")
        assert (back.status, back.zone) == (Status.ACTIVE, Zone.WORKING)

    async def test_agents_are_known_by_what_they_posted(self, at: Table, clock: HandClock) -> None:
        start = clock.now()
        await at.batch("bob", draft("a", key="k"), draft("b"))
        clock.advance()
        await at.post("bob", "a2", key="k")
        await at.post("alice", "c")
        agents = await at.store.agents(at.board)
        assert [(a.name, a.posts) for a in agents] == [("alice", 1), ("bob", 2)]
        assert (agents[1].first_seen, agents[1].last_seen) == (start, clock.now())

    async def test_every_error_of_a_post_is_one_of_the_product(self, at: Table) -> None:
        wrong = [
            draft(None),
            draft("a", key="k", expected=3),
            draft("a", supports=5),
            draft(None, on=9, status="RESOLVED"),
            draft("a", supports=-7),
        ]
        for each in wrong:
            with pytest.raises(BlackboardError) as told:
                await at.batch("alice", each)
            assert told.value.message
        assert await at.store.find_board(at.board) is None
