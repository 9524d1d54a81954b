"""The relay: a real server over HTTP on one side, a stdio client on the other."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import h11
import mcp.types as types
import pytest
import sample_board
from blackboard_mcp.server.http.run import serve_http
from blackboard_mcp.server.relay import stdio as relay_module
from blackboard_mcp.server.relay.stdio import relay
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.shared.subscriptions import ResourceUpdated
from patience import PATIENCE
from ports import free_port

ROOT = Path(__file__).parents[3]
LEGACY, MODERN = "legacy", "2026-07-28"
EVENTS = "board://main/events"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
}
pytestmark = pytest.mark.filterwarnings("ignore:resources/(un)?subscribe is removed")
both = pytest.mark.parametrize("mode", [LEGACY, MODERN])


@asynccontextmanager
async def serving(port: int = 0) -> AsyncIterator[tuple[Any, str]]:
    sample = sample_board.Sample()
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()
    task = asyncio.create_task(serve_http(sample.server, port=port, on_ready=ready.set_result, stop=stop))
    try:
        yield sample, await asyncio.wait_for(ready, PATIENCE)
    finally:
        stop.set()
        await asyncio.wait_for(task, PATIENCE)


class Wire:
    """The client's side of a relay that runs in this process."""

    def __init__(self, to_relay: int, reader: asyncio.StreamReader, task: asyncio.Task[None]) -> None:
        self._to_relay = to_relay
        self._reader = reader
        self.task = task

    def send(self, message: dict[str, Any] | bytes) -> None:
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        os.write(self._to_relay, data + b"\n")

    def modern(self, identifier: int, method: str, **params: Any) -> None:
        self.send({"jsonrpc": "2.0", "id": identifier, "method": method, "params": {**params, "_meta": META}})

    def legacy(self, identifier: int, method: str, **params: Any) -> None:
        self.send({"jsonrpc": "2.0", "id": identifier, "method": method, "params": params})

    def notify(self, method: str, **params: Any) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    async def receive(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(await asyncio.wait_for(self._reader.readline(), PATIENCE))
        return document

    async def initialize(self) -> None:
        info = {"name": "raw", "version": "1"}
        self.legacy(0, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=info)
        assert (await self.receive())["result"]["serverInfo"]["name"] == "sample"
        self.notify("notifications/initialized")

    async def end(self) -> list[dict[str, Any]]:
        """End the input; what still came, once the relay has ended."""
        os.close(self._to_relay)
        self._to_relay = -1
        await asyncio.wait_for(self.task, PATIENCE)
        rest = await asyncio.wait_for(self._reader.read(), PATIENCE)
        return [json.loads(line) for line in rest.splitlines()]


@asynccontextmanager
async def relaying(url: str, **options: Any) -> AsyncIterator[Wire]:
    relay_in, to_relay = os.pipe()
    from_relay, relay_out = os.pipe()
    reader = asyncio.StreamReader(limit=2**24)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(from_relay, "rb", 0)
    )

    async def run() -> None:
        try:
            await relay(url, input_fd=relay_in, output_fd=relay_out, **options)
        finally:
            os.close(relay_out)

    wire = Wire(to_relay, reader, asyncio.create_task(run()))
    try:
        yield wire
    finally:
        if wire._to_relay >= 0:
            await wire.end()
        await asyncio.gather(wire.task, return_exceptions=True)
        transport.close()
        os.close(relay_in)


