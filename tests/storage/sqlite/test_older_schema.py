"""A file that an older version left is opened as it was: nothing lost, and everything goes on."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.protocols.answers import (
    Once,
)
from blackboard_mcp.protocols.debates import Duty
from blackboard_mcp.protocols.items import content_hash
from blackboard_mcp.storage.history.transfer import verify_board
from blackboard_mcp.storage.sqlite import driver, migrate
from blackboard_mcp.storage.sqlite.opening import APPLICATION_ID, migrations, schema
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.harness import HandClock, Table, draft
from patience import PATIENCE, RUN

DUMP = Path(__file__).with_name("schema_8.sql")
CHILD = Path(__file__).with_name("older.py")
LAST, EVENTS = 19, 44

Rows = list[tuple[Any, ...]]


def select(path: Path, statement: str) -> Rows:
    raw = driver.connect(str(path))
    try:
        rows: Rows = raw.execute(statement).fetchall()
        return rows
    finally:
        raw.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file at schema 8."""
    made = tmp_path / "board.db"
    raw = driver.connect(str(made))
    raw.executescript(DUMP.read_text("utf-8"))
    raw.close()
    assert select(made, "PRAGMA user_version") == [(8,)]
    return made


@pytest.fixture
def clock() -> HandClock:
    clock = HandClock()
    clock.advance(60)
    return clock


@pytest.fixture
async def store(path: Path, clock: HandClock) -> AsyncIterator[SqlBoardStore]:
    opened = await SqlBoardStore.open(path, clock=clock)
    yield opened
    await opened.close()


VERSIONS = """
    SELECT b.id, v.number, v.version, v.text, v.sha256, i.owner, i.author
    FROM (SELECT board, number, version, text, sha256 FROM item
          UNION ALL SELECT board, number, version, text, sha256 FROM item_version) v
    JOIN item i ON i.board = v.board AND i.number = v.number JOIN board b ON b.no = v.board
    ORDER BY 1, 2, 3
"""


async def test_I1_every_version_is_read_as_it_was_written(path: Path, clock: HandClock) -> None:
    before = select(path, VERSIONS)
    assert len(before) == LAST + 2 + 2
    store = await SqlBoardStore.open(path, clock=clock)
    try:
        for board, number, version, text, sha256, owner, author in before:
            item = await Table(store, board).item(number, owner or "nobody", version)
            assert (item.text, item.sha256, item.author) == (text, sha256, author)
            assert content_hash(text) == sha256
    finally:
        await store.close()
    assert select(path, VERSIONS) == before
    assert select(path, "PRAGMA user_version") == [(len(migrations()),)]
    assert select(path, "PRAGMA integrity_check") == [("ok",)]
    assert select(path, "PRAGMA foreign_key_check") == []


async def test_I18_what_was_added_since_is_as_if_it_had_always_been_there(store: SqlBoardStore) -> None:
    for board in await store.boards():
        assert await verify_board(store, board.id) == []


async def test_what_was_there_is_counted_for_those_who_wrote_it(path: Path, clock: HandClock) -> None:
    await (await SqlBoardStore.open(path, clock=clock)).close()
    counted: dict[tuple[int, str], int] = {}
    for table in ("item", "item_version"):
        of_each = f"SELECT board, written_by, text, tags, metadata FROM {table}"  # noqa: S608 - names of ours
        for board, agent, *said in select(path, of_each):
            assert agent
            for who in (agent, ""):
                there = counted.get((board, who), 0)
                counted[board, who] = there + 1_000 + sum(len(part.encode()) for part in said)
    assert len(counted) > 5
    assert {(board, who): size for board, who, size in select(path, "SELECT * FROM stored")} == counted


