"""Measures what the work in the background costs a post, and for how long at most it keeps posts from the file.

    python benchmarks/background.py [--posts 4000] [--callers 8] [--rounds 3]

Agents post items of 8 to 60 words to one board. In turns it has room for all of them and nothing works in the
background; it keeps its budget, by passes; and the rest works too: the search index of what left, sweeps, records of
activity. The differences of the process's CPU for each post are that work's, with what follows in the seconds after
the last post and without what the first posts load.

A transaction of the background gives way to posts between two statements, so what a post may wait for is one statement.
The table has the most CPU that one statement took, for each operation that writes, in the last round.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import blackboard_mcp.storage.sqlite.group as group
from blackboard_mcp.protocols.board import BoardConfig
from blackboard_mcp.server.compose import installation
from blackboard_mcp.server.input.posts import PostFields
from blackboard_mcp.server.settings.server import Settings

TYPES = ("FACT", "LOG", "HYPOTHESIS", "RESULT")
FIRST = 500
"""Posts before those that are measured: at the first, the search index and its model are loaded."""
ROOMY = 10_000_000
"""The tokens that a board may keep which nothing leaves."""
REST_SECONDS = 4.0
"""The seconds after the last post in which the work in the background comes to its end."""

spent: dict[str, list[float]] = {}
"""The CPU milliseconds of each statement that a writing thread ran, by operation."""


def operation_of(work: Any) -> str:
    """Returns the name of an operation, through all that wraps it."""
    for _ in range(8):
        if isinstance(work, partial):
            work = work.args[-1]
        cells = [cell.cell_contents for cell in getattr(work, "__closure__", None) or ()]
        inner = [one for one in cells if callable(one) and not isinstance(one, type)]
        if not inner:
            break
        work = inner[0]
    return str(getattr(work, "__qualname__", work)).removesuffix(".<locals>.<lambda>").rpartition(".")[2]


def watch() -> None:
    """Measures each statement of writing threads from now on."""
    now = threading.local()
    run, fetched = group.run, group.fetched

    def running(raw: Any, operation: Callable[[], Generator[Any, Any, Any]], *rest: Any) -> Any:
        now.name = operation_of(operation)
        return run(raw, operation, *rest)

    def fetching(execute: Any, text: str, parameters: Any) -> Any:
        begun = time.thread_time()
        try:
            return fetched(execute, text, parameters)
        finally:
            if (name := getattr(now, "name", None)) is not None and threading.current_thread() in writers:
                spent.setdefault(name, []).append(1_000 * (time.thread_time() - begun))

    writers: set[threading.Thread] = set()
    attempt = group.GroupWriter._attempt

    def attempting(self: Any, *given: Any, **more: Any) -> Any:
        writers.add(threading.current_thread())
        return attempt(self, *given, **more)

    for module, name, new in (
        (group, "run", running),
        (group, "fetched", fetching),
        (group.GroupWriter, "_attempt", attempting),
    ):
        setattr(module, name, new)


async def measure(posts: int, callers: int, *, passes: bool, rest: bool) -> float:
    """Returns the CPU microseconds of the process for each post."""
    dice = random.Random(7)
    words = [f"{dice.choice('bcdfglmnprst')}{dice.randrange(4_000):x}" for _ in range(4_000)]
    texts = [" ".join(dice.choices(words, k=dice.randint(8, 60))) for _ in range(FIRST + posts)]
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(data=Path(folder))
        async with installation(settings, eager_index=rest, background=rest) as opened:
            board = opened.blackboard

            async def calls(agent: str, numbers: Iterator[int]) -> None:
                for n in numbers:
                    await board.post(agent, "main", [PostFields(text=texts[n], type=TYPES[n % 4])])

            async def post(numbers: Iterator[int]) -> None:
                await asyncio.gather(*(calls(f"agent{n}", numbers) for n in range(callers)))
                await asyncio.sleep(REST_SECONDS)

            if not passes:
                await board.store.ensure_board("main", "zoe", BoardConfig(target_tokens=ROOMY))
            await board.post("zoe", "main", [PostFields(text="The board begins.")])
            await post(iter(range(FIRST)))
            spent.clear()
            begun = time.process_time()
            await post(iter(range(FIRST, FIRST + posts)))
            return 1e6 * (time.process_time() - begun) / posts


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--posts", type=int, default=4_000)
    parser.add_argument("--callers", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    watch()
    kinds = {
        "posts alone": (False, False),
        "with passes": (True, False),
        "with all work in the background": (True, True),
    }
    taken: dict[str, list[float]] = {}
    for _ in range(options.rounds):
        for kind, (passes, rest) in kinds.items():
            one = measure(options.posts, options.callers, passes=passes, rest=rest)
            taken.setdefault(kind, []).append(asyncio.run(one))
    for kind, each in taken.items():
        print(f"{kind:32} {median(each):6.0f} µs of CPU for each post ({min(each):.0f} to {max(each):.0f})")
    print(
        f"{'operation that writes':28}{'statements':>11}{'CPU of a post, µs':>19}{'longest statement, ms':>23}"
    )
    for name, each in sorted(spent.items(), key=lambda pair: -max(pair[1])):
        print(f"{name:28}{len(each):11}{1_000 * sum(each) / options.posts:19.1f}{max(each):23.2f}")


if __name__ == "__main__":
    main()