@pytest.mark.parametrize("mode", [LEGACY, MODERN, "auto"])
async def test_a_stdio_client_of_either_generation_works_through_it(mode: str) -> None:
    heard = asyncio.Event()
    told = []

    async def hear(message: object) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            heard.set()

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    async with serving() as (sample, url):
        code = (
            f"import sys; from blackboard_mcp.server.relay.stdio import main; sys.exit(main({url!r}, 'rel'))"
        )
        program = StdioServerParameters(command=sys.executable, args=["-c", code])
        async with Client(program, mode=mode, message_handler=hear) as alice:
            results = await asyncio.gather(*(alice.call_tool("post", {"text": str(n)}) for n in range(40)))
            assert [r.content[0].text for r in results if isinstance(r.content[0], types.TextContent)] == [
                f"rel by http: {n}" for n in range(40)
            ]
            await alice.call_tool("post", {"fail": "progress"}, progress_callback=on_progress)
            assert told == [(1.0, 2.0, "half")]
            assert (await alice.read_resource("board://main/items/F-3")).contents
            if mode == LEGACY:
                await alice.subscribe_resource(EVENTS)
                async with asyncio.timeout(PATIENCE):
                    while not heard.is_set():
                        await alice.call_tool("publish", {"uri": EVENTS})
            else:
                async with alice.listen(resource_subscriptions=[EVENTS]) as stream:
                    await alice.call_tool("publish", {"uri": EVENTS})
                    assert await asyncio.wait_for(anext(aiter(stream)), PATIENCE) == ResourceUpdated(EVENTS)
            call = asyncio.create_task(alice.call_tool("wait", {}))
            await asyncio.wait_for(sample.waiting.wait(), PATIENCE)
            call.cancel()
            await asyncio.wait_for(sample.cancelled.wait(), PATIENCE)
            await asyncio.gather(call, return_exceptions=True)
        if mode == LEGACY:
            assert sample.server.sdk_server.session_manager._server_instances == {}


async def test_calls_under_way_are_answered_when_the_input_ends() -> None:
    async with serving() as (_, url), relaying(url, agent="rel") as wire:
        wire.modern(1, "tools/call", name="post", arguments={"text": "a"})
        wire.modern(2, "tools/call", name="wait", arguments={"seconds": 0.2})
        wire.modern(3, "subscriptions/listen", notifications={"resourceSubscriptions": [EVENTS]})
        answers = {message.get("id"): message for message in await wire.end()}
        assert "result" in answers[1]
        assert "result" in answers[2]


async def test_names_that_are_no_header_values_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as (_, url), relaying(url, agent="rel") as wire:
        wire.modern(1, "resources/read", uri="board://main/items/Grüße\n")
        answer = await wire.receive()
    assert answer["result"]["contents"][0]["text"] == "item Grüße\n"


async def test_the_token_travels_as_a_bearer() -> None:
    async with serving() as (sample, url), relaying(url, agent="rel", token="s3cret") as wire:
        wire.modern(1, "tools/list")
        assert "result" in await wire.receive()
    assert sample.identified[0].headers["authorization"] == "Bearer s3cret"


async def test_whom_the_agent_acts_for_travels_with_its_name() -> None:
    async with serving() as (sample, url), relaying(url, agent="rel", owner="team") as wire:
        wire.modern(1, "tools/list")
        assert "result" in await wire.receive()
    assert sample.identified[0].headers["x-blackboard-owner"] == "team"


async def test_a_refusal_over_http_becomes_an_error_for_the_client() -> None:
    async with serving() as (_, url), relaying(url) as wire:
        wire.modern(1, "tools/list")
        error = (await wire.receive())["error"]
    assert error["message"].startswith("the request names no agent")
    assert error["data"]["error"] == "invalid"


async def test_without_a_server_the_client_learns_what_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "CONNECT_SECONDS", 0.2)
    url = f"http://127.0.0.1:{free_port()}"
    async with relaying(url, agent="rel") as wire:
        wire.modern(1, "tools/list")
        error = (await wire.receive())["error"]
    assert error["message"].startswith(f"no blackboard server answers at {url}/mcp")
    assert "blackboard-mcp serve --transport http" in error["message"]


async def test_what_follows_notifications_does_not_wait_for_a_server_that_is_away() -> None:
    async with relaying(f"http://127.0.0.1:{free_port()}", agent="rel") as wire:
        for number in range(20):
            wire.notify("notifications/progress", progressToken=number, progress=1)
        wire.send(b"not json")
        assert (await wire.receive())["error"]["code"] == -32700


