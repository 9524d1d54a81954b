"""A queueing model of posts on PostgreSQL, beside measurements of the same in one run.

    python benchmarks/postgres_scale.py --address postgresql://blackboard@127.0.0.1/boards

The posts of 4 callers and of 16 give the two figures of the model: what a transaction costs, and what a post in it
does. The model then says how many posts a second other numbers of callers and servers make, which is measured too. It
makes a schema of its own, `benchmark`, which should be empty. Without an address it prints what the model says of given
costs.
"""

from __future__ import annotations

import argparse
import asyncio
import heapq
import statistics
import time
from collections.abc import Sequence

from blackboard_mcp.protocols.board import BoardConfig
from blackboard_mcp.storage.postgres.store import open_postgres_store
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.harness import Table

MOST, SPAN = 64, 0.05
"""The most posts of one transaction, and the seconds after which it takes no more, as in the engine."""
FEW, MANY = 4, 16
"""The callers whose posts give the figures of the model; a single post does not share its statements."""
POINTS = ((1, 8), (1, 32), (2, 8))
"""Servers, and callers of each, at which the model is held to measurements."""


def modelled(
    once: float, each: float, servers: int, callers: int, think: float = 0.0, posts: int = 5_000
) -> float:
    """Returns the posts a second of callers who post again `think` seconds after an answer.

    One transaction runs at a time, over all servers. It costs `once`, and `each` for each post that waits in its
    server when the one before it is done.
    """
    arrivals = [(0.0, server) for server in range(servers) for _ in range(callers)]
    heapq.heapify(arrivals)
    waiting = [list[float]() for _ in range(servers)]
    now, done = 0.0, 0

    def arrive() -> None:
        while arrivals and arrivals[0][0] <= now:
            at, server = heapq.heappop(arrivals)
            waiting[server].append(at)

    while done < posts:
        arrive()
        if not any(waiting):
            now = arrivals[0][0]
            continue
        server = min((line[0], n) for n, line in enumerate(waiting) if line)[1]
        now += once
        until, members = now + SPAN, 0
        while waiting[server] and members < MOST and now < until:
            waiting[server].pop(0)
            now += each
            members += 1
            arrive()
        done += members
        for _ in range(members):
            heapq.heappush(arrivals, (now + think, server))
    return done / now


async def measured(stores: Sequence[SqlBoardStore], callers: int, seconds: float) -> float:
    """Returns the posts a second of so many callers of each store on one board."""
    board = f"b{time.time_ns()}"
    await stores[0].ensure_board(board, "alice", BoardConfig(target_tokens=1_000_000))
    count, until = 0, time.perf_counter() + seconds
    begun = time.perf_counter()

    async def caller(at: Table, name: str) -> None:
        nonlocal count
        while time.perf_counter() < until:
            count += 1
            word = "".join(chr(ord("a") + int(digit)) for digit in str(count))
            await at.post(name, f"the sensor {word} answers {name}", "FACT")

    await asyncio.gather(
        *(
            caller(Table(store, board), f"agent{m}x{n}")
            for m, store in enumerate(stores)
            for n in range(callers)
        )
    )
    return count / (time.perf_counter() - begun)


async def costs(store: SqlBoardStore, seconds: float) -> tuple[float, float]:
    """Returns the seconds of a transaction without its posts, and of a post in it.

    So many callers who share each transaction make callers / (once + callers * each) posts a second.
    """
    few = FEW / await measured([store], FEW, seconds)
    many = MANY / await measured([store], MANY, seconds)
    each = (many - few) / (MANY - FEW)
    return few - FEW * each, each


async def compare(address: str, seconds: float, rounds: int) -> None:
    """Prints model and measurement: medians of short turns, one after another, since other work disturbs both alike."""
    address += ("&" if "?" in address else "?") + "schema=benchmark"
    stores = [await open_postgres_store(address) for _ in range(2)]
    try:
        await measured(stores, 8, seconds)  # statements are prepared, functions made
        spent: list[tuple[float, float]] = []
        found: dict[tuple[int, int], list[float]] = {point: [] for point in POINTS}
        for _ in range(rounds):
            spent.append(await costs(stores[0], seconds))
            for servers, callers in POINTS:
                found[servers, callers].append(await measured(stores[:servers], callers, seconds))
        once, each = (statistics.median(values) for values in zip(*spent, strict=True))
        print(f"a transaction {once * 1000:.2f} ms, a post in it {each * 1000:.2f} ms")
        for (servers, callers), rates in found.items():
            said, seen = modelled(once, each, servers, callers), statistics.median(rates)
            print(f"{servers} x {callers:2}: model {said:,.1f}/s, measured {seen:,.1f}/s, {said / seen:.2f}")
    finally:
        for store in stores:
            await store.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--once", type=float, default=5.0, help="milliseconds of a transaction")
    parser.add_argument("--each", type=float, default=0.7, help="milliseconds of a post in it")
    given = parser.parse_args()
    if given.address:
        asyncio.run(compare(given.address, given.seconds, given.rounds))
        return
    once, each = given.once / 1000, given.each / 1000
    for servers in (1, 2, 4):
        rates = (
            f"{callers} callers {modelled(once, each, servers, callers):,.0f}/s"
            for callers in (1, 8, 32, 128)
        )
        print(f"{servers} servers, of each: {', '.join(rates)}")


if __name__ == "__main__":
    main()
