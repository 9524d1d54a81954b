"""How soon a waiting agent in one process hears of a post made through another, and what idling costs.

    python benchmarks/wake_up.py [--posts 100] [--idle 30]

Two `serve --transport stdio` processes share a data folder; the time runs from just before the post is
sent to one until `wait` has answered on the other, so it holds the post itself. Idle cost is the CPU of a
process that nobody calls, and of one in which somebody waits, in percent of a core.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from mcp import StdioServerParameters
from mcp.client import Client


def server(folder: str, agent: str) -> StdioServerParameters:
    arguments = ["-m", "blackboard_mcp.server", "serve", "--data", folder, "--agent", agent]
    return StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))


def children() -> list[int]:
    listed = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    return [int(pid) for pid in listed]


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def idle(seconds: float) -> dict[int, float]:
    before = {pid: cpu_seconds(pid) for pid in children()}
    await asyncio.sleep(seconds)
    return {pid: 100 * (cpu_seconds(pid) - was) / seconds for pid, was in before.items()}


async def run(posts: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with Client(server(folder, "alice")) as alice, Client(server(folder, "bob")) as bob:
            await alice.call_tool("post", {"text": "the first"})
            await bob.call_tool("read", {})
            taken = []
            for number in range(posts):
                waiting = asyncio.create_task(bob.call_tool("wait", {"seconds": 20}))
                await asyncio.sleep(0.1)
                started = time.perf_counter()
                await alice.call_tool("post", {"text": f"finding {number}"})
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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--posts", type=int, default=100)
    parser.add_argument("--idle", type=float, default=30.0)
    options = parser.parse_args()
    asyncio.run(run(options.posts, options.idle))


if __name__ == "__main__":
    main()
