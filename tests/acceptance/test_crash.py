"""A server that is killed in the middle of a session loses nothing that it acknowledged."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.protocols.items import content_hash
from blackboard_mcp.server.demo.process import http_clients, http_server
from blackboard_mcp.server.demo.replay import ToolFailed, call, connected, events, read_items
from blackboard_mcp.server.demo.session import examples, load_session
from mcp.client import Client
from patience import PATIENCE
from profiles import NIGHTLY

AGENTS = ("ada", "ben", "cyd", "dov")
ROUNDS, POSTS_OF_EACH = (5, 120) if NIGHTLY else (3, 60)
BOARD = "main"
STEPS = [post.text[:600] for post in load_session(examples()["ai-regulation"]).posts]


@dataclass
class Worker:
    """One agent's posts in order, each with an idempotency key; `acknowledged` is its journal."""

    agent: str
    acknowledged: list[dict[str, Any]] = field(default_factory=list)
    repeated: int = 0

    def text(self, n: int) -> str:
        return f"{self.agent} {n}: {STEPS[n % len(STEPS)]}"

    async def work(self, client: Client, dead: asyncio.Event, tell: asyncio.Queue[int]) -> None:
        """Posts on from where its journal ends, until done or the server is dead."""
        while (n := len(self.acknowledged)) < POSTS_OF_EACH and not dead.is_set():
            edges = {"replies_to": [self.acknowledged[-1]["id"]]} if n % 3 == 1 else {}
            kind = "LOG" if n % 2 else "HYPOTHESIS"
            arguments = {"text": self.text(n), "type": kind, "edges": edges}
            answer = await call(client, "post", **arguments, idempotency_key=f"post-{n}", board=BOARD)
            self.repeated += answer["repeated"]
            self.acknowledged += answer["items"]
            tell.put_nowait(n)


async def killed_round(data: Path, workers: list[Worker], posts: int) -> None:
    """Serves the workers until `posts` more were acknowledged, then kills the server while they go on."""
    dead = asyncio.Event()
    tell: asyncio.Queue[int] = asyncio.Queue()
    async with http_server(data, "--target-tokens", "1500") as server:
        connect = http_clients(server.url)

        async def life(worker: Worker) -> None:
            try:
                async with connect(worker.agent) as client:
                    await worker.work(client, dead, tell)
            except ToolFailed:
                raise
            except Exception:
                if not dead.is_set():
                    raise

        lives = [asyncio.create_task(life(worker)) for worker in workers]
        async with asyncio.timeout(PATIENCE):
            for _ in range(posts):
                await tell.get()
        os.kill(server.pid, signal.SIGKILL)
        dead.set()
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*lives)


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL")
async def test_killing_the_server_mid_session_loses_no_acknowledged_post_and_doubles_none(
    tmp_path: Path,
) -> None:
    workers = [Worker(agent) for agent in AGENTS]
    for round_ in range(ROUNDS):
        await killed_round(tmp_path, workers, 40 + 17 * round_)
    assert not all(len(worker.acknowledged) == POSTS_OF_EACH for worker in workers)

    async with (
        http_server(tmp_path, "--target-tokens", "1500") as server,
        connected(http_clients(server.url), AGENTS) as clients,
    ):
        alive, tell = asyncio.Event(), asyncio.Queue[int]()
        await asyncio.gather(*(worker.work(clients[worker.agent], alive, tell) for worker in workers))
        print(f"{sum(worker.repeated for worker in workers)} posts had been committed and not acknowledged")

        observer = clients[AGENTS[0]]
        acknowledged = {item["id"]: item for worker in workers for item in worker.acknowledged}
        assert len(acknowledged) == len(AGENTS) * POSTS_OF_EACH, "an id was given twice"
        found = {item["id"]: item for item in await read_items(observer, BOARD, list(acknowledged))}
        for worker in workers:
            for n, item in enumerate(worker.acknowledged):
                kept = found[item["id"]]
                assert kept["text"] == worker.text(n)
                assert kept["sha256"] == content_hash(worker.text(n))
                assert (kept["author"], kept["edges"]) == (worker.agent, item["edges"])

        log = await events(observer, BOARD)
        assert [event["seq"] for event in log] == list(range(1, len(log) + 1))
        posted = [
            event["item"] for event in log if event["event"] == "item.posted" and event["agent"] != "system"
        ]
        assert sorted(posted) == sorted(acknowledged), "a post was applied twice, or one that nobody made"
        left = {event["item"] for event in log if event["event"] == "item.archived"}
        assert left, "no pass ran"
        assert {i for i, item in found.items() if item["zone"] == "archive"} == left & found.keys()
