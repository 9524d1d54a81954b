"""What is put together: who calls, which processes share a board, and how light a stdio process is."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import boards
import httpx2
import pytest
from blackboard_mcp.protocols.errors import InvalidInput, StoreError
from blackboard_mcp.server import background, compose
from blackboard_mcp.server.http.run import serve_http
from blackboard_mcp.server.mcp.callers import principal_of
from blackboard_mcp.server.mcp.server import ConnectionInfo
from blackboard_mcp.server.pruning import pruner
from blackboard_mcp.server.settings.server import Settings
from blackboard_mcp.server.usecases import conducting
from blackboard_mcp.storage.store import SqlBoardStore
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from patience import PATIENCE

board, mode, both = boards.board, boards.mode, boards.both


# Who calls


def stdio(client: str | None) -> ConnectionInfo:
    return ConnectionInfo("stdio", {}, client)


def http(**headers: str) -> ConnectionInfo:
    return ConnectionInfo("http", {name.replace("_", "-"): value for name, value in headers.items()}, None)


def identity(board_: Any, **settings: Any) -> Any:
    opened = replace(board_.opened, settings=replace(board_.opened.settings, **settings))
    identify = compose.build_server(opened).identify

    async def name(connection: ConnectionInfo) -> str:
        return (await principal_of(identify, connection)).agent

    return name


async def test_over_stdio_the_launch_configuration_names_the_agent(board: Any) -> None:
    identify = identity(board, agent="alice")
    assert await identify(stdio("Claude Desktop")) == await identify(stdio(None)) == "alice"
    for wrong in ("system", "not a name", "", "a" * 65):
        with pytest.raises(InvalidInput):
            identity(board, agent=wrong)


@pytest.mark.parametrize(
    ("client", "base"),
    [
        ("Claude Desktop", "Claude-Desktop"),
        ("cursor/1.2 (linux)", "cursor-1.2--linux"),
        ("system", "system"),
        ("", "agent"),
        (None, "agent"),
        ("漢字", "agent"),
        ("../../etc", "etc"),
        ("x" * 300, "x" * 40),
        ("a\nseq 9", "a-seq-9"),
    ],
)
async def test_a_client_without_a_name_of_its_own_gets_a_unique_one(
    board: Any, client: str | None, base: str
) -> None:
    identify = identity(board)
    names = {await identify(stdio(client)) for _ in range(50)}
    assert len(names) == 50
    assert all(re.fullmatch(re.escape(base) + r"-[A-Za-z0-9]{4}", name) for name in names), names


async def test_over_http_each_requests_header_names_the_agent(board: Any) -> None:
    identify = identity(board, agent="launcher")
    assert await identify(http(x_blackboard_agent="bob")) == "bob"
    assert await identify(http(x_blackboard_agent="bob@x.org")) == "bob@x.org"
    for sent in ("j%C3%BCrgen", "ju%CC%88rgen", "j%c3%bcrgen"):
        assert await identify(http(x_blackboard_agent=sent)) == "jürgen"
    with pytest.raises(InvalidInput, match="as percent-encoded UTF-8, here j%C3%BCrgen"):
        await identify(http(x_blackboard_agent="jürgen".encode().decode("latin-1")))
    for wrong in (
        "",
        "system",
        "two words",
        "ü",
        "a" * 65,
        "a\n",
        "%FF",
        "a%20b",
        "%00",
        "%",
        "b%E2%80%8Bob",
    ):
        with pytest.raises(InvalidInput, match="not an agent's name"):
            await identify(http(x_blackboard_agent=wrong))


async def test_without_a_header_an_agent_is_anonymous_and_that_is_logged_once(
    board: Any, caplog: pytest.LogCaptureFixture
) -> None:
    identify = identity(board)
    with caplog.at_level(logging.WARNING):
        assert await identify(http()) == await identify(http(other="x")) == "anonymous"
    assert caplog.text.count("X-Blackboard-Agent") == 1


@both
async def test_agents_of_one_http_server_are_who_their_headers_say(board: Any, mode: str) -> None:
    server = compose.build_server(board.opened)
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()
    task = asyncio.create_task(serve_http(server, port=0, on_ready=ready.set_result, stop=stop))
    url = f"{await asyncio.wait_for(ready, PATIENCE)}/mcp"
    try:
        for headers, author in (
            ({"X-Blackboard-Agent": "alice"}, "alice"),
            ({"X-Blackboard-Agent": "bob"}, "bob"),
            ({}, "anonymous"),
        ):
            async with (
                httpx2.AsyncClient(headers=headers, trust_env=False, verify=False, timeout=PATIENCE) as wire,
                Client(streamable_http_client(url, http_client=wire), mode=mode) as client,
            ):
                result = await client.call_tool("post", {"text": f"by {author}"}, meta=boards.STRUCTURED)
                assert result.structured_content is not None
                assert result.structured_content["items"][0]["author"] == author
        for name in ("X-Blackboard-Agent", "X-Blackboard-Owner"):
            async with httpx2.AsyncClient(trust_env=False, verify=False, timeout=PATIENCE) as wire:
                refused = await wire.post(url, headers={name: "not a name"}, json={})
            assert refused.status_code == 400
            assert "not an agent's name" in refused.text
    finally:
        stop.set()
        await asyncio.wait_for(task, PATIENCE)


@both
async def test_whom_an_agent_acts_for_is_what_its_header_last_said(board: Any, mode: str) -> None:
    server = compose.build_server(board.opened)
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()
    task = asyncio.create_task(serve_http(server, port=0, on_ready=ready.set_result, stop=stop))
    url = f"{await asyncio.wait_for(ready, PATIENCE)}/mcp"
    try:
        for said, owner in (({}, "alice"), ("team", "team"), ({}, "team"), ("b", "b"), ("alice", "alice")):
            headers = {"X-Blackboard-Agent": "alice"} | ({"X-Blackboard-Owner": said} if said else {})
            async with (
                httpx2.AsyncClient(headers=headers, trust_env=False, verify=False, timeout=PATIENCE) as wire,
                Client(streamable_http_client(url, http_client=wire), mode=mode) as client,
            ):
                assert not (await client.call_tool("read", {})).is_error
            assert await board.opened.store.owner_of("alice") == owner
    finally:
        stop.set()
        await asyncio.wait_for(task, PATIENCE)


async def test_over_stdio_the_launch_configuration_says_whom_the_agent_acts_for(
    board: Any, tmp_path: Path
) -> None:
    given = {"agent": "alice", "owner": "team", "data": tmp_path / "other"}
    async with compose.installation(
        replace(board.opened.settings, **given), eager_index=False, background=False
    ) as opened:
        async with Client(compose.build_server(opened).sdk_server, mode=boards.MODERN) as client:
            assert not (await client.call_tool("post", {"text": "x"})).is_error
        assert await opened.store.owner_of("alice") == "team"
        for wrong in ("system", "not a name", ""):
            with pytest.raises(InvalidInput):
                identity(board, owner=wrong)


# One file, several processes


async def test_what_one_installation_posts_another_on_the_same_folder_reads(
    tmp_path: Path, mode: str
) -> None:
    async with boards.open_boards(tmp_path, mode) as one, boards.open_boards(tmp_path, mode) as two:
        alice, bob = await one.join("alice"), await two.join("bob")
        await alice.post("x", key="k", expected_version=0)
        assert (await bob.do("query"))["items"][0]["author"] == "alice"
        assert (await bob.fail("post", text="y", key="k", expected_version=0))["current_version"] == 1
        await bob.post("doubt", "CRITIQUE", edges={"critiques": ["F-1"]})
        await alice.do("query")
        assert alice.footer.endswith("you owe: answer C-2")


async def test_a_folder_is_made_for_its_owner_alone_and_opens_again(tmp_path: Path, mode: str) -> None:
    folder = tmp_path / "deep" / "data"
    async with boards.open_boards(folder, mode) as one:
        await (await one.join("alice")).post("x")
    assert folder.stat().st_mode & 0o077 == 0
    async with boards.open_boards(folder, mode) as again:
        assert (await (await again.join("alice")).do("query"))["items"][0]["text"] == "x"


async def test_an_unknown_tokenizer_is_refused_and_closes_the_store(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(InvalidInput, match="no_such"):
            async with compose.installation(
                Settings(data=tmp_path, tokenizer="no_such"), eager_index=False, background=False
            ):
                pass


async def test_expired_items_leave_by_themselves_while_a_server_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruner, "_SWEEP_SECONDS", 0.02)
    clock = boards.HandClock()
    settings = Settings(data=tmp_path, agent="alice", synchronous="NORMAL")
    async with (
        compose.installation(settings, eager_index=False, clock=clock) as opened,
        Client(compose.build_server(opened).sdk_server) as alice,
    ):
        await alice.call_tool("post", {"text": "x", "ttl_seconds": 5})
        clock.advance(6)
        async with asyncio.timeout(PATIENCE):
            while True:
                seen = opened.store.changes()
                if [b.archived_items for b in await opened.store.boards()] == [1]:
                    break
                await opened.store.wait_for_change(seen, 5)


async def test_work_in_the_background_that_fails_begins_anew_and_the_server_closes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(background, "AGAIN_SECONDS", 0.02)
    looks, again = 0, asyncio.Event()

    async def without_handles(store: SqlBoardStore) -> bool:
        nonlocal looks
        looks += 1
        if looks == 1:
            raise OSError(errno.EMFILE, "Too many open files")
        again.set()
        return False

    monkeypatch.setattr(SqlBoardStore, "sub_boards_open", without_handles)
    async with compose.installation(Settings(data=tmp_path), eager_index=False):
        await asyncio.wait_for(again.wait(), PATIENCE)
    assert caplog.text.count("below failed, and begins anew") == 1


async def test_work_in_the_background_that_cancels_itself_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(background, "AGAIN_SECONDS", 0.02)
    looks, again = 0, asyncio.Event()

    async def cancelled_once(store: SqlBoardStore) -> bool:
        nonlocal looks
        looks += 1
        if looks == 1:
            raise asyncio.CancelledError("a task that it awaited was cancelled")
        again.set()
        return False

    monkeypatch.setattr(SqlBoardStore, "sub_boards_open", cancelled_once)
    async with compose.installation(Settings(data=tmp_path), eager_index=False):
        await asyncio.wait_for(again.wait(), PATIENCE)
    assert caplog.text.count("below failed, and begins anew") == 1


async def test_work_in_the_background_that_goes_on_failing_does_not_fill_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(background, "AGAIN_SECONDS", 0.02)
    monkeypatch.setattr(conducting, "SWEEP_SECONDS", 0.02)
    looks, enough = dict.fromkeys(("sub_boards_open", "sweep_runs"), 0), asyncio.Event()

    def failing(name: str, error: Exception) -> Callable[[SqlBoardStore], Any]:
        async def fail(store: SqlBoardStore) -> None:
            looks[name] += 1
            if min(looks.values()) >= 5:
                enough.set()
            raise error

        return fail

    monkeypatch.setattr(SqlBoardStore, "sub_boards_open", failing("sub_boards_open", OSError("gone")))
    monkeypatch.setattr(SqlBoardStore, "sweep_runs", failing("sweep_runs", StoreError("gone")))
    async with compose.installation(Settings(data=tmp_path), eager_index=False) as opened:
        opened.conduct()
        await asyncio.wait_for(enough.wait(), PATIENCE)
    assert caplog.text.count("below failed, and begins anew") == 1
    assert caplog.text.count("lapsed turns wait: gone") == 1


async def test_what_nobody_uses_or_does_is_seen_to_while_a_server_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruner, "_SWEEP_SECONDS", 0.02)
    clock = boards.HandClock()
    settings = Settings(data=tmp_path, agent="alice", synchronous="NORMAL", tools=("core", "messages"))
    async with (
        compose.installation(settings, eager_index=False, clock=clock) as opened,
        Client(compose.build_server(opened).sdk_server) as alice,
    ):

        async def call(tool: str, **arguments: Any) -> Any:
            result = await alice.call_tool(tool, arguments, meta=boards.STRUCTURED)
            assert not result.is_error, result
            return result.structured_content

        async def until(tool: str, done: Callable[[Any], bool]) -> None:
            async with asyncio.timeout(PATIENCE):
                while True:
                    seen = opened.store.changes()
                    if done(await call(tool)):
                        return
                    await opened.store.wait_for_change(seen, 5)

        await call("post", text="x")
        await call("subscribe", filter={}, name="news")
        await call("consume", group="crew", filter={"type": "PLAN"}, limit=0)
        await call("post", text="job", type="PLAN")
        for _ in range(5):
            await call("consume", group="crew", seconds=0)
            clock.advance(61)
        await until("consume", lambda answer: answer["groups"][0]["dead"] == 1)
        assert (await call("wait", since=4, seconds=0))["events"][0]["event"] == "delivery.dead"
        clock.advance(31 * 86_400)
        await until("subscribe", lambda answer: [s["name"] for s in answer["expired"]] == ["news"])
        await until("consume", lambda answer: answer["groups"] == [])


# A stdio process is light

HEAVY = ("lance", "arrow", "numpy", "wordllama", "tokenizers", "safetensors")


def mapped(pid: int) -> set[str]:
    """Which of the heavy libraries a process has mapped."""
    maps = Path(f"/proc/{pid}/maps").read_text()
    return {name for name in HEAVY if re.search(rf"/[^/\n]*{name}[^\n]*\.so", maps)}


def children(pid: int) -> list[int]:
    """The processes that a process has begun."""
    return [
        int(n)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for n in (task / "children").read_text().split()
    ]


class Process:
    """A `serve --transport stdio` process, driven by lines."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self._id = 0

    async def call(self, tool: str, **arguments: Any) -> Any:
        self._id += 1
        meta = {
            "io.modelcontextprotocol/protocolVersion": boards.MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
            **boards.STRUCTURED,
        }
        params = {"name": tool, "arguments": arguments, "_meta": meta}
        message = {"jsonrpc": "2.0", "id": self._id, "method": "tools/call", "params": params}
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        await self.process.stdin.drain()
        while True:
            line = json.loads(await asyncio.wait_for(self.process.stdout.readline(), PATIENCE))
            if line.get("id") == self._id:
                return line["result"]["structuredContent"]


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc")
async def test_a_stdio_process_loads_no_index_before_the_archive_is_searched_and_ends_with_its_input(
    tmp_path: Path,
) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("BLACKBOARD_")}
    started = await asyncio.create_subprocess_exec(
        *(
            sys.executable,
            "-m",
            "blackboard_mcp.server",
            "serve",
            "--transport",
            "stdio",
            "--data",
            str(tmp_path),
        ),
        *("--agent", "alice", "--tools", "all", "--target-tokens", "400"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )
    there = Process(started)
    try:
        for n in range(4):
            await there.call(
                "post", items=[{"text": f"{n}.{m} " + "word " * 30, "type": "LOG"} for m in range(6)]
            )
        since = 0
        async with asyncio.timeout(PATIENCE):
            while True:  # until a pass has ended, of which nobody is woken
                news = await there.call("wait", since=since, seconds=0.1)
                since = news["cursor"]
                if any(event["event"] == "prune.ended" for event in news["events"]):
                    break
        assert (await there.call("read"))["shown"]
        assert (await there.call("query", zone="archive"))["items"]
        assert (await there.call("query_archive"))["mode"] == "listing"
        assert (await there.call("query_archive", text="L-1"))["mode"] == "exact"
        assert mapped(started.pid) == set()
        found = await there.call("query_archive", text="word")
        assert found["items"]
        async with asyncio.timeout(PATIENCE):
            # The search has set the indexer going, in a process of its own.
            while not any("lance" in mapped(child) for child in children(started.pid)):
                await there.call("wait", seconds=0.1)
        (child,) = children(started.pid)
        assert mapped(started.pid) == set()
    finally:
        assert started.stdin is not None
        started.stdin.close()
        assert started.stderr is not None
        _, said = await asyncio.wait_for(asyncio.gather(started.wait(), started.stderr.read()), PATIENCE)
    assert started.returncode == 0
    assert b"Traceback" not in said
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
