"""Readers of both generations follow a board while its servers are killed, and while no hint reaches them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from blackboard_mcp.server.demo.process import Serving, http_clients, http_server
from blackboard_mcp.server.demo.replay import ToolFailed, call, events
from blackboard_mcp.server.settings.server import Settings
from mcp.client import Client
from patience import PATIENCE

MODERN, LEGACY = "2026-07-28", "legacy"
FILTER = {"event": "item.posted", "not": {"agent": "me"}}
ROUNDS = 2
"""Servers that are killed; one more is left to go."""
POSTS = 12


@dataclass
class Reader:
    """An agent with a durable subscription; `confirms` as a program does, else the board keeps its place."""

    agent: str
    mode: str
    confirms: bool
    place: int | None = None
    """The last sequence that this reader has worked on, as a program writes it down."""
    got: list[int] = field(default_factory=list)

    async def begin(self, url: str) -> None:
        async with http_clients(url, mode=self.mode)(self.agent) as client:
            held = await call(client, "subscribe", filter=FILTER, name="news")
            self.place = held["cursor"] if self.confirms else None

    async def read(self, client: Client, seconds: float = 0) -> int:
        since = {} if self.place is None else {"since": self.place}
        news = await call(client, "wait", subscription="news", seconds=seconds, limit=5, **since)
        new = [event["seq"] for event in news["events"]]
        if self.confirms:
            new = [seq for seq in new if seq not in self.got]
            self.place = news["cursor"]
        self.got += new
        return len(news["events"])


READERS = [
    ("ana", LEGACY, False),
    ("bo", MODERN, False),
    ("cleo", LEGACY, True),
    ("dan", MODERN, True),
]


async def post(url: str, texts: list[str]) -> None:
    async with http_clients(url)("writer") as writer:
        for n, text in enumerate(texts):
            hidden = {"visibility": "private"} if n % 4 == 3 else {}
            await call(writer, "post", text=text, **hidden)


async def expected(url: str, began: int) -> list[int]:
    """What a reader other than the writer must have got."""
    async with http_clients(url)("somebody") as client:
        log = await events(client, "main")
    return [e["seq"] for e in log if e["seq"] > began and e["event"] == "item.posted"]


@asynccontextmanager
async def killed_at_the_end(data: Path) -> AsyncIterator[Serving]:
    """A server that is killed, not asked to go."""
    async with http_server(data) as server:
        yield server
        os.kill(server.pid, signal.SIGKILL)


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL")
async def test_I20_every_reader_gets_each_event_once_in_order_though_servers_are_killed_between_calls(
    tmp_path: Path,
) -> None:
    readers = [Reader(*who) for who in READERS]
    began = 0
    for round_ in range(ROUNDS):
        async with killed_at_the_end(tmp_path) as server:
            if round_ == 0:
                await post(server.url, ["start"])
                for reader in readers:
                    await reader.begin(server.url)
                began = await events_end(server.url)
            for turn in range(2):
                await post(server.url, [f"{round_} {turn} {n}" for n in range(POSTS // 2)])
                await asyncio.gather(*(one_call(reader, server.url) for reader in readers))
    async with http_server(tmp_path) as server:
        for reader in readers:
            async with http_clients(server.url, mode=reader.mode)(reader.agent) as client:
                while await reader.read(client):
                    pass
            assert reader.got == await expected(server.url, began), reader.agent


async def events_end(url: str) -> int:
    async with http_clients(url)("somebody") as client:
        return int((await call(client, "wait", seconds=0))["seq"])


async def one_call(reader: Reader, url: str) -> None:
    async with http_clients(url, mode=reader.mode)(reader.agent) as client:
        await reader.read(client)


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL")
async def test_I20_a_reader_that_confirms_loses_nothing_though_servers_are_killed_in_the_midst_of_its_calls(
    tmp_path: Path,
) -> None:
    readers = [Reader("cleo", LEGACY, True), Reader("dan", MODERN, True)]
    began = 0
    for round_ in range(ROUNDS):
        async with killed_at_the_end(tmp_path) as server:
            if round_ == 0:
                await post(server.url, ["start"])
                for reader in readers:
                    await reader.begin(server.url)
                began = await events_end(server.url)

            async def follow(reader: Reader, url: str) -> None:
                async with http_clients(url, mode=reader.mode)(reader.agent) as client:
                    while True:
                        await reader.read(client, seconds=20)

            following = [asyncio.create_task(follow(reader, server.url)) for reader in readers]
            await post(server.url, [f"{round_} {n}" for n in range(POSTS)])
        ended = await asyncio.wait_for(asyncio.gather(*following, return_exceptions=True), PATIENCE)
        assert all(isinstance(end, Exception) for end in ended), "their server is dead"
    async with http_server(tmp_path) as server:
        for reader in readers:
            async with http_clients(server.url, mode=reader.mode)(reader.agent) as client:
                while await reader.read(client):
                    pass
            assert reader.got == await expected(server.url, began), reader.agent


async def test_I21_readers_at_another_process_get_everything_though_every_hint_is_lost(
    tmp_path: Path,
) -> None:
    # A file where the folder of the peers belongs: no process ever hears a datagram. And no client listens
    # to a notification.
    database = Settings(data=tmp_path).database
    peers = database.with_name(database.name + ".peers")
    peers.write_text("in the way")
    async with http_server(tmp_path) as writing, http_server(tmp_path) as reading:
        await post(writing.url, ["start"])
        readers = [Reader(*who) for who in READERS]
        for reader in readers:
            await reader.begin(reading.url)
        began = await events_end(writing.url)

        async def follow(reader: Reader) -> None:
            async with http_clients(reading.url, mode=reader.mode)(reader.agent) as client:
                while len(reader.got) < POSTS - POSTS // 4:
                    await reader.read(client, seconds=20)

        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            for reader in readers:
                group.create_task(follow(reader))
            group.create_task(post(writing.url, [f"news {n}" for n in range(POSTS)]))
        wanted = await expected(writing.url, began)
    assert [reader.got for reader in readers] == [wanted] * len(readers)
    assert database.is_file()
    assert peers.is_file(), "no server could register"


@dataclass
class Hand:
    """A worker of a group, which does what it takes and remembers what was acknowledged."""

    agent: str
    mode: str
    done: list[int] = field(default_factory=list)

    async def work(self, url: str, dead: asyncio.Event) -> None:
        """Works until there is nothing more, or the server is dead."""
        holds: list[str] = []
        async with http_clients(url, mode=self.mode)(self.agent) as client:
            while not dead.is_set():
                limit = {"limit": 2, "lease_seconds": 2, "seconds": 1}
                try:
                    answer = await call(client, "consume", group="crew", ack=holds, **limit)
                except ToolFailed as failed:
                    if failed.facts.get("error") != "conflict":
                        raise
                    holds = []  # its lease had ended: another does it
                    continue
                self.done += [int(handle.split(".")[0]) for handle in holds]
                holds = [delivery["handle"] for delivery in answer["deliveries"]]
                if not holds and not answer["in_flight"] and not answer["waiting"]:
                    return


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL")
async def test_workers_of_both_generations_do_each_event_once_though_their_server_is_killed(
    tmp_path: Path,
) -> None:
    hands = [Hand("ana", LEGACY), Hand("bo", MODERN), Hand("cleo", LEGACY)]
    tools = ("--tools", "core,messages")
    async with http_server(tmp_path, *tools) as server:
        async with http_clients(server.url)("writer") as writer:
            await call(writer, "post", text="start")
            await call(
                writer, "consume", group="crew", filter={"type": "PLAN", "event": "item.posted"}, limit=0
            )
            posts = [{"text": f"job {n}", "type": "PLAN"} for n in range(40)]
            jobs = [item["id"] for item in (await call(writer, "post", items=posts))["items"]]
        dead = asyncio.Event()
        working = [asyncio.create_task(hand.work(server.url, dead)) for hand in hands]
        async with asyncio.timeout(PATIENCE):
            while sum(len(hand.done) for hand in hands) < 10:
                await asyncio.wait(working, timeout=0.05)
        os.kill(server.pid, signal.SIGKILL)
        dead.set()
        await asyncio.wait_for(asyncio.gather(*working, return_exceptions=True), PATIENCE)
    async with http_server(tmp_path, *tools) as server:
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*(hand.work(server.url, asyncio.Event()) for hand in hands))
        async with http_clients(server.url)("writer") as writer:
            (state,) = (await call(writer, "consume"))["groups"]
            log = await events(writer, "main")
    assert (state["backlog"], state["in_flight"], state["waiting"], state["dead"]) == (0, 0, 0, 0)
    done = [seq for hand in hands for seq in hand.done]
    assert len(done) == len(set(done)), "each was acknowledged once"
    of_item = {event["seq"]: event["item"] for event in log}
    missing = set(jobs) - {of_item[seq] for seq in done}
    assert len(missing) <= 2 * len(hands), "what was acknowledged as the server died"
