"""Flipped bits in the files of a board: no wrong text is ever read, and what is lost is told of.

At night many more flips are tried; the test prints what became of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.protocols.board import BoardConfig
from blackboard_mcp.protocols.errors import BlackboardError
from blackboard_mcp.protocols.items import Ref
from blackboard_mcp.storage.sqlite import examining
from blackboard_mcp.storage.sqlite.opening import APPLICATION_ID, migrations
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.harness import draft
from profiles import NIGHTLY

FLIPS = 2_000 if NIGHTLY else 60
SEED = 5
REFUSED = (BlackboardError, AssertionError, ValueError, TypeError, LookupError, OverflowError)
"""The read fails: with an error that names the damage, or, for a value that none can be, an internal one."""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes that end without closing")


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a board that was closed in order."""
    path = tmp_path_factory.mktemp("flips") / "board.sqlite3"

    async def make() -> None:
        store = await SqlBoardStore.open(path)
        config = BoardConfig()
        dice = random.Random(SEED)
        words = [
            "pump",
            "valve",
            "seal",
            "motor",
            "hose",
            "crane",
            "flow",
            "price",
            "litre",
            "leak",
            "blue",
            "old",
            "new",
            "tested",
            "found",
        ]
        for n in range(12):
            drafts = [draft(" ".join(dice.choices(words, k=100)), "LOG") for _ in range(20)]
            await store.post("main", "ada", drafts, config=config)
            await store.post("main", "ben", [draft(f"version {n}", key=f"plan:{n % 3}")], config=config)
        await store.close()

    asyncio.run(make())
    return path


async def contents(path: Path) -> dict[str, str]:
    """The text of every item by number, as it is read."""
    store = await SqlBoardStore.open(path)
    try:
        there = await store.find_board("main")
        assert there is not None
        found: dict[str, str] = {}
        page = await store.read("main", "ada", [Ref(n, None) for n in range(1, 244)], [])
        for item in page.items:
            found[f"{item.number}@{item.version}"] = item.text
        return found
    finally:
        await store.close()


def examined(path: Path) -> bool:
    """Whether the doctor's look at the whole file finds something."""
    try:
        with examining.opened(path) as raw:
            found = examining.examine(
                raw,
                application_id=APPLICATION_ID,
                newest=len(migrations()),
                now=datetime.now(UTC),
                whole=True,
            )
    except BlackboardError:
        return True
    return bool(found.refused or found.damage or found.dangling or found.altered or found.gaps)


def dumped(path: Path) -> Any:
    """All rows of all tables, or nothing where they cannot be read."""
    import sqlite3

    with contextlib.closing(sqlite3.connect(path)) as raw:
        try:
            names = [
                row[0]
                for row in raw.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY 1")
            ]
            # Names come from our own file.
            return [(name, raw.execute(f"SELECT * FROM {name}").fetchall()) for name in names]  # noqa: S608
        except (sqlite3.Error, UnicodeDecodeError, OverflowError):
            return None


def flip(path: Path, dice: random.Random) -> None:
    """Changes a bit of a byte that is none of the many zeros of empty space."""
    with path.open("r+b") as file:
        was = 0
        while not was:
            at = dice.randrange(path.stat().st_size)
            file.seek(at)
            was = file.read(1)[0]
        file.seek(at)
        file.write(bytes([was ^ (1 << dice.randrange(8))]))


async def test_no_flipped_bit_of_the_file_makes_a_wrong_text_and_most_are_found(
    board: Path, tmp_path: Path
) -> None:
    dice = random.Random(SEED)
    right = await contents(board)
    posted = set(right.values())
    whole = dumped(board)
    became: Counter[str] = Counter()
    for n in range(FLIPS):
        path = tmp_path / f"{n}.sqlite3"
        shutil.copyfile(board, path)
        flip(path, dice)
        found = examined(path)
        same = dumped(path) == whole
        try:
            read = await contents(path)
        except REFUSED:
            read = None
        # An index may lead to nothing or to another item: then the look finds the damage.
        assert read is None or set(read.values()) <= posted
        assert read in (None, right) or found
        became["found" if found else "without effect" if same else "not found"] += 1
        path.unlink()
    print(f"{FLIPS} flips in the file: {dict(became)}")
    changed = became["found"] + became["not found"]
    assert became["found"] > changed / 2


async def test_commits_behind_a_flipped_bit_of_the_log_are_told_of_loudly(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    code = (
        "import asyncio, os, sys\n"
        "from pathlib import Path\n"
        "from blackboard_mcp.protocols.board import BoardConfig\n"
        "from blackboard_mcp.storage.store import SqlBoardStore\n"
        "from blackboard_mcp.storage.testing.harness import draft\n"
        "async def main():\n"
        "    store = await SqlBoardStore.open(Path(sys.argv[1]))\n"
        "    for n in range(12): await store.post('main', 'ada', [draft(f'post {n}', 'LOG')], config=BoardConfig())\n"
        "    os._exit(0)\n"
        "asyncio.run(main())\n"
    )
    died = tmp_path / "died"
    died.mkdir()
    await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", code, str(died / "board.sqlite3")], check=True
    )
    shutil.rmtree(died / "board.sqlite3.peers")
    dice = random.Random(SEED)
    told = 0
    for n in range(FLIPS // 4):
        folder = Path(shutil.copytree(died, tmp_path / str(n)))
        flip(folder / "board.sqlite3-wal", dice)
        caplog.clear()
        with caplog.at_level(logging.ERROR):
            try:
                texts = list((await contents(folder / "board.sqlite3")).values())
            except REFUSED:
                texts = []
        loud = "write-ahead log is damaged" in caplog.text
        assert texts == [f"post {k}" for k in range(len(texts))], "not a beginning of what was posted"
        assert loud or len(texts) == 12, "acknowledged commits are lost, and nobody was told"
        if loud:
            told += 1
            assert any("damaged-" in name for name in os.listdir(folder)), "the log is kept"
        shutil.rmtree(folder)
    print(f"{FLIPS // 4} flips in the log: {told} told of, the others in what was not in use")
    assert told > FLIPS / 16
