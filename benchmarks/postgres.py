"""Posts, readings and news on boards in PostgreSQL, beside the same on a file, in one run.

    python benchmarks/postgres.py --address postgresql://blackboard@127.0.0.1/boards

It makes a schema of its own, `benchmark`, which should be empty. Posts differ in their numbers alone, so that each has
a remark, or with `--words` in a word. Stores are opened in this process, without a server of ours in between. All posts
are acknowledged, so they are synced where the database syncs. News go from one store to another on the same boards:
from the acknowledgement of a post to the end of the other's wait. Of 32 callers' posts in PostgreSQL it also tells the
round trips, and the CPU of this process and, on its machine, of the database's.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import math
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blackboard_mcp.protocols.board import BoardConfig
from blackboard_mcp.protocols.store import BoardStore
from blackboard_mcp.storage.postgres.engine import PostgresEngine
from blackboard_mcp.storage.postgres.session import Session
from blackboard_mcp.storage.postgres.store import open_postgres_store
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.harness import Table

CALLERS = (1, 8, 32)
WORDS = itertools.count()
Open = Callable[[], Awaitable[SqlBoardStore]]


def numbered(count: int, name: str) -> str:
    """Returns a text that differs from others by numbers."""
    return f"reading {count} of {name}"


def worded(count: int, name: str) -> str:
    """Returns a text that differs from all others by a word."""
    word = "".join(chr(ord("a") + int(digit)) for digit in str(next(WORDS)))
    return f"the sensor {word} answers"


async def posts(
    store: BoardStore, callers: int, seconds: float, board: str, text: Callable[[int, str], str] = numbered
) -> float:
    """Returns the posts a second of so many callers on one board."""
    await store.ensure_board(board, "alice", BoardConfig(target_tokens=1_000_000))
    count, until = 0, time.perf_counter() + seconds
    begun = time.perf_counter()

    async def caller(name: str) -> None:
        nonlocal count
        at = Table(store, board)
        while time.perf_counter() < until:
            count += 1
            await at.post(name, text(count, name), "FACT")

    await asyncio.gather(*(caller(f"agent{callers}x{n}") for n in range(callers)))
    return count / (time.perf_counter() - begun)


@dataclass
class Costs:
    """The round trips and CPU seconds of posts: differences of two readings."""

    engine: PostgresEngine
    trips: int = 0

    def cpu(self) -> tuple[float, float]:
        """Returns the CPU seconds so far of this process, and of the one that serves its writes."""
        pid = self.engine._writer._connection().get_server_pid()
        try:
            words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            there = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
        except OSError:
            there = math.nan
        return time.process_time(), there

    async def of(self, posting: Awaitable[float]) -> float:
        """Prints what a post took, and returns what `posting` does."""
        fetch, execute = Session.fetch, Session.execute

        async def fetched(session: Session, *given: Any) -> Any:
            self.trips += session is self.engine._writer
            return await fetch(session, *given)

        async def executed(session: Session, script: str) -> None:
            self.trips += session is self.engine._writer
            await execute(session, script)

        before, begun = self.cpu(), time.perf_counter()
        Session.fetch, Session.execute = fetched, executed  # type: ignore[method-assign]
        try:
            rate = await posting
        finally:
            Session.fetch, Session.execute = fetch, execute  # type: ignore[method-assign]
        count = rate * (time.perf_counter() - begun)
        here, there = (1000 * (now - then) / count for then, now in zip(before, self.cpu(), strict=True))
        trips = self.trips / count
        print(
            f"a post of 32: {trips:.2f} round trips, CPU {here:.2f} ms here, {there:.2f} ms in the database"
        )
        return rate


async def readings(store: BoardStore, board: str, times: int) -> float:
    """Returns the median milliseconds of reading ten items by number."""
    at, took = Table(store, board), []
    for n in range(times):
        begun = time.perf_counter()
        await at.item(1 + n % 50)
        took.append((time.perf_counter() - begun) * 1000)
    return statistics.median(took)


async def news(one: BoardStore, other: BoardStore, board: str, times: int) -> tuple[float, float]:
    """Returns the median and the ninth decile of the milliseconds until the other store has heard of a post."""
    took = []
    for n in range(times):
        seen = other.changes()
        waiting = asyncio.create_task(other.wait_for_change(seen, 10.0))
        await asyncio.sleep(0.02)
        seen = other.changes()
        if waiting.done():
            waiting = asyncio.create_task(other.wait_for_change(seen, 10.0))
        await Table(one, board).post("alice", f"news {n}", "FACT")
        begun = time.perf_counter()
        await waiting
        took.append((time.perf_counter() - begun) * 1000)
    return statistics.median(took), statistics.quantiles(took, n=10)[-1]


async def measure(
    name: str, open_store: Open, seconds: float, text: Callable[[int, str], str]
) -> dict[int, float]:
    """Prints the figures of one kind of store, and returns its posts a second by callers."""
    store, other = await open_store(), await open_store()
    try:
        board = f"b{time.time_ns()}"
        await posts(store, 8, seconds, f"{board}-first", text)  # statements are prepared, functions made
        rates = {}
        for callers in CALLERS:
            posting = posts(store, callers, seconds, board, text)
            if callers == CALLERS[-1] and isinstance(store.engine, PostgresEngine):
                posting = Costs(store.engine).of(posting)
            rates[callers] = await posting
        read = await readings(store, board, 200)
        median, decile = await news(store, other, board, 100)
    finally:
        await store.close()
        await other.close()
    shown = ", ".join(f"{callers} callers {rate:,.0f}/s" for callers, rate in rates.items())
    print(f"{name:10} {shown}; an item read {read:.2f} ms; news {median:.2f} ms, 90 % {decile:.2f}")
    return rates


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", required=True)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--words", action="store_true")
    given = parser.parse_args()
    text = worded if given.words else numbered
    address = given.address + ("&" if "?" in given.address else "?") + "schema=benchmark"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "board.db"
        for _ in range(given.rounds):
            file = await measure("file", lambda: SqlBoardStore.open(path), given.seconds, text)
            there = await measure("PostgreSQL", lambda: open_postgres_store(address), given.seconds, text)
            print(
                "ratio", ", ".join(f"{callers}: {there[callers] / file[callers]:.2f}" for callers in CALLERS)
            )


if __name__ == "__main__":
    asyncio.run(main())
