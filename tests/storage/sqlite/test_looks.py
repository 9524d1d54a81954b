"""Agents who were on a board before no two could look alike stay there, and nobody new is taken for one of them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from blackboard_mcp.protocols.errors import Refused
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.harness import Table

MIGRATION = Path(__file__).parents[3] / "storage/blackboard_mcp/storage/sqlite/migrations/0035_looks.sql"


async def test_names_that_were_there_before_write_on(tmp_path: Path) -> None:
    path = tmp_path / "board.db"
    store = await SqlBoardStore.open(path)
    for name in ("alice", "bob"):
        await Table(store).post(name, f"{name} is here")
    await store.close()
    # As a file was that an older version wrote: two agents by names that look alike, and one by a reserved name.
    raw = sqlite3.connect(path)
    raw.execute("DROP TABLE look")
    for name in ("Alice", "all"):
        raw.execute(
            "INSERT INTO agent SELECT board, ?, 1, first_seen, last_seen, waits_until FROM agent WHERE name = 'alice'",
            (name,),
        )
    raw.executescript(MIGRATION.read_text("utf-8"))
    raw.commit()
    raw.close()
    store = await SqlBoardStore.open(path)
    at = Table(store)
    for name in ("Alice", "alice", "all"):
        await at.post(name, f"{name} goes on")
    for new in ("aLICE", "\u0430lice", "Bob"):
        with pytest.raises(Refused, match="looks like"):
            await at.post(new, "here")
    with pytest.raises(Refused, match="no names of agents"):
        await at.post("everyone", "here")
    await at.post("Alice", "and on")
    await at.post("carol", "new")
    await store.close()
