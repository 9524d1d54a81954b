"""A server that is told to stop lets everybody go who waits, with an answer, and is gone."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.server.demo.process import environment, http_clients
from blackboard_mcp.server.demo.replay import call, connected
from patience import PATIENCE, WOKEN

UNHURRIED = """
import asyncio
from blackboard_mcp.server.cli import main
from blackboard_mcp.server.http import run
from blackboard_mcp.server.mcp.server import BoardServer

run.GRACE_SECONDS = 300
close_streams = BoardServer.close_streams

async def slowly(self):
    await asyncio.sleep(2)
    await close_streams(self)

BoardServer.close_streams = slowly
main()
"""
"""A server that cuts nobody off when it stops, so that whoever is answered was let go; it stops as a busy one does."""
READY = "blackboard-mcp serves "
WAITING: dict[str, dict[str, Any]] = {
    "wait": {"seconds": 50},
    "consume": {"group": "g", "filter": {"tags": ["none"]}, "seconds": 50},
    "request": {"to": "zoe", "text": "Where are you?", "seconds": 50},
    "respond": {"skills": ["sql"], "seconds": 50},
}


@pytest.mark.usefixtures("hangups")
@pytest.mark.parametrize(
    ("mode", "told"),
    [("legacy", signal.SIGTERM), ("2026-07-28", signal.SIGTERM), ("2026-07-28", signal.SIGHUP)],
)
async def test_who_waits_is_answered_when_the_server_stops_and_nothing_is_cut_off(
    tmp_path: Path, mode: str, told: signal.Signals
) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", UNHURRIED, "serve", "--transport", "http", "--port", "0"),
        *("--data", str(tmp_path), "--tools", "all"),
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env=environment(),
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(PATIENCE):
            while not (line := (await process.stderr.readline()).decode()).startswith(READY):
                assert line, "the server did not start"
        url = line.strip().removeprefix(READY)
        async with connected(http_clients(url, mode=mode), (*WAITING, "watcher")) as clients:
            watcher = clients.pop("watcher")
            for client in clients.values():
                await client.list_tools()  # else it asks what they answer with when the server is gone
            calls = [asyncio.create_task(call(clients[tool], tool, **said)) for tool, said in WAITING.items()]
            async with asyncio.timeout(PATIENCE):  # until the three that say so on the board have begun
                begun: set[str] = set()
                seq = 0
                while not {"group.created", "request.opened", "skill.offered"} <= begun:
                    news = await call(
                        watcher, "wait", since=seq, seconds=0.2
                    )  # to its end: none of it is for it
                    begun |= {event["event"] for event in news["events"]}
                    seq = news["cursor"]
            process.send_signal(told)
            async with asyncio.timeout(WOKEN):
                answers = await asyncio.gather(*calls)
        assert await asyncio.wait_for(process.wait(), PATIENCE) == 0
        assert answers[0]["events"] is not None
        assert answers[1]["deliveries"] == []
        assert answers[2]["request"]["state"] == "OPEN"
        said = (await process.stderr.read()).decode()
        assert "ERROR" not in said
        assert "Traceback" not in said
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
