"""Measures how a claim and its report grow with the agenda: with so many tasks open, and with so many over.

    python benchmarks/claims.py

It is taken in this process on a file. `calls.py` measures `claim` and `turn` beside a no-op tool.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from blackboard_mcp.protocols.agenda import NewTask, Settle
from blackboard_mcp.protocols.tokens import CountedText
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.harness import CONFIG

TRIES = 200


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


if __name__ == "__main__":
    asyncio.run(growth())
