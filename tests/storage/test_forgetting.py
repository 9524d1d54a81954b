"""What an operator had forgotten, outside of the store: in histories, backups, checks and the bytes of files."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from blackboard_mcp.protocols.board import BoardChange
from blackboard_mcp.protocols.items import Ref
from blackboard_mcp.storage.history.lines import BadLine
from blackboard_mcp.storage.history.transfer import export_board, import_board, verify_board
from blackboard_mcp.storage.operations.ledger.rows import Steps
from blackboard_mcp.storage.sqlite import compacting, driver, examining
from blackboard_mcp.storage.sqlite import opening as opening_module
from blackboard_mcp.storage.sqlite.opening import APPLICATION_ID, migrations
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.harness import HandClock, Table, draft
from blackboard_mcp.storage.testing.kit.filling import filled
from blackboard_mcp.storage.testing.kit.forgetting import DAY, due, forget
from blackboard_mcp.storage.testing.walk.rebuilding import rebuilt
from wiping import wipes

SECRET = "quetzalcoatlus"


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def store(clock: HandClock, tmp_path: Path) -> AsyncIterator[SqlBoardStore]:
    opened = await SqlBoardStore.open(tmp_path / "board.db", clock=clock, synchronous="NORMAL")
    yield opened
    await opened.close()


async def with_secrets(store: SqlBoardStore, clock: HandClock) -> Table:
    """A board with something in every table, of which as much as may be was forgotten; some held `SECRET`."""
    at = await filled(store, clock, resting=0)
    secret = {"tags": [SECRET], "metadata": {"n": SECRET}}
    fact = await at.post("alice", f"{SECRET} is a fact", **secret)
    await at.post("dora", f"{SECRET} is a fact", **secret)
    await at.change("alice", fact, tags=[f"{SECRET}s"])
    entry = await at.post("bob", f"{SECRET} 1", "PLAN", key="e", **secret)
    await at.post("bob", f"{SECRET} 2", "PLAN", key="e", **secret)
    own = await at.post("bob", f"{SECRET} of bob", private=True, **secret)
    clock.advance(DAY)
    await at.prune()
    clock.advance(40 * DAY)
    listed = await due(at, limit=7)
    assert {fact.id, entry.id, own.id} <= set(listed)
    assert len(listed) > 5
    assert await forget(at, *(int(id_[2:]) for id_ in listed)) == tuple(listed)
    return at


def examined(path: Path, *, whole: bool = True) -> examining.Examined:
    with examining.opened(path) as raw:
        return examining.examine(
            raw, application_id=APPLICATION_ID, newest=len(migrations()), now=datetime.now(UTC), whole=whole
        )


def holding(path: Path) -> list[str]:
    """The database's files that hold the secret somewhere."""
    files = path.parent.glob(path.name + "*")
    return [file.name for file in files if file.is_file() and SECRET.encode() in file.read_bytes()]


def killed_at_work(path: Path) -> list[str]:
    """What two processes that forget at once said they forgot, before they were killed."""
    command = [sys.executable, "-c", CHILD, str(path)]
    told = b""
    children = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    try:
        first = children[0].stdout
        assert first is not None
        told = b"".join(first.readline() for _ in range(5))
    finally:
        for child in children:
            os.kill(child.pid, signal.SIGKILL)
            assert child.stdout is not None
            with child.stdout as rest:  # `communicate` would leave out what `readline` read ahead
                told += (left := rest.read())[: left.rfind(b"\n") + 1]
            child.wait()
    return told.decode().split()


async def history(store: SqlBoardStore) -> bytes:
    return b"".join([page async for page in export_board(store, "main")])


async def test_I18_a_board_with_forgotten_items_is_the_fold_of_its_history(
    store: SqlBoardStore, clock: HandClock, tmp_path: Path
) -> None:
    at = await with_secrets(store, clock)
    made = await rebuilt(store, "main")
    assert made.differences == []
    assert made.lines == made.again
    assert await verify_board(store, "main", folder=tmp_path) == []
    told = await history(store)
    assert SECRET.encode() not in told
    other = await SqlBoardStore.open(None, clock=clock)
    try:
        await import_board(other, io.BytesIO(told).readline)
        assert await due(at, limit=7) == await due(Table(other), limit=7) == []
        for event in await at.events("bob"):
            if event.event == "item.forgotten":
                assert event.item is not None
                number = int(event.item[2:])
                here, there = await at.item(number, "bob"), await Table(other).item(number, "bob")
                assert here.forgotten == there.forgotten is not None
                assert here.sha256 == there.sha256
    finally:
        await other.close()


