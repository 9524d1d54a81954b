"""Measures the guard on boards of 1,000, 10,000 and 100,000 live items, compared with walking all edges anew.

    python benchmarks/guard.py [--sizes 1000,10000,100000] [--rounds 30] [--json]

Each board has four open debates of about a hundred items, and settled threads, resolved items and notes of
other agents in proportion to its size. Times are medians in milliseconds of processor time (all threads) of
calls on the store, each in a transaction of its own (synchronous=NORMAL); the last column is the largest
board against the smallest. "walk" is the closure walked anew from all open debates with the edges read from
the same file, and "all of it" a pass that is shown all of working memory, as it was done before there was an
index.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from blackboard_mcp.protocols.board import BoardChange, BoardConfig, PassStep
from blackboard_mcp.protocols.guard import closure
from blackboard_mcp.protocols.pruning import PassOutcome, Plan, Reach, Workspace
from blackboard_mcp.server.pruning.selection import decide
from blackboard_mcp.storage.operations.ledger.rows import Steps, edge_of, numbers, sql
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.harness import Table, draft

DEBATES = 4
MEMBERS = 100
TOKENS = 40
MOVED = 50
PASSES = 5
Times = dict[str, float]


async def grow(at: Table, size: int) -> list[int]:
    """Fills a board with about `size` live items, and returns the numbers of its debates' roots."""
    dice = random.Random(size)
    roots: list[int] = []
    # A few agents stand for many, so each may hold any share of the board.
    config = BoardConfig(target_tokens=2 * size * TOKENS, owner_held=1.0, owner_share=1.0)
    await at.store.ensure_board(at.board, "alice", config)
    for debate in range(DEBATES):
        root = await at.post("alice", f"claim {debate}", "HYPOTHESIS", tokens=TOKENS)
        members = [root.number]
        for place in range(MEMBERS):
            target = dice.choice(members[-20:])
            sent = draft(f"reply {place}", "REPLY", importance=2, tokens=TOKENS, replies_to=target)
            members.append((await at.batch("bob", sent)).items[0].number)
        await at.open("carol", root)
        roots.append(root.number)
    count = DEBATES * (MEMBERS + 1)
    while count < size:
        agent = dice.choice(["alice", "bob", "carol", "dave"])
        batch = [
            draft(
                f"finding {count + n}",
                dice.choice(["FACT", "FACT", "HYPOTHESIS", "RESULT", "DECISION"]),
                importance=dice.choice([2, 3, 3, 4, 5]),
                tokens=TOKENS,
                private=dice.random() < 0.02,
            )
            for n in range(94)
        ]
        batch += [draft(f"thread {count}", "QUESTION", tokens=TOKENS)]
        batch += [draft(f"said {n}", "REPLY", tokens=TOKENS, replies_to=-95) for n in range(5)]
        posted = (await at.batch(agent, *batch)).items
        if dice.random() < 0.1:
            await at.change(agent, posted[0].number, status="RESOLVED")
            await at.post(agent, "answered", "ANSWER", replies_to=posted[94], tokens=TOKENS)
        count += len(posted)
    return roots


def walk(no: int) -> Steps[int]:
    """Computes the protected items from all open debates without the index, and returns how many there are."""
    about = yield sql("debated_anywhere"), ()
    steps = closure({number: "" for board, number, _ in about if board == no})
    try:
        frontier = next(steps)
        while True:
            rows = yield sql("edges_touching"), (no, numbers(frontier))
            frontier = steps.send([edge_of(row) for row in rows])
    except StopIteration as end:
        return len(end.value)


async def timed(rounds: int, call: Callable[[], Awaitable[object]]) -> float:
    """Returns the median CPU milliseconds of a call over some rounds."""
    spent = []
    for _ in range(rounds):
        begin = time.process_time()
        await call()
        spent.append(time.process_time() - begin)
    return median(spent) * 1_000


