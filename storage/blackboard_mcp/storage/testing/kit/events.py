"""Tests of the log: no gaps, one event for each change, none after a failure; news; the index."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from blackboard_mcp.protocols.answers import BEGINNING
from blackboard_mcp.protocols.archive import SUM_MODULUS, FedSource, SummingSource
from blackboard_mcp.protocols.board import BoardChange, Core
from blackboard_mcp.protocols.errors import BlackboardError, Conflict, Refused
from blackboard_mcp.protocols.events import SYSTEM, Event
from blackboard_mcp.protocols.store import BoardStore
from blackboard_mcp.protocols.visibility import Viewer

from ..harness import CONFIG, PATIENCE, HandClock, Table, draft


def kinds(events: list[Event]) -> list[str]:
    """Returns the types of events."""
    return [str(event.event) for event in events]


class EventTests:
    async def test_the_log_is_gapless_with_one_event_a_change(self, at: Table, clock: HandClock) -> None:
        last = 0

        async def fresh() -> list[str]:
            nonlocal last
            events = await at.events(after=last)
            assert [e.seq for e in events] == list(range(last + 1, last + 1 + len(events)))
            last += len(events)
            assert last == await at.seq()
            return kinds(events)

        a = await at.post("alice", "a", key="k")
        assert await fresh() == ["board.created", "item.posted"]
        await at.batch("alice", draft("b"), draft("c", supports=-1))
        assert await fresh() == ["item.posted"] * 2
        await at.post("bob", "a2", key="k", importance=5, tags=["t"])
        assert await fresh() == ["item.versioned"]
        await at.change("alice", a, importance=1, tags=["u"])
        assert await fresh() == ["item.changed"]
        await at.change("alice", a, status="RESOLVED")
        assert await fresh() == ["item.changed"]
        c = await at.post("bob", "no", "CRITIQUE", critiques=a)
        assert await fresh() == ["item.posted", "debate.opened"]
        d = await at.post("carol", "nor I", "CRITIQUE", critiques=a)
        assert await fresh() == ["item.posted", "debate.joined"]
        await at.watch("dave", a)
        assert await fresh() == ["obligation.added"]
        await at.post("alice", "but", "REPLY", replies_to=c)
        assert await fresh() == ["item.posted", "obligation.met"]
        await at.answer("alice", d)
        assert await fresh() == ["item.posted", "obligation.met"]
        await at.acknowledge("bob", a)
        assert await fresh() == ["obligation.met"]
        await at.decide("erin", a, "enough")
        assert Counter(await fresh()) == {"debate.closed": 1, "obligation.waived": 2}
        await at.gone(a, 2)
        assert await fresh() == ["item.archived"] * 2 + ["prune.ended"]
        await at.store.restore(at.board, "bob", [1])
        assert await fresh() == ["item.restored"]
        await at.post("alice", "short", ttl=1)
        clock.advance(2)
        await at.store.expire()
        assert await fresh() == ["item.posted", "item.expired"]
        old = await at.post("alice", "old")
        await at.post("alice", "new", supersedes=old)
        assert await fresh() == ["item.posted"] * 2 + ["item.superseded"]
        await at.store.set_core(at.board, "alice", Core("o"), expected_version=0)
        assert await fresh() == ["core.changed"]
        await at.store.change_board(at.board, "alice", BoardChange(settings={"target_tokens": 100}))
        assert await fresh() == ["board.changed"]

    async def test_reading_and_doing_nothing_write_no_event(self, at: Table) -> None:
        a = await at.post("alice", "a")
        before = await at.standing()
        await at.store.ensure_board(at.board, "bob", CONFIG)
        await at.store.restore(at.board, "bob", [a.number])
        await at.change("alice", a, importance=a.importance, status="ACTIVE")
        await at.prune(apply=False)
        await at.gone()
        await at.store.expire()
        await at.store.snapshot(at.board, "bob")
        await at.watch("bob", a)
        await at.watch("bob", a)
        assert kinds(await at.events(after=before.seq)) == ["obligation.added"]

    async def test_a_failed_call_changes_nothing_and_writes_no_event(self, at: Table) -> None:
        a = await at.post("alice", "a")
        c = await at.post("bob", "no", "CRITIQUE", critiques=a)
        before, held = await at.store.snapshot(at.board, "alice"), await at.held(a, c)

        def explode(space: object) -> None:
            raise Refused("the policy failed")

        for attempt in (
            at.batch("alice", draft("x"), draft("y", supports=77)),
            at.batch("alice", draft("x", "CRITIQUE", critiques=c), draft(None, on=a, status="RESOLVED")),
            at.change("alice", a, importance=5, supports=77),
            at.change("carol", a, status="WITHDRAWN"),
            at.withdraw("carol", a),
            at.decide("alice", a),
            at.confirm("bob", a),
            at.concede("bob", a),
            at.open("bob", 77),
            at.store.restore(at.board, "alice", [a.number, 77]),
            at.store.prune(at.board, explode),  # type: ignore[arg-type]
            at.store.set_core(at.board, "alice", Core("x"), expected_version=3),
        ):
            with pytest.raises(BlackboardError):
                await attempt
            assert await at.store.snapshot(at.board, "alice") == before
            assert await at.held(a, c) == held

    async def test_the_log_pages_without_gap_or_repeat(self, at: Table) -> None:
        for n in range(20):
            await at.post("alice", str(n), private=n % 3 == 0)
        for limit in (1, 4, 100):
            seen: list[int] = []
            cursor = 0
            while True:
                log = await at.store.log(at.board, "bob", cursor, limit)
                seen += [e.seq for e in log.events]
                cursor = log.cursor
                if not log.more:
                    break
            assert cursor == log.seq == await at.seq()
            assert seen == [1, *(n + 2 for n in range(20) if n % 3)]

    async def test_beginnings_are_of_what_the_agent_may_see(self, at: Table) -> None:
        public = await at.post("alice", " \n\t a" + "b" * 2_000)
        entry = await at.post("alice", "v1", key="k")
        await at.post("alice", "v2", key="k")
        private = await at.post("bob", "canary", private=True)
        wanted = [(public.number, 1), (entry.number, 1), (entry.number, 2), (private.number, 1)]
        wanted += [(public.number, 2), (99, 1)]
        found = await at.store.beginnings(at.board, "alice", wanted)
        assert found == {
            (public.number, 1): "a" + "b" * BEGINNING,
            (entry.number, 1): "v1",
            (entry.number, 2): "v2",
        }
        assert (await at.store.beginnings(at.board, "bob", wanted))[private.number, 1] == "canary"

    async def test_a_log_brings_the_beginnings_of_the_first_versions_that_it_tells(self, at: Table) -> None:
        await at.post("alice", "a")
        await at.post("bob", "canary", private=True)
        entry = await at.post("alice", "v1", key="k")
        await at.post("alice", "v2", key="k")
        log = await at.store.log(at.board, "alice", 0, 100, texts=2)
        assert log.texts == {(1, 1): "a", (entry.number, 1): "v1"}
        assert (await at.store.log(at.board, "bob", 2, 1, texts=100)).texts == {(2, 1): "canary"}
        assert (await at.store.log(at.board, "alice", 0, 100)).texts == {}

    async def test_stretches_are_the_whole_log_of_boards_that_moved_in_the_order_asked(
        self, store: BoardStore
    ) -> None:
        one, other, still = Table(store, "one"), Table(store, "other"), Table(store, "still")
        for table in (one, other, still):
            await table.post("alice", "a")
        await one.post("alice", "hers", private=True)
        await one.post("bob", "b")
        places = {"nowhere": 0, "other": 0, "one": 1, "still": 2}
        found = await store.stretches(places, 100)
        assert list(found) == ["other", "one"]
        assert [event.seq for event in found["one"].events] == [2, 3, 4]
        assert [e.seq for e in found["one"].events if e.visible_to(Viewer("bob"))] == [2, 4]
        assert [e for e in found["one"].events if e.visible_to(Viewer("alice"))] == await one.events(after=1)
        assert (found["one"].seq, found["other"].seq) == (4, 2)
        found = await store.stretches(places, 3)
        assert {board: [e.seq for e in s.events] for board, s in found.items()} == {
            "other": [1, 2],
            "one": [2],
        }
        assert found["one"].seq == 4
        assert list(await store.stretches(places, 2)) == ["other"]
        assert await store.stretches({}, 100) == await store.stretches({"one": 4}, 100) == {}

    async def test_an_event_says_what_who_and_when_and_never_the_body(
        self, at: Table, clock: HandClock
    ) -> None:
        a = await at.post("alice", "word " * 100, key="k", tags=["t"], metadata={"n": 1})
        event = (await at.events())[-1]
        assert event.metadata == {"n": 1}
        assert (event.item, event.key, event.version, event.agent) == (a.id, "k", 1, "alice")
        assert (event.tags, event.at, event.type, event.thread) == (("t",), clock.now(), a.type, a.thread)
        assert "word" not in str(event.data)
        await at.gone(a)
        assert {e.agent for e in (await at.events())[2:]} == {SYSTEM}
        assert (await at.events())[2].metadata == {"n": 1}

    async def test_an_event_has_the_values_before_and_after_a_change(self, at: Table) -> None:
        a = await at.post("alice", "a", key="k", metadata={"n": 1})
        rests = await at.post("bob", "b", metadata={"m": "y"}, depends_on=a)
        await at.change("alice", a, metadata={"n": "x" * 600}, ttl=60)
        changed = (await at.events())[-1]
        cut = changed.metadata
        assert (set(cut), cut["characters"]) == ({"characters", "sha256"}, 608)
        assert changed.data["was"] == {"metadata": {"n": 1}, "ttl": None}
        assert changed.data["now"] == {"metadata": cut, "ttl": 60.0}
        await at.change("alice", a, status="RESOLVED")
        await at.post("alice", "a2", key="k", metadata={})
        versioned = (await at.events())[-1]
        assert versioned.metadata == {}
        assert versioned.data["was"] == {"metadata": cut, "status": "RESOLVED"}
        assert versioned.data["now"] == {"metadata": {}, "status": "ACTIVE"}
        await at.change("alice", a, status="WITHDRAWN")
        doubted = next(e for e in await at.events() if e.event == "item.doubted")
        assert (doubted.item, doubted.metadata) == (rests.id, {"m": "y"})

    async def test_changes_of_a_board_tell_what_was_before(self, at: Table) -> None:
        await at.post("alice", "a")
        await at.store.set_core(at.board, "alice", Core("aim", ("one",)), expected_version=0)
        await at.store.set_core(at.board, "alice", Core("aim", ("one", "x" * 600)), expected_version=1)
        core = (await at.events())[-1].data
        assert core["was"] == {"constraints": ["one"]}
        assert core["now"]["constraints"]["characters"] > 600
        before = await at.standing()
        await at.store.change_board(
            at.board, "alice", BoardChange(title="new", settings={"target_tokens": 100})
        )
        data = (await at.events())[-1].data
        assert data["was"] == {"title": before.title, "target_tokens": before.config.target_tokens}
        assert data["now"] == {"title": "new", "target_tokens": 100}

    async def test_a_change_of_a_board_that_expects_other_settings_is_a_conflict(self, at: Table) -> None:
        await at.post("alice", "a")
        config, seq = (await at.standing()).config, await at.seq()
        settings: dict[str, Any] = {"target_tokens": config.target_tokens + 1}
        moved = BoardChange("new", settings=settings, expected_settings={"quorum": config.quorum + 1})
        with pytest.raises(Conflict, match="quorum"):
            await at.store.change_board(at.board, "alice", moved)
        assert await at.seq() == seq
        still = BoardChange("new", settings=settings, expected_settings={"quorum": config.quorum})
        assert (await at.store.change_board(at.board, "alice", still)).config == replace(config, **settings)

    async def test_the_history_of_an_item_is_its_part_of_the_log(self, at: Table) -> None:
        a, b = await at.post("alice", "a"), await at.post("alice", "b")
        await at.change("alice", a, importance=1)
        await at.gone(a, b)
        history = await at.store.history(at.board, "bob", a.number)
        assert kinds(list(history)) == ["item.archived", "item.changed", "item.posted"]
        assert len(await at.store.history(at.board, "bob", a.number, limit=1)) == 1
        assert await at.store.history(at.board, "bob", 99) == ()

    # News

    async def test_a_change_wakes_whoever_waits(self, at: Table) -> None:
        await at.post("alice", "a")
        seen = at.store.changes()
        waiting = asyncio.create_task(at.store.wait_for_change(seen, 600))
        await at.post("alice", "b")
        assert await asyncio.wait_for(waiting, PATIENCE) > seen

    async def test_news_that_came_before_the_wait_ends_it_at_once(self, at: Table) -> None:
        seen = at.store.changes()
        await at.post("alice", "a")
        assert await asyncio.wait_for(at.store.wait_for_change(seen, 600), PATIENCE) > seen

    async def test_a_wait_without_news_ends(self, at: Table) -> None:
        await at.post("alice", "a")
        assert (
            await asyncio.wait_for(at.store.wait_for_change(at.store.changes() + 1000, 0.01), PATIENCE) >= 0
        )

    # The index

    async def test_what_moves_is_told_to_the_index_in_the_same_transaction(self, at: Table) -> None:
        a, b = await at.post("alice", "a"), await at.post("alice", "b", tags=["t"])
        assert (await at.store.outbox_batch(10)).ids == ()
        await at.gone(a, b)
        batch = await at.store.outbox_batch(10)
        assert [(d.board, d.number, d.text) for d in batch.documents] == [("main", 1, "a"), ("main", 2, "b")]
        assert batch.removed == ()
        now = [await at.item(n) for n in (1, 2)]
        assert [d.seq for d in batch.documents] == [item.seq for item in now]
        assert batch.documents[1].tags == ("t",)
        assert [n for n, _ in await at.store.unindexed(at.board, "bob", 10)] == [2, 1]
        await at.store.restore(at.board, "bob", [a.number])
        batch = await at.store.outbox_batch(10)
        assert [d.number for d in batch.documents] == [2]
        assert batch.removed == (("main", 1),)
        await at.store.outbox_done([*batch.ids, 999])
        assert (await at.store.outbox_batch(10)).ids == ()
        assert await at.store.unindexed(at.board, "bob", 10) == []

    async def test_outbox_rows_come_oldest_first_and_only_the_named_ones_go(self, at: Table) -> None:
        posted = await at.batch("alice", *(draft(str(n)) for n in range(5)))
        for item in posted.items:
            await at.gone(item)
        first = await at.store.outbox_batch(2)
        assert [d.number for d in first.documents] == [1, 2]
        await at.store.outbox_done(first.ids[:1])
        assert [d.number for d in (await at.store.outbox_batch(10)).documents] == [2, 3, 4, 5]

    async def test_a_change_of_an_archived_item_is_told_to_the_index(self, at: Table) -> None:
        a = await at.post("alice", "a")
        c = await at.post("bob", "no", "CRITIQUE", critiques=a)
        log = await at.post("alice", "log", "LOG")
        await at.decide("carol", a)
        for change in (
            lambda: at.change("alice", a, tags=["late"]),
            lambda: at.change("alice", a, status="RESOLVED"),
            lambda: at.withdraw("bob", c),
            lambda: at.change("alice", log, analyzed_by=a),
        ):
            await at.prune()
            await at.store.outbox_done((await at.store.outbox_batch(100)).ids)
            await change()
            told = {(d.board, d.number): d.seq for d in (await at.store.outbox_batch(100)).documents}
            known = await at.store.archived_keys()
            assert len(told) == 1
            assert told.items() <= known.items()
            assert max(known.values()) == max(told.values())

    async def test_the_archive_can_be_walked_whole(self, store: BoardStore) -> None:
        for board in ("one", "two"):
            at = Table(store, board)
            await at.batch("alice", *(draft(f"{board} {n}") for n in range(5)))
            await at.gone(1, 2, 4, 5)
        for size in (1, 3, 4, 8, 500):
            pages = [page async for page in store.archived_documents(size)]
            assert all(0 < len(page) <= size for page in pages)
            walked = [(d.board, d.number) for page in pages for d in page]
            assert walked == [(board, n) for board in ("one", "two") for n in (1, 2, 4, 5)]
        keys = await store.archived_keys()
        assert set(keys) == set(walked)
        found = await store.documents([("one", 1), ("one", 3), ("two", 5), ("none", 1), ("one", 99)])
        assert {(d.board, d.number, d.text) for d in found} == {("one", 1, "one 0"), ("two", 5, "two 4")}

    async def test_a_lease_has_one_holder_until_it_runs_out(
        self, store: BoardStore, clock: HandClock
    ) -> None:
        assert sum(await asyncio.gather(*(store.lease("index", str(n), 10) for n in range(8)))) == 1
        holder = [str(n) for n in range(8) if await store.lease("index", str(n), 10)]
        assert len(holder) == 1
        clock.advance(9)
        assert await store.lease("index", holder[0], 10), "renewed"
        clock.advance(9)
        assert not await store.lease("index", "other", 10)
        clock.advance(1)
        assert await store.lease("index", "other", 10), "run out"
        await store.release("index", holder[0])
        assert not await store.lease("index", holder[0], 10), "only the holder gives it back"
        await store.release("index", "other")
        assert await store.lease("index", holder[0], 10)
        assert await store.lease("another", "other", 10)

    async def test_waiting_for_the_outbox_ends_when_something_is_there(self, at: Table) -> None:
        a = await at.post("alice", "a")
        waiting = asyncio.create_task(at.store.outbox_wait(600))
        await at.gone(a)
        await asyncio.wait_for(waiting, PATIENCE)
        await asyncio.wait_for(at.store.outbox_wait(600), PATIENCE)


class SummingTests:
    async def test_sums_are_those_of_every_archived_item_that_does_not_wait(self, store: BoardStore) -> None:
        if not isinstance(store, SummingSource):
            pytest.skip("the store does not sum up its archive")
        for board in ("one", "two"):
            at = Table(store, board)
            await at.batch("alice", *(draft(f"{board} {n}") for n in range(5)))
            await at.gone(1, 2, 4, 5)
        await store.outbox_done((await store.outbox_batch(7)).ids)
        settled = await store.settled(1)
        assert settled is not None
        assert settled.waiting == {"two": (5,)}
        assert await store.settled(0) is None
        known = await store.archived_keys()
        for board, numbers in (("one", (1, 2, 4, 5)), ("two", (1, 2, 4))):
            seqs = [known[board, n] for n in numbers]
            mixed = sum(n * s % SUM_MODULUS for n, s in zip(numbers, seqs, strict=True))
            assert settled.sums[board] == (len(numbers), sum(numbers), sum(seqs), mixed)
        assert settled.sums.keys() == {"one", "two"}


class FedTests:
    async def test_a_store_notes_which_index_took_changes_last(self, at: Table) -> None:
        if not isinstance(at.store, FedSource):
            pytest.skip("the store does not note which index took its changes")
        await at.batch("alice", *(draft(str(n)) for n in range(3)))
        await at.gone(1, 2, 3)
        ids = (await at.store.outbox_batch(9)).ids
        await at.store.outbox_done(ids[:1])
        assert await at.store.fed() is None
        for position, life in ((1, "one"), (2, "")):
            await at.store.outbox_fed(ids[position : position + 1], life)
            assert await at.store.fed() == (life, ids[position])
            assert (await at.store.outbox_batch(9)).ids == ids[position + 1 :]

    async def test_an_index_that_comes_after_another_took_the_same_changes_is_not_noted(
        self, at: Table
    ) -> None:
        if not isinstance(at.store, FedSource):
            pytest.skip("the store does not note which index took its changes")
        await at.batch("alice", *(draft(str(n)) for n in range(3)))
        await at.gone(1, 2, 3)
        ids = (await at.store.outbox_batch(9)).ids
        for taken, life, noted in (
            (ids[:1], "one", ("one", ids[0])),
            (ids[:2], "two", ("two", ids[1])),
            (ids[:2], "one", ("two", ids[1])),
        ):
            await at.store.outbox_fed(taken, life)
            assert await at.store.fed() == noted