async def test_a_file_that_says_forgotten_of_what_is_there_is_refused(
    store: SqlBoardStore, clock: HandClock
) -> None:
    """Neither is a text kept under that word, nor does one go without the event that says why."""
    at = Table(store)
    item = await at.post("alice", "gone", "LOG")
    await at.gone(item)
    clock.advance(40 * DAY)
    await forget(at, item)
    good = await history(store)
    for wrong, said in (
        (good.replace(b'"text":""', b'"text":"kept"'), "is not"),
        (good.replace(b'"event":"item.forgotten"', b'"event":"item.changed"'), "is denied|sha256"),
    ):
        assert wrong != good
        other = await SqlBoardStore.open(None, clock=clock)
        try:
            with pytest.raises(BadLine, match=said):
                await import_board(other, io.BytesIO(wrong).readline)
        finally:
            await other.close()


async def test_checks_take_tombstones_and_find_damage_all_the_same(
    store: SqlBoardStore, clock: HandClock, tmp_path: Path
) -> None:
    at = await with_secrets(store, clock)
    kept = await at.post("alice", "not forgotten")
    path = tmp_path / "board.db"
    assert (found := examined(path)).altered == found.damage == found.dangling == found.gaps == []
    with closing(driver.library().connect(path)) as raw, raw:
        raw.execute("UPDATE item SET text = '' WHERE number = ?", (kept.number,))
    assert examined(path).altered == [f"{kept.id}@1 on board main"]
    with closing(driver.library().connect(path)) as raw, raw:  # whoever empties a text calls it forgotten
        raw.execute("UPDATE item SET deleted = 2, tokens = 0 WHERE number = ?", (kept.number,))
    assert examined(path).altered == [f"{kept.id}@1 on board main"], "no event says so"
    with pytest.raises(BadLine, match="denied"):
        await verify_board(store, "main", folder=tmp_path)


async def test_a_backup_that_is_put_back_forgets_again(
    store: SqlBoardStore, clock: HandClock, tmp_path: Path
) -> None:
    at = Table(store)
    item = await at.post("alice", SECRET, "LOG")
    await at.gone(item)
    await store.backup(tmp_path / "before")
    clock.advance(40 * DAY)
    await forget(at, item)
    await store.backup(tmp_path / "after")
    assert SECRET.encode() not in (tmp_path / "after").read_bytes(), "a backup is written dense"
    back = await SqlBoardStore.open(tmp_path / "before", clock=clock)
    try:
        assert await forget(Table(back), item) == (item.id,)
        after = await SqlBoardStore.open(tmp_path / "after", clock=clock)
        try:
            kept = (await Table(after).item(item)).forgotten
            assert kept is not None
            assert kept == (await Table(back).item(item)).forgotten
        finally:
            await after.close()
    finally:
        await back.close()


async def test_no_byte_of_the_file_or_its_log_is_left_after_compacting(
    clock: HandClock, tmp_path: Path
) -> None:
    path = tmp_path / "board.db"
    store = await SqlBoardStore.open(path, clock=clock)
    await with_secrets(store, clock)
    await store.close()
    assert holding(path) == ["board.db"] or wipes(), "a delete leaves what was there in pages that are free"
    compacting.compact(path)
    assert holding(path) == []


async def test_counting_anew_leaves_what_was_forgotten_at_nothing(
    store: SqlBoardStore, clock: HandClock
) -> None:
    at = Table(store)
    item = await at.post("alice", "three short words", "LOG")
    await at.gone(item)
    clock.advance(40 * DAY)
    await forget(at, item)
    same = await at.post("bob", "three short words", "LOG")
    await store.change_board(
        "main", "alice", BoardChange(settings={"tokenizer": "cl100k_base"}), count=lambda text: len(text)
    )
    assert ((await at.item(item)).tokens, (await at.item(same)).tokens) == (0, 17)


@pytest.mark.parametrize(
    "held",
    [
        "INSERT INTO held(board, number, debate, source, kind, target, depth) VALUES (1, ?1, 9, 0, '', 0, 0)",
        "INSERT INTO obligation(board, agent, item, duty, debate, state, reason, since) "
        "VALUES (1, 'eve', ?1, 'acknowledge', 0, 'watching', '', 0)",
        "INSERT INTO obligation(board, agent, item, duty, debate, state, reason, since) "
        "VALUES (1, 'eve', ?1, 'respond', 0, 'outstanding', '', 0)",
        "INSERT INTO request(board, number, asker, agent, skill, state, live, opened_at, deadline, due_at, holder, "
        "held_until, lease, parts, partial, answer, reason, ended_by, ended_at) "
        "VALUES (1, ?1, 'a', 'b', '', 'OPEN', 1, 0, 0, 0, '', 0, 0, 0, 0, 0, '', '', 0)",
    ],
)
async def test_what_is_held_is_not_forgotten_wherever_it_lies(
    store: SqlBoardStore, clock: HandClock, held: str
) -> None:
    """What is held never lies in the archive; should it, it is kept all the same."""
    at = Table(store)
    item = await at.post("alice", "held", "LOG")
    await at.gone(item)
    clock.advance(40 * DAY)
    assert await due(at) == [item.id]

    def hold() -> Steps[None]:
        yield held, (item.number,)

    await store.engine.write(hold)
    assert await due(at) == []
    assert await forget(at, item) == ()


