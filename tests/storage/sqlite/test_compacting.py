"""Room in the file that nothing uses any more: a new file gives it back, an old one after it was compacted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from blackboard_mcp.protocols.errors import StoreBusy, StoreClosed, StoreFull
from blackboard_mcp.storage.sqlite import compacting, driver
from blackboard_mcp.storage.sqlite.engine import SqliteEngine

APPLICATION = 0x626F6172
MIGRATIONS = ["CREATE TABLE entry(n INTEGER PRIMARY KEY, text TEXT);"]
ROWS, KEPT = 800, 7
Steps = Generator[tuple[str, tuple[Any, ...]], list[tuple[Any, ...]], Any]


def ask(sql: str, *parameters: Any) -> Callable[[], Steps]:
    def operation() -> Steps:
        return (yield sql, parameters)

    return operation


async def opened(path: Path) -> SqliteEngine:
    return await SqliteEngine.open(path, migrations=MIGRATIONS, application_id=APPLICATION)


async def fill_and_empty(path: Path) -> None:
    """Leaves a file that is nearly all free pages."""
    engine = await opened(path)
    for n in range(ROWS):
        await engine.write(ask("INSERT INTO entry(n, text) VALUES (?1, ?2)", n, f"{n} " * 1_500))
    await engine.write(ask("DELETE FROM entry WHERE n > ?1", KEPT))
    await engine.close()


async def write_much(path: Path) -> None:
    engine = await opened(path)
    for n in range(1_000):
        await engine.write(ask("UPDATE entry SET text = ?2 WHERE n = ?1", n % KEPT, f"{n % KEPT} " * 1_500))
    await engine.close()


def told(path: Path, name: str) -> int:
    raw = driver.connect(str(path))
    try:
        return int(driver.pragma(raw, name))
    finally:
        raw.close()


def texts(path: Path) -> list[tuple[int, str]]:
    raw = driver.connect(str(path))
    try:
        assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return raw.execute("SELECT n, text FROM entry ORDER BY n").fetchall()
    finally:
        raw.close()


def older(path: Path) -> None:
    """A file as older versions made it: it never shrinks."""
    raw = driver.connect(str(path))
    raw.execute("PRAGMA auto_vacuum=NONE")
    raw.execute("PRAGMA journal_mode=WAL").fetchall()
    raw.close()


WHOLE = [(n, f"{n} " * 1_500) for n in range(KEPT + 1)]


async def test_a_new_file_gives_back_most_of_what_is_free_while_it_is_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compacting, "_SPARE_PAGES", 16)
    path = tmp_path / "board.db"
    await fill_and_empty(path)
    before, free = path.stat().st_size, told(path, "freelist_count")
    assert free > ROWS
    await write_much(path)
    assert path.stat().st_size < before / 10
    assert told(path, "freelist_count") <= max(16, told(path, "page_count") // 4)
    assert texts(path) == WHOLE


async def test_a_few_free_pages_stay_for_what_comes(tmp_path: Path) -> None:
    path = tmp_path / "board.db"
    engine = await opened(path)
    await engine.write(ask("INSERT INTO entry(n, text) VALUES (1, ?1)", "x" * 400_000))
    await engine.write(ask("DELETE FROM entry"))
    await engine.close()
    free = told(path, "freelist_count")
    assert free > 90
    await write_much(path)
    assert told(path, "freelist_count") == free


async def test_a_file_of_an_older_version_stays_as_it_is_until_it_is_compacted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compacting, "_SPARE_PAGES", 16)
    path = tmp_path / "board.db"
    older(path)
    await fill_and_empty(path)
    await write_much(path)
    size = path.stat().st_size
    assert told(path, "freelist_count") > ROWS
    assert not told(path, "auto_vacuum")

    before, after = compacting.compact(path)
    assert before == size
    assert after == path.stat().st_size < before / 10
    assert told(path, "freelist_count") == 0
    assert texts(path) == WHOLE

    await fill_and_empty_again(path)
    size = path.stat().st_size
    await write_much(path)
    assert path.stat().st_size < size / 10


async def fill_and_empty_again(path: Path) -> None:
    engine = await opened(path)
    await engine.write(ask("INSERT INTO entry(n, text) VALUES (1000, ?1)", "x" * 4_000_000))
    await engine.write(ask("DELETE FROM entry WHERE n = 1000"))
    await engine.close()


async def test_a_file_that_a_process_has_open_is_not_compacted(tmp_path: Path) -> None:
    path = tmp_path / "board.db"
    engine = await opened(path)
    try:
        with pytest.raises(StoreBusy, match="stop them first"):
            await asyncio.to_thread(compacting.compact, path)
    finally:
        await engine.close()
    assert compacting.compact(path)[0] > 0


async def test_a_disk_without_room_for_a_second_copy_is_not_begun_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Disk(NamedTuple):
        free: int

    path = tmp_path / "board.db"
    await fill_and_empty(path)
    kept = path.read_bytes()
    monkeypatch.setattr(compacting.shutil, "disk_usage", lambda folder: Disk(2 * len(kept) - 1))
    with pytest.raises(StoreFull, match="Make room first"):
        compacting.compact(path)
    assert path.read_bytes() == kept


async def test_a_disk_that_fails_while_room_is_given_back_stops_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(raw: driver.Raw) -> None:
        error = driver.library().OperationalError("disk I/O error")
        error.sqlite_errorcode = 10
        raise error

    path = tmp_path / "board.db"
    engine = await opened(path)
    try:
        monkeypatch.setattr(compacting, "give_back", fail)
        calls = [engine.write(ask("INSERT INTO entry(n, text) VALUES (?1, 'x')", n)) for n in range(200)]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(answers[-1], StoreClosed)
        assert engine.trouble is not None
        assert engine.trouble.kind == "stopped"
        assert await engine.read(ask("SELECT count(*) FROM entry"))
    finally:
        await engine.close()
