"""Tests of a store that is opened again, and of two stores on the same data, if a backend supports them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.protocols.agreements import Ask
from blackboard_mcp.protocols.answers import Once
from blackboard_mcp.protocols.debates import Duty
from blackboard_mcp.protocols.engines import StampedStore
from blackboard_mcp.protocols.errors import Conflict
from blackboard_mcp.protocols.items import Zone
from blackboard_mcp.protocols.pruning import Move, Plan, Workspace

from ..harness import PATIENCE, HandClock, Table, draft
from .agreeing import asked
from .debates import answered
from .fixtures import CAPABILITIES, StoreFixtures
from .planning import plan, take
from .running import choose, contribute, look, start
from .watching import standing

Handles = tuple[Table, Table]
DURABILITY = "durability"


class DurabilityTests(StoreFixtures):
    async def test_what_was_written_is_there_when_the_store_is_opened_again(
        self, tmp_path: Path, clock: HandClock
    ) -> None:
        first = Table(await self.open_store(tmp_path, clock))
        item = await first.post("alice", "kept", key="k", tags=["a"], metadata={"n": 1})
        private = await first.post("alice", "for me", private=True)
        await first.post("bob", "why?", "CRITIQUE", critiques=item)
        events = await first.events()
        item = await first.item(item)
        await first.store.close()
        again = Table(await self.open_store(tmp_path, clock))
        try:
            name = type(self).__name__
            CAPABILITIES.setdefault(name, {})[DURABILITY] = kept = bool(await again.store.boards())
            if not kept:
                pytest.skip(f"{name} has no {DURABILITY}: nothing is left when it is opened again")
            assert await again.item(item) == item
            assert await again.events() == events
            assert not await again.sees("bob", private)
            assert (await again.post("bob", "next")).number == 4
        finally:
            await again.store.close()

    @contextlib.asynccontextmanager
    async def _opened_again(self, tmp_path: Path, clock: HandClock) -> AsyncIterator[Table]:
        """Yields the store of a folder, opened again; skips the test where nothing is left."""
        again = Table(await self.open_store(tmp_path, clock))
        try:
            if not await again.store.boards():
                pytest.skip(
                    f"{type(self).__name__} has no {DURABILITY}: nothing is left when it is opened again"
                )
            yield again
        finally:
            await again.store.close()

    async def test_nobody_is_let_go_for_the_time_in_which_the_store_was_closed(
        self, tmp_path: Path, clock: HandClock
    ) -> None:
        first = Table(await self.open_store(tmp_path, clock))
        root, _ = await answered(first)
        await first.watch("carol", root)
        await first.acknowledge("bob", root)
        plan = await asked(first, "bob", "we go by train", ask=Ask(("carol",)))
        await first.follow("dan", "tag:pump")
        await first.store.close()
        clock.advance(100_000)  # longer than the lease of watches
        async with self._opened_again(tmp_path, clock) as again:
            await again.here("bob", clock.now())
            assert await again.store.sweep_debates() == []
            owed = {(root.number, Duty.ACKNOWLEDGE), (plan.number, Duty.AGREE)}
            assert (await again.owed("carol"), await standing(again, "dan")) == (owed, ["tag:pump"])
            clock.advance(900)
            await again.here("bob", clock.now())
            assert await again.store.sweep_debates() == [again.board]
            assert await again.state(root) == "CONSENSUS", "carol had her time to come back"
            assert (await again.owed("carol"), await standing(again, "dan")) == (set(), [])

    async def test_watches_last_beyond_a_stop_where_absence_is_not_counted(
        self, tmp_path: Path, clock: HandClock
    ) -> None:
        first = Table(await self.open_store(tmp_path, clock))
        await first.configure(presence_seconds=0)
        await first.follow("dan", "tag:pump")
        await first.store.close()
        clock.advance(100_000)  # longer than the lease of watches
        async with self._opened_again(tmp_path, clock) as again:
            assert await again.store.sweep_debates() == []
            assert await standing(again, "dan") == ["tag:pump"]
            clock.advance(100_000)
            assert await again.store.sweep_debates() == [again.board]
            assert await standing(again, "dan") == []

    async def test_no_turn_lapses_for_the_time_in_which_the_store_was_closed(
        self, tmp_path: Path, clock: HandClock
    ) -> None:
        first = Table(await self.open_store(tmp_path, clock))
        await start(first, sealed=True)
        await choose(first, "bob", "carol")
        await first.store.close()
        clock.advance(1_000)
        async with self._opened_again(tmp_path, clock) as again:
            assert await again.store.sweep_runs() == []
            assert await again.store.next_run_due() == 300
            await contribute(again, "bob", "nine")
            clock.advance(301)
            assert await again.store.sweep_runs() == [again.board]
            turns = [(turn.agent, turn.state) for turn in (await look(again)).turns]
            assert turns == [("bob", "ended"), ("carol", "lapsed")]

    async def test_no_lease_of_a_task_ends_for_the_time_in_which_the_store_was_closed(
        self, tmp_path: Path, clock: HandClock
    ) -> None:
        first = Table(await self.open_store(tmp_path, clock))
        (number,) = await plan(first, "saw")
        held = await take(first, "bob", number, paths=("key:plan:*",))
        await first.store.close()
        clock.advance(1_000)
        async with self._opened_again(tmp_path, clock) as again:
            with pytest.raises(Conflict):
                await again.post("carol", "mine", key="plan:a")
            assert await again.store.take_task(again.board, "carol") is None
            assert await again.store.sweep_tasks() == []
            assert await again.store.next_lapse() == 300
            clock.advance(301)
            assert await again.store.sweep_tasks() == [again.board]
            taken = await take(again, "carol", number)
            assert taken.lease > held.lease

    async def test_restarts_in_short_order_keep_nobody_from_counting_as_away(
        self, tmp_path: Path, clock: HandClock
    ) -> None:
        at = Table(await self.open_store(tmp_path, clock))
        root, _ = await answered(at)
        await at.watch("carol", root)
        await at.acknowledge("bob", root)
        (number,) = await plan(at, "saw")
        await take(at, "bob", number)
        await start(at)
        await choose(at, "bob")
        try:
            for _ in range(6):
                await at.store.sweep_tasks()
                clock.advance(235)
                await at.here("alice", clock.now())
                await at.store.sweep_tasks()
                await at.store.sweep_runs()
                await at.store.close()
                clock.advance(5)
                at = Table(await self.open_store(tmp_path, clock))
                if not await at.store.boards():
                    pytest.skip(
                        f"{type(self).__name__} has no {DURABILITY}: nothing is left when it is opened again"
                    )
                await at.here("alice", clock.now())
                await at.store.sweep_debates()
            assert await at.state(root) == "CONSENSUS", "carol made no call for twenty minutes"
            assert (await look(at)).turns[0].state == "lapsed"
            assert await at.store.take_task(at.board, "dan") is not None
        finally:
            await at.store.close()


class HandleTests:
    async def test_what_one_handle_wrote_the_other_reads_at_once(self, handles: Handles) -> None:
        one, two = handles
        for n in range(10):
            writer, reader = (one, two) if n % 2 else (two, one)
            item = await writer.post("alice", str(n))
            assert await reader.item(item) == item
            assert await reader.standing() == await writer.standing()

    async def test_a_stamp_moves_with_what_either_handle_commits(self, handles: Handles) -> None:
        stores = [at.store for at in handles if isinstance(at.store, StampedStore)]
        if not stores:
            pytest.skip(f"{type(self).__name__} gives no stamps")
        await handles[0].post("alice", "first")
        for n in range(10):
            stamps = [store.stamp() for store in stores]
            assert stamps == [store.stamp() for store in stores]
            writer = handles[n % 2]
            if n % 3:
                await writer.store.set_owner("bob", f"owner{n}")
            else:
                await writer.post("alice", f"said {n}")
            moved = [store.stamp() for store in stores]
            assert all(now is None or now != was for now, was in zip(moved, stamps, strict=True))

    async def test_both_handles_write_one_gapless_log(self, handles: Handles) -> None:
        one, two = handles
        await asyncio.gather(*((one, two)[n % 2].post("alice", str(n)) for n in range(30)))
        seqs = [event.seq for event in await one.events()]
        assert seqs == list(range(1, 32))
        assert sorted(await two.query(limit=100)) == list(range(1, 31))

    async def test_of_writers_over_both_handles_one_wins(self, handles: Handles) -> None:
        await handles[0].post("alice", "start", key="k")

        async def attempt(n: int) -> bool:
            try:
                await handles[n % 2].post("alice", str(n), key="k", expected=1)
            except Conflict:
                return False
            return True

        assert sum(await asyncio.gather(*(attempt(n) for n in range(8)))) == 1

    async def test_an_idempotency_key_holds_over_both_handles(self, handles: Handles) -> None:
        tries = (handles[n % 2].batch("alice", draft("a"), once=Once("t", "d")) for n in range(8))
        posted = await asyncio.gather(*tries)
        assert {p.items[0].number for p in posted} == {1}
        assert sum(not p.repeated for p in posted) == 1

    async def test_the_same_finding_posted_by_both_at_once_is_one_item_with_support(
        self, handles: Handles
    ) -> None:
        agents = [f"agent{n}" for n in range(8)]
        posted = await asyncio.gather(
            *(handles[n % 2].batch(agent, draft("the pool is full")) for n, agent in enumerate(agents))
        )
        assert {p.items[0].number for p in posted} == {1}
        assert sum(not p.endorsed for p in posted) == 1
        now = await handles[0].item(1)
        assert {now.author, *now.supporters} == set(agents)

    async def test_one_handle_wakes_the_other(self, handles: Handles) -> None:
        one, two = handles
        await one.post("alice", "a")
        seen = two.store.changes()
        waiting = asyncio.create_task(two.store.wait_for_change(seen, PATIENCE))
        await one.post("alice", "b")
        await asyncio.wait_for(waiting, PATIENCE)
        assert (await two.item(2)).text == "b"

    async def test_a_lease_excludes_over_both_handles(self, handles: Handles, clock: HandClock) -> None:
        one, two = handles
        assert await one.store.lease("index", "one", 10)
        assert not await two.store.lease("index", "two", 10)
        clock.advance(10)
        assert await two.store.lease("index", "two", 10)
        assert not await one.store.lease("index", "one", 10)

    async def test_a_cursor_moved_here_is_moved_there(self, handles: Handles) -> None:
        one, two = handles
        await one.post("alice", "a")
        made = await one.store.subscribe(one.board, "alice", "n", {})
        await one.post("alice", "b")
        assert await two.store.move_cursor(two.board, "alice", made.id, 3, since=made.cursor)
        assert not await one.store.move_cursor(one.board, "alice", made.id, 3, since=made.cursor)
        found = await one.store.find_subscription(one.board, "alice", "n")
        assert found is not None
        assert found.cursor == 3

    async def test_a_critique_by_the_other_handle_during_a_pass_is_not_lost(self, handles: Handles) -> None:
        one, two = handles
        item = await one.post("alice", "a")
        loop = asyncio.get_running_loop()
        posted: list[Any] = []

        def meanwhile(space: Workspace) -> Plan:
            posting = two.post("bob", "no", "CRITIQUE", critiques=item)
            posted.append(asyncio.run_coroutine_threadsafe(posting, loop))
            with contextlib.suppress(TimeoutError):
                posted[0].result(timeout=0.2)
            return Plan(moves=(Move(item.number, 4, "free when it was looked at"),))

        await one.prune(meanwhile)
        await asyncio.wrap_future(posted[0])
        now = await one.item(item)
        assert (now.zone, now.debate) == (Zone.WORKING, "OPEN")

    async def test_passes_of_both_handles_move_each_item_once(self, handles: Handles) -> None:
        one, two = handles
        await one.batch("alice", *(draft(str(n)) for n in range(20)))
        outcomes = await asyncio.gather(*(handles[n % 2].prune() for n in range(4)))
        assert sum(len(outcome.moved) for outcome in outcomes) == 20
        board = await two.standing()
        assert (board.working_items, board.archived_items, board.working_tokens) == (0, 20, 0)
        assert len((await one.store.outbox_batch(100)).ids) == 20
