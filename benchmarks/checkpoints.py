"""Measures how long small commits wait beside large ones, which fill the write-ahead log.

    python benchmarks/checkpoints.py [--seconds 8] [--folder FOLDER]

One engine on a file: one caller writes 60 rows of 1.5 kB to random places of a table again and again, another writes
one small row every 10 ms or so. Printed are the latencies of the small writes in milliseconds, how many large ones went
through, and the longest log. The disk decides: name a `--folder` on the one in question.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import tempfile
import time
from pathlib import Path

from blackboard_mcp.storage.operation import Operation
from blackboard_mcp.storage.sqlite.engine import SqliteEngine

SCHEMA = "CREATE TABLE large(n INTEGER PRIMARY KEY, value BLOB); CREATE TABLE small(value BLOB);"


def large(dice: random.Random) -> Operation[None]:
    """Returns an operation that writes 60 rows to random places."""
    places = [dice.randrange(20_000) for _ in range(60)]

    def operation():  # type: ignore[no-untyped-def]
        for n in places:
            yield "INSERT OR REPLACE INTO large VALUES (?1, randomblob(1500))", (n,)

    return operation


def small():  # type: ignore[no-untyped-def]
    """Writes one row, as an operation of the engine."""
    yield "INSERT INTO small VALUES (randomblob(200))", ()


async def measure(path: Path, seconds: float) -> None:
    """Writes for so many seconds, and prints what the small writes took."""
    engine = await SqliteEngine.open(path, migrations=[SCHEMA], application_id=1)
    log = path.with_name(path.name + "-wal")
    until = time.perf_counter() + seconds
    done = longest = 0
    taken: list[float] = []

    async def fill() -> None:
        nonlocal done
        dice = random.Random(1)
        while time.perf_counter() < until:
            await engine.write(large(dice))
            done += 1

    async def write() -> None:
        nonlocal longest
        while (begun := time.perf_counter()) < until:
            await engine.write(small)
            taken.append(1000 * (time.perf_counter() - begun))
            longest = max(longest, os.stat(log).st_size)
            await asyncio.sleep(0.01)

    await asyncio.gather(fill(), write())
    await engine.close()
    taken.sort()
    p50, p90, p99 = (taken[int(len(taken) * part)] for part in (0.5, 0.9, 0.99))
    print(
        f"{len(taken)} small writes: p50 {p50:.1f}, p90 {p90:.1f}, p99 {p99:.1f}, longest {taken[-1]:.1f} ms; "
        f"{done} large ones; log up to {longest / 1e6:.0f} MB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        asyncio.run(measure(Path(folder) / "board.sqlite3", options.seconds))


if __name__ == "__main__":
    main()
