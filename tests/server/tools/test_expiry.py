"""Times to live through clients: counted from the last write, ended, refused when they are none, and met."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import boards
import pytest
from blackboard_mcp.server import compose
from blackboard_mcp.server.pruning import pruner
from blackboard_mcp.server.settings.server import Settings
from mcp.client import Client
from patience import PATIENCE

board, mode, both = boards.board, boards.mode, boards.both


@both
async def test_f11_an_expired_item_is_archived_told_of_and_stays_readable(board: Any, mode: str) -> None:
    ada, ben = await board.join("ada", "ben")
    await ada.post("short", ttl_seconds=10)
    seq = await board.seq()
    board.clock.advance(10)
    assert (await ben.item("F-1"))["zone"] == "working", "it is there until it is moved"
    await board.opened.store.expire()
    (event,) = (await ben.do("read", since=seq))["events"]
    assert (event["event"], event["item"], event["agent"]) == ("item.expired", "F-1", "system")
    assert (await ben.item("F-1"))["zone"] == "archive"
    assert "time to live ended" in await ben.say("read", ids=["F-1"])


async def test_f11_a_time_to_live_is_moved_and_ended(board: Any) -> None:
    ada = await board.join("ada")
    await ada.do(
        "post",
        items=[
            {"text": "a", "ttl_seconds": 10},
            {"text": "b", "key": "k", "ttl_seconds": 10},
            {"text": "c", "ttl_seconds": 10},
        ],
    )
    board.clock.advance(5)
    await ada.post(id="F-1", ttl_seconds=0)
    await ada.post("b2", key="k")
    board.clock.advance(5)
    await board.opened.store.expire()
    assert [(await ada.item(id_))["zone"] for id_ in ("F-1", "F-2", "F-3")] == [
        "working",
        "working",
        "archive",
    ]
    await ada.post("b3", key="k", ttl_seconds=0)
    board.clock.advance(3_600)
    await board.opened.store.expire()
    assert [(await ada.item(id_))["zone"] for id_ in ("F-1", "F-2")] == ["working", "working"]


@pytest.mark.parametrize(
    ("ttl", "why"),
    [
        (-1, "ttl_seconds"),
        (-0.001, "ttl_seconds"),
        (1e12, "ttl_seconds"),
        ("5", "ttl_seconds"),
        (True, "ttl_seconds"),
        (0, "ttl_seconds=0 ends the time to live"),
    ],
)
async def test_what_is_no_time_to_live_is_refused_and_taught(board: Any, ttl: Any, why: str) -> None:
    ada = await board.join("ada")
    await ada.post("before")
    before = await board.seq()
    for given in (
        {"text": "x", "ttl_seconds": ttl},
        {"items": [{"text": "y"}, {"text": "x", "ttl_seconds": ttl}]},
    ):
        failure = await ada.fail("post", **given)
        assert failure["error"] == "invalid"
        assert why in failure["message"]
    assert await board.seq() == before


async def test_f11_an_item_leaves_within_moments_of_its_time_and_not_at_the_next_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruner, "_SWEEP_SECONDS", 300.0)
    settings = Settings(data=tmp_path, agent="alice", synchronous="NORMAL")
    async with (
        compose.installation(settings, eager_index=False) as opened,
        Client(compose.build_server(opened).sdk_server) as alice,
    ):
        for number, ttl in enumerate((0.6, 0.2, 60)):
            await alice.call_tool("post", {"text": f"{number}", "ttl_seconds": ttl})
        async with asyncio.timeout(PATIENCE):
            while True:
                seen = opened.store.changes()
                if [b.archived_items for b in await opened.store.boards()] == [2]:
                    break
                await opened.store.wait_for_change(seen, 5)
        events = (await opened.store.log("main", "alice", 0, 100)).events
        left = {e.item: e.at for e in events if e.event == "item.expired"}
        posted = {e.item: e.at for e in events if e.event == "item.posted"}
        lasted = {id_: (left[id_] - posted[id_]).total_seconds() for id_ in left}
        assert lasted["F-2"] >= 0.2
        assert lasted["F-1"] >= 0.6
