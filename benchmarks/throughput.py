"""Measures posts and views per second for 1 to 128 callers, in-process and over MCP, and times on large boards.

    python benchmarks/throughput.py callers [--seconds 3] [--rounds 2] [--counts 1,8,32,128]
    python benchmarks/throughput.py sizes [--sizes 1000,10000,100000,1000000] [--rounds 200]

`callers` asks the use cases of an open installation in this process (synchronous=FULL, as a server runs),
and a server process over HTTP in the newest protocol generation; the best of the rounds counts. `sizes`
fills boards of so many live items, opens all of them, and asks each in turn, so that what else the machine
does weighs on all alike: medians in milliseconds, the last column the largest against the smallest.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from statistics import median

from blackboard_mcp.protocols.board import BoardConfig
from blackboard_mcp.protocols.filters import ItemQuery
from blackboard_mcp.protocols.items import Draft, ItemType, content_hash
from blackboard_mcp.server.compose import installation
from blackboard_mcp.server.input.posts import PostFields
from blackboard_mcp.server.settings.server import Settings
from blackboard_mcp.server.usecases.blackboard import Blackboard
from blackboard_mcp.storage.store import SqlBoardStore
from http_posts import TEXT, load, server

TARGET = 10_000_000
TOKENS = 5
FILLED_AT_ONCE = 500
numbers: Iterator[int] = itertools.count()
Call = Callable[[int], Awaitable[object]]


async def post(board: Blackboard, caller: int) -> None:
    fields = PostFields(text=f"{TEXT} {next(numbers)}", type="LOG")
    await board.post(f"agent-{caller}", None, [fields])


async def look(board: Blackboard, caller: int) -> None:
    await board.view(f"agent-{caller}", None)


async def ask(call: Call, callers: int, seconds: float) -> tuple[float, float, float]:
    """Returns calls per second, and the median and 99th percentile in milliseconds."""
    taken: list[float] = []
    until = time.perf_counter() + seconds

    async def caller(place: int) -> None:
        while (begun := time.perf_counter()) < until:
            await call(place)
            taken.append(time.perf_counter() - begun)

    await asyncio.gather(*(caller(place) for place in range(callers)))
    taken.sort()
    return len(taken) / seconds, 1_000 * median(taken), 1_000 * taken[int(len(taken) * 0.99)]


async def in_process(folder: Path, counts: list[int], seconds: float, rounds: int) -> None:
    """Prints the rates of posts and views by calls in this process."""
    async with installation(Settings(data=folder), eager_index=False) as opened:
        board = opened.blackboard
        for name, call in (("post", post), ("view", look)):
            for count in counts:
                runs = [await ask(partial(call, board), count, seconds) for _ in range(rounds)]
                report(f"{name} in-process", count, *max(runs))


def over_mcp(folder: Path, counts: list[int], seconds: float, rounds: int) -> None:
    """Prints the rates of posts to a server process over HTTP."""
    command = [sys.executable, "-m", "blackboard_mcp.server", "serve", "--data", str(folder)]
    with server([*command, "--transport", "http", "--port", "0"]) as (port, _):
        for count in counts:
            rate, p99 = max(asyncio.run(load(port, count, seconds)) for _ in range(rounds))
            report("post over HTTP", count, rate, None, p99)


def report(name: str, callers: int, rate: float, p50: float | None, p99: float) -> None:
    """Prints one line of figures. Latencies are in milliseconds."""
    middle = "" if p50 is None else f"p50 {p50:7.2f} ms"
    print(f"{name:16} {callers:4} callers {rate:9,.0f}/s  {middle:14}  p99 {p99:7.2f} ms", flush=True)


async def fill(folder: Path, size: int) -> None:
    """Fills a data folder's board with `size` live items by eight agents; every tenth is an entry."""
    store = await SqlBoardStore.open(Settings(data=folder).database, synchronous="NORMAL")
    config = BoardConfig(target_tokens=TARGET)
    for first in range(0, size, FILLED_AT_ONCE):
        drafts = []
        for n in range(first, min(first + FILLED_AT_ONCE, size)):
            text = f"finding {n} of the long run"
            key = f"run:{n // 1_000}:step:{n}" if n % 10 == 0 else None
            drafts.append(
                Draft(text, ItemType.FACT, 1 + n % 5, key=key, tokens=TOKENS, sha256=content_hash(text))
            )
        await store.post("main", f"agent-{first // FILLED_AT_ONCE % 8}", drafts, config=config)
    await store.close()


async def sizes(folder: Path, wanted: list[int], rounds: int) -> None:
    """Prints the medians of calls on boards of these sizes, in milliseconds."""
    for size in wanted:
        begun = time.perf_counter()
        await fill(folder / str(size), size)
        print(f"filled {size:,} in {time.perf_counter() - begun:.0f} s", file=sys.stderr)
    calls: dict[str, Callable[[Blackboard, int], Awaitable[object]]] = {
        "post": post,
        "view": look,
        "read by id": lambda board, n: board.read("erin", None, [str(1 + n % 900)], []),
        "read by key": lambda board, n: board.read("erin", None, [], ["run:0:step:10"]),
        "query by glob": lambda board, n: board.query("erin", None, ItemQuery(key="run:0:step:*")),
        "figures": lambda board, _: board.store.statistics("main", "erin"),
        "query, newest": lambda board, n: board.query("erin", None, ItemQuery()),
    }
    taken: dict[tuple[str, int], list[float]] = {(name, size): [] for name in calls for size in wanted}
    async with AsyncExitStack() as stack:
        boards = {}
        for size in wanted:
            settings = Settings(data=folder / str(size))
            opened = await stack.enter_async_context(
                installation(settings, eager_index=False, background=False)
            )
            boards[size] = opened.blackboard
        for turn in range(-5, rounds):
            for name, call in calls.items():
                for size, board in boards.items():
                    begun = time.perf_counter()
                    await call(board, turn)
                    if turn >= 0:
                        taken[name, size].append(time.perf_counter() - begun)
    print(f"{'p50 in ms':16}" + "".join(f"{size:>12,}" for size in wanted) + f"{'ratio':>9}")
    for name in calls:
        row = [1_000 * median(taken[name, size]) for size in wanted]
        print(f"{name:16}" + "".join(f"{value:12.3f}" for value in row) + f"{row[-1] / row[0]:9.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=("callers", "sizes"))
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--counts", default="1,8,32,128")
    parser.add_argument("--sizes", default="1000,10000,100000,1000000")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if asked.part == "sizes":
            wanted = [int(size) for size in asked.sizes.split(",")]
            asyncio.run(sizes(Path(folder), wanted, asked.rounds or 200))
            return
        counts = [int(count) for count in asked.counts.split(",")]
        asyncio.run(in_process(Path(folder, "here"), counts, asked.seconds, asked.rounds or 2))
        over_mcp(Path(folder, "served"), counts, asked.seconds, asked.rounds or 2)


if __name__ == "__main__":
    main()
