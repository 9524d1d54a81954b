"""Measures how a claim with its report, the agenda, planning and a turn grow with the agenda.

    python benchmarks/claims.py [--tasks 100000]

Three boards in this process, on files, take turns: one with 1,000 tasks, one with 9,500 of which all but 500 are
open, and one with as many as asked for. Of the first and the last 500 are open, and the others done. CPU of all
threads, the least of ten rounds of 20 acts each. `calls.py` measures `claim` and `turn` beside a no-op tool.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

from blackboard_mcp.protocols.agenda import NewTask, Settle
from blackboard_mcp.protocols.runs import NewRun
from blackboard_mcp.protocols.tokens import CountedText
from blackboard_mcp.server.compose import Installation, installation
from blackboard_mcp.server.input.posts import PostFields
from blackboard_mcp.server.settings.server import Settings
from blackboard_mcp.server.usecases.agenda import Tasks
from blackboard_mcp.server.usecases.runs import Act, Runs

OPEN, ROUNDS, ACTS = 500, 10, 20
Do = Callable[[Tasks, Runs, int], Awaitable[object]]


async def claim(tasks: Tasks, runs: Runs, n: int) -> None:
    await tasks.take("bob", None)
    await tasks.settle("bob", None, Settle("done", 0, 0, CountedText(f"Pump {n} runs.")))


DOES: dict[str, Do] = {
    "claim and report": claim,
    "agenda": lambda tasks, runs, n: tasks.agenda("bob", None),
    "plan one": lambda tasks, runs, n: tasks.plan("bob", None, [NewTask(title=f"one more, {n}")]),
    "turn": lambda tasks, runs, n: runs.turn("bob", None, Act(text=f"I looked at pump {n}.")),
}


async def filled(opened: Installation, planned: int, done: int) -> tuple[Tasks, Runs]:
    """Plans so many tasks and has the first of them done; returns the use cases, with a run of one agent."""
    await opened.blackboard.post("ann", None, [PostFields(text="It begins.", type="LOG")])
    store = opened.store
    for first in range(0, planned, 100):
        await store.plan("main", "ann", [NewTask(title=f"task {first + n}") for n in range(100)])
        for _ in range(min(100, max(0, done - first))):
            taken = await store.take_task("main", "bob")
            assert taken is not None
            assert taken.task is not None
            act = Settle("done", taken.task.number, taken.lease, CountedText())
            await store.settle_task("main", "bob", act)
    runs = Runs(opened.blackboard, opened.conduct())
    new = NewRun(CountedText("Which pump?"), ("bob",), strategy="round-robin", max_rounds=900)
    await runs.start("bob", None, new)
    return Tasks(opened.blackboard), runs


async def growth(most: int) -> None:
    """Prints what each act costs on the three boards."""
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncExitStack() as stack:
            boards = []
            for planned, done in ((1_000, 1_000 - OPEN), (9_500, 500), (most, most - OPEN)):
                settings = Settings(
                    data=Path(folder, str(planned)), synchronous="NORMAL", tools=("core", "run", "plan")
                )
                opening = installation(settings, eager_index=False, background=False)
                boards.append(await filled(await stack.enter_async_context(opening), planned, done))
            number = itertools.count()
            print(f"µs of CPU with 1,000 tasks, with 9,000 open ones, with {most:,}")
            for name, act in DOES.items():
                least = [float("inf")] * len(boards)
                for _ in range(ROUNDS):
                    for place, (tasks, runs) in enumerate(boards):
                        started = time.process_time()
                        for _ in range(ACTS):
                            await act(tasks, runs, next(number))
                        least[place] = min(least[place], (time.process_time() - started) / ACTS * 1e6)
                told = (f"{used:.0f} ({used / least[0]:.2f})" for used in least)
                print(f"{name}: {', '.join(told)}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", type=int, default=100_000)
    asyncio.run(growth(parser.parse_args().tasks))
