"""Measures how a claim with its report, the agenda, planning and a turn grow with the open and the settled tasks.

    python benchmarks/claims.py

It is taken in this process on a file: CPU of all its threads, the least of three times 200 of each. `calls.py` measures
`claim` and `turn` beside a no-op tool.
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from blackboard_mcp.protocols.agenda import NewTask, Settle
from blackboard_mcp.protocols.runs import NewRun
from blackboard_mcp.protocols.tokens import CountedText
from blackboard_mcp.server.strategies.built_in import UNSEEING
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.harness import CONFIG

TRIES = 200
ROUNDS = 1_000


async def growth() -> None:
    """Prints what each act costs as the agenda grows."""
    with tempfile.TemporaryDirectory() as folder:
        store = await SqlBoardStore.open(Path(folder, "board.db"), synchronous="NORMAL")
        await store.ensure_board("main", "ann", CONFIG)
        number = itertools.count()
        first: dict[str, float] = {}
        over = turns = 0

        async def plan(count: int) -> None:
            for _ in range(0, count, 100):
                await store.plan("main", "ann", [NewTask(title=f"task {n}") for n in range(100)])

        async def begin() -> None:
            """Starts a run of one agent, whose turns end no round but their own."""
            new = NewRun(CountedText("Which pump?"), ("bob",), strategy="round-robin", max_rounds=ROUNDS)
            run = await store.start_run("main", "ann", new)
            await store.choose_turns("main", run.number, run.stamp, UNSEEING["round-robin"](run, ("bob",)))

        async def claim() -> None:
            taken = await store.take_task("main", "bob")
            assert taken is not None
            assert taken.task is not None
            act = Settle("done", taken.task.number, taken.lease, CountedText())
            await store.settle_task("main", "bob", act)

        async def one() -> None:
            await store.plan("main", "ann", [NewTask(title=f"one more {next(number)}")])

        async def turn() -> None:
            nonlocal turns
            if turns % (ROUNDS - 1) == 0:
                if turns:
                    await store.stop_run("main", "ann", 0, "enough")
                await begin()
            turns += 1
            text = CountedText(f"I looked at pump {next(number)}.", 7)
            await store.end_turn("main", "bob", 0, 0, text, at_once=UNSEEING)

        async def agenda() -> None:
            await store.agenda("main", "bob")

        async def work(act: Callable[[], Awaitable[None]], count: int) -> float:
            started = time.process_time()
            for _ in range(count):
                await act()
            return (time.process_time() - started) / count * 1e6

        acts = {"claim and report": claim, "agenda": agenda, "plan one": one, "turn": turn}
        for open_, wanted in ((1_000, 0), (8_500, 0), (1_000, 20_000), (1_000, 100_000)):
            while over < wanted:
                await plan(5_000)
                await work(claim, 5_000)
                over += 5_000
            await plan(open_)
            told = []
            for name, act in acts.items():
                used = min([await work(act, TRIES) for _ in range(3)])
                told.append(f"{name} {used:.0f} µs, {used / first.setdefault(name, used):.2f}")
            print(f"{open_:>6} open, {over:>7} over: {'; '.join(told)}")
            await work(claim, open_)  # as many were planned by `one` as were taken by `claim`
            over += open_ + 3 * TRIES
        await store.close()


if __name__ == "__main__":
    asyncio.run(growth())
