"""Measures a burst of events to many durable subscriptions: completeness of delivery, speed and memory.

    python benchmarks/fan_out.py [--agents 20] [--each 50] [--events 10000] [--stalled 20]

One server over HTTP; half of the events are posted through it and half by a second process on the same
file, in batches of 50, one in ten of them private. Every agent holds `each` subscriptions, no two alike,
and waits on all of them at once: on a few through a client of the SDK, one half of the agents in each
protocol generation, on the others over a kept-alive connection each. Half of the subscriptions let `wait`
move the cursor, half name their place. `stalled` readers open event streams of everything and never read
a byte. What each got is held against the log in the file.

Posting is timed three times: a fifth of the events with nobody there, a fifth with as many calls waiting for
something that does not come, and all with the subscriptions; on a machine of few cores the last shares them
with the readers.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import socket
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
from blackboard_mcp.protocols.filters import parse_event_filter
from blackboard_mcp.server.demo.process import Serving, command, environment, http_server
from blackboard_mcp.storage.store import SqlBoardStore
from http_posts import META, VERSION, answer, cpu_seconds
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

BATCH = 50
PAGE = 200
ROOM = "10000000"
"""The target tokens of the boards: so many that no pruning pass adds events."""
THROUGH_SDK = 5
"""The number of each agent's subscriptions that wait through a client of the SDK."""
ASKED: dict[str, Any] = {"blackboard/structured": True}


@dataclass(slots=True)
class Held:
    """One subscription, and the events that it delivered."""

    id: str
    agent: str
    filter: dict[str, Any]
    cursor: int
    confirms: bool
    got: list[int] = field(default_factory=list)
    calls: int = 0

    def arguments(self) -> dict[str, Any]:
        """Returns the arguments of the next call of `wait`."""
        wanted = {"board": "main", "subscription": self.id, "seconds": 25, "limit": PAGE}
        return {**wanted, "since": self.cursor} if self.confirms else wanted

    def take(self, news: dict[str, Any], last: int | None) -> bool:
        """Records the events of an answer, and tells whether more are to come."""
        self.calls += 1
        self.got += [event["seq"] for event in news["events"]]
        self.cursor = news["cursor"]
        return not any("end" in event["tags"] for event in news["events"])


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a burst. Rates are events per second, memory is in MiB of the server process."""

    subscriptions: int
    events: int
    alone: float
    waited_on: float
    followed: float
    delivered: int
    calls: int
    lag: float
    """The seconds from the last commit until the last subscription had all its events."""
    wrong: list[str]
    """The subscriptions that did not get exactly their events, in order, once each."""
    before: float
    most: float
    after: float
    cpu: float
    """The CPU seconds of the server from the first post of the followed burst to the last delivery."""
    stalled_open: int
    """The number of stalled streams that were still open after the burst."""


class Wire:
    """A kept-alive connection that speaks the newest protocol generation."""

    def __init__(
        self, port: int, agent: str, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter]
    ) -> None:
        self._port, self._agent = port, agent
        self._reader, self._writer = streams

    @classmethod
    async def open(cls, port: int, agent: str) -> Wire:
        return cls(port, agent, await asyncio.open_connection("127.0.0.1", port, limit=1 << 24))

    async def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        params = {"name": tool, "arguments": arguments, "_meta": {**META, **ASKED}}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
        head = (
            f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\nContent-Type: application/json\r\n"
            f"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {VERSION}\r\n"
            f"Mcp-Method: tools/call\r\nMcp-Name: {tool}\r\nX-Blackboard-Agent: {self._agent}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)
        said = await answer(self._reader)
        lines = [line[5:] for line in said.splitlines() if line.startswith(b"data:")] or [said]
        result = json.loads(lines[-1]).get("result", {})
        if result.get("isError", True):
            raise SystemExit(said.decode())
        return dict(result["structuredContent"])

    def close(self) -> None:
        self._writer.close()


def memory(pid: int) -> float:
    """Returns the resident memory of a process in MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments, meta=ASKED)
    if result.is_error:
        raise SystemExit(str(result.content))
    return dict(result.structured_content or {})


@asynccontextmanager
async def reader(serving: Serving, agent: str, mode: str) -> AsyncIterator[Client]:
    """Connects an agent's client of the SDK."""
    limits = httpx2.Limits(max_connections=None)
    http = httpx2.AsyncClient(
        headers={"X-Blackboard-Agent": agent}, trust_env=False, timeout=120, limits=limits
    )
    async with http, Client(streamable_http_client(serving.url, http_client=http), mode=mode) as client:
        yield client


