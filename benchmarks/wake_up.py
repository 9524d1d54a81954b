"""Measures how soon a waiting agent in one process hears of a post through another, and what idling costs.

    python benchmarks/wake_up.py [--posts 100] [--idle 30] [--ways] [--turns]

Two `serve --transport stdio` processes share a data folder; the time runs from just before the post is
sent to one until `wait` has answered on the other, so it holds the post itself. Idle cost is the CPU of a
process that nobody calls, and of one in which somebody waits, in percent of a core.

With `--ways` the readers are at a server over HTTP instead, one of each kind: a waiting call and a listen
stream of the newest protocol generation, a subscription of the older one, an event stream. The times are
from just before a post through the other process to the moment that each of them heard.

With `--turns` one of two agents waits in `turn`, then in `claim`. Two times run until it has what comes next: from just
before the other ends its turn, or its task, and from when the other has the answer that it ended; in one process over
HTTP, and in two.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

import httpx2
import mcp.types as types
from blackboard_mcp.server.demo.process import http_server
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

WORKING = "board://main/working"


def server(folder: str, agent: str, *options: str) -> StdioServerParameters:
    """Returns the parameters of a server process over stdio for an agent."""
    arguments = ["-m", "blackboard_mcp.server", "serve", "--data", folder, "--agent", agent, *options]
    return StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))


def children() -> list[int]:
    """Returns the ids of this process's child processes."""
    listed = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    return [int(pid) for pid in listed]


def cpu_seconds(pid: int) -> float:
    """Returns the CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def idle(seconds: float) -> dict[int, float]:
    """Returns each child's CPU use over some seconds, in percent of a core by process id."""
    before = {pid: cpu_seconds(pid) for pid in children()}
    await asyncio.sleep(seconds)
    return {pid: 100 * (cpu_seconds(pid) - was) / seconds for pid, was in before.items()}


async def run(posts: int, seconds: float) -> None:
    """Measures the delay from a post in one process to `wait` in another, then the cost of idling."""
    with tempfile.TemporaryDirectory() as folder:
        async with Client(server(folder, "alice")) as alice, Client(server(folder, "bob")) as bob:
            await alice.call_tool("post", {"text": "the first"})
            await bob.call_tool("read", {})
            taken = []
            for number in range(posts):
                waiting = asyncio.create_task(bob.call_tool("wait", {"seconds": 20}))
                await asyncio.sleep(0.1)
                started = time.perf_counter()
                await alice.call_tool("post", {"text": f"finding {number} for @bob and @modern"})
                await waiting
                taken.append(1000 * (time.perf_counter() - started))
            taken.sort()
            print(
                f"post in one process to wait's answer in another, {posts} times: "
                f"median {statistics.median(taken):.1f} ms, p90 {taken[int(0.9 * posts)]:.1f} ms, "
                f"worst {taken[-1]:.1f} ms"
            )
            if seconds:
                quiet = await idle(seconds)
                waiting = asyncio.create_task(bob.call_tool("wait", {"seconds": min(50, seconds + 2)}))
                await asyncio.sleep(0.5)
                waited = await idle(seconds)
                print(
                    f"idle over {seconds:.0f} s: nobody calls {max(quiet.values()):.2f} % of a core, "
                    f"one waits {max(waited.values()):.2f} %"
                )
                await waiting


async def turns(count: int) -> None:
    """Measures the delay from the end of one agent's turn or task to the moment when the next agent has its own."""
    tools = ("--tools", "core,run,plan")
    with tempfile.TemporaryDirectory() as folder:
        async with http_server(Path(folder), *tools) as serving, AsyncExitStack() as stack:
            both: list[Client] = []
            for name in ("alice", "bob"):
                http = httpx2.AsyncClient(headers={"X-Blackboard-Agent": name}, trust_env=False, timeout=60)
                await stack.enter_async_context(http)
                wire = streamable_http_client(serving.url, http_client=http)
                both.append(await stack.enter_async_context(Client(wire, mode="2026-07-28")))
            await _pass_on("one process", both, count)
    with tempfile.TemporaryDirectory() as folder:
        parties = (Client(server(folder, name, *tools)) for name in ("alice", "bob"))
        async with next(parties) as alice, next(parties) as bob:
            await _pass_on("two processes", [alice, bob], count)


