"""Measures `claim` and `turn` over HTTP beside a no-op tool on the same SDK, and how `claim` grows with the agenda.

    python benchmarks/claims.py [--calls 400] [--rounds 3]

One client claims a task and reports it done, and ends one turn after another, each with a text of its own, against a
server process; the no-op is a server process of its own. Server CPU per call is taken from the processes' own clocks,
and the best of the rounds counts; read the ratio. Growth is taken in this process on a file: takings and reports with
so many tasks open, and with so many over.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from blackboard_mcp.protocols.agenda import NewTask, Settle
from blackboard_mcp.protocols.tokens import CountedText
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.harness import CONFIG
from http_posts import META, NOOP, VERSION, answer, cpu_seconds, server

TRIES = 200


def message(port: int, tool: str, arguments: dict[str, Any], number: int) -> bytes:
    """Returns a call of a tool as an HTTP request."""
    params = {"name": tool, "arguments": arguments, "_meta": META}
    body = json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).encode()
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        f"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {VERSION}\r\n"
        f"Mcp-Method: tools/call\r\nMcp-Name: {tool}\r\nX-Blackboard-Agent: worker\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def spent(port: int, pid: int, calls: list[tuple[str, dict[str, Any]]]) -> float:
    """Makes the calls one after the other, and returns the server's CPU microseconds per call."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    before = cpu_seconds(pid)
    for number, (tool, arguments) in enumerate(calls):
        writer.write(message(port, tool, arguments, number))
        body = await answer(reader)
        if b'"isError":true' in body or b'"error":{' in body:
            raise SystemExit(body.decode())
    used = cpu_seconds(pid) - before
    writer.close()
    return used / len(calls) * 1e6


def over_http(calls: int, rounds: int) -> None:
    """Prints the CPU of `claim` beside that of a no-op."""
    with tempfile.TemporaryDirectory() as folder:
        noop = Path(folder, "noop.py")
        noop.write_text(NOOP)
        command = [
            sys.executable,
            "-m",
            "blackboard_mcp.server",
            "serve",
            "--data",
            str(Path(folder, "data")),
        ]
        command += ["--transport", "http", "--port", "0", "--tools", "core,run,plan"]
        best: dict[str, float] = {}
        with server(command) as (port, pid), server([sys.executable, str(noop), "http"]) as (idle, idle_pid):
            for _ in range(rounds):
                for _ in range(0, calls, 100):
                    tasks = [{"title": f"task {n}"} for n in range(100)]
                    asyncio.run(spent(port, pid, [("plan", {"items": tasks})]))
                taking = [("claim", {"seconds": 0}), ("claim", {"op": "done", "text": "It is done."})]
                run = {"problem": "Which pump?", "agents": ["worker"], "max_rounds": calls}
                asyncio.run(spent(port, pid, [("turn", {"start": run})]))
                turns = [("turn", {"text": f"I looked at pump {n}.", "seconds": 0}) for n in range(calls)]
                for name, used in (
                    ("no-op", spent(idle, idle_pid, [("post", {"text": "x"})] * calls)),
                    ("claim, then done", spent(port, pid, taking * calls)),
                    ("turn, which ends one and gives the next", spent(port, pid, turns)),
                ):
                    best[name] = min(best.get(name, 1e9), asyncio.run(used))
                asyncio.run(spent(port, pid, [("finalize", {"text": "The blue one."})]))
        for name, used in best.items():
            print(f"{name}: {used:.0f} µs of server CPU a call, {used / best['no-op']:.2f} of the no-op")


async def growth() -> None:
    """Prints what a taking and its report cost as the agenda grows."""
    with tempfile.TemporaryDirectory() as folder:
        store = await SqlBoardStore.open(Path(folder, "board.db"), synchronous="NORMAL")
        await store.ensure_board("main", "ann", CONFIG)
        first, over = 0.0, 0

        async def plan(count: int) -> None:
            for _ in range(0, count, 100):
                await store.plan("main", "ann", [NewTask(title=f"task {n}") for n in range(100)])

        async def work(count: int) -> float:
            started = time.process_time()
            for _ in range(count):
                taken = await store.take_task("main", "bob")
                assert taken is not None
                assert taken.task is not None
                act = Settle("done", taken.task.number, taken.lease, CountedText())
                await store.settle_task("main", "bob", act)
            return (time.process_time() - started) / count * 1e6

        for open_, wanted in ((1_000, 0), (9_500, 0), (1_000, 20_000), (1_000, 100_000)):
            while over < wanted:
                await plan(5_000)
                await work(5_000)
                over += 5_000
            await plan(open_)
            used = min([await work(TRIES) for _ in range(3)])
            first = first or used
            print(f"{open_:>6} open, {over:>7} over: {used:.0f} µs, {used / first:.2f}")
            await work(open_ - 3 * TRIES)
            over += open_
        await store.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    over_http(options.calls, options.rounds)
    asyncio.run(growth())


if __name__ == "__main__":
    main()