def filters(number: int) -> dict[str, Any]:
    """Returns the filter of subscription `number`: no two are alike, and each matches the last event."""
    kinds: list[dict[str, Any]] = [
        {"tags": [f"t{number % 50}"]},
        {"key": f"task:{number % 40}:*"},
        {"agent": "bob", "tags": [f"u{number % 9}"]},
        {"any": [{"key": f"task:{number % 40}:**"}, {"tags": [f"t{number % 50}", f"u{number % 9}"]}]},
        {"type": "LOG", "not": {"any": [{"tags": [f"u{n}"]} for n in range(9) if n != number % 9]}},
    ]
    return {"any": [kinds[number % len(kinds)], {"tags": ["end"]}]}


def batch(first: int, count: int, poster: str) -> list[dict[str, Any]]:
    """Returns `count` posts, numbered from `first`."""
    return [
        {
            "text": f"finding {poster} {number}",
            "type": "LOG",
            "tags": [f"t{number % 50}", f"u{number % 9}"],
            **({"key": f"task:{number % 40}:{poster}-{number}"} if number % 3 == 0 else {}),
            **({"visibility": "private"} if number % 10 == 0 else {}),
        }
        for number in range(first, first + count)
    ]


async def post(board: str, events: int, here: Wire, there: Client) -> float:
    """Posts from both processes at once, and returns the seconds that it took."""
    started = time.perf_counter()

    async def through_http() -> None:
        for first in range(0, events // 2, BATCH):
            items = batch(first, min(BATCH, events // 2 - first), "a")
            await here.call("post", {"board": board, "items": items})

    async def through_the_other() -> None:
        for first in range(0, events - events // 2, BATCH):
            items = batch(first, min(BATCH, events - events // 2 - first), "b")
            await call(there, "post", board=board, items=items)

    await asyncio.gather(through_http(), through_the_other())
    return time.perf_counter() - started


def stall(port: int) -> socket.socket:
    """Opens a stream of all events that is never read."""
    reader = socket.socket()
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    reader.connect(("127.0.0.1", port))
    path = (
        f"/boards/main/events?after=0 HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-Blackboard-Agent: sloth\r\n\r\n"
    )
    reader.sendall(f"GET {path}".encode())
    return reader


async def follow_by_wire(port: int, held: Held) -> None:
    """Waits on a subscription over a connection of its own until its last event."""
    wire = await Wire.open(port, held.agent)
    while held.take(await wire.call("wait", held.arguments()), None):
        pass
    wire.close()


async def follow_by_sdk(client: Client, held: Held) -> None:
    """Waits on a subscription through a client of the SDK until its last event."""
    while held.take(await call(client, "wait", **held.arguments()), None):
        pass


async def idle(port: int, number: int) -> None:
    """Waits for events that never come, until cancelled."""
    wire = await Wire.open(port, f"idle-{number % 20}")
    try:
        while True:
            await wire.call("wait", {"board": "quiet", "subscription": "never", "seconds": 50})
    finally:
        wire.close()


async def waited_on(port: int, waits: int, events: int, here: Wire, there: Client) -> float:
    """Returns the seconds that posting took while `waits` calls wait for events that never come."""
    await here.call("post", {"board": "quiet", "text": "the beginning"})
    for number in range(20):
        wire = await Wire.open(port, f"idle-{number}")
        await wire.call("subscribe", {"board": "quiet", "filter": {"tags": ["never"]}, "name": "never"})
        wire.close()
    waiting = [asyncio.create_task(idle(port, number)) for number in range(waits)]
    await asyncio.sleep(0.5 + waits / 500)
    took = await post("quiet", events, here, there)
    for task in waiting:
        task.cancel()
    failed = [e for e in await asyncio.gather(*waiting, return_exceptions=True) if isinstance(e, Exception)]
    if failed:
        raise failed[0]
    return took


async def run(folder: Path, agents: int, each: int, events: int, stalled: int) -> Outcome:
    """Runs the whole benchmark on new boards in a data folder."""
    async with AsyncExitStack() as stack:
        limits = folder / "limits.toml"
        limits.write_text("[limits]\nposts_burst = 10_000_000\nboard_posts_burst = 10_000_000\n")
        wide = ("--config", str(limits))
        serving = await stack.enter_async_context(http_server(folder, "--target-tokens", ROOM, *wide))
        port = urlsplit(serving.url).port or 0
        words = command("serve", "--data", str(folder), "--agent", "bob", "--target-tokens", ROOM, *wide)
        other = StdioServerParameters(command=words[0], args=words[1:], env=environment())
        there = await stack.enter_async_context(Client(stdio_client(other)))
        here = await Wire.open(port, "alice")
        stack.callback(here.close)
        sample = max(500, events // 5)
        alone = await post("plain", sample, here, there)
        quiet = await waited_on(port, agents * each, sample, here, there)

        await here.call("post", {"board": "main", "text": "the beginning"})
        held: list[Held] = []
        clients: dict[str, Client] = {}
        for place in range(agents):
            name = f"reader-{place}"
            mode = "legacy" if place % 2 else VERSION
            clients[name] = await stack.enter_async_context(reader(serving, name, mode))
            for number in range(each):
                filter_ = filters(place * each + number)
                made = await call(clients[name], "subscribe", board="main", filter=filter_)
                held.append(Held(made["id"], name, filter_, made["cursor"], confirms=number % 2 == 1))
        sloths = [stall(port) for _ in range(stalled)]
        for sloth in sloths:
            stack.callback(sloth.close)
        before = most = memory(serving.pid)
        readers = [
            asyncio.create_task(
                follow_by_sdk(clients[one.agent], one)
                if place % each < THROUGH_SDK
                else follow_by_wire(port, one)
            )
            for place, one in enumerate(held)
        ]
        await asyncio.sleep(0.5 + len(readers) / 500)

        async def weigh() -> None:
            nonlocal most
            while True:
                most = max(most, memory(serving.pid))
                await asyncio.sleep(0.1)

        weighing = asyncio.create_task(weigh())
        busy = cpu_seconds(serving.pid)
        followed = await post("main", events, here, there)
        await here.call("post", {"board": "main", "text": "the end", "tags": ["end"]})
        committed = time.perf_counter()
        await asyncio.gather(*readers)
        lag = time.perf_counter() - committed
        busy = cpu_seconds(serving.pid) - busy
        weighing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await weighing
        return Outcome(
            subscriptions=len(held),
            events=events,
            alone=sample / alone,
            waited_on=sample / quiet,
            followed=events / followed,
            delivered=sum(len(one.got) for one in held),
            calls=sum(one.calls for one in held),
            lag=lag,
            wrong=await wrong(folder, held),
            before=before,
            most=most,
            after=memory(serving.pid),
            cpu=busy,
            stalled_open=sum(is_open(sloth) for sloth in sloths),
        )


async def wrong(folder: Path, held: list[Held]) -> list[str]:
    """Returns a line for each subscription that did not get exactly the events that the log has for it."""
    store = await SqlBoardStore.open(folder / "board.sqlite3")
    try:
        log = []
        cursor = 2
        while True:
            page = await store.log("main", "nobody", cursor, 1_000)
            log += page.events
            cursor = page.cursor
            if not page.more:
                break
    finally:
        await store.close()
    failed = []
    for one in held:
        condition = parse_event_filter(one.filter)
        expected = [event.seq for event in log if condition.matches(event, one.agent)]
        if one.got != expected:
            failed.append(f"{one.id} of {one.agent} got {len(one.got)} of {len(expected)}: {one.filter}")
    return failed


def is_open(reader: socket.socket) -> bool:
    """Tells whether the server still serves the stream, after reading what it had sent."""
    reader.settimeout(0.05)
    try:
        while reader.recv(1 << 16):
            pass
    except TimeoutError:
        return True
    except OSError:
        return False
    return False


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--agents", type=int, default=20)
    parser.add_argument("--each", type=int, default=50)
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--stalled", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        came = asyncio.run(run(Path(folder), options.agents, options.each, options.events, options.stalled))
    print(
        f"{came.subscriptions} subscriptions, {came.events} events, {options.stalled} stalled streams\n"
        f"posted per second: {came.alone:.0f} with nobody there, {came.waited_on:.0f} while as many calls wait for "
        f"something else, {came.followed:.0f} while all of it is followed\n"
        f"delivered {came.delivered} events in {came.calls} calls, the last {came.lag:.1f} s after the last commit, "
        f"in {came.cpu:.1f} s of the server's CPU; "
        f"{len(came.wrong)} subscriptions got something else than the log has for them\n"
        f"memory of the server: {came.before:.0f} MiB before the burst, {came.most:.0f} at most, "
        f"{came.after:.0f} after it; {came.stalled_open} stalled streams still open"
    )
    for line in came.wrong[:10]:
        print(line)


if __name__ == "__main__":
    main()