async def test_what_was_under_way_goes_on(store: SqlBoardStore) -> None:
    at = Table(store)
    assert (await at.item(1)).debate == "OPEN"
    assert await at.held(*range(1, LAST + 1)) >= {1, 2, 6, 19}
    assert await at.owed("alice") >= {(6, Duty.RESPOND), (19, Duty.RESPOND)}
    assert (await at.item(5)).expires_at is not None
    assert (await at.prune()).moved
    assert (await at.item(1)).zone == "working"
    news = await store.find_subscription("main", "dora", "news")
    assert news is not None
    log = await store.log("main", "dora", news.cursor, 100)
    assert "news for dora" in {(await at.item(int(e.item[2:]))).text for e in log.events if e.item}
    again = await at.batch("carol", draft("same finding", "FACT"), once=Once("once", "digest"))
    assert (again.repeated, again.items[0].number) == (True, 3)
    entry = await at.post("bob", "v4", "PLAN", key="plan:a", expected=3)
    assert (entry.number, entry.version) == (5, 4)
    assert (await at.post("erin", "goes on")).number == LAST + 1
    assert [e.seq for e in await at.events("bob")][:EVENTS] == [*range(1, EVENTS + 1)]
    assert await store.owner_of("bob") == "acme"


async def test_the_archive_waits_for_the_index_as_before(path: Path, clock: HandClock) -> None:
    before = {n for (n,) in select(path, "SELECT DISTINCT number FROM outbox WHERE board = 1")}
    store = await SqlBoardStore.open(path, clock=clock)
    batch = await store.outbox_batch(100)
    await store.close()
    assert {d.number for d in batch.documents if d.board == "main"} | {n for _, n in batch.removed} == before


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_eight_processes_opening_it_at_once_all_succeed(path: Path) -> None:
    started = [
        subprocess.Popen(
            [sys.executable, str(CHILD), "open", str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(8)
    ]
    try:
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in started:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        numbers = sorted(int(process.communicate(timeout=PATIENCE)[0]) for process in started)
    finally:
        for process in started:
            process.kill()
            process.communicate()
    assert numbers == [*range(LAST + 1, LAST + 9)]
    assert select(path, "SELECT count(*) FROM event WHERE board = 1")[0][0] >= EVENTS + 8


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("statements", [2, 6, 10, 14])
def test_a_process_killed_while_it_migrates_leaves_the_old_file(path: Path, statements: int) -> None:
    before = select(path, VERSIONS)
    child = [sys.executable, str(CHILD), "kill", str(path)]
    done = subprocess.run([*child, str(statements)], capture_output=True, timeout=RUN, check=False)
    assert done.returncode == -signal.SIGKILL, done
    assert select(path, "PRAGMA user_version") in ([(8,)], [(len(migrations()),)])
    assert select(path, "PRAGMA integrity_check") == [("ok",)]
    assert select(path, VERSIONS) == before
    whole = subprocess.run([*child, "1000000"], capture_output=True, timeout=RUN, check=False)
    assert (whole.returncode, whole.stdout.strip()) == (0, str(LAST + 1).encode()), whole


def test_a_new_file_has_the_schema_to_which_the_migrations_lead(tmp_path: Path) -> None:
    everything = "SELECT type, name, tbl_name, sql FROM sqlite_schema"
    found = []
    for name, script in (("new", schema()), ("migrated", None)):
        with closing(driver.connect(str(tmp_path / name))) as raw:
            migrate.migrate(raw, migrations(), APPLICATION_ID, PATIENCE, schema=script)
            for table in [row[1] for row in raw.execute(everything) if row[0] == "table"]:
                rows = raw.execute(f'SELECT 1 FROM "{table}"').fetchall()  # noqa: S608
                assert not rows, "no migration adds rows"
        found.append(select(tmp_path / name, everything))
        assert select(tmp_path / name, "PRAGMA user_version") == [(len(migrations()),)]
    assert found[0] == found[1], "python docs/generate.py writes schema.sql"
    assert len(found[0]) > 100


def test_migrations_are_numbered_one_after_the_other() -> None:
    folder = resources.files("blackboard_mcp.storage.sqlite").joinpath("migrations")
    names = sorted(file.name for file in folder.iterdir() if file.name.endswith(".sql"))
    assert [int(name[:4]) for name in names] == list(range(1, len(names) + 1))
    assert len(migrations()) == len(names)
