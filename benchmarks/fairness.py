"""Measures what one caller at its limits costs another: latencies of posts beside abusers of each kind.

    python benchmarks/fairness.py [--seconds 6] [--rounds 3] [--kinds quiet,views,…] [--each 120]

A server process over HTTP on a full board; one owner posts again and again with pauses of 20 ms, and a third process
sends `--each` calls of another owner at once, again and again. `quiet` is the baseline. Rounds go through all kinds in
turn. Printed are the median of the rounds' percentiles in milliseconds, their range, how much the server worked while a
post was under way (milliseconds of CPU of all its threads; on Linux alone), and how many calls the abuser got through.
Read the ratios: machines are noisy. Where others use the machine as well, the server's work says more than the time.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, Final

from http_posts import META, VERSION, answer, server

FILLING: Final = 400
PAUSE: Final = 0.02
numbers = itertools.count()
Call = Callable[[], tuple[str, dict[str, Any]]]


def _text(words: int) -> str:
    return " ".join(f"measure{next(numbers) % 997} of shard {n}" for n in range(words))


KINDS: Final[dict[str, Call | None]] = {
    "quiet": None,
    # Each with another budget: equal views of an unchanged board are kept, and cost next to nothing.
    "views": lambda: ("read", {"budget": 1_500 + next(numbers) % 500}),
    "huge views": lambda: ("read", {"budget": 200_000 - next(numbers) % 500}),
    "queries": lambda: ("query", {"text": "shard measure7", "limit": 100}),
    "archive": lambda: ("query_archive", {"text": "shard measure7 of", "limit": 50}),
    "batches": lambda: ("post", {"items": [{"text": _text(6), "type": "LOG"} for _ in range(50)]}),
    "waits": lambda: ("wait", {"seconds": 20}),
    "transactions": lambda: (
        "transaction",
        {"writes": [{"text": _text(6), "type": "LOG"} for _ in range(20)]},
    ),
}


def request(port: int, agent: str, tool: str, arguments: dict[str, Any]) -> bytes:
    """Returns a tool call as an HTTP request."""
    params = {"name": tool, "arguments": arguments, "_meta": META}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        f"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {VERSION}\r\n"
        f"Mcp-Method: tools/call\r\nMcp-Name: {tool}\r\nX-Blackboard-Agent: {agent}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def abuse(port: int, kind: str, each: int) -> None:
    """Makes `each` calls of one kind at once, again and again until the process is killed.

    Prints the numbers of answered and refused calls, as JSON, four times a second.
    """
    call = KINDS[kind]
    assert call is not None
    answered = {"done": 0, "refused": 0}

    async def go_on() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while True:
            writer.write(request(port, "abuser", *call()))
            body = await answer(reader)
            answered["refused" if b'"isError":true' in body else "done"] += 1
            if answered["refused"] == 1 and b'"isError":true' in body:
                print(body[:300], file=sys.stderr)

    async def tell() -> None:
        while True:
            print(json.dumps(answered), flush=True)
            await asyncio.sleep(0.25)

    await asyncio.gather(tell(), *(go_on() for _ in range(each)))


def worked(pid: int) -> float:
    """Returns the CPU milliseconds of a process's living threads."""
    tasks = Path(f"/proc/{pid}/task")
    found = 0
    for task in tasks.iterdir() if tasks.exists() else ():
        with contextlib.suppress(OSError):
            found += int((task / "schedstat").read_text().split()[0])
    return found / 1e6


async def post(port: int, pid: int, seconds: float) -> tuple[list[float], list[float]]:
    """Posts one after the other with pauses; returns the milliseconds of each, and of the server's CPU meanwhile.

    Both lists are sorted.
    """
    taken: list[float] = []
    work: list[float] = []
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        before = worked(pid)
        sent = time.perf_counter()
        writer.write(request(port, "worker", "post", {"text": f"note {next(numbers)}", "type": "LOG"}))
        body = await answer(reader)
        taken.append(1000 * (time.perf_counter() - sent))
        work.append(worked(pid) - before)
        if b'"isError":true' in body:
            raise SystemExit(body.decode())
        await asyncio.sleep(PAUSE)
    return sorted(taken), sorted(work)


def settle(pid: int) -> None:
    """Waits until the server hardly works, for 20 seconds at most, since what one sample left would slow the next."""
    for _ in range(80):
        before = worked(pid)
        time.sleep(0.25)
        if worked(pid) - before < 25:
            return


def percentiles(values: list[float]) -> tuple[float, float]:
    """Returns the median and 99th percentile of sorted values."""
    return values[len(values) // 2], values[int(len(values) * 0.99)]


def sample(
    port: int, pid: int, kind: str, each: int, seconds: float
) -> tuple[float, float, float, float, int]:
    """Measures posts beside one kind of abuse.

    Returns the median and 99th percentile of the posts' milliseconds, both of the server's CPU milliseconds
    meanwhile, and how many of the abuser's calls were answered.
    """
    settle(pid)
    if KINDS[kind] is None:
        taken, work = asyncio.run(post(port, pid, seconds))
        return *percentiles(taken), *percentiles(work), 0
    process = subprocess.Popen(
        [sys.executable, __file__, "--abuse", kind, "--port", str(port), "--each", str(each)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for _ in range(5):  # after about a second the abuser is at its limits
        process.stdout.readline()
    taken, work = asyncio.run(post(port, pid, seconds))
    process.terminate()
    lines = process.stdout.read().splitlines()
    process.wait()
    done = json.loads(lines[-1])["done"] if lines else 0
    return *percentiles(taken), *percentiles(work), done


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--each", type=int, default=120)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--abuse", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.abuse:
        asyncio.run(abuse(options.port, options.abuse, options.each))
        return
    kinds = options.kinds.split(",")
    found: dict[str, list[tuple[float, float, float, float, int]]] = {kind: [] for kind in kinds}
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "blackboard_mcp.server", "serve", "--data", folder]
        words += ["--transport", "http", "--port", "0", "--tools", "all", "--target-tokens", "60000"]
        with server(words) as (port, pid):
            asyncio.run(fill(port))
            for _ in range(options.rounds):
                for kind in kinds:
                    found[kind].append(sample(port, pid, kind, options.each, options.seconds))
    print(
        f"{'beside':>14} {'p50':>8} {'p99':>8}   range of p99   {'work p50':>8} {'p99':>8}   calls got through"
    )
    for kind, rounds in found.items():
        p50, p99, usual, most = (median(one[n] for one in rounds) for n in range(4))
        low, high = min(one[1] for one in rounds), max(one[1] for one in rounds)
        print(
            f"{kind:>14} {p50:>8.1f} {p99:>8.1f}   {f'{low:.0f} to {high:.0f}':<12}   {usual:>8.1f} {most:>8.1f}   "
            f"{sum(one[4] for one in rounds):>17}"
        )


async def fill(port: int) -> None:
    """Posts `FILLING` facts to the board."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(FILLING // 40):
        items = [{"text": _text(25), "type": "FACT"} for _ in range(40)]
        writer.write(request(port, "filler", "post", {"items": items}))
        body = await answer(reader)
        if b'"isError":true' in body:
            raise SystemExit(body.decode())
    writer.close()


if __name__ == "__main__":
    main()
