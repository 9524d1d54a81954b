"""Boards that are taken over into PostgreSQL while other servers go on."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import postgres_server
import pytest
from blackboard_mcp.protocols.errors import StoreError
from blackboard_mcp.storage.history.transfer import export_board, import_board, verify_board
from blackboard_mcp.storage.memory import open_memory_store
from blackboard_mcp.storage.postgres import copying
from blackboard_mcp.storage.postgres.address import Address
from blackboard_mcp.storage.postgres.store import open_postgres_store
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.harness import Table, draft
from cutting_proxy import proxy
from patience import PATIENCE

ITEMS = 400


@pytest.fixture
async def address(tmp_path: Path) -> AsyncIterator[str]:
    yield postgres_server.address(tmp_path)
    postgres_server.give_back(tmp_path)


@pytest.fixture(scope="module")
def history() -> bytes:
    """A board with items of two agents, some of them changed."""

    async def make() -> bytes:
        store = await open_memory_store()
        at = Table(store, "big")
        for agent in ("alice", "bob"):
            items = [draft(f"{agent} {n}", "FACT", key=f"{agent}:{n}") for n in range(ITEMS // 2)]
            await at.batch(agent, *items)
        for n in range(20):
            await at.post("bob", f"anew {n}", "FACT", key=f"bob:{n}", expected=1)
        text = b"".join([page async for page in export_board(store, "big")])
        await store.close()
        return text

    return asyncio.run(make())


async def _taken(store: SqlBoardStore, history: bytes) -> object:
    return await import_board(store, io.BytesIO(history).readline)


async def test_others_post_on_while_the_rows_of_a_board_come(
    address: str, history: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, other = await open_postgres_store(address), await open_postgres_store(address)
    laid, go_on, stage = asyncio.Event(), asyncio.Event(), copying.stage

    async def staged(*given: Any) -> None:
        await stage(*given)
        laid.set()
        await go_on.wait()

    monkeypatch.setattr(copying, "stage", staged)
    try:
        taking = asyncio.create_task(_taken(store, history))
        async with asyncio.timeout(PATIENCE):
            await laid.wait()
        assert (await Table(other).post("carol", "meanwhile", "FACT")).number == 1
        go_on.set()
        await taking
        assert await verify_board(store, "big") == []
    finally:
        await store.close()
        await other.close()


async def test_rows_that_come_together_are_counted_together(history: bytes) -> None:
    server = postgres_server.server()
    store = await open_postgres_store(f"{server.address}?schema=counted_together")
    try:
        await _taken(store, history)
        assert await verify_board(store, "big") == []
        for table in ("stored", "share", "figure"):
            size = server.sql(f"SELECT pg_relation_size('counted_together.{table}')")
            assert size == "8192", f"rows of {table} were changed again and again"
    finally:
        await store.close()


async def test_an_import_whose_commit_nobody_can_tell_of_does_not_say_that_nothing_was_changed(
    address: str, history: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = postgres_server.server().port
    async with proxy(port) as between:
        store = await open_postgres_store(address.replace(f":{port}/", f":{between.port}/"))
        try:

            async def unknown(*given: object) -> None:
                return None

            monkeypatch.setattr(store.engine._writing, "_state", unknown)
            between.cut_after = b"COMMIT\0"
            with pytest.raises(StoreError, match="look whether the board is there") as told:
                await _taken(store, history)
            assert "Nothing was changed" not in told.value.message
        finally:
            await store.close()


async def test_an_import_that_is_cut_in_the_commit_is_answered_by_what_became_of_it(
    address: str, history: bytes
) -> None:
    port = postgres_server.server().port
    schema = Address.parse(address).schema
    async with proxy(port) as between:
        store = await open_postgres_store(address.replace(f":{port}/", f":{between.port}/"))
        try:
            between.cut_after = b"COMMIT\0"
            await _taken(store, history)
            assert between.cuts == 1
            assert postgres_server.server().sql(f"SELECT count(*) FROM {schema}.item") == str(ITEMS)  # noqa: S608 - ours
        finally:
            await store.close()
