"""Tests of leaving and returning: supersession, expiry, restoring and summaries."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import pytest
from blackboard_mcp.protocols.answers import (
    NewSummary,
)
from blackboard_mcp.protocols.debates import Duty
from blackboard_mcp.protocols.errors import UnknownReference
from blackboard_mcp.protocols.items import EdgeKind, Item, ItemType, Zone, content_hash
from blackboard_mcp.protocols.store import BoardStore

from ..harness import HandClock, Table, draft
from .debates import argue


def summary(thread: int, seen: Mapping[int, int], text: str = "in short") -> NewSummary:
    """Returns a summary by the server."""
    return NewSummary(thread, seen, text, len(text.split()), content_hash(text), 3)


async def thread(at: Table, length: int = 4) -> list[Item]:
    """Posts a thread of so many items by alice and bob, and returns them."""
    items = [await at.post("alice", "it began")]
    for n in range(length - 1):
        items.append(await at.post("bob", f"reply {n}", "REPLY", replies_to=items[-1]))
    return items


def seen(items: list[Item]) -> dict[int, int]:
    """Returns the sequence of each item, by number."""
    return {item.number: item.seq for item in items}


class LeavingTests:
    async def test_a_snapshot_names_the_archived_item_that_was_posted_last(self, at: Table) -> None:
        one, two, three = [await at.post("alice", text) for text in ("one", "two", "three")]
        note = await at.post("alice", "mine", private=True)
        assert (await at.store.snapshot(at.board, "bob")).archived.last == ""
        await at.gone(two, note, one)
        assert (await at.store.snapshot(at.board, "bob")).archived.last == two.id
        assert (await at.store.snapshot(at.board, "alice")).archived.last == note.id
        await at.gone(three)
        assert (await at.store.snapshot(at.board, "bob")).archived.last == three.id

    async def test_the_server_owes_no_answer_to_a_critique_of_its_words(self, at: Table) -> None:
        items = await thread(at)
        id_ = await at.store.apply_summary(at.board, summary(items[0].thread, seen(items)))
        assert id_ is not None
        made = await at.item(int(id_[2:]))
        critique = await at.post("carol", "that is not what we said", "CRITIQUE", critiques=made)
        owed = (await at.debate(made)).debate.obligations
        assert [(o.agent, o.item, o.duty) for o in owed] == [("carol", made.number, Duty.ACKNOWLEDGE)]
        await at.withdraw("carol", critique)
        assert await at.state(made) == "WITHDRAWN"

    async def test_what_the_server_wrote_anybody_but_the_critic_answers_for(self, at: Table) -> None:
        items = await thread(at)
        id_ = await at.store.apply_summary(at.board, summary(items[0].thread, seen(items)))
        assert id_ is not None
        made = await at.item(int(id_[2:]))
        critique = await at.post("carol", "that is not what we said", "CRITIQUE", critiques=made)
        await at.store.set_owner("carol2", "carol")
        for agent in ("carol", "carol2"):
            await at.answer(agent, critique)
            assert (await at.debate(made)).debate.unanswered == (critique.number,)
        await at.answer("bob", critique)
        assert await at.owed("carol") == {(made.number, Duty.ACKNOWLEDGE)}

    async def test_superseding_ones_own_item_archives_it(self, at: Table) -> None:
        old = await at.post("alice", "old")
        new = await at.post("alice", "new", supersedes=old)
        assert await at.zone(old) is Zone.ARCHIVE
        left = (await at.store.why_left(at.board, "bob", [old.number]))[old.number]
        assert (left.event, left.data) == ("item.superseded", {"by": new.id})
        assert [d.number for d in (await at.store.outbox_batch(9)).documents] == [old.number]

    async def test_superseding_somebody_elses_item_leaves_it(self, at: Table) -> None:
        old = await at.post("alice", "old")
        await at.post("bob", "new", supersedes=old)
        assert await at.zone(old) is Zone.WORKING

    async def test_superseding_does_not_get_past_the_guard(self, at: Table) -> None:
        old, _ = await argue(at)
        await at.post("alice", "new", supersedes=old)
        assert await at.zone(old) is Zone.WORKING
        watched = await at.post("alice", "watched")
        await at.watch("bob", watched)
        await at.post("alice", "new", supersedes=watched)
        assert await at.zone(watched) is Zone.WORKING

    async def test_what_a_post_draws_into_a_debate_it_does_not_supersede(self, at: Table) -> None:
        theirs = await at.post("bob", "theirs")
        old = await at.post("alice", "old")
        await at.post("alice", "no", "CRITIQUE", supersedes=old, critiques=theirs, supports=old)
        assert await at.zone(old) is Zone.WORKING

    async def test_an_item_put_up_for_debate_does_not_supersede_what_the_debate_reaches(
        self, at: Table
    ) -> None:
        old = await at.post("alice", "old")
        mine = await at.post("alice", "mine", supports=old)
        await at.change("alice", mine, status="DEBATED", supersedes=old)
        assert await at.zone(old) is Zone.WORKING

    # Time to live

    async def test_I36_an_item_expires_when_its_time_has_come_and_tells(
        self, at: Table, clock: HandClock
    ) -> None:
        item = await at.post("alice", "short", ttl=10)
        lasting = await at.post("alice", "lasting")
        clock.advance(9.999)
        assert await at.store.expire() == []
        assert await at.zone(item) is Zone.WORKING
        clock.advance(0.001)
        assert await at.store.expire() == [at.board]
        assert await at.store.expire() == []
        assert (await at.zone(item), await at.zone(lasting)) == (Zone.ARCHIVE, Zone.WORKING)
        left = (await at.store.why_left(at.board, "bob", [item.number]))[item.number]
        assert (left.event, left.agent, left.at) == ("item.expired", "system", clock.now())
        assert (await at.standing()).working_items == 1

    async def test_I36_time_to_live_counts_from_the_last_write(self, at: Table, clock: HandClock) -> None:
        item = await at.post("alice", "v1", key="k", ttl=10)
        clock.advance(8)
        await at.post("bob", "v2", key="k")
        clock.advance(8)
        assert await at.store.expire() == []
        await at.change("alice", item, tags=["no write of the text"])
        clock.advance(2)
        assert await at.store.expire() == [at.board]
        assert await at.zone(item) is Zone.ARCHIVE

    async def test_I36_an_item_past_its_time_reads_as_ever_until_it_is_moved(
        self, at: Table, clock: HandClock
    ) -> None:
        item = await at.post("alice", "short", key="k", ttl=10)
        clock.advance(10)
        assert await at.item(item) == item
        assert await at.query(key="k") == [1]
        again = await at.post("bob", "just in time", key="k")
        assert (again.version, again.zone) == (2, Zone.WORKING)
        assert await at.store.expire() == []

    async def test_I36_a_time_to_live_is_ended_by_0_and_begins_again_with_another(
        self, at: Table, clock: HandClock
    ) -> None:
        a = await at.post("alice", "a", ttl=10)
        b = await at.post("alice", "b", key="k", ttl=10)
        assert (await at.post("alice", "never", key="k2", ttl=0)).expires_at is None
        assert (await at.change("alice", a, ttl=0)).expires_at is None
        assert (await at.post("bob", "b2", key="k", ttl=0)).expires_at is None
        assert (await at.post("bob", "b3", key="k")).expires_at is None
        changed = [e.data.get("changed") for e in await at.events() if e.event == "item.changed"]
        assert changed == [["ttl"]]
        clock.advance(100)
        assert await at.store.expire() == []
        await at.change("alice", a, ttl=5)
        await at.change("alice", b, ttl=6)
        clock.advance(5)
        assert await at.store.expire() == [at.board]
        assert (await at.zone(a), await at.zone(b)) == (Zone.ARCHIVE, Zone.WORKING)

    async def test_I36_what_comes_back_lasts_until_a_time_to_live_is_said_anew(
        self, at: Table, clock: HandClock
    ) -> None:
        items = [await at.post("alice", f"{n}", key=f"k{n}", ttl=10) for n in range(3)]
        clock.advance(10)
        await at.store.expire()
        await at.store.restore(at.board, "bob", [1])
        await at.post("bob", "anew", key="k1")
        await at.post("bob", "anew", key="k2", ttl=10)
        clock.advance(10)
        assert await at.store.expire() == [at.board]
        assert [await at.zone(i) for i in items] == [Zone.WORKING, Zone.WORKING, Zone.ARCHIVE]

    async def test_I36_deleting_ends_a_time_to_live(self, at: Table, clock: HandClock) -> None:
        item = await at.post("alice", "a", key="k", ttl=10)
        await at.batch("alice", replace(draft(None, key="k"), delete=True))
        clock.advance(20)
        assert await at.store.expire() == []
        assert await at.store.next_expiry() is None
        assert not [e for e in await at.events() if e.event == "item.expired"]
        assert (await at.item(item)).expires_at is None

    async def test_I36_a_clock_that_is_set_moves_expiry_and_loses_nothing(
        self, at: Table, clock: HandClock
    ) -> None:
        await at.post("alice", "a", ttl=10)
        clock.advance(-3_600)
        await at.post("alice", "b", ttl=10)
        assert await at.store.expire() == []
        clock.advance(10)
        assert await at.store.expire() == [at.board]
        assert (await at.zone(1), await at.zone(2)) == (Zone.WORKING, Zone.ARCHIVE)
        clock.advance(1_000_000)
        assert await at.store.expire() == [at.board]
        assert await at.zone(1) is Zone.ARCHIVE

    async def test_I36_the_next_expiry_is_that_of_any_board_and_of_nothing_that_is_due(
        self, store: BoardStore, clock: HandClock
    ) -> None:
        assert await store.next_expiry() is None
        await Table(store, "a").post("alice", "x", ttl=50)
        await Table(store, "b").post("alice", "x", ttl=5)
        assert await store.next_expiry() == 5
        clock.advance(5)
        assert await store.next_expiry() == 45
        await store.expire()
        assert await store.next_expiry() == 45
        clock.advance(45)
        assert await store.next_expiry() is None

    async def test_I36_thousands_that_expire_at_once_leave_room_for_posts_between(
        self, at: Table, clock: HandClock
    ) -> None:
        for begin in range(0, 3_000, 100):
            await at.batch("alice", *(draft(f"{begin} {n}", ttl=10) for n in range(100)))
        clock.advance(10)
        start = await at.seq()
        moving = asyncio.create_task(at.store.expire())
        posted = 0
        while not moving.done():
            await at.post("bob", f"meanwhile {posted}")
            posted += 1
        assert await moving == [at.board]
        told = "".join(
            "x" if e.event == "item.expired" else "p"
            for e in (await at.store.log(at.board, "alice", start, 10_000)).events
        )
        assert told.count("x") == 3_000
        longest = max(len(run) for run in told.split("p"))
        # One transaction moves 200 items; a post waits for the present one and perhaps the next.
        assert longest <= 600, f"{posted} posts, and {longest} items moved in one go"

    async def test_time_to_live_can_be_moved_by_the_author(self, at: Table, clock: HandClock) -> None:
        item = await at.post("alice", "a", ttl=10)
        clock.advance(5)
        await at.change("alice", item, ttl=100)
        clock.advance(50)
        assert await at.store.expire() == []

    async def test_I36_what_is_protected_expires_when_it_no_longer_is(
        self, at: Table, clock: HandClock
    ) -> None:
        root = await at.post("alice", "root", ttl=10)
        await at.post("bob", "no", "CRITIQUE", critiques=root)
        clock.advance(20)
        assert await at.store.expire() == []
        assert await at.zone(root) is Zone.WORKING
        await at.decide("carol", root)
        assert await at.store.expire() == [at.board]
        assert await at.zone(root) is Zone.ARCHIVE

    async def test_many_protected_items_do_not_keep_others_from_expiring(
        self, at: Table, clock: HandClock
    ) -> None:
        for _ in range(3):
            await at.batch("alice", *(draft("law", "CONSTRAINT", ttl=1) for _ in range(100)))
        clock.advance()
        free = await at.post("alice", "free", ttl=1)
        clock.advance()
        assert await at.store.expire() == [at.board]
        assert await at.zone(free) is Zone.ARCHIVE

    async def test_expiry_serves_every_board(self, store: BoardStore, clock: HandClock) -> None:
        for board in ("a", "b", "c"):
            await Table(store, board).post("alice", "x", ttl=None if board == "b" else 5)
        clock.advance(5)
        assert sorted(await store.expire()) == ["a", "c"]

    # Restoring

    async def test_restore_brings_items_back_and_leaves_the_others(self, at: Table, clock: HandClock) -> None:
        a = await at.post("alice", "one two", ttl=5)
        b, c = await at.post("alice", "three"), await at.post("alice", "four")
        clock.advance(5)
        await at.store.expire()
        await at.gone(b)
        back = await at.store.restore(at.board, "bob", [a.number, b.number, c.number])
        assert [(i.number, i.zone) for i in back.items] == [(n, Zone.WORKING) for n in (1, 2, 3)]
        assert (back.seq, back.working_tokens) == (await at.seq(), 4)
        assert back.high_tokens == (await at.standing()).config.high_tokens
        assert (await at.item(a)).expires_at is None, "its time to live has ended and does not return"
        clock.advance(100)
        assert await at.store.expire() == []
        assert "bob" in [agent.name for agent in await at.store.agents(at.board)]

    async def test_restoring_something_missing_restores_nothing(self, at: Table) -> None:
        a = await at.post("alice", "a")
        await at.gone(a)
        with pytest.raises(UnknownReference):
            await at.store.restore(at.board, "bob", [a.number, 99])
        assert await at.zone(a) is Zone.ARCHIVE

    # Summaries

    async def test_a_summary_takes_the_place_of_its_sources(self, at: Table) -> None:
        items = await thread(at)
        sources = await at.store.thread_sources(at.board, [i.number for i in reversed(items)])
        assert [i.number for i in sources] == [1, 2, 3, 4]
        before = await at.standing()
        id_ = await at.store.apply_summary(at.board, summary(1, seen(sources)))
        assert id_ == "S-5"
        made = await at.item(5)
        assert (made.type, made.author, made.thread, made.text) == (ItemType.SUMMARY, "system", 1, "in short")
        assert made.metadata["sources"] == [i.id for i in items]
        assert {(e.kind, e.target) for e in made.edges} == {(EdgeKind.DERIVED_FROM, n) for n in (1, 2, 3, 4)}
        assert made.sha256 == content_hash(made.text)
        for item in items:
            now = await at.item(item)
            assert (now.zone, now.text, now.sha256) == (Zone.ARCHIVE, item.text, item.sha256)
        board = await at.standing()
        assert (board.working_items, board.archived_items) == (1, 4)
        assert board.seq == before.seq + 6
        assert len((await at.store.outbox_batch(9)).documents) == 4

    async def test_what_alone_is_more_than_a_pass_leaves_is_not_restored(self, at: Table) -> None:
        await at.post("bob", "it begins")
        config = (await at.standing()).config
        items = [
            await at.post("alice", said, tokens=n)
            for said, n in (("much", config.high_tokens + 1), ("some", 9))
        ]
        large, _ = items
        await at.gone(*items)
        before = await at.standing()
        back = await at.store.restore(at.board, "bob", [item.number for item in items])
        assert [item.zone for item in back.items] == [Zone.ARCHIVE, Zone.WORKING]
        assert back.seq == before.seq + 1
        most = await at.change("alice", large, importance=5)
        assert most.zone is Zone.ARCHIVE
        back = await at.store.restore(at.board, "bob", [large.number])
        assert back.items[0].zone is Zone.WORKING, "what no pass takes stays"

    @pytest.mark.parametrize("how", ["changed", "edge", "reply", "gone", "debated", "watched"])
    async def test_a_summary_is_thrown_away_when_the_thread_moved(self, at: Table, how: str) -> None:
        items = await thread(at)
        wanted = summary(1, seen([await at.item(i) for i in items]))
        match how:
            case "changed":
                await at.change("bob", items[1], status="RESOLVED")
            case "edge":
                await at.change("bob", items[1], supports=await at.post("bob", "elsewhere"))
            case "reply":
                await at.post("carol", "one more thing", "REPLY", replies_to=items[2])
            case "gone":
                await at.gone(items[1])
            case "debated":
                await at.post("carol", "no", "CRITIQUE", critiques=items[2])
            case "watched":
                await at.watch("carol", items[2])
        before = await at.standing()
        assert await at.store.apply_summary(at.board, wanted) is None
        assert await at.standing() == before

    async def test_a_private_reply_does_not_hold_a_summary_up(self, at: Table) -> None:
        items = await thread(at)
        await at.post("carol", "note to self", "REPLY", replies_to=items[1], private=True)
        assert await at.store.apply_summary(at.board, summary(1, seen(items))) is not None

    @pytest.mark.parametrize("what", ["private", "constraint", "important", "nothing", "elsewhere"])
    async def test_a_summary_never_stands_for_what_it_must_not(self, at: Table, what: str) -> None:
        items = await thread(at)
        match what:
            case "private":
                items.append(await at.post("bob", "note", "REPLY", private=True, replies_to=items[0]))
            case "constraint":
                rule = await at.post("bob", "rule", "CONSTRAINT", replies_to=items[0])
                items.append(await at.change("bob", rule, status="RESOLVED"))
            case "important":
                items[1] = await at.change("bob", items[1], importance=5)
            case "nothing":
                items = []
            case "elsewhere":
                items.append(await at.post("bob", "another thread"))
        before = await at.standing()
        assert await at.store.apply_summary(at.board, summary(1, seen(items))) is None
        assert await at.standing() == before
