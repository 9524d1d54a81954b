"""One search index that two servers on one database share, in a folder and in a bucket, through real clients."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lancedb
import postgres_server
import pytest
from blackboard_mcp.protocols.clock import new_token
from blackboard_mcp.server.demo.process import http_clients, http_server
from blackboard_mcp.server.demo.replay import call, say, search_archive
from blackboard_mcp.server.usecases.searching import AWAY, SLOW
from blackboard_mcp.storage.lance.shared import IndexState
from commands import refused, run
from cutting_proxy import proxy
from fakemodel import Asked, Reply, fake_model
from mcp.client import Client
from patience import PATIENCE, until
from s3_server import KEY, SECRET, S3Server

SOON = ("--index-every-seconds", "1")
"""Options of servers that others wait for."""


@pytest.fixture
def store(tmp_path: Path) -> str:
    """Returns the address of a schema of its own: servers of earlier tests go on, and note their indexes again."""
    return postgres_server.address(tmp_path)


@dataclass
class Database:
    """What the tests look at in the database."""

    store: str

    def rows(self, statement: str) -> list[str]:
        schema = self.store.rpartition("schema=")[2]
        return postgres_server.server().sql(f"SET search_path = {schema}; {statement}").split("\n")

    def waits(self) -> int:
        return int(self.rows("SELECT count(*) FROM outbox_row")[-1])

    def holder(self) -> int | None:
        """Returns the process that has the indexer's lease."""
        (holder,) = self.rows("SELECT max(holder) FROM lease WHERE name LIKE 'archive-index%'")[-1:]
        return int(holder.partition("-")[0]) if holder else None

    def end_lease(self) -> None:
        self.rows("UPDATE lease SET until = 0 WHERE name LIKE 'archive-index%'")

    def state(self) -> IndexState:
        return IndexState.of(self.rows("SELECT state FROM index_reader WHERE id LIKE 'at %'")[-1])

    async def indexed(self) -> None:
        """Returns when nothing waits for the index."""
        await asyncio.to_thread(until, lambda: self.waits() == 0, "the outbox is not worked off")


def contents(location: str, database: Database) -> list[int]:
    """Returns the numbers in the state of the table that is in use, sorted, as often as they are there."""
    state = database.state()
    table = lancedb.connect(location).open_table(state.table, version=state.version)
    rows = table.search().select(["number"]).to_arrow()
    return sorted(rows["number"].to_pylist())


async def archive(client: Client, *texts: str) -> None:
    """Posts texts and has them leave the board."""
    await call(client, "post", items=[{"text": t, "type": "LOG", "ttl_seconds": 0.001} for t in texts])
    await call(client, "prune")


async def embedding(asked: Asked, reply: Reply) -> None:
    """Answers as a model does whose vectors all have one direction."""
    data = [{"index": i, "embedding": [1.0, 0.5, 0.25, 0.0]} for i, _ in enumerate(asked.body["input"])]
    await reply.whole(json.dumps({"data": data}).encode())


async def test_servers_answer_alike_from_one_index_that_is_fed_once(
    tmp_path: Path, store: str, location: str
) -> None:
    database = Database(store)
    options = ("--store", store, "--tools", "all", "--embedder", "none", "--index-at", location, *SOON)
    async with AsyncExitStack() as stack:
        clients = []
        for name in ("one", "two"):
            server = await stack.enter_async_context(http_server(tmp_path / name, *options))
            clients.append(await stack.enter_async_context(http_clients(server.url)("ann")))
        ann, other = clients
        await archive(ann, "the old figure is seven", "the valve in the cellar leaks", "nobody knows")
        assert "cellar" in str(await search_archive(other, "main", "valve"))
        await database.indexed()
        await archive(other, *(f"the valve number {n} was painted red" for n in range(30)))
        for settled in (False, True):
            # While they wait for the index, and from the index: equal on each server.
            if settled:
                await database.indexed()
            for text in ("valve", "red number 7", "the old figure", "who knows?"):
                mine, theirs = [await call(one, "query_archive", text=text) for one in clients]
                assert mine["items"] == theirs["items"] != []
                if settled:
                    assert mine == theirs
                    assert "not indexed" not in mine["notice"]
        await call(ann, "query_archive", text="L-2", restore=True)
        await database.indexed()
        assert len(contents(location, database)) == 32
        for one in clients:
            assert "L-2 " not in await say(one, "query_archive", text="cellar", zone="archive")
    assert database.rows("SELECT id FROM index_reader") == [f"at {location}"], "one consumer of the outbox"
    for name in ("one", "two"):
        assert not (tmp_path / name / "archive.lance").exists()


