"""Panels against real servers: what ended is told once each, in order, by servers that are killed in between."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

from blackboard_mcp.server.demo.process import Connect, http_clients, http_server
from mcp.client import Client
from patience import PATIENCE

LEGACY, MODERN = "legacy", "2026-07-28"
CONFIG = """
[board_settings]
panels = ["semantic", "episodic", {name = "notes", about = "what is worth a note"}]
"""
DEBATES = 8


async def do(client: Client, tool: str, **arguments: Any) -> Any:
    """A call's answer as data; an error fails the test."""
    answer = await client.call_tool(tool, arguments, meta={"blackboard/structured": True})
    assert not answer.is_error, answer.content
    return answer.structured_content or json.loads(getattr(answer.content[0], "text", "{}"))


async def debate(connect: Connect) -> list[str]:
    """Claims that two agents debated to their end, in the order of the ends."""
    ended = []
    async with connect("ana") as ana, connect("ben") as ben:
        for place in range(DEBATES):
            claim = (await do(ana, "post", text=f"Cause {place} it is.", type="HYPOTHESIS"))["items"][0]["id"]
            await do(ben, "post", text=f"Not {place}.", type="CRITIQUE", edges={"critiques": [claim]})
            await do(ana, "debate", op="concede", id=claim, reason=f"reason {place}")
            ended.append(claim)
    return ended


async def told(client: Client) -> list[Any]:
    """The episodes, oldest first."""
    found = await do(client, "query", tags=["panel:episodic"], zone="all", limit=200)
    return list(reversed(found["items"]))


async def test_ends_are_told_once_each_by_servers_that_are_killed(tmp_path: Path) -> None:
    config, data = tmp_path / "panels.toml", tmp_path / "data"
    config.write_text(CONFIG)
    words = ("--config", str(config), "--stewards", "ada")
    async with http_server(data, *words) as first, http_server(data, *words) as second:
        early = await debate(http_clients(first.url, mode=LEGACY))
        for served in (first, second):
            os.kill(served.pid, signal.SIGKILL)
    async with (
        http_server(data, *words) as third,
        http_server(data, *words) as fourth,
        http_clients(third.url)("cleo") as cleo,
    ):
        ended = early + await debate(http_clients(fourth.url, mode=MODERN))
        following = (await do(cleo, "subscribe", filter={"tags": ["panel:episodic"]}))["subscription"]
        async with asyncio.timeout(PATIENCE):
            while len(episodes := await told(cleo)) < len(ended):
                await do(cleo, "wait", subscription=following, seconds=1)
        assert [item["text"].split(":")[0] for item in episodes] == [f"debate on {claim}" for claim in ended]
        places = [item["metadata"]["seq"] for item in episodes]
        assert places == sorted(set(places))
        assert all("reason" in item["text"] and item["author"] == "system" for item in episodes)
        answer = await cleo.call_tool("post", {"text": "It ended.", "tags": ["panel:episodic"]})
        assert answer.is_error
        answer = await cleo.call_tool("post", {"text": "It is so.", "tags": ["panel:semantic"]})
        assert answer.is_error
        await do(cleo, "post", text="Worth it.", tags=["panel:notes"])
        listed = json.loads((await cleo.read_resource("board://main/panels.json")).contents[0].text)["panels"]
        assert [one["name"] for one in listed] == ["semantic", "episodic", "notes"]
        assert listed[1]["version"] >= episodes[-1]["metadata"]["seq"]
