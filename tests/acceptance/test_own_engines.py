"""Servers on a board store and an archive index of the operator's own, through real clients."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path
from typing import Any

import httpx2
import pytest
from blackboard_mcp.protocols.errors import StoreError
from blackboard_mcp.server.demo.process import http_clients, http_server, stdio_clients
from blackboard_mcp.server.demo.replay import call, say, search_archive
from blackboard_mcp.server.usecases.searching import BEHIND, SLOW
from commands import refused, run, said
from mcp.client import Client
from patience import PATIENCE, until

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
EXAMPLE = "mirrored_store:MirroredStore"
PASSED_ON = '''
import asyncio
import logging

from blackboard_mcp.protocols.credentials import CredentialStore
from blackboard_mcp.protocols.engines import HealthStore
from blackboard_mcp.server.plugins.engines import missing
from blackboard_mcp.storage.fts.index import FtsArchiveIndex
from blackboard_mcp.storage.store import SqlBoardStore

HIDDEN = {*missing(object(), CredentialStore), "health", "engine", "settled"}


class PassedOn:
    """A store that is no subclass of ours, keeps no tokens, and reports no health."""

    def __init__(self, store):
        self._store = store

    @classmethod
    async def open(cls, folder, *, clock):
        return cls(await SqlBoardStore.open(folder / "elsewhere.db", clock=clock))

    def judged(self, judge, boards=()):
        return type(self)(self._store.judged(judge, boards))

    def __getattr__(self, name):
        if name in HIDDEN:
            raise AttributeError(name)
        return getattr(self._store, name)


class Raises(PassedOn):
    async def close(self):
        await self._store.close()
        raise ConnectionError("the database has left")


class Cancels(PassedOn):
    async def close(self):
        await self._store.close()
        raise asyncio.CancelledError


class Closed:
    @classmethod
    async def open(cls, folder, *, clock):
        raise ConnectionError("the database is closed on Sundays")


class Leaves:
    @classmethod
    async def open(cls, folder, *, clock):
        raise SystemExit(0)


class Words:
    @classmethod
    async def open(cls, folder):
        return FtsArchiveIndex(folder / "archive.words")


class Short:
    @classmethod
    async def open(cls, folder):
        return cls()

    async def search(self, query, waiting=None):
        raise NotImplementedError
'''


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Lets servers and commands import the example and the classes above; returns a command's environment."""
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "own_engines.py").write_text(PASSED_ON, "utf-8")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(EXAMPLES), str(modules)]))
    return {"BLACKBOARD_DATA": str(tmp_path / "data")}


async def argued(client: Client, other: Client) -> None:
    """Posts, criticises, concedes and archives as two agents do, and checks what each is told."""
    posted = await call(client, "post", text="the pump is blue", type="HYPOTHESIS", tags=["pump"])
    assert posted["items"][0]["id"] == "H-1"
    await call(other, "post", text="it is green", type="CRITIQUE", edges={"critiques": ["H-1"]})
    assert "H-1" in await say(client, "read")
    await call(client, "debate", op="concede", id="H-1", reason="so it is")
    found = await call(other, "query", tags=["pump"])
    assert [item["id"] for item in found["items"]] == ["H-1"]


async def test_agents_argue_on_the_example_and_its_copy_has_what_they_wrote(
    there: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, mirror = tmp_path / "data", tmp_path / "far" / "boards.sqlite3"
    monkeypatch.setenv("MIRROR", str(mirror))
    async with http_server(data, "--store", EXAMPLE) as served:
        over_http, beside = http_clients(served.url), stdio_clients(data, "--store", EXAMPLE)
        async with over_http("ann") as ann, beside("bob") as bob:
            await argued(ann, bob)
            await asyncio.to_thread(until, mirror.exists)
    assert not [name for name in os.listdir(mirror.parent) if name != mirror.name]
    there |= {"BLACKBOARD_STORE": EXAMPLE, "MIRROR": str(mirror)}
    assert "the pump is blue" in said(there, "query")
    assert said(there, "verify") == "board main is what its history says\n"
    assert "the file of the built-in store" in refused(there, "compact")
    assert "the file of the built-in store" in refused(there, "restore", str(mirror))
    restored = {"BLACKBOARD_DATA": str(tmp_path / "restored")}
    run(restored, "restore", str(mirror))
    assert said(restored, "query") == said(there, "query")
    with closing(sqlite3.connect(mirror)) as copy:
        assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)


async def test_the_example_of_an_index_finds_what_was_archived_also_after_a_restart(
    there: dict[str, str], tmp_path: Path
) -> None:
    archive = ("--archive", "dict_index:DictIndex", "--tools", "all")
    async with http_server(tmp_path / "data", *archive) as served, http_clients(served.url)("ann") as ann:
        await call(ann, "post", text="the old figure of the pump is seven bar", ttl_seconds=0.001)
        await call(ann, "post", text="paint the shed", ttl_seconds=0.001)
        await call(ann, "prune")
        found = await search_archive(ann, "main", "PUMP figure")
        assert [hit["id"] for hit in found["items"]] == ["F-1"]
    async with http_server(tmp_path / "data", *archive) as served, http_clients(served.url)("ben") as ben:
        assert "seven bar" in str(await search_archive(ben, "main", "pump figure"))
        assert "by words only" in await say(ben, "query_archive", text="shed")


