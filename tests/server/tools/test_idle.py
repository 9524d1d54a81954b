"""Calls of idle agents last until there is something for them, or 25 seconds unless the call says otherwise."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import boards
import pytest
from blackboard_mcp.server.tools import consume, core, messages, plan, run

SHORT = 2.0
"""Seconds in place of the 25 that a call lasts."""
WAITING = (core, plan, run, consume, messages)


def test_a_call_that_waits_lasts_25_seconds_if_it_does_not_say_otherwise() -> None:
    assert [module.WAIT_SECONDS for module in WAITING] == [25.0] * len(WAITING)


@pytest.mark.parametrize(
    ("tool", "asked", "empty"),
    [
        ("wait", {}, "no news"),
        ("turn", {}, "bob's turn"),
        ("claim", {}, "nothing ready for you"),
        ("consume", {"group": "jobs", "filter": {"type": "PROBLEM"}}, "nothing to do"),
    ],
)
async def test_an_idle_call_lasts_its_time_whatever_others_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str, asked: dict[str, Any], empty: str
) -> None:
    for module in WAITING:
        monkeypatch.setattr(module, "WAIT_SECONDS", SHORT)
    sets = ("core", "run", "plan", "messages")
    async with boards.open_boards(tmp_path, boards.MODERN, tools=sets) as board:
        bob, ann = await board.join("bob", "ann")
        await bob.say("join", role="works")
        await ann.say("join", role="waits")
        await bob.say(
            "turn",
            start={"problem": "p", "agents": ["bob", "ann"], "strategy": "round-robin", "max_rounds": 9},
        )
        await bob.say("plan", items=[{"title": "The only task"}])
        lease = (await bob.do("claim"))["lease"]
        for _ in range(3):
            await ann.say("wait", seconds=0)
        began = time.monotonic()
        idle = asyncio.create_task(ann.say(tool, **asked))
        while not idle.done() and time.monotonic() < began + SHORT / 2:
            await bob.say("claim", op="extend", id="T-1", lease=lease)
            await asyncio.sleep(0.1)
        said = await idle
        assert time.monotonic() >= began + SHORT, said
        assert empty in said