CHILD = """
import asyncio, os, sys
from pathlib import Path
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.kit.forgetting import ALL
from blackboard_mcp.storage.testing.harness import HandClock

async def run(path):
    clock = HandClock(); clock.advance(60 * 86_400)
    store = await SqlBoardStore.open(path, clock=clock)
    place = 0
    while place is not None:
        place, page = await store.forgettable("main", ALL, place, 5)
        for one in page:
            gone = await store.forget("main", [one.number], ALL)
            os.write(1, "".join(f"{id_}\\n" for id_ in gone).encode())
    await store.close()

asyncio.run(run(Path(sys.argv[1])))
"""


async def test_processes_that_forget_at_once_and_are_killed_leave_every_item_whole_or_forgotten(
    tmp_path: Path,
) -> None:
    path, count = tmp_path / "board.db", 120
    store = await SqlBoardStore.open(path, clock=HandClock())
    at = Table(store)
    made = await at.batch("alice", *(draft(f"{SECRET} {n}", "LOG") for n in range(100)))
    made2 = await at.batch("alice", *(draft(f"{SECRET} {n}", "LOG") for n in range(100, count)))
    items = [*made.items, *made2.items]
    await at.gone(*items)
    await store.close()
    acknowledged = [id_ for _ in range(2) for id_ in killed_at_work(path)]
    clock = HandClock()
    clock.advance(60 * DAY)
    store = await SqlBoardStore.open(path, clock=clock)
    try:
        at = Table(store)
        assert len(set(acknowledged)) == len(acknowledged) > 0, "each by one process"
        forgotten = [e.item for e in await at.events() if e.event == "item.forgotten"]
        assert len(set(forgotten)) == len(forgotten)
        assert set(acknowledged) <= set(forgotten)
        found = (await store.read("main", "bob", [Ref(item.number) for item in items], [])).items
        assert len(found) == count
        for item, was in zip(found, items, strict=True):
            assert item.sha256 == was.sha256
            assert (item.text, item.id in forgotten) in ((was.text, False), ("", True))
        assert await verify_board(store, "main", folder=tmp_path) == []
    finally:
        await store.close()
    assert (found2 := examined(path)).altered == found2.damage == found2.gaps == []


async def test_a_file_that_counted_what_was_forgotten_counts_it_no_more(
    tmp_path: Path, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, scripts = tmp_path / "board.db", migrations()
    with monkeypatch.context() as patch:  # posts need the newer tables, so they go again below
        patch.setattr(opening_module, "migrations", lambda: [*scripts[:39], *scripts[40:]])
        older = await SqlBoardStore.open(path, clock=clock, synchronous="NORMAL")
        at = await with_secrets(older, clock)
        await older.close()
    raw = driver.connect(str(path))
    raw.execute("PRAGMA foreign_keys = OFF")
    raw.execute(  # files, which leave with their tables
        "UPDATE stored SET bytes = bytes - coalesce((SELECT sum(length(body) + length(CAST(message AS BLOB)) + 1000) "
        "FROM artifact_revision r WHERE r.board = stored.board AND stored.agent IN ('', r.agent)), 0)"
    )
    raw.execute("ALTER TABLE agent DROP COLUMN waits_until")
    raw.execute("DROP VIEW acting_role")
    raw.execute("DROP TRIGGER item_kept")
    for script in scripts[40:]:
        for index in re.findall(r"CREATE INDEX (\w+)", script):
            raw.execute(f"DROP INDEX IF EXISTS {index}")
        for table in reversed(re.findall(r"CREATE TABLE (\w+)", script)):
            raw.execute(f"DROP TABLE IF EXISTS {table}")
    raw.execute("PRAGMA user_version = 39")
    raw.execute(
        "UPDATE board SET archived_items = (SELECT count(*) FROM item WHERE board = no AND zone = 'archive')"
    )
    ((counted, gone),) = raw.execute(
        "SELECT count(*), sum(deleted = 2) FROM item WHERE zone = 'archive'"
    ).fetchall()
    raw.close()
    store = await SqlBoardStore.open(path, clock=clock)
    try:
        at = Table(store)
        assert (await at.standing()).archived_items == counted - gone < counted
        figures = await store.statistics("main", "bob")
        assert (
            sum(items for (zone, _, _), (items, _) in figures.counts.items() if zone == "archive") < counted
        )
        assert (await rebuilt(store, "main")).differences == []
    finally:
        await store.close()
