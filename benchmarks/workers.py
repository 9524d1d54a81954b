"""Measures what several workers give: calls a second and CPU a call of one server with one worker and one with more.

    python benchmarks/workers.py [--seconds 4] [--rounds 5] [--clients 8,32] [--workers 1,2]

Each server has a folder of its own. Calls are posts of about 300 characters on one board, reads of one item by its id,
and four such reads to a post. The load comes from this process, over kept-alive connections that speak the newest
protocol generation, in turns of each server; medians count. Clients take the same cores as the servers here, so the
rates show less than clients elsewhere would see. What those would see is computed from the servers' CPU: a process
answers on one core, so where cores are free N workers answer N × (CPU of a call with one worker) / (CPU of a call with
N) times as much, as long as they do not wait for one another. Posts do: SQLite has one writer at a time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from http_posts import META, VERSION, answer, cpu_seconds, request, server


def reading(port: int, agent: str, number: int) -> bytes:
    """Returns a read of one item as an HTTP request."""
    params = {"name": "read", "arguments": {"ids": [f"L-{number % 50 + 1}"]}, "_meta": META}
    body = json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).encode()
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        f"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {VERSION}\r\n"
        f"Mcp-Method: tools/call\r\nMcp-Name: read\r\nX-Blackboard-Agent: {agent}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def mixed(port: int, agent: str, number: int) -> bytes:
    """Returns a post, or four times of five a read."""
    return (reading if number % 5 else request)(port, agent, number)


KINDS = {"post": request, "mixed": mixed, "read": reading}


def tree(pid: int) -> list[int]:
    """Returns a process and its children."""
    found = [pid]
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        found += map(int, file.read_text().split())
    return found


async def client(port: int, kind: str, name: str, until: float) -> int:
    """Calls one after the other until the time `until`, and returns how often."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    number = 0
    while time.perf_counter() < until:
        number += 1
        writer.write(KINDS[kind](port, name, number))
        body = await answer(reader)
        if b'"isError":true' in body or b'"error"' in body:
            raise SystemExit(body.decode())
    writer.close()
    return number


async def load(port: int, kind: str, clients: int, seconds: float) -> int:
    until = time.perf_counter() + seconds
    return sum(await asyncio.gather(*(client(port, kind, f"agent-{n}", until) for n in range(clients))))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clients", default="8,32")
    parser.add_argument("--workers", default="1,2")
    options = parser.parse_args()
    workers = [int(n) for n in options.workers.split(",")]
    clients = [int(n) for n in options.clients.split(",")]
    found: dict[tuple[str, int, int], list[tuple[float, float, float]]] = {}
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        served = {}
        for count in workers:
            command = [sys.executable, "-m", "blackboard_mcp.server", "serve", "--transport", "http"]
            place = ["--port", "0", "--data", str(Path(folder, str(count))), "--workers", str(count)]
            served[count] = stack.enter_context(server([*command, *place]))
            asyncio.run(load(served[count][0], "post", 2, 1.0))  # so that there is something to read
        for _ in range(options.rounds):
            for kind in KINDS:
                for many in clients:
                    for count, (port, pid) in served.items():
                        before, began = sum(map(cpu_seconds, tree(pid))), time.perf_counter()
                        calls = asyncio.run(load(port, kind, many, options.seconds))
                        taken = time.perf_counter() - began
                        spent = sum(map(cpu_seconds, tree(pid))) - before
                        figures = (calls / taken, spent / calls * 1e6, spent / taken)
                        found.setdefault((kind, many, count), []).append(figures)
    print("call   clients  workers  calls/s  CPU us  cores  rate x  by CPU x")
    for kind in KINDS:
        for many in clients:
            alone = found[kind, many, workers[0]]
            for count in workers:
                these = found[kind, many, count]
                rate, cpu, cores = (median(one[n] for one in these) for n in range(3))
                pairs = list(zip(alone, these, strict=True))
                faster = median(b[0] / a[0] for a, b in pairs)
                by_cpu = count / workers[0] * median(a[1] / b[1] for a, b in pairs)
                print(
                    f"{kind:5} {many:8} {count:8} {rate:8.0f} {cpu:7.0f} {cores:6.2f} {faster:7.2f} {by_cpu:9.2f}"
                )


if __name__ == "__main__":
    main()