@pytest.mark.parametrize(
    ("location", "how"), [("s3", signal.SIGKILL), ("folder", signal.SIGSTOP)], indirect=["location"]
)
async def test_the_other_takes_over_when_a_server_dies_or_stalls_in_the_middle_of_indexing(
    tmp_path: Path, store: str, location: str, how: signal.Signals
) -> None:
    database = Database(store)
    hold, go_on = asyncio.Event(), asyncio.Event()

    async def behave(asked: Asked, reply: Reply) -> None:
        if "the valve" in str(asked.body["input"]) and hold.is_set():
            hold.clear()
            await go_on.wait()
        await embedding(asked, reply)

    async with fake_model() as model, AsyncExitStack() as stack:
        model.behave = behave
        clients = {}
        for name in ("one", "two"):
            server = await stack.enter_async_context(
                http_server(
                    tmp_path / name, "--store", store, "--tools", "all", "--index-at", location, *SOON,
                    "--embedder", "openai",
                    "--embedding-url", f"{model.url}/v1", "--embedding-model", "tiny",
                )
            )  # fmt: skip
            clients[server.pid] = await stack.enter_async_context(http_clients(server.url)("ann"))
        for client in clients.values():
            await archive(client, "the first of all", "the second")
            await search_archive(client, "main", "first")
        await database.indexed()
        before = len(contents(location, database))
        hold.set()
        model.came.clear()
        await archive(next(iter(clients.values())), *(f"the valve number {n}" for n in range(40)))
        await asyncio.to_thread(until, lambda: not hold.is_set(), "nobody indexes")
        holder = database.holder()
        assert holder in clients
        (living,) = (client for pid, client in clients.items() if pid != holder)
        os.kill(holder, how)
        try:
            await archive(living, "posts go on")
            found = await call(living, "query_archive", text="valve number 7")
            assert "valve number 7" in str(found["items"])
            database.end_lease()
            await database.indexed()
            assert len(contents(location, database)) == before + 41
            # What the stalled one has read is taken back before it wakes up.
            await call(living, "query_archive", text="L-7", restore=True)
            await database.indexed()
            await asyncio.to_thread(until, lambda: len(contents(location, database)) == before + 40)
        finally:
            go_on.set()
            if how == signal.SIGSTOP:
                os.kill(holder, signal.SIGCONT)
        if how == signal.SIGSTOP:
            # It finds out, and indexes again like the other one.
            woken = clients[holder]
            await archive(woken, "after it woke up")
            await database.indexed()
            answers = [await call(one, "query_archive", text="valve number") for one in clients.values()]
            assert answers[0] == answers[1]
        there = contents(location, database)
        assert len(there) == len(set(there)) == before + (41 if how == signal.SIGSTOP else 40)
        assert 7 not in there