async def _pass_on(where: str, both: list[Client], count: int) -> None:
    run = {"problem": "Which pump?", "agents": ["alice", "bob"], "max_rounds": count}
    await both[0].call_tool("turn", {"start": run})
    tasks = [{"title": f"task {n}", "after": [f"${n}"] if n else []} for n in range(100)]
    await both[0].call_tool("plan", {"items": tasks})
    await both[0].call_tool("claim", {})
    for what, end in (("turn", {"seconds": 0}), ("claim", {"op": "done"})):
        taken, after = list[float](), list[float]()
        for n in range(min(count, 99)):
            mine, other = both[n % 2], both[1 - n % 2]
            waiting = asyncio.create_task(other.call_tool(what, {"seconds": 20}))
            await asyncio.sleep(0.1)
            started = time.perf_counter()
            ending = asyncio.create_task(mine.call_tool(what, {**end, "text": f"I looked at pump {n}."}))
            heard, ended = await asyncio.gather(_done_at(waiting), _done_at(ending))
            taken.append(1000 * (heard - started))
            after.append(1000 * (heard - ended))
        for since, each in (("before the call that ends", taken), ("after the answer to it", after)):
            each.sort()
            print(
                f"{where}, one's {what} to the other's, from {since}, {len(each)} times: "
                f"median {statistics.median(each):.1f} ms, p90 {each[int(0.9 * len(each))]:.1f} ms"
            )


async def _done_at(task: asyncio.Task[object]) -> float:
    """Returns when the task ended."""
    await task
    return time.perf_counter()


async def ways(posts: int) -> None:
    """Measures the delay from a post to each kind of reader at an HTTP server."""
    heard: dict[str, float] = {}
    news = asyncio.Event()

    def note(way: str) -> None:
        heard.setdefault(way, time.perf_counter())
        news.set()

    async def hear(message: object) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            note("older subscription")

    async def listen(client: Client) -> None:
        async with client.listen(resource_subscriptions=[WORKING]) as stream:
            async for _ in stream:
                note("listen stream")

    async def wait(client: Client) -> None:
        while True:
            await client.call_tool("wait", {"seconds": 25})
            note("waiting call")

    async def follow(http: httpx2.AsyncClient, url: str) -> None:
        async with http.stream("GET", url) as response:
            async for line in response.aiter_lines():
                if line.startswith("data:"):
                    note("event stream")

    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        serving = await stack.enter_async_context(http_server(folder))
        poster = await stack.enter_async_context(Client(server(str(folder), "alice")))
        await poster.call_tool("post", {"text": "the first"})
        https = []
        for name in ("modern", "older", "page"):
            headers = {"X-Blackboard-Agent": name}
            https.append(httpx2.AsyncClient(headers=headers, trust_env=False, timeout=60))
            await stack.enter_async_context(https[-1])
        modern = await stack.enter_async_context(
            Client(streamable_http_client(serving.url, http_client=https[0]), mode="2026-07-28")
        )
        older = await stack.enter_async_context(
            Client(
                streamable_http_client(serving.url, http_client=https[1]), mode="legacy", message_handler=hear
            )
        )
        await older.subscribe_resource(WORKING)
        events = serving.url.removesuffix("/mcp") + "/boards/main/events"
        tasks = [
            asyncio.create_task(work) for work in (listen(modern), wait(modern), follow(https[2], events))
        ]
        await asyncio.sleep(1)
        taken: dict[str, list[float]] = {}
        for number in range(posts):
            heard.clear()
            started = time.perf_counter()
            await poster.call_tool("post", {"text": f"finding {number} for @bob and @modern"})
            async with asyncio.timeout(30):
                while len(heard) < 4:
                    news.clear()
                    await news.wait()
            for way, at in heard.items():
                taken.setdefault(way, []).append(1000 * (at - started))
            await asyncio.sleep(0.1)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for way, times in sorted(taken.items()):
        print(
            f"post in one process to {way} at another, {posts} times: median {statistics.median(times):.1f} ms, "
            f"worst {max(times):.1f} ms"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--posts", type=int, default=100)
    parser.add_argument("--idle", type=float, default=30.0)
    parser.add_argument("--ways", action="store_true")
    parser.add_argument("--turns", action="store_true")
    options = parser.parse_args()
    if options.turns:
        asyncio.run(turns(options.posts))
    else:
        asyncio.run(ways(options.posts) if options.ways else run(options.posts, options.idle))


if __name__ == "__main__":
    main()
