"""A watcher whose process is gone: what the one that stays hears of it, without anybody asking."""

from __future__ import annotations

import json
from pathlib import Path

from blackboard_mcp.server.demo.process import stdio_clients
from blackboard_mcp.server.demo.replay import call

LAW = json.dumps({"watch_lease_seconds": 1, "debate_expiry_seconds": 5})


async def test_a_critic_who_left_is_let_go_and_only_the_boards_law_ends_its_debate(tmp_path: Path) -> None:
    connect = stdio_clients(tmp_path / "data", "--board-settings", LAW)
    async with connect("alice") as alice:
        await call(alice, "post", text="The pump holds 9 bar.")
        async with connect("bob") as bob:
            await call(bob, "post", text="It burst.", type="CRITIQUE", edges={"critiques": ["F-1"]})
            posted = await call(
                alice, "post", text="It did not.", type="REPLY", edges={"replies_to": ["C-2"]}
            )
        # Bob's process has ended; nobody but the clock does anything from here on.
        events, place = [], posted["seq"]
        while not any(e["event"] == "debate.closed" for e in events):
            news = await call(alice, "wait", since=place, seconds=25)
            assert news["events"], "nothing lapsed within 25 seconds"
            events += news["events"]
            place = news["cursor"]
        assert events[0]["item"] == "C-2", "which she was not shown yet"
        first = next(e for e in events if e["seq"] > posted["seq"])
        assert (first["event"], first["agent"], first["data"]) == (
            "obligation.waived",
            "system",
            {"watcher": "bob", "duty": "acknowledge", "reason": "lease ended"},
        )
        closed = next(e for e in events if e["event"] == "debate.closed")
        assert (closed["agent"], closed["data"]["state"]) == ("system", "EXPIRED")
        status = await call(alice, "debate", op="status", id="F-1")
        assert {(o["agent"], o["duty"], o["reason"]) for o in status["obligations"]} == {
            ("bob", "acknowledge", "lease ended"),
            ("alice", "respond", "answered"),
        }
