"""The engine among several processes: starting at once, writing at once, waking up, dying."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import engine_child as child
import pytest
from blackboard_mcp.storage.sqlite.engine import SqliteEngine
from patience import PATIENCE

CHILD = Path(child.__file__)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and limits of POSIX")


class Children:
    """Processes that begin their roles together."""

    def __init__(self) -> None:
        self.all: list[subprocess.Popen[str]] = []

    def start(self, count: int, role: str, path: Path, *more: object) -> list[subprocess.Popen[str]]:
        started = [
            subprocess.Popen(
                [
                    sys.executable,
                    "-W",
                    "error",
                    "-W",
                    "ignore:Binding:DeprecationWarning",
                    str(CHILD),
                    role,
                    str(path),
                    *map(str, more),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(count)
        ]
        self.all += started
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in started:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        return started


@pytest.fixture
def children() -> Iterator[Children]:
    started = Children()
    yield started
    for process in started.all:
        process.kill()
        process.communicate()


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[SqliteEngine]:
    opened = await open_engine(tmp_path / "board.db")
    yield opened
    await opened.close()


async def open_engine(path: Path) -> SqliteEngine:
    return await SqliteEngine.open(path, migrations=child.MIGRATIONS, application_id=child.APPLICATION)


def report(process: subprocess.Popen[str]) -> Any:
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, output
    return json.loads(output)


@pytest.mark.parametrize("attempt", range(3))
def test_eight_processes_starting_at_once_on_no_file_all_succeed(
    children: Children, tmp_path: Path, attempt: int
) -> None:
    started = children.start(8, "start", tmp_path / "new" / "board.db")
    assert [report(process) for process in started] == [{"ok": True}] * 8


@pytest.mark.parametrize("library", [[], ["--old-library"]], ids=["newest library", "standard library"])
def test_eight_processes_writing_at_once_lose_nothing_and_starve_nobody(
    children: Children, tmp_path: Path, library: list[str]
) -> None:
    started = children.start(8, "write", tmp_path / "board.db", 60, *library)
    # Each comes to its sixty while the seven others write without end.
    for process in started:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == {"written": 60}
    reports = [report(process) for process in started]
    numbers = sorted(n for each in reports for n in each["numbers"])
    assert numbers == list(range(1, len(numbers) + 1))


async def test_a_waiting_process_learns_of_every_commit_without_looking_by_itself(
    children: Children, engine: SqliteEngine, tmp_path: Path
) -> None:
    rounds = 41
    (process,) = await asyncio.to_thread(children.start, 1, "wake", tmp_path / "board.db", rounds)
    assert process.stdout is not None
    assert json.loads(await asyncio.to_thread(process.stdout.readline)) == {"listening": True}
    for _ in range(rounds):
        await engine.write(child.post("parent"))
        async with asyncio.timeout(PATIENCE):
            assert json.loads(await asyncio.to_thread(process.stdout.readline)) == {"heard": 1}


async def test_killed_processes_keep_every_acknowledged_write(children: Children, tmp_path: Path) -> None:
    chance = random.Random(20)
    path = tmp_path / "board.db"
    acknowledged: set[int] = set()
    for _ in range(10):
        (process,) = await asyncio.to_thread(children.start, 1, "journal", path)
        assert process.stdout is not None
        for _ in range(chance.randrange(1, 200)):
            acknowledged.add(json.loads(process.stdout.readline())["acknowledged"])
        process.kill()
        # What it still got out of the door counts; its last line may be cut. `communicate` would leave out what
        # `readline` read ahead.
        rest = (await asyncio.to_thread(process.stdout.read)).splitlines()
        acknowledged |= {json.loads(line)["acknowledged"] for line in rest if line.endswith("}")}
    engine = await open_engine(path)
    count = await engine.read(child.entries)

    def numbers() -> Any:
        entries = yield "SELECT n FROM entry", ()
        counter = yield "SELECT n FROM counter", ()
        check = yield "PRAGMA integrity_check", ()
        return {n for (n,) in entries}, counter[0][0], check

    stored, counter, check = await engine.read(numbers)
    await engine.close()
    assert check == [("ok",)]
    assert stored == set(range(1, count + 1))
    assert counter == count
    assert acknowledged <= stored


async def test_a_limit_on_the_size_of_files_is_a_full_disk_and_writes_go_on_when_it_is_lifted(
    children: Children, tmp_path: Path
) -> None:
    (process,) = await asyncio.to_thread(children.start, 1, "full", tmp_path / "board.db", 300_000)
    told = await asyncio.to_thread(report, process)
    assert told["errors"] == ["StoreFull"] * 3
    assert told["full"] == "full"
    assert told["then"] == told["readable"] == told["acknowledged"] + 1 > 1
    engine = await open_engine(tmp_path / "board.db")
    count = await engine.read(child.entries)
    assert count == told["readable"]
    assert await engine.write(child.post("next")) == count + 1
    assert engine.trouble is None
    await engine.close()