async def test_two_processes_with_different_indexes_each_find_all_that_was_archived(
    there: dict[str, str], tmp_path: Path
) -> None:
    data = tmp_path / "data"
    store = data / "board.sqlite3"

    def indexed() -> bool:
        with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as reader:
            return reader.execute("SELECT count(*) FROM outbox").fetchone() == (0,)

    async def found(client: Client) -> set[str]:
        """Returns what a search finds once the index answers it."""
        async with asyncio.timeout(PATIENCE):
            while True:
                answer = await call(client, "query_archive", text="old figure", limit=50)
                if answer["notice"] not in (BEHIND, SLOW):
                    return {hit["id"] for hit in answer["items"]}

    def connect(agent: str, *archive: str) -> AbstractAsyncContextManager[Client]:
        return stdio_clients(data, "--embedder", "none", "--tools", "all", *archive)(agent)

    own = ("--archive", "own_engines:Words")
    async with connect("ann", *own) as ann, connect("bob") as bob, connect("cleo", *own) as cleo:
        wanted = set[str]()
        for each in (ann, bob, cleo):
            assert await found(each) == wanted  # from the first search on a process indexes
        for agent in (ann, bob, cleo, ann, bob):
            posted = await call(agent, "post", text=f"old figure {len(wanted)}", ttl_seconds=0.001)
            wanted.add(posted["items"][0]["id"])
            await call(agent, "prune")
            await asyncio.to_thread(until, indexed)
            for other in (ann, bob, cleo):
                assert await found(other) == wanted


async def test_a_store_that_is_none_of_ours_serves_every_set_of_tools(
    there: dict[str, str], tmp_path: Path
) -> None:
    data = tmp_path / "data"
    store = ("--store", "own_engines:PassedOn", "--archive", "own_engines:Words", "--tools", "all")
    async with http_server(data, *store) as served:
        connect = http_clients(served.url)
        async with connect("ann") as ann, connect("bob") as bob:
            await argued(ann, bob)
            health = served.url.removesuffix("/mcp") + "/healthz"
            async with httpx2.AsyncClient(trust_env=False, verify=False) as http:
                assert (await http.get(health)).status_code == 200
            await call(ann, "artifact_write", path="a.md", content="one")
            await call(ann, "plan", items=[{"title": "mend the pump"}])
            assert "mend the pump" in await say(bob, "claim")
            await call(ann, "post", text="the old figure is seven", ttl_seconds=0.001)
            await call(ann, "prune")
            assert "seven" in str(await search_archive(ann, "main", "old figure"))
    assert {"elsewhere.db", "archive.words"} <= set(os.listdir(data))
    assert not {"board.sqlite3", "archive.lance"} & set(os.listdir(data))
    there |= {"BLACKBOARD_STORE": "own_engines:PassedOn", "BLACKBOARD_ARCHIVE": "own_engines:Words"}
    assert "the pump is blue" in said(there, "query")
    assert "indexed " in said(there, "rebuild-index")
    for words in (["export"], ["verify"], ["backup", str(tmp_path / "b")], ["import", os.devnull]):
        assert f"{words[0]} works on the file of the built-in store" in refused(there, *words)
    assert not (tmp_path / "b").exists()
    assert "keeps no access tokens" in refused(there, "token", "create", "--agent", "ann")
    assert "note own-store" in run(there, "doctor", "--quick").stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--store", "own_engines:Closed"], "ConnectionError: the database is closed on Sundays"),
        (["--store", "own_engines:Leaves"], "opening it failed: SystemExit: 0."),
        (["--store", "own_engines:Words"], "opening it failed: TypeError"),
        (["--store", "own_engines:logging"], "it has no method open"),
        (["--store", "own_engines:Nothing"], "'own_engines' has no 'Nothing'"),
        (["--store", "nowhere:Store"], "importing 'nowhere' failed"),
        (["--store", "own_engines"], "must be of the form package.module:Class"),
        (
            ["--archive", "own_engines:Short"],
            "it lacks close, keys, life, maintain, remove, reset, upsert of",
        ),
        (["--archive", "own_engines:Closed"], "opening it failed: TypeError"),
        (["--archive", "own_engines;Words"], "must be of the form package.module:Class"),
        (["--store", "own_engines:PassedOn", "--auth", "token"], "auth is token. The board store of these"),
        (["--store", EXAMPLE], "which is a folder; name the copy's file inside it"),
    ],
)
@pytest.mark.usefixtures("there")
async def test_a_launch_that_cannot_be_ends_with_one_line(
    options: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIRROR", str(tmp_path))
    with pytest.raises(StoreError) as caught:
        async with http_server(tmp_path / "data", *options):
            pass
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("store", "cause"),
    [("Raises", "ConnectionError: the database has left"), ("Cancels", "CancelledError: ")],
)
def test_a_server_whose_store_fails_as_it_closes_says_so_and_ends_in_order(
    there: dict[str, str], store: str, cause: str
) -> None:
    words = ("serve", "--agent", "ann", "--store", f"own_engines:{store}", "--archive", "own_engines:Words")
    done = run(there, *words)
    assert done.returncode == 0, done.stderr
    assert f"closing the store failed: {cause}" in done.stderr


async def test_no_argument_of_a_tool_names_a_class(there: dict[str, str], tmp_path: Path) -> None:
    async with stdio_clients(tmp_path / "data", "--tools", "all")("ann") as ann:
        told: list[Any] = [tool.model_dump_json() for tool in (await ann.list_tools()).tools]
        await call(ann, "post", text="a board")
        for name in ("store", "archive"):
            refusal = await ann.call_tool("board", {"settings": {name: "own_engines:Closed"}})
            assert refusal.is_error
    assert "module:Class" not in "".join(told)
