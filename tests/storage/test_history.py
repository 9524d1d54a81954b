"""Boards written out and read in: through files and between stores."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import os
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.protocols.answers import (
    Once,
)
from blackboard_mcp.protocols.board import BoardChange
from blackboard_mcp.protocols.errors import Conflict, UnknownReference
from blackboard_mcp.storage.history import lines as format_
from blackboard_mcp.storage.history.lines import BadLine
from blackboard_mcp.storage.history.tables import TABLES, ColumnRole
from blackboard_mcp.storage.history.transfer import export_board, import_board, verify_board
from blackboard_mcp.storage.memory import open_memory_store
from blackboard_mcp.storage.operations.ledger.rows import Steps
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.harness import CONFIG, HandClock, Table, draft
from blackboard_mcp.storage.testing.kit.filling import DISTURBING, filled
from patience import PATIENCE

Line = dict[str, Any]


async def written(store: SqlBoardStore, board: str = "main", *, public: bool = False) -> bytes:
    return b"".join([page async for page in export_board(store, board, public=public)])


def reading(history: bytes) -> Callable[[int], bytes]:
    return io.BytesIO(history).readline


def parsed(history: bytes) -> list[Line]:
    return [json.loads(line) for line in history.splitlines()]


def signed(told: list[Line]) -> bytes:
    """The lines as a file whose last one says the right sha256."""
    body = b"".join(map(format_.write, told[:-1]))
    if "end" not in told[-1]:
        return body + format_.write(told[-1])
    told[-1]["end"]["sha256"] = ""
    return body + format_.seal(hashlib.sha256(body), format_.write(told[-1]))


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def store(clock: HandClock) -> AsyncIterator[SqlBoardStore]:
    opened = await open_memory_store(clock=clock)
    yield opened
    await opened.close()


@pytest.fixture
async def other(clock: HandClock) -> AsyncIterator[SqlBoardStore]:
    opened = await open_memory_store(clock=clock)
    yield opened
    await opened.close()


@pytest.fixture(scope="module")
def good() -> bytes:
    async def make() -> bytes:
        clock = HandClock()
        store = await open_memory_store(clock=clock)
        await filled(store, clock, resting=0)
        history = await written(store)
        await store.close()
        return history

    return asyncio.run(make())


@pytest.fixture
async def at(store: SqlBoardStore, clock: HandClock) -> Table:
    return await filled(store, clock)


async def test_I18_a_board_with_something_in_every_table_is_rebuilt_equal(
    at: Table, store: SqlBoardStore
) -> None:
    def empty() -> Steps[list[str]]:
        found = []
        for table in TABLES:
            if table.role is not ColumnRole.INSTALLATION:
                rows = yield f"SELECT count(*) FROM {table.name}", ()  # noqa: S608 - names of ours
                found += [] if rows[0][0] else [table.name]
        return found

    assert await store.engine.read(empty) == []
    assert await verify_board(store, "main") == []


async def test_I18_a_board_that_was_counted_anew_is_rebuilt_equal(
    at: Table, store: SqlBoardStore, other: SqlBoardStore
) -> None:
    change = BoardChange(settings={"tokenizer": "letters"})
    await store.change_board("main", "alice", change, count=len)
    assert await verify_board(store, "main") == []
    history = await written(store)
    changed = [line for line in parsed(history) if line.get("event") == "board.changed"]
    assert changed[-1]["data"] == {
        "settings": ["tokenizer"],
        "tokenizer": ["o200k_base", "letters"],
        "was": {"tokenizer": "o200k_base"},
        "now": {"tokenizer": "letters"},
    }
    contents = [line["content"] for line in parsed(history) if "content" in line]
    assert all(content["tokens"] == len(content["text"]) for content in contents)
    await import_board(other, reading(history))
    board = await other.find_board("main")
    assert board is not None
    assert board.config.tokenizer == "letters"
    assert await written(other) == history


async def test_I39_the_file_has_one_line_an_event_in_order_and_no_text_breaks_one(
    at: Table, store: SqlBoardStore
) -> None:
    history = await written(store)
    told = parsed(history)
    assert history.count(b"\n") == len(told)
    assert [line["seq"] for line in told] == [*range(1, await at.seq() + 1)]
    events = await at.events("bob")
    assert {e.seq: str(e.event) for e in events}.items() <= {
        line["seq"]: line["event"] for line in told
    }.items()


async def test_I1_every_version_of_every_item_is_in_the_file_byte_for_byte(
    at: Table, store: SqlBoardStore, other: SqlBoardStore
) -> None:
    await import_board(other, reading(await written(store)))
    there = Table(other)
    for number in range(1, (await store.engine.read(last_number)) + 1):
        item = await at.item(number, "bob")
        for version in range(1, item.version + 1):
            was, now = await at.item(number, "bob", version), await there.item(number, "bob", version)
            assert now == was
    assert (await there.item(2)).text == DISTURBING


def last_number() -> Steps[int]:
    return (yield "SELECT max(number) FROM item", ())[0][0]  # type: ignore[no-any-return]


async def test_a_board_goes_from_file_to_memory_and_back_and_is_written_the_same(
    at: Table, store: SqlBoardStore, clock: HandClock, tmp_path: Path
) -> None:
    first = await written(store)
    file = await SqlBoardStore.open(tmp_path / "board.db", clock=clock, synchronous="NORMAL")
    await Table(file, "before").post("alice", "a board that was here before")
    done = await import_board(file, reading(first), folder=tmp_path)
    assert (done.board, done.events, done.parent) == ("main", await at.seq(), None)
    assert await file.owner_of("bob") == "acme"
    assert await written(file) == first
    back = await open_memory_store(clock=clock)
    await import_board(back, reading(await written(file)))
    assert await written(back) == first
    assert await verify_board(back, "main") == []
    assert not any(name.startswith("staging-") for name in os.listdir(tmp_path))
    await back.close()
    await file.close()


async def test_a_board_that_was_read_in_goes_on_where_it_was(
    at: Table, store: SqlBoardStore, other: SqlBoardStore
) -> None:
    history = await written(store)
    await import_board(other, reading(history), board="copy")
    there = Table(other, "copy")
    seq, count = await at.seq(), await store.engine.read(last_number)
    kept = await other.find_subscription("copy", "dora", "news")
    assert kept is not None
    assert kept == await store.find_subscription("main", "dora", "news")
    log = await other.log("copy", "dora", kept.cursor, 100)
    assert log.events[0].seq == kept.cursor + 1
    again = await there.batch("carol", draft("same", "FACT"), once=Once("once", "digest"))
    assert again.repeated
    assert await there.state(1) == "OPEN"
    await there.vote("carol", 1)
    assert await there.state(1) == "CONSENSUS"
    fresh = await there.post("zoe", "goes on")
    assert fresh.number == count + 1
    assert fresh.seq == await there.seq() > seq
    entry = await there.post("bob", "v3", "PLAN", key="plan:a", expected=2)
    assert entry.version == 3
    waiting = await other.outbox_batch(1_000)
    assert {d.number for d in waiting.documents} >= {n for n in (await at.query(zone=None)) if n == 10}
    assert await other.find_board("main") is None
    assert await verify_board(other, "copy") == []


async def test_the_first_lines_hold_every_version_that_there_was_then(
    at: Table, store: SqlBoardStore
) -> None:
    known: set[tuple[int, int]] = set()
    for line in parsed(await written(store)):
        if "item" not in line:
            assert "content" not in line
            continue
        version = (line["item"], line["version"])
        assert ("content" in line) == (version not in known)
        known.add(version)
        for edge in line.get("edges", []):
            assert {edge["source"], edge["target"]} <= {item for item, _ in known}
    assert len({item for item, _ in known}) == await store.engine.read(last_number)


async def test_a_public_copy_has_nothing_private_and_rebuilds_nothing(
    at: Table, store: SqlBoardStore, other: SqlBoardStore
) -> None:
    history = await written(store, public=True)
    told = parsed(history)
    for hidden in (b"a secret", b"the team's", b"team:acme", b"sub-", b"digest", b"owners"):
        assert hidden not in history
        assert hidden in await written(store)
    assert [line["seq"] for line in told] == [e.seq for e in await at.events("nobody")]
    assert told[0]["complete"] is False
    (secret,) = [n for n in range(1, 10) if not await at.sees("alice", n)]
    for line in told:
        for edge in line.get("edges", []):
            assert secret not in (edge["source"], edge["target"])
    with pytest.raises(BadLine, match="public copy"):
        await import_board(other, reading(history))


async def test_an_import_never_touches_a_board_that_is_there(at: Table, store: SqlBoardStore) -> None:
    history = await written(store)
    with pytest.raises(Conflict, match="There is a board 'main' already"):
        await import_board(store, reading(history))
    assert await written(store) == history
    with pytest.raises(UnknownReference):
        await written(store, "none")


async def test_whom_agents_act_for_here_is_not_changed_by_a_file(
    at: Table, store: SqlBoardStore, other: SqlBoardStore
) -> None:
    await other.set_owner("bob", "other")
    await Table(other, "theirs").post("bob", "here as well")
    done = await import_board(other, reading(await written(store)))
    assert done.owners == ("bob",)
    assert await other.owner_of("bob") == "other"
    unknown = await open_memory_store()
    await Table(unknown, "theirs").post("bob", "for himself")
    assert (await import_board(unknown, reading(await written(store)))).owners == ("bob",)
    assert await unknown.owner_of("bob") == "bob"
    await unknown.close()


async def test_a_parent_that_is_not_here_is_left_out_and_told(
    store: SqlBoardStore, other: SqlBoardStore
) -> None:
    await store.ensure_board("above", "alice", CONFIG)
    below = Table(store)
    await below.post("alice", "x")
    await store.change_board("main", "alice", BoardChange(parent="above"))
    done = await import_board(other, reading(await written(store)))
    assert done.parent == "above"
    assert (await Table(other).standing()).parent is None
    above = await written(store, "above")
    await import_board(other, reading(above))
    done = await import_board(other, reading(await written(store)), board="again")
    assert done.parent is None
    assert (await Table(other, "again").standing()).parent == "above"


async def test_agents_post_on_while_a_board_is_written_and_the_file_is_of_one_moment(
    clock: HandClock, tmp_path: Path
) -> None:
    store = await SqlBoardStore.open(tmp_path / "board.db", clock=clock, synchronous="NORMAL")
    at = Table(store)
    for n in range(5):
        await at.batch("alice", *[draft(f"{n} {m}", "LOG", key=f"k:{n}:{m}") for m in range(60)])
    stop = asyncio.Event()
    posted = 0

    async def go_on() -> None:
        nonlocal posted
        while not stop.is_set():
            await at.post("bob", f"again {posted}", "LOG", key=f"k:{posted % 5}:{posted % 60}")
            posted += 1

    task = asyncio.create_task(go_on())
    histories = [await written(store) for _ in range(3)]
    before = posted
    stop.set()
    await task
    assert before > 10
    lengths = []
    for history in histories:
        done = await open_memory_store()
        lengths.append((await import_board(done, reading(history))).events)
        assert await verify_board(done, "main") == []
        await done.close()
    assert lengths == sorted(set(lengths))
    await store.close()


async def test_of_two_that_bring_the_same_board_in_at_once_one_does(good: bytes, tmp_path: Path) -> None:
    stores = [await SqlBoardStore.open(tmp_path / "board.db", synchronous="NORMAL") for _ in range(2)]
    done = await asyncio.gather(
        *(import_board(store, reading(good), folder=tmp_path) for store in stores), return_exceptions=True
    )
    assert sorted(type(outcome).__name__ for outcome in done) == ["Conflict", "Imported"]
    assert await written(stores[0]) == good
    for store in stores:
        await store.close()


async def test_an_import_that_is_cancelled_leaves_nothing(good: bytes, tmp_path: Path) -> None:
    store = await SqlBoardStore.open(tmp_path / "board.db", synchronous="NORMAL")
    source, begun, go_on = io.BytesIO(good), asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def slow(limit: int) -> bytes:
        if source.tell() > len(good) // 2:
            loop.call_soon_threadsafe(begun.set)
            go_on.wait(PATIENCE)
        return source.readline(limit)

    task = asyncio.create_task(import_board(store, slow, folder=tmp_path))
    await begun.wait()
    task.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await store.boards() == []
    assert not any(name.startswith("staging-") for name in os.listdir(tmp_path))
    assert (await import_board(store, reading(good), folder=tmp_path)).board == "main"
    await store.close()
