"""Tests of entries: versions without gaps, expected versions, old versions, and the core."""

from __future__ import annotations

import asyncio

import pytest
from blackboard_mcp.protocols.board import BoardChange, Core
from blackboard_mcp.protocols.errors import Conflict, InvalidInput, UnknownReference
from blackboard_mcp.protocols.items import Status, Visibility, Zone, content_hash

from ..harness import CONFIG, HandClock, Table


class VersionTests:
    async def test_posting_to_a_key_again_adds_a_version_to_the_same_item(
        self, at: Table, clock: HandClock
    ) -> None:
        made = clock.now()
        for version in range(1, 6):
            item = await at.post(f"agent-{version}", f"text {version}", key="plan:a")
            assert (item.number, item.version, item.author) == (1, version, "agent-1")
            assert (item.created_at, item.updated_at) == (made, clock.now())
            clock.advance()
        assert (await at.standing()).working_items == 1

    async def test_old_versions_stay_readable_byte_for_byte(self, at: Table, clock: HandClock) -> None:
        for version in range(1, 5):
            await at.post(
                "alice",
                f"text {version}",
                key="k",
                tags=[f"t{version}"],
                metadata={"v": version},
                tokens=version,
            )
            clock.advance()
        await at.prune()
        for version in range(1, 5):
            item = await at.item(1, version=version)
            assert (item.version, item.text, item.tokens) == (version, f"text {version}", version)
            assert (item.tags, item.metadata) == ((f"t{version}",), {"v": version})
            assert item.sha256 == content_hash(item.text)
        assert (await at.item(1)).version == 4

    async def test_F14_the_list_of_versions_says_who_wrote_and_who_changed_each(
        self, at: Table, clock: HandClock
    ) -> None:
        made = clock.now()
        a = await at.post("alice", "one", key="k", tags=["t"])
        clock.advance()
        await at.change("bob", a, importance=5)
        changed = clock.now()
        clock.advance()
        await at.post("carol", "two", key="k")
        clock.advance()
        await at.delete("dave", "k")
        for of in (1, "k"):
            listed = await at.store.versions(at.board, "eve", of)
            assert listed is not None
            assert (listed.number, listed.id, listed.key, listed.newest) == (1, "F-1", "k", 3)
            assert listed.next is None
            gone, two, one = listed.versions
            assert (one.version, one.created_by, one.created_at) == (1, "alice", made)
            assert (one.updated_by, one.updated_at, one.tags) == ("bob", changed, ("t",))
            assert (two.created_by, two.updated_by, two.sha256) == ("carol", "carol", content_hash("two"))
            assert (one.status, two.status) == (Status.ACTIVE, Status.ACTIVE)
            assert (gone.version, gone.deleted, gone.created_by, gone.created_at) == (
                3,
                True,
                "dave",
                clock.now(),
            )
        assert await at.store.versions(at.board, "eve", 2) is None
        assert await at.store.versions(at.board, "eve", "other") is None

    async def test_I22_a_list_of_versions_goes_on_where_it_ended(self, at: Table) -> None:
        for n in range(12):
            await at.post("alice", f"text {n}", key="k")
        seen: list[int] = []
        upto: int | None = None
        while True:
            listed = await at.store.versions(at.board, "bob", 1, upto=upto, limit=5)
            assert listed is not None
            seen += [v.version for v in listed.versions]
            upto = listed.next
            if upto is None:
                break
        assert seen == list(range(12, 0, -1))

    async def test_a_version_that_was_never_is_missing(self, at: Table) -> None:
        await at.post("alice", "a", key="k")
        for version in (0, 2, 999):
            with pytest.raises(AssertionError):
                await at.item(1, version=version)

    async def test_expected_version_zero_makes_and_never_overwrites(self, at: Table) -> None:
        assert (await at.post("alice", "a", key="k", expected=0)).version == 1
        before = await at.standing()
        with pytest.raises(Conflict) as told:
            await at.post("bob", "b", key="k", expected=0)
        assert told.value.facts["current_version"] == 1
        assert await at.standing() == before

    async def test_no_expected_version_writes_on_top_of_whatever_is_there(self, at: Table) -> None:
        assert (await at.post("alice", "a", key="k")).version == 1
        assert (await at.post("bob", "b", key="k")).version == 2

    async def test_stale_write_returns_the_current_version(self, at: Table) -> None:
        for text in "abc":
            await at.post("alice", text, key="k")
        before = await at.standing()
        for stale in (1, 2, 4):
            with pytest.raises(Conflict) as told:
                await at.post("bob", "d", key="k", expected=stale)
            assert told.value.facts["current_version"] == 3
        assert await at.standing() == before
        assert (await at.post("bob", "d", key="k", expected=3)).version == 4

    async def test_expected_version_of_a_key_that_is_not_there_is_a_conflict(self, at: Table) -> None:
        await at.post("alice", "a")
        with pytest.raises(Conflict) as told:
            await at.post("alice", "b", key="k", expected=1)
        assert told.value.facts["current_version"] == 0

    async def test_expected_version_holds_for_changes_by_id(self, at: Table) -> None:
        a = await at.post("alice", "a", key="k")
        await at.post("alice", "b", key="k")
        with pytest.raises(Conflict):
            await at.change("alice", a, importance=1, expected=1)
        assert (await at.change("alice", a, importance=1, expected=2)).importance == 1

    async def test_of_writers_that_expect_the_same_version_one_wins(self, at: Table) -> None:
        await at.post("alice", "start", key="k")
        told: list[int] = []

        async def attempt(agent: str) -> bool:
            try:
                await at.post(agent, agent, key="k", expected=1)
            except Conflict as conflict:
                told.append(conflict.facts["current_version"])
                return False
            return True

        assert sum(await asyncio.gather(*(attempt(f"agent-{n}") for n in range(8)))) == 1
        assert told == [2] * 7
        assert (await at.item(1)).version == 2

    async def test_a_new_version_brings_an_archived_entry_back(self, at: Table) -> None:
        a = await at.post("alice", "one two three", key="k")
        await at.change("alice", a, status="RESOLVED")
        await at.gone(a)
        again = await at.post("bob", "one", key="k")
        assert (again.zone, again.version, again.status) == (Zone.WORKING, 2, Status.ACTIVE)
        board = await at.standing()
        assert (board.working_items, board.working_tokens, board.archived_items) == (1, 1, 0)

    async def test_type_and_key_of_an_entry_never_change(self, at: Table) -> None:
        a = await at.post("alice", "a", "PLAN", key="k")
        before = await at.standing()
        with pytest.raises(InvalidInput):
            await at.post("alice", "b", "LOG", key="k")
        with pytest.raises(InvalidInput):
            await at.change("alice", a, text="b", key="other")
        assert await at.standing() == before

    async def test_private_and_shared_entries_of_one_key_are_two(self, at: Table) -> None:
        shared = await at.post("alice", "shared", key="k")
        alices = await at.post("alice", "alice's", key="k", private=True)
        bobs = await at.post("bob", "bob's", key="k", private=True)
        assert len({shared.number, alices.number, bobs.number}) == 3
        for agent, text in (("alice", "alice's"), ("bob", "bob's"), ("carol", "shared")):
            found = await at.store.read(at.board, agent, [], ["k"])
            assert [i.text for i in found.items] == [text]
        again = await at.post("bob", "more", key="k", private=True)
        assert (again.number, again.version, again.visibility) == (bobs.number, 2, Visibility.PRIVATE)

    async def test_a_batch_may_write_a_key_twice(self, at: Table) -> None:
        a = await at.post("alice", "a", key="k")
        assert (await at.change("alice", a, text="b", expected=1)).version == 2

    # The core

    async def test_the_core_moves_by_compare_and_set_only(self, at: Table) -> None:
        made = await at.store.ensure_board(at.board, "alice", CONFIG)
        assert made.core == Core()
        core = Core("win", ("never lose", "never lose "), {"live": True}, version=77)
        assert (await at.store.set_core(at.board, "alice", core, expected_version=0)).version == 1
        before = await at.standing()
        assert before.core == Core("win", ("never lose", "never lose "), {"live": True}, version=1)
        for stale in (0, 2):
            with pytest.raises(Conflict) as told:
                await at.store.set_core(at.board, "bob", core, expected_version=stale)
            assert told.value.facts["current_version"] == 1
        assert await at.standing() == before

    async def test_of_writers_of_the_core_one_wins(self, at: Table) -> None:
        await at.store.ensure_board(at.board, "alice", CONFIG)

        async def attempt(agent: str) -> bool:
            try:
                await at.store.set_core(at.board, agent, Core(agent), expected_version=0)
            except Conflict:
                return False
            return True

        assert sum(await asyncio.gather(*(attempt(f"agent-{n}") for n in range(8)))) == 1
        assert (await at.standing()).core.version == 1

    async def test_passes_leave_the_core_alone(self, at: Table) -> None:
        await at.store.ensure_board(at.board, "alice", CONFIG)
        core = await at.store.set_core(at.board, "alice", Core("win", ("a rule",)), expected_version=0)
        await at.post("alice", "a")
        await at.prune()
        assert (await at.standing()).core == core

    async def test_a_board_is_made_once(self, at: Table) -> None:
        makers = (at.store.ensure_board(at.board, f"agent-{n}", CONFIG) for n in range(6))
        made, _ = await asyncio.gather(asyncio.gather(*makers), at.post("alice", "a"))
        assert {board.id for board in made} == {at.board}
        assert [str(e.event) for e in await at.events()].count("board.created") == 1

    async def test_what_asks_for_a_board_that_is_not_there_is_told_so(self, at: Table) -> None:
        store, board = at.store, "nowhere"
        assert await store.find_board(board) is None
        for asked in (
            store.read(board, "alice", [], []),
            store.log(board, "alice", 0, 10),
            store.snapshot(board, "alice"),
            store.statistics(board, "alice"),
            store.restore(board, "alice", [1]),
            store.subscribe(board, "alice", "", {}),
            store.set_core(board, "alice", Core(), expected_version=0),
            store.change_board(board, "alice", BoardChange(title="x")),
            store.debate_open(board, "alice", 1, []),
        ):
            with pytest.raises(UnknownReference):
                await asked
        assert await store.boards() == []