async def test_a_client_that_is_faster_than_its_server_waits_for_it() -> None:
    port = free_port()
    async with relaying(f"http://127.0.0.1:{port}", agent="rel") as wire:
        wire.modern(1, "server/discover")
        async with serving(port):
            assert "result" in await wire.receive()


async def test_a_server_that_ends_in_a_call_is_told_apart_from_one_that_never_got_it() -> None:
    async def leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(leave, "127.0.0.1", 0)
    async with (
        server,
        relaying(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", agent="rel") as wire,
    ):
        wire.modern(1, "tools/call", name="post", arguments={})
        error = (await wire.receive())["error"]
    assert "may have been applied" in error["message"]
    assert "idempotency_key" in error["message"]


async def test_a_connection_that_the_server_closes_is_told_in_plain_words() -> None:
    async def leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].split()[0]))
        writer.close()

    server = await asyncio.start_server(leave, "127.0.0.1", 0)
    async with (
        server,
        relaying(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", agent="rel") as wire,
    ):
        wire.modern(1, "tools/call", name="post", arguments={})
        error = (await wire.receive())["error"]
    assert "ended before the answer (the server closed it); the call may" in error["message"]


async def test_calls_wait_for_a_renewal_under_way_instead_of_going_without_a_session() -> None:
    async with contextlib.AsyncExitStack() as stack:
        _, url = await stack.enter_async_context(serving())
        async with relaying(url, agent="rel") as wire:
            await wire.initialize()
            await stack.aclose()
            async with serving(int(url.rpartition(":")[2])):
                for number in range(1, 41):
                    wire.legacy(number, "tools/call", name="post", arguments={"text": str(number)})
                    await asyncio.sleep(0.002)
                answers = [await wire.receive() for _ in range(40)]
    assert [answer for answer in answers if "result" not in answer] == []


async def test_a_restarted_server_gets_the_legacy_session_and_its_subscriptions_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        _, url = await stack.enter_async_context(serving())
        async with relaying(url, agent="rel") as wire:
            await wire.initialize()
            wire.legacy(1, "resources/subscribe", uri=EVENTS)
            assert "result" in await wire.receive()
            await stack.aclose()
            async with serving(int(url.rpartition(":")[2])):
                wire.legacy(2, "tools/call", name="post", arguments={"text": "again"})
                messages = [await wire.receive()]
                while messages[-1].get("id") != 2:
                    messages.append(await wire.receive())
                assert messages[-1]["result"]["content"][0]["text"] == "rel by http: again"
                # The standing stream was interrupted: the client is told to read again.
                while not any(m.get("method") == "notifications/resources/updated" for m in messages):
                    messages.append(await wire.receive())
                wire.legacy(3, "tools/call", name="publish", arguments={"uri": EVENTS})
                got = [await wire.receive(), await wire.receive()]
                assert sorted(str(m.get("method")) for m in got) == [
                    "None",
                    "notifications/resources/updated",
                ]


STARTING = {"code": -32600, "message": "the worker starts anew", "data": {"error": "starting"}}
FULL = {"code": -32600, "message": "too many sessions", "data": {"error": "rate_limited"}}


@asynccontextmanager
async def forgetting(*refusals: tuple[int, dict[str, Any]]) -> AsyncIterator[str]:
    """Serves the older generation: it forgets its first session, and refuses as told before it opens the next."""
    left = [None, *refusals]
    opened = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal opened
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length:")[2].split()[0]) if "content-length:" in head else 0
        message = json.loads(await reader.readexactly(length) or b"{}")
        result: dict[str, Any] = {"result": {"serverInfo": {"name": "sample"}}}
        status = 200
        if message.get("method") == "initialize":
            refusal = left.pop(0) if left else None
            opened += refusal is None
            if refusal is not None:
                status, result = refusal[0], {"error": refusal[1]}
        elif "id" not in message:
            status = 405 if head.startswith("get") else 202
        elif f"mcp-session-id: s{opened}\r" not in head or opened == 1:
            status, result = 404, {"error": {"code": -32600, "message": "Session not found"}}
        identifier = message.get("id") if status == 200 else None
        body = json.dumps({"jsonrpc": "2.0", "id": identifier, **result}).encode()
        told = f"HTTP/1.1 {status} X\r\nmcp-session-id: s{opened}\r\ncontent-type: application/json\r\n"
        writer.write(f"{told}connection: close\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_calls_of_a_lost_session_wait_while_the_worker_that_keeps_sessions_starts() -> None:
    async with forgetting((503, STARTING), (503, STARTING)) as url, relaying(url, agent="rel") as wire:
        await wire.initialize()
        for number in range(1, 11):
            wire.legacy(number, "tools/list")
        answers = [await wire.receive() for _ in range(10)]
    assert {answer["id"] for answer in answers} == set(range(1, 11))
    assert [answer for answer in answers if "result" not in answer] == []


async def test_calls_of_a_lost_session_are_told_why_there_is_no_new_one() -> None:
    async with forgetting((503, FULL)) as url, relaying(url, agent="rel") as wire:
        await wire.initialize()
        wire.legacy(1, "tools/list")
        assert await wire.receive() == {"jsonrpc": "2.0", "id": 1, "error": FULL}
        wire.legacy(2, "tools/list")
        assert "result" in await wire.receive()


@both
async def test_lines_that_are_no_messages_are_answered(mode: str) -> None:
    async with serving() as (_, url), relaying(url, agent="rel") as wire:
        if mode == LEGACY:
            await wire.initialize()
        for line, identifier, code in [
            (b"not json", None, -32700),
            (b"[]", None, -32600),
            (b'{"jsonrpc":"2.0","id":1.0,"method":"ping"}', None, -32600),
            (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', None, -32600),
            (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', None, -32600),
            (b'{"id":"big","x":"' + b"y" * (4 * 1024 * 1024) + b'"}', "big", -32600),
        ]:
            wire_send = asyncio.to_thread(wire.send, line)
            _, error = await asyncio.gather(wire_send, wire.receive())
            assert (error["id"], error["error"]["code"]) == (identifier, code)


async def test_notifications_keep_their_order() -> None:
    seen: list[str] = []

    async def slow_first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = next(
                int(row[15:])
                for row in head.decode().lower().split("\r\n")
                if row.startswith("content-length")
            )
            seen.append(json.loads(await reader.readexactly(length))["method"])
            for _ in range(20 if len(seen) == 1 else 0):
                await asyncio.sleep(0)
            writer.write(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")
            if len(seen) == 3:
                writer.close()
                return

    server = await asyncio.start_server(slow_first, "127.0.0.1", 0)
    async with (
        server,
        relaying(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", agent="rel") as wire,
    ):
        for name in ("a/one", "a/two", "a/three"):
            wire.notify(name)
        await wire.end()
    assert seen == ["a/one", "a/two", "a/three"]


async def test_it_is_light() -> None:
    code = (
        "import sys; from blackboard_mcp.server.relay.stdio import main; main(sys.argv[1], 'rel'); "
        "print(sorted({'mcp', 'pydantic', 'lancedb', 'starlette', 'httpx2', 'anyio', 'click'} & set(sys.modules)), "
        "file=sys.stderr); "
        "print(open('/proc/self/status').read() if sys.platform == 'linux' else '', file=sys.stderr)"
    )
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}
    async with serving() as (_, url):
        program = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", code, url),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, err = await asyncio.wait_for(program.communicate(json.dumps(call).encode() + b"\n"), PATIENCE)
    assert "result" in json.loads(out)
    heavy, *status = err.decode().splitlines()
    assert heavy == "[]"
    assert all(int(row.split()[1]) < 45_000 for row in status if row.startswith("VmHWM"))


@pytest.fixture
def alone(tmp_path: Path) -> Path:
    """A folder with what the relay's own small wheel installs: itself, h11, and nothing else of ours or of others."""
    build = "import sys, hatchling.build as b; b.build_wheel(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-c", build, str(tmp_path)],
        cwd=ROOT / "server/connect",
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    folder = tmp_path / "alone"
    with ZipFile(wheel) as packed:
        packed.extractall(folder)
        (metadata,) = (name for name in packed.namelist() if name.endswith("/METADATA"))
        needed = [
            row for row in packed.read(metadata).decode().splitlines() if row.startswith("Requires-Dist")
        ]
    assert len(needed) == 1
    assert needed[0].startswith("Requires-Dist: h11")
    shutil.copytree(Path(h11.__file__).parent, folder / "h11")
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 3_000_000
    return folder


async def test_it_installs_alone(alone: Path) -> None:
    code = (
        "import sys; sys.path.append(sys.argv.pop(1)); "
        "from blackboard_mcp_connect.server.relay.stdio import run; run()"
    )
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}
    async with serving() as (_, url):
        program = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", "-c", code, str(alone), url, "--agent", "jürgen"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        out, _ = await asyncio.wait_for(program.communicate(json.dumps(call).encode() + b"\n"), PATIENCE)
    assert "result" in json.loads(out)


async def test_an_answer_that_nobody_asked_for_is_no_answer() -> None:
    """A proxy may say why it closes an idle connection: the next call takes another one."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length:")[2].split()[0])
        number = json.loads(await reader.readexactly(length))["id"]
        body = json.dumps({"jsonrpc": "2.0", "id": number, "result": {}}).encode()
        ok = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
        writer.write(ok + body)
        writer.write(b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, relaying(url, agent="rel") as wire:
        for number in range(3):
            wire.modern(number, "tools/list")
            assert (await wire.receive()) == {"jsonrpc": "2.0", "id": number, "result": {}}


async def test_a_server_that_refuses_before_it_has_read_all_is_heard() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: 8\r\n\r\ntoo long")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, relaying(url, agent="rel") as wire:
        wire.modern(1, "tools/call", name="post", arguments={"text": "x" * 1000})
        error = (await wire.receive())["error"]
    assert error["data"]["status"] == 413


async def test_a_request_goes_to_the_named_server_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    heads: list[str] = []

    async def send_away(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode().lower())
        writer.write(b"HTTP/1.1 307 Go\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(send_away, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, relaying(f"http://127.0.0.1:{port}/?a=b", agent="rel") as wire:
        wire.modern(1, "tools/list")
        error = (await wire.receive())["error"]
    assert error["data"]["status"] == 307
    (head,) = heads
    assert head.startswith("post /mcp?a=b http/1.1\r\n")
    assert f"\r\nhost: 127.0.0.1:{port}\r\n" in head
    assert "\r\naccept-encoding: identity\r\n" in head
    assert "authorization" not in head


async def test_calls_do_not_wait_for_each_other() -> None:
    begun, ended = asyncio.Semaphore(0), asyncio.Semaphore(0)

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        begun.release()
        with contextlib.suppress(ConnectionError):
            await reader.read(-1)
        writer.close()
        ended.release()

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, relaying(url, agent="rel") as wire, asyncio.timeout(PATIENCE):
        for number in range(150):
            wire.modern(number, "tools/call", name="post", arguments={})
        for _ in range(150):
            await begun.acquire()
        for number in range(150):
            wire.notify("notifications/cancelled", requestId=number)
        for _ in range(150):
            await ended.acquire()


@pytest.mark.parametrize(
    "url", ["ftp://x", "127.0.0.1:8420", "http://127.0.0.1:8420/\x01", "http://x:port", ""]
)
def test_what_is_no_url_is_said(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert relay_module.main(url) == 2
    assert "is not the address of a server" in capsys.readouterr().err


def test_a_password_in_a_url_is_refused_and_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    assert relay_module.main("http://me:secret@127.0.0.1:8420/mcp") == 2
    said = capsys.readouterr().err
    assert "without a password" in said
    assert "secret" not in said


def test_what_is_no_agents_name_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert relay_module.main("http://127.0.0.1:1", "a b") == 2
    assert "is not an agent's name" in capsys.readouterr().err