async def test_posts_go_on_while_the_object_store_is_away_and_searches_say_so(
    tmp_path: Path, store: str, s3: S3Server, start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, said = Database(store), list[str]()
    async with proxy(s3.port) as between:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{between.port}")
        location = s3.bucket()
        options = ("--store", store, "--tools", "all", "--embedder", "none", "--index-at", location)
        server = await asyncio.to_thread(lambda: start(tmp_path / "one", *options, said=said))
        async with http_clients(server.url)("ann") as ann:
            await archive(ann, "the old figure is seven")
            await search_archive(ann, "main", "figure")
            await database.indexed()
            between.refusing = True
            between.cut()
            await archive(ann, "the valve in the cellar leaks")
            assert "valve" in await say(ann, "query_archive", text="valve")
            # A server that starts meanwhile has read nothing of the index yet.
            late = await asyncio.to_thread(lambda: start(tmp_path / "two", *options, said=said))
            async with http_clients(late.url)("bob") as bob:
                # It may take a while to find out.
                async with asyncio.timeout(PATIENCE):
                    while (found := await call(bob, "query_archive", text="valve"))["notice"] != AWAY:
                        assert (found["notice"], len(found["items"])) == (SLOW, 1)
                        await asyncio.sleep(0.5)
                assert len(found["items"]) == 1
                await call(bob, "post", text="posts go on", type="FACT")
                assert database.waits() > 0
                await asyncio.to_thread(
                    until, lambda: any(f"{location} cannot be reached" in line for line in said)
                )
                between.refusing = False
                await database.indexed()
                # Through the proxy, which this thread serves.
                assert len(await asyncio.to_thread(contents, location, database)) == 2
                # A quarter of a minute after it was away, it is asked again.
                async with asyncio.timeout(PATIENCE):
                    while (found := await search_archive(bob, "main", "figure or valve"))["notice"] == AWAY:  # noqa: ASYNC110
                        await asyncio.sleep(0.5)
                assert len(found["items"]) == 2
                assert found == await search_archive(ann, "main", "figure or valve")
    assert not any(SECRET in line or KEY in line for line in said)


async def test_a_copy_of_the_database_leaves_the_originals_index_alone(tmp_path: Path, store: str) -> None:
    database = Database(store)
    location = tmp_path / "shared"
    location.mkdir()
    options = ("--store", store, "--tools", "all", "--embedder", "none", "--index-at", str(location), *SOON)
    async with http_server(tmp_path / "one", *options) as one, http_clients(one.url)("ann") as ann:
        await archive(ann, "the old figure is seven")
        await search_archive(ann, "main", "figure")
        await database.indexed()
    original = database.state()
    # As in a restored dump: the data say that they are another database's.
    database.rows("UPDATE installation SET place = 'elsewhere'")
    async with http_server(tmp_path / "two", *options) as two, http_clients(two.url)("ann") as ann:
        await archive(ann, "the new figure is eight")
        await asyncio.to_thread(until, lambda: database.state().table not in ("", original.table))
        await database.indexed()
        await asyncio.to_thread(until, lambda: len(contents(str(location), database)) == 2)
        found = await search_archive(ann, "main", "figure")
        assert len(found["items"]) == 2
    table = lancedb.connect(str(location)).open_table(original.table, version=original.version)
    assert table.count_rows() == 1


async def test_the_command_builds_the_shared_index_anew(tmp_path: Path, store: str, location: str) -> None:
    database = Database(store)
    options = ("--store", store, "--tools", "all", "--embedder", "none", "--index-at", location, *SOON)
    there = {
        "BLACKBOARD_STORE": store,
        "BLACKBOARD_INDEX_AT": location,
        "BLACKBOARD_EMBEDDER": "none",
        "BLACKBOARD_DATA": str(tmp_path / "two"),
    }
    async with http_server(tmp_path / "one", *options) as one, http_clients(one.url)("ann") as ann:
        await archive(ann, "the old figure is seven", "the valve leaks")
        await search_archive(ann, "main", "figure")
        await database.indexed()
        former = database.state().table
        done = await asyncio.to_thread(lambda: run(there, "rebuild-index"))
        assert "indexed 2 archived items" in done.stdout
        assert database.state().table != former
        assert lancedb.connect(location).list_tables().tables == [database.state().table]
        assert len((await search_archive(ann, "main", "figure"))["items"]) == 1
        assert "valve" in await asyncio.to_thread(lambda: run(there, "archive", "valve").stdout)
    assert "index-unreachable" not in run(there, "doctor", "--quick").stdout
    nowhere = {"BLACKBOARD_INDEX_AT": str(tmp_path / "nowhere")}
    assert "warning index-unreachable" in run(there | nowhere, "doctor", "--quick").stdout
    assert not (tmp_path / "nowhere").exists()


def test_a_shared_index_is_refused_where_it_makes_no_sense(tmp_path: Path) -> None:
    there = {"BLACKBOARD_DATA": str(tmp_path)}
    serves = ("serve", "--transport", "http", "--port", "0")
    assert "name the database with store" in refused(there | {"BLACKBOARD_INDEX_AT": str(tmp_path)}, *serves)
    secret = new_token()
    for wrong in (
        f"s3://AKIA:{secret}@bucket/x",
        f"https://bucket/?key={secret}",
        "shared",
        f"s3://b/{secret}?x",
    ):
        told = refused(there | {"BLACKBOARD_INDEX_AT": wrong}, "query")
        assert "s3://BUCKET/PREFIX" in told
        assert secret not in told
