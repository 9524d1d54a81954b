"""Measures the SQLite engine: operations per second, the delay until other processes wake up, and the cost of idling.

    python benchmarks/engine.py [--seconds 2] [--folder DIR]

Every write takes the next number of a counter row and inserts an entry of 200 bytes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

from blackboard_mcp.storage.sqlite.engine import SqliteEngine, Synchronous

MIGRATIONS = [
    "CREATE TABLE counter(n INTEGER NOT NULL); INSERT INTO counter VALUES (0);"
    "CREATE TABLE entry(n INTEGER PRIMARY KEY, text TEXT NOT NULL);"
]
TEXT = "x" * 200
Steps = Generator[tuple[str, tuple[Any, ...]], list[tuple[Any, ...]], int]


def post() -> Steps:
    """Takes the next number of the counter and inserts an entry; returns the number."""
    rows = yield "UPDATE counter SET n = n + 1 RETURNING n", ()
    yield "INSERT INTO entry(n, text) VALUES (?1, ?2)", (rows[0][0], TEXT)
    return int(rows[0][0])


def look() -> Steps:
    """Reads the newest 20 entries; returns how many there are."""
    rows = yield "SELECT n, text FROM entry ORDER BY n DESC LIMIT 20", ()
    return len(rows)


async def open_engine(path: Path, synchronous: Synchronous = "FULL") -> SqliteEngine:
    return await SqliteEngine.open(path, migrations=MIGRATIONS, application_id=1, synchronous=synchronous)


async def throughput(engine: SqliteEngine, callers: int, seconds: float, kind: str) -> str:
    """Runs callers for some seconds, and returns operations per second and latencies as text."""
    delays: list[float] = []
    until = time.perf_counter() + seconds

    async def caller() -> None:
        while (begun := time.perf_counter()) < until:
            await (engine.write(post) if kind == "writes" else engine.read(look))
            delays.append(time.perf_counter() - begun)

    await asyncio.gather(*(caller() for _ in range(callers)))
    return f"{len(delays) / seconds:8,.0f}/s  {quantiles(delays)}"


async def wake_ups(folder: Path, rounds: int = 300) -> str:
    """Returns the delays between a commit and its notice in another process, as text."""
    path = folder / "wake.db"
    engine = await open_engine(path)
    child = child_process("listen", path, rounds)
    assert child.stdout is not None
    await asyncio.to_thread(child.stdout.readline)
    delays = []
    for _ in range(rounds):
        await engine.write(post)
        committed = time.monotonic()
        noticed = json.loads(await asyncio.to_thread(child.stdout.readline))
        delays.append(noticed - committed)
    child.communicate()
    await engine.close()
    return quantiles(delays)


def quantiles(delays: list[float]) -> str:
    """Returns the median, 99th percentile and maximum of delays given in seconds, as text in milliseconds."""
    ordered = sorted(delays)
    p50, p99 = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]
    return f"p50 {p50 * 1000:7.2f} ms  p99 {p99 * 1000:7.2f} ms  max {ordered[-1] * 1000:7.2f} ms"


def child_process(role: str, path: Path, number: float) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, "--role", role, str(path), str(number)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


async def play(role: str, path: Path, number: float) -> None:
    """Runs one of the child processes: a listener, a writer, or an idle or waiting process."""
    engine = await open_engine(path)
    if role == "listen":
        seen = engine.changes()
        print("listening", flush=True)
        for _ in range(int(number)):
            seen = await engine.wait_for_change(seen, 30)
            print(time.monotonic(), flush=True)
    elif role == "write":
        print(await throughput(engine, 1, number, "writes"))
    else:
        # Let the start settle: the cost of idling is measured, not the first second.
        await asyncio.sleep(1)
        before = time.process_time()
        if role == "waiting":
            await engine.wait_for_change(engine.changes(), number)
        else:
            await asyncio.sleep(number)
        print(f"{(time.process_time() - before) / number:.3%} of a core")
    await engine.close()


async def measure(seconds: float, folder: Path) -> None:
    modes: tuple[Synchronous, ...] = ("FULL", "NORMAL")
    for synchronous in modes:
        engine = await open_engine(folder / f"{synchronous}.db", synchronous)
        if synchronous == "FULL":
            print(f"SQLite {engine.sqlite_version}, safe mode {engine.safe_mode}, {os.cpu_count()} cores")
        for callers in (1, 8, 32):
            told = await throughput(engine, callers, seconds, "writes")
            print(f"writes {synchronous:6} {callers:3} callers  {told}")
        for callers in (1, 8):
            told = await throughput(engine, callers, seconds, "reads")
            print(f"reads  {synchronous:6} {callers:3} callers  {told}")
        await engine.close()
    writers = [child_process("write", folder / "shared.db", seconds) for _ in range(8)]
    for writer in writers:
        print("one of 8 processes      ", (await asyncio.to_thread(writer.communicate))[0].strip())
    print(f"wake-up of another process          {await wake_ups(folder)}")
    for role in ("idle", "waiting"):
        child = child_process(role, folder / f"{role}.db", max(10.0, seconds))
        print(f"{role:8} process  {(await asyncio.to_thread(child.communicate))[0].strip()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--role", nargs=3, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.role:
        asyncio.run(play(chosen.role[0], Path(chosen.role[1]), float(chosen.role[2])))
        return
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        asyncio.run(measure(chosen.seconds, Path(folder)))


if __name__ == "__main__":
    main()
