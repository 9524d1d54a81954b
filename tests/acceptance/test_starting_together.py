"""Eight servers that start at the same moment on an empty folder: one board, and everybody's posts on it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import template
from blackboard_mcp.server.demo.process import stdio_clients
from blackboard_mcp.server.demo.replay import call, events

AGENTS = tuple(f"agent-{n}" for n in range(8))
POSTS = 6


async def test_eight_servers_starting_at_once_on_an_empty_folder_share_one_board(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(template.REAL, "1")
    connect = stdio_clients(tmp_path / "new" / "folder")
    there = asyncio.Barrier(len(AGENTS))

    async def life(agent: str) -> list[str]:
        """Posts at once, as the first of all as far as it knows, then meets the others and reads them all."""
        async with connect(agent) as client:
            ids = []
            for n in range(POSTS):
                answer = await call(client, "post", text=f"{agent} says {n}", type="LOG", key=f"{agent}:{n}")
                ids.append(answer["items"][0]["id"])
            counter = await call(client, "post", text=agent, key="shared:counter")
            assert 1 <= counter["items"][0]["version"] <= len(AGENTS)
            async with asyncio.timeout(90):
                await there.wait()
            entries = await call(client, "query", key="agent-*:*", limit=100, zone="all")
            assert len(entries["items"]) == len(AGENTS) * POSTS
            shared = await call(client, "read", keys=["shared:counter"])
            assert shared["items"][0]["version"] == len(AGENTS)
            log = await events(client, "main")
            assert [event["seq"] for event in log] == list(range(1, len(log) + 1))
            assert [event["event"] for event in log].count("board.created") == 1
            return ids

    lives = await asyncio.gather(*(life(agent) for agent in AGENTS))
    assert len({id_ for ids in lives for id_ in ids}) == len(AGENTS) * POSTS
