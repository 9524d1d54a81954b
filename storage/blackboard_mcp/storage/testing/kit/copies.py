"""Tests of boards restored from a copy: no sequence is given twice, and sequences from another copy are refused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest
from blackboard_mcp.protocols.answers import Look
from blackboard_mcp.protocols.errors import CursorExpired
from blackboard_mcp.protocols.events import SYSTEM
from blackboard_mcp.protocols.groups import Turn
from blackboard_mcp.protocols.pruning import Plan, Workspace
from blackboard_mcp.protocols.transactions import Since, Transaction

from ..harness import CONFIG, HandClock, Table, draft

FAR = 1_000_000
"""A number of sequences that is smaller than the gap after a restore, and larger than any test needs."""


async def refused(call: Awaitable[object], place: int, end: int, after: int | None = None) -> None:
    """Asserts that a call refuses `place` as expired, and that the error has the expected facts."""
    with pytest.raises(CursorExpired) as caught:
        await call
    facts = {"cursor": place, "seq": end}
    assert caught.value.facts == (facts if after is None else facts | {"restored_after": after})
    assert "read" in caught.value.message


class CopyTests:
    async def test_a_copy_is_what_it_was_until_its_first_change_leaves_numbers_out(
        self, at: Table, clock: HandClock
    ) -> None:
        a = await at.post("alice", "a", key="k")
        await at.post("alice", "b")
        before, log = await at.standing(), await at.events()
        await at.store.mark_copies()
        assert (await at.standing(), await at.events()) == (before, log)
        assert not (await at.prune(apply=False)).moved or await at.standing() == before
        clock.advance(1)
        c = await at.post("alice", "c")
        restored, posted = (await at.events())[len(log) :]
        assert (restored.event, restored.agent, restored.at) == ("board.restored", SYSTEM, clock.now())
        assert (restored.data, restored.item) == ({"after": before.seq}, None)
        assert restored.seq > before.seq + FAR
        assert (posted.event, posted.seq) == ("item.posted", restored.seq + 1)
        assert c.seq == posted.seq == await at.seq()
        assert (await at.item(a)).seq < before.seq
        await at.post("alice", "d")
        assert [e.seq for e in await at.events(after=before.seq)] == [restored.seq + n for n in range(3)]

    async def test_what_changes_nothing_leaves_no_numbers_out(self, at: Table) -> None:
        a = await at.post("alice", "a")
        await at.store.mark_copies()
        before = await at.standing()
        await at.store.ensure_board(at.board, "bob", CONFIG)
        await at.store.restore(at.board, "bob", [a.number])
        await at.store.judge_pressure(at.board, lambda _: pytest.fail("there is no pressure"))
        read = await at.store.transact(
            at.board, "bob", Transaction(reads={a.id: Since(before.seq)}), config=CONFIG
        )
        assert (read.seq, await at.standing()) == (before.seq, before)
        with pytest.raises(Exception, match="99"):
            await at.post("alice", "on what is not there", supports=99)
        assert await at.standing() == before

    @pytest.mark.parametrize("first", ["change", "debate", "pass", "batch", "transaction", "core", "group"])
    async def test_the_first_change_of_any_kind_has_its_numbers_after_those_left_out(
        self, at: Table, first: str
    ) -> None:
        a = await at.post("alice", "a", key="k")
        end = await at.seq()
        await at.store.mark_copies()
        kinds: dict[str, Callable[[], Awaitable[object]]] = {
            "change": lambda: at.change("alice", a, importance=1),
            "debate": lambda: at.post("bob", "no", "CRITIQUE", critiques=a),
            "pass": lambda: at.gone(a),
            "batch": lambda: at.batch("alice", draft("b"), draft("c", supports=-1)),
            "transaction": lambda: at.store.transact(
                at.board,
                "alice",
                Transaction(reads={"k": Since(end)}, writes=(draft("b", key="k"),)),
                config=CONFIG,
            ),
            "core": lambda: at.configure(target_tokens=500),
            "group": lambda: at.store.create_group(at.board, "alice", "g", {}),
        }
        await kinds[first]()
        events = await at.events(after=end)
        assert [str(e.event) for e in events].count("board.restored") == 1
        assert [e.seq for e in events] == [events[0].seq + n for n in range(len(events))]
        assert events[0].data == {"after": end}
        assert events[-1].seq == await at.seq()
        for number in await at.query(zone=None):
            item = await at.item(number)
            assert item.seq <= end or item.seq in {e.seq for e in events if e.item == item.id}

    async def test_a_place_that_another_copy_gave_is_refused_by_all_who_take_one(self, at: Table) -> None:
        a = await at.post("alice", "a")
        held = await at.store.subscribe(at.board, "alice", "mine", {})
        end = await at.seq()
        await at.store.mark_copies()
        asked: list[Callable[[int], Awaitable[object]]] = [
            lambda place: at.store.end_of_log(at.board, place),
            lambda place: at.store.log(at.board, "alice", 0, 1, place=place),
            lambda place: at.store.move_cursor(at.board, "alice", held.id, place),
            lambda place: at.store.move_cursor(at.board, "alice", held.id, place, since=end),
            lambda place: at.store.create_group(at.board, "alice", "g", {}, since=place),
        ]
        for ask in asked:
            await refused(ask(end + 5), end + 5, end)
        b = await at.post("alice", "b")
        for ask in asked:
            await refused(ask(end + 5), end + 5, b.seq, end)
            await refused(ask(b.seq + 1), b.seq + 1, b.seq)
        reads = Transaction(reads={a.id: Since(end + 5)}, writes=(draft("c"),))
        for transaction in (reads, Transaction(reads={"**": Since(end + 5)}), Transaction(reads=reads.reads)):
            await refused(at.store.transact(at.board, "alice", transaction, config=CONFIG), end + 5, b.seq)
        assert await at.seq() == b.seq
        for place in (0, 1, end, b.seq - 2, b.seq - 1, b.seq):
            assert await at.store.end_of_log(at.board, place) == b.seq
        assert await at.store.end_of_log("elsewhere") == await at.store.end_of_log("elsewhere", 0) == 0
        await refused(at.store.end_of_log("elsewhere", 1), 1, 0)

    async def test_each_time_a_board_is_put_back_other_numbers_follow(self, at: Table) -> None:
        await at.post("alice", "a")
        ends = []
        for n in range(3):
            ends.append(await at.seq())
            await at.store.mark_copies()
            await at.store.mark_copies()
            await at.post("alice", f"{n}")
        last = await at.seq()
        restored = [e for e in await at.events() if e.event == "board.restored"]
        assert [e.data["after"] for e in restored] == ends
        for event, end in zip(restored, ends, strict=True):
            await refused(at.store.end_of_log(at.board, end + 3), end + 3, last, end)
            assert event.seq > end + FAR

    async def test_readers_go_on_over_the_numbers_that_were_left_out(self, at: Table) -> None:
        await at.post("alice", "a")
        held = await at.store.subscribe(at.board, "bob", "mine", {})
        await at.store.create_group(at.board, "alice", "g", {"type": "FACT"})
        end = await at.seq()
        await at.store.record_activity(at.board, {}, {}, {"bob": Look(end)})
        await at.store.mark_copies()
        posted = [await at.post("alice", f"{n}", "FACT") for n in range(3)]
        seqs = [item.seq for item in posted]
        stretches = await at.store.stretches({at.board: end}, 100)
        assert [e.seq for e in stretches[at.board].events] == [seqs[0] - 1, *seqs]
        between = await at.store.stretches({at.board: end + FAR}, 2)
        assert [e.seq for e in between[at.board].events] == [seqs[0] - 1, seqs[0]]
        news = await at.store.log(at.board, "bob", end, 2)
        assert ([e.seq for e in news.events], news.cursor, news.more) == (
            [seqs[0] - 1, seqs[0]],
            seqs[0],
            True,
        )
        assert [seq for seq, _ in news.attention.fresh] == [seqs[0] - 1, *seqs], (
            "that it was restored is news"
        )
        shown = await at.store.log(at.board, "bob", end, 2, look=Look(seqs[0]))
        assert [seq for seq, _ in shown.attention.fresh] == seqs[1:]
        assert await at.store.move_cursor(at.board, "bob", held.id, seqs[1], since=held.cursor)
        taken = await at.store.consume(at.board, "bob", "g", Turn(limit=10))
        assert [d.event.seq for d in taken.deliveries] == seqs

    async def test_what_is_fresh_is_told_by_its_time_over_the_numbers_left_out(
        self, at: Table, clock: HandClock
    ) -> None:
        await at.configure(fresh_seconds=60)
        for n in range(5):
            old = await at.post("alice", f"old {n}")
        clock.advance(50)
        late = await at.post("alice", "late")
        await at.store.mark_copies()
        clock.advance(30)
        new = await at.post("alice", "new")
        assert old.updated_at + timedelta(seconds=60) < clock.now()
        fresh: dict[int, bool] = {}

        def look(space: Workspace) -> Plan:
            fresh.update({candidate.number: candidate.fresh for candidate in space.candidates})
            return Plan()

        await at.prune(look, apply=False)
        assert [fresh[item.number] for item in (old, late, new)] == [False, True, True]
