"""A report takes as many steps of SQLite after many earlier reports, or writes to its files, as after few."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from blackboard_mcp.protocols.agenda import NewTask, Settle
from blackboard_mcp.protocols.names import SYSTEM
from blackboard_mcp.protocols.tokens import CountedText
from blackboard_mcp.storage.testing.harness import CONFIG, HandClock, Table
from blackboard_mcp.storage.testing.kit.filing import write
from blackboard_mcp.storage.testing.walk.inline import inline_store

DONE = Settle("done", text=CountedText("It is done.", 4, CONFIG.tokenizer))


async def report(at: Table, times: int) -> int:
    """Reports so many tasks done, and returns the steps of the last report."""
    await at.configure()
    for _ in range(0, times, 100):
        await at.store.plan(at.board, "alice", [NewTask(title=f"task {n}") for n in range(100)])
    for _ in range(times):
        await at.store.take_task(at.board, "bob")
        taken = await settled(at, DONE)
    return taken


async def settled(at: Table, act: Settle) -> int:
    """Settles the task that bob holds, and returns the steps that this takes."""
    raw: sqlite3.Connection = at.store.engine._raw  # type: ignore[attr-defined]
    taken = 0

    def count() -> int:
        nonlocal taken
        taken += 1
        return 0

    raw.set_progress_handler(count, 1)
    await at.store.settle_task(at.board, "bob", act)
    raw.set_progress_handler(None, 0)
    return taken


@pytest.fixture
def made() -> Iterator[Callable[[], Table]]:
    """Makes boards, each in a store of its own."""
    tables: list[Table] = []

    def make() -> Table:
        tables.append(Table(inline_store(HandClock())))
        return tables[-1]

    yield make
    for table in tables:
        asyncio.run(table.store.close())


def test_the_same_words_are_not_looked_through_for_ever(made: Callable[[], Table]) -> None:
    few, many = (asyncio.run(report(made(), times)) for times in (100, 400))
    assert many <= few * 1.05, (few, many)


async def on_files(at: Table, writes: int) -> int:
    """Writes a file so often, and returns the steps of a report that cites a check of the last revision."""
    for n in range(writes):
        await write(at, "alice", "src/a.py", str(n))
    ran = {"name": "tests", "revision": writes, "files": "**/*.py"}
    passed = await at.post(SYSTEM, "passed", "RESULT", metadata={"check": ran})
    await at.store.plan(at.board, "alice", [NewTask(title="one")])
    await at.store.take_task(at.board, "bob")
    return await settled(at, replace(DONE, cites=(passed.number,)))


def test_earlier_writes_are_not_looked_through_for_evidence(made: Callable[[], Table]) -> None:
    few, many = (asyncio.run(on_files(made(), writes)) for writes in (10, 400))
    assert many <= few * 1.05, (few, many)


async def test_the_same_words_by_another_are_found_among_many(made: Callable[[], Table]) -> None:
    at = made()
    await report(at, 100)
    await at.store.plan(at.board, "alice", [NewTask(title="one more")])
    taken = await at.store.take_task(at.board, "carol")
    assert taken is not None
    done = await at.store.settle_task(at.board, "carol", DONE)
    assert done.item is not None
    assert done.item.author == "bob"
    assert done.item.supporters == ("carol",)
