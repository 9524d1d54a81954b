"""Who was there and what was read: counted without a write on a caller's path, added up over processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from blackboard_mcp.protocols.filters import ItemQuery
from blackboard_mcp.protocols.pruning import Plan, Workspace
from blackboard_mcp.protocols.sightings import Way
from blackboard_mcp.server import compose
from blackboard_mcp.server.input.posts import PostFields
from blackboard_mcp.server.settings.server import Settings
from blackboard_mcp.server.usecases import activity as activity_module
from blackboard_mcp.storage.testing.harness import HandClock
from patience import PATIENCE


@asynccontextmanager
async def opened(
    folder: Path, clock: HandClock, *, background: bool = False
) -> AsyncIterator[compose.Installation]:
    settings = Settings(data=folder, synchronous="NORMAL")
    async with compose.installation(
        settings, eager_index=False, clock=clock, background=background
    ) as installation:
        yield installation


async def reads(installation: compose.Installation) -> dict[int, int]:
    seen: dict[int, int] = {}

    def look(space: Workspace) -> Plan:
        seen.update({c.number: c.reads for c in space.candidates})
        return Plan()

    await installation.store.prune("main", look, apply=False)
    return seen


async def test_reads_by_id_key_and_query_are_counted_and_writes_and_views_are_not(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as one:
        board = one.blackboard
        await board.post("alice", None, [PostFields(text="a"), PostFields(text="b", key="k")])
        await board.view("bob", None)
        await board.read("bob", None, ["F-1"], ["k"])
        await board.read("bob", None, ["F-1", "F-9"], [])
        await board.query("bob", None, ItemQuery())
        assert await reads(one) == {1: 0, 2: 0}, "nothing is written while somebody waits for an answer"
        await one.activity.flush()
        assert await reads(one) == {1: 3, 2: 2}
        await one.activity.flush()
        assert await reads(one) == {1: 3, 2: 2}, "each read counts once"


async def test_an_agent_that_only_reads_is_seen(tmp_path: Path) -> None:
    clock = HandClock()
    async with opened(tmp_path, clock) as one:
        await one.blackboard.post("alice", None, [PostFields(text="a")])
        clock.advance(60)
        await one.blackboard.view("alice", None)
        await one.blackboard.view("bob", None)
        await one.activity.flush()
        assert [(a.name, a.last_seen) for a in await one.store.agents("main")] == [("alice", clock.now())]


async def test_two_processes_add_up_in_the_background_and_at_the_close(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activity_module, "FLUSH_SECONDS", 0.0)
    clock = HandClock()
    async with opened(tmp_path, clock) as watching:
        async with opened(tmp_path, clock, background=True) as one, opened(tmp_path, clock) as two:
            await one.blackboard.post("alice", None, [PostFields(text="a")])
            await two.blackboard.read("bob", None, ["F-1"], [])
            await two.activity.flush()
            await one.blackboard.read("bob", None, ["F-1"], [])
            async with asyncio.timeout(PATIENCE):
                change = watching.store.changes()
                while await reads(watching) != {1: 2}:
                    change = await watching.store.wait_for_change(change, 5)
            monkeypatch.setattr(activity_module, "FLUSH_SECONDS", 3600.0)
            await one.blackboard.read("bob", None, ["F-1"], [])
        assert await reads(watching) == {1: 3}


async def test_what_is_noted_between_two_writes_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activity_module, "MAX_NOTED", 3)
    clock = HandClock()
    async with opened(tmp_path, clock) as one:
        await one.blackboard.post("alice", None, [PostFields(text=str(n)) for n in range(5)])
        await one.activity.flush()
        one.activity.read("main", range(1, 6))
        one.activity.read("main", range(1, 6))
        await one.activity.flush()
        assert await reads(one) == {1: 2, 2: 2, 3: 2, 4: 0, 5: 0}
        one.activity.read("main", [5])
        await one.activity.flush()
        assert (await reads(one))[5] == 1


async def test_a_board_that_is_gone_or_a_closed_store_loses_a_hint_and_nothing_else(tmp_path: Path) -> None:
    async with opened(tmp_path, HandClock()) as one:
        one.activity.read("nowhere", [1])
        one.activity.seen("nowhere", "alice")
        await one.activity.flush()
        assert await one.store.boards() == []
        one.activity.seen("main", "alice")
        await one.store.close()
        await one.activity.flush()


async def test_sightings_are_written_in_parts_and_beyond_a_bound_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activity_module, "MAX_SIGHTED", 7)
    monkeypatch.setattr(activity_module, "_WRITTEN_AT_ONCE", 2)
    clock = HandClock()
    async with opened(tmp_path, clock) as one:
        await one.blackboard.post("alice", None, [PostFields(text=f"{n}") for n in range(8)])
        await one.blackboard.post("bob", None, [PostFields(text="here")])
        await one.activity.flush()

        async def seen() -> dict[int, list[str]]:
            told = await one.store.readers("main", "alice", range(1, 9))
            return {n: [f"{s.first_way} {s.last_way}" for s in of.seen] for n, of in told.items() if of.seen}

        one.activity.sighted("main", "bob", range(1, 6), Way.VIEW)
        one.activity.sighted("main", "bob", [1], Way.READ)
        one.activity.sighted("main", "bob", [7, 8], Way.QUERY)
        assert await seen() == {}, "nothing is written while somebody waits for an answer"
        assert [s.last_way for s in one.activity.sightings("main", [1, 8])] == ["read"]
        await one.activity.flush()
        assert await seen() == {1: ["view read"], **{n: ["view view"] for n in range(2, 6)}}
        one.activity.sighted("main", "bob", [8], Way.QUERY)
        await one.activity.flush()
        assert (await seen())[8] == ["query query"]