async def passes(at: Table, rounds: int, reach: Reach | None) -> tuple[float, int]:
    """Runs passes that have to move `MOVED` items each.

    Returns the median CPU milliseconds of a pass, and how many items it moved. `reach` limits what a pass is
    shown.
    """
    spent, moved = [], []

    def plan(space: Workspace) -> Plan:
        return decide(space, steps=frozenset({PassStep.RESOLVED, PassStep.LOGS, PassStep.IMPORTANCE}))

    for _ in range(rounds):
        tokens = (await at.standing()).working_tokens
        low = tokens - MOVED * TOKENS
        target = low * 2
        settings = {
            "target_tokens": target,
            "low_water": low / target,
            "high_water": low / target + 1e-6,
            "ceiling": 4,
        }
        await at.store.change_board(at.board, "alice", BoardChange(settings=settings))
        begin = time.process_time()
        outcome: PassOutcome = await at.store.prune(
            at.board, plan, reaching=None if reach is None else lambda _: reach
        )
        spent.append(time.process_time() - begin)
        moved.append(len(outcome.moved))
    return median(spent) * 1_000, round(median(moved))


async def measure(folder: Path, size: int, rounds: int) -> Times:
    """Fills a board of `size` items, and returns the milliseconds of each operation by name."""
    store = await SqlBoardStore.open(folder / f"{size}.db", synchronous="NORMAL")
    at = Table(store)
    roots = await grow(at, size)
    fresh = [(await at.post("alice", f"apart {n}", tokens=TOKENS)).number for n in range(4 * rounds)]
    apart = iter(fresh)
    times: Times = {"items": (await at.standing()).working_items}
    place = itertools.count()
    times["post"] = await timed(rounds, lambda: at.post("dave", f"elsewhere {next(place)}", tokens=TOKENS))
    times["post that replies"] = await timed(
        rounds, lambda: at.post("dave", "yes", "REPLY", replies_to=next(apart), tokens=TOKENS)
    )
    times["post in a debate"] = await timed(
        rounds, lambda: at.post("dave", f"and {next(place)}", "REPLY", replies_to=roots[0], tokens=TOKENS)
    )
    times["post that opens a debate"] = await timed(
        rounds, lambda: at.post("dave", "no", "CRITIQUE", critiques=next(apart), tokens=TOKENS)
    )
    opened = iter(fresh[rounds : 2 * rounds])
    times["debate closed"] = await timed(rounds, lambda: at.decide("erin", next(opened), "so be it"))
    some = roots + fresh[:50]
    times["guarded, 60 items"] = await timed(rounds, lambda: store.guarded(at.board, some))
    times["snapshot of a view"] = await timed(rounds, lambda: store.snapshot(at.board, "erin"))
    times["a debate of 100 closed"] = await timed(1, lambda: at.decide("erin", roots[0], "so be it"))
    times["a debate of 100 opened"] = await timed(1, lambda: at.open("carol", roots[0]))
    times["pass of 50"], times["moved"] = await passes(at, PASSES, Reach.ENOUGH)
    times["pass of 50, all of it"], _ = await passes(at, 2, None)
    times["walk"] = await timed(5, lambda: store.engine.read(partial(walk, 1)))
    await store.close()
    return times


def table(measured: dict[int, Times]) -> str:
    """Returns the times as a table for a terminal, with the largest board's time divided by the smallest's."""
    sizes = sorted(measured)
    lines = [f"{'':26}" + "".join(f"{size:>12,}" for size in sizes) + f"{'ratio':>9}"]
    for name in measured[sizes[0]]:
        row = [measured[size][name] for size in sizes]
        cells = "".join(
            f"{value:12,.0f}" if name in ("items", "moved") else f"{value:12.3f}" for value in row
        )
        lines.append(f"{name:26}{cells}{row[-1] / row[0] if row[0] else 0:9.2f}")
    return "\n".join(lines)


async def run(sizes: list[int], rounds: int, *, as_json: bool) -> None:
    measured: dict[int, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            measured[size] = await measure(Path(folder), size, rounds)
    print(json.dumps(measured) if as_json else table(measured))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="1000,10000,100000")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    asyncio.run(run([int(size) for size in asked.sizes.split(",")], asked.rounds, as_json=asked.json))


if __name__ == "__main__":
    main()
