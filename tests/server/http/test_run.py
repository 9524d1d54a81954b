"""The HTTP server as a whole: the SDK's clients, readers that stall, and stopping."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import httpx2
import mcp.types as types
import pytest
import sample_board
from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.server.access.identity import is_loopback
from blackboard_mcp.server.http import run
from blackboard_mcp.server.http.run import serve_http
from blackboard_mcp.server.limits.limits import Limits
from blackboard_mcp.server.mcp import streams
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourceUpdated
from patience import PATIENCE

LEGACY, MODERN = "legacy", "2026-07-28"
STRUCTURED: Any = {"blackboard/structured": True}
EVENTS = "board://main/events"
pytestmark = pytest.mark.filterwarnings("ignore:resources/(un)?subscribe is removed")
both = pytest.mark.parametrize("mode", [LEGACY, MODERN])


@asynccontextmanager
async def client(url: str, mode: str, agent: str = "alice", hear: Any = None) -> AsyncIterator[Client]:
    async with httpx2.AsyncClient(
        headers={"X-Blackboard-Agent": agent}, timeout=PATIENCE, verify=False
    ) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=mode, message_handler=hear) as connected:
            yield connected


class Heard:
    """The URIs a legacy client heard of."""

    def __init__(self) -> None:
        self.uris: list[str] = []
        self.news = asyncio.Event()

    async def __call__(self, message: object) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            self.uris.append(str(message.params.uri))
            self.news.set()


@both
async def test_both_generations_call_with_progress_and_structure(serving: Any, mode: str) -> None:
    heard = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    async with serving() as served, client(served.mcp, mode) as alice:
        result = await alice.call_tool(
            "post",
            {"text": "a", "fail": "progress"},
            progress_callback=hear,
            meta=STRUCTURED,
        )
        refused = await alice.call_tool("post", {"foo": 1})
    assert result.structured_content == {"author": "alice", "count": None}
    assert heard == [(1.0, 2.0, "half")]
    assert refused.is_error


@both
async def test_what_the_gate_refuses_is_told_to_an_mcp_client(serving: Any, mode: str) -> None:
    async with serving() as served:
        # The client's transport wraps what was raised within it in groups.
        with pytest.raises(ExceptionGroup) as caught:
            await list_tools(served.mcp, mode, "not a name")
    told: Exception | None = caught.value.subgroup(MCPError)
    while isinstance(told, ExceptionGroup):
        told = told.exceptions[0]
    assert "is not an agent's name: 1-64 letters of any script" in str(told)


async def list_tools(url: str, mode: str, agent: str) -> None:
    async with client(url, mode, agent) as connected:
        await connected.list_tools()


async def test_a_client_that_probes_gets_the_modern_generation(serving: Any) -> None:
    async with serving() as served, client(served.mcp, "auto") as alice:
        assert alice.protocol_version == MODERN


async def test_one_publish_reaches_agents_of_both_generations(serving: Any) -> None:
    heard = Heard()
    async with (
        serving() as served,
        client(served.mcp, LEGACY, "old", heard) as old,
        client(served.mcp, MODERN, "new") as new,
        new.listen(resource_subscriptions=[EVENTS]) as stream,
    ):
        await old.subscribe_resource(EVENTS)
        async with asyncio.timeout(PATIENCE):
            # What is published before the legacy client has its standing stream has no way to it.
            while not heard.uris:
                await new.call_tool("publish", {"uri": EVENTS})
                assert await anext(aiter(stream)) == ResourceUpdated(EVENTS)
    assert set(heard.uris) == {EVENTS}


@both
async def test_a_client_that_drops_ends_its_waiting_call(serving: Any, mode: str) -> None:
    async with serving() as served:
        wire = await served.wire()
        if mode == MODERN:
            await wire.send(served.modern("tools/call", "wait", arguments={}))
        else:
            session = await open_session(served)
            message = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "wait"}}
            await wire.send(served.request(body=json.dumps(message).encode(), mcp_session_id=session))
        await asyncio.wait_for(served.sample.waiting.wait(), PATIENCE)
        wire.writer.transport.abort()
        await asyncio.wait_for(served.sample.cancelled.wait(), PATIENCE)


async def open_session(served: Any) -> str:
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "c", "version": "1"},
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    wire = await served.wire()
    await wire.send(served.request(body=json.dumps(message).encode()))
    reply = await wire.head()
    session: str = reply.headers["mcp-session-id"]
    notice = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    accepted = await served.exchange(served.request(body=json.dumps(notice).encode(), mcp_session_id=session))
    assert accepted.status == 202
    return session


async def stalled_socket(served: Any) -> socket.socket:
    """A connection with next to no room for what it does not read."""
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.setblocking(False)
    await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", served.port))
    return raw


@both
async def test_a_reader_that_stalls_is_dropped_and_hurts_nobody(serving: Any, mode: str) -> None:
    loop = asyncio.get_running_loop()
    uris = long_uris()
    async with serving() as served, client(served.mcp, MODERN, "healthy") as healthy:
        raw = await stalled_socket(served)
        if mode == MODERN:
            listen = {"resourceSubscriptions": uris}
            await loop.sock_sendall(raw, served.modern("subscriptions/listen", notifications=listen))
        else:
            session = await subscribed_session(served, uris)
            await loop.sock_sendall(raw, served.request(method="GET", mcp_session_id=session))
        async with healthy.listen(resource_subscriptions=[EVENTS]) as stream, asyncio.timeout(PATIENCE):
            reading = aiter(stream)
            for held, news in ((True, [EVENTS]), (False, [*uris, EVENTS])):
                while holds_the_stalled_stream(served, mode) is not held:
                    await served.sample.server.publish(news)
                    assert await anext(reading) == ResourceUpdated(EVENTS)
                # Short only now: a stream could stall and be dropped before it was seen to be held.
                hurry(served)
        raw.close()


async def test_a_legacy_reader_that_stalled_hears_again_when_it_comes_back(
    serving: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "SEND_TIMEOUT_SECONDS", 0.05)
    uris = long_uris()
    async with serving() as served, asyncio.timeout(PATIENCE):
        session = await subscribed_session(served, uris)
        standing = served.request(method="GET", mcp_session_id=session)
        raw = await stalled_socket(served)
        await asyncio.get_running_loop().sock_sendall(raw, standing)
        for held, news in ((True, []), (False, uris)):
            while holds_the_stalled_stream(served, LEGACY) is not held:
                await served.sample.server.publish(news)
                assert (await served.exchange(served.request("/healthz", "GET"))).status == 200
            hurry(served)
        raw.close()
        heard = b""
        while not heard:  # as clients do: the new stream can still end with what is left of the old one
            wire = await served.wire()
            await wire.send(standing)
            assert (await wire.head()).status == 200
            await served.sample.server.publish(uris)
            with contextlib.suppress(asyncio.IncompleteReadError):
                heard = await wire.until(b"notifications/resources/updated")


def hurry(served: Any) -> None:
    server = served.sample.server
    server.limits = dataclasses.replace(server.limits, write_seconds=0.2)


def long_uris() -> list[str]:
    """So many resources with so long names that news of them all fills a connection."""
    return [f"{EVENTS}?after={n}{'0' * 1500}" for n in range(200)]


async def subscribed_session(served: Any, uris: list[str]) -> str:
    session = await open_session(served)
    for number, uri in enumerate(uris):
        message = {"jsonrpc": "2.0", "id": number, "method": "resources/subscribe", "params": {"uri": uri}}
        wire = await served.wire()
        await wire.send(served.request(body=json.dumps(message).encode(), mcp_session_id=session))
        assert (await wire.head()).status == 200
        wire.writer.close()
    return session


def holds_the_stalled_stream(served: Any, mode: str) -> bool:
    if mode == MODERN:
        return len(served.sample.server._hub) == 2
    manager = served.sample.server.sdk_server.session_manager
    return any("_GET_stream" in t._request_streams for t in manager._server_instances.values())


async def test_half_sent_headers_are_cut_off(serving: Any) -> None:
    async with serving(limits=Limits(head_seconds=0.05)) as served:
        silent, half = await served.wire(), await served.wire(b"GET /healthz HTTP/1.1\r\nhost: ")
        assert await silent.closed() == b""
        assert (await half.reply()).refusal == (408, "timeout")
        assert await half.closed() == b""
        again = await served.wire(served.request("/healthz", "GET"))
        assert (await again.reply()).status == 200
        await again.send(b"GET /hea")
        assert (await again.reply()).refusal == (408, "timeout")


async def test_connections_are_limited(serving: Any) -> None:
    async with serving(limits=Limits(connections=1)) as served:
        first, second = await served.wire(), await served.wire()
        reply = await second.reply()
        assert (reply.refusal, reply.headers["retry-after"]) == ((503, "rate_limited"), "5")
        assert await second.closed() == b""
        await first.send(served.request("/healthz", "GET"))
        assert (await first.reply()).status == 200


async def test_stopping_ends_open_streams_gracefully_and_answers_calls_under_way(
    serving: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whoever ends only when the grace is over ends too late.
    monkeypatch.setattr(run, "GRACE_SECONDS", 10 * PATIENCE)
    async with serving() as served:
        session = await open_session(served)
        standing = await served.wire()
        await standing.send(served.request(method="GET", mcp_session_id=session))
        assert (await standing.head()).status == 200
        call = await served.wire()
        await call.send(served.modern("tools/call", "wait", arguments={"seconds": 0.5}))
        await asyncio.wait_for(served.sample.waiting.wait(), PATIENCE)
        async with (
            client(served.mcp, MODERN) as alice,
            alice.listen(resource_subscriptions=[EVENTS]) as stream,
        ):
            served.stop.set()
            assert [event async for event in stream] == []
        assert b"waited" in (await call.reply()).body
        await standing.closed()
        await asyncio.wait_for(asyncio.shield(served.task), PATIENCE)


@pytest.mark.parametrize("sent", [[signal.SIGTERM], [signal.SIGINT], [signal.SIGINT] * 2], ids=str)
async def test_a_signal_stops_a_process_with_open_streams_and_a_call_that_waits(
    sent: list[signal.Signals],
) -> None:
    program = sample_board.__file__
    process = await asyncio.create_subprocess_exec(
        sys.executable, program, "http", "0", stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        line = (await asyncio.wait_for(process.stderr.readline(), PATIENCE)).decode()
        url = line.split()[-1]
        heard = Heard()
        async with (
            client(url, MODERN) as new,
            new.listen(resource_subscriptions=[EVENTS]) as stream,
            client(url, LEGACY, hear=heard) as old,
        ):
            await old.subscribe_resource(EVENTS)
            waiting = asyncio.create_task(new.call_tool("wait", {"seconds": 60}))
            await new.call_tool("publish", {"uri": EVENTS})
            await anext(aiter(stream))
            for each in sent:
                process.send_signal(each)
                await asyncio.sleep(0.02)
            assert await asyncio.wait_for(process.wait(), PATIENCE) == 0
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        said = await process.stderr.read()
        assert b"stopped cleanly" in said
        assert b"Traceback" not in said
        if len(sent) == 1:
            assert b"cancelled" in said, "the call was waited for"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        process._transport.close()  # type: ignore[attr-defined]


async def test_health_is_ok_only_while_ready(serving: Any) -> None:
    async with serving() as served:
        assert (await served.exchange(served.request("/healthz", "GET"))).document == {"status": "ok"}
        served.sample.server.ready = False
        reply = await served.exchange(served.request("/healthz", "GET"))
        assert (reply.status, reply.document) == (503, {"status": "unavailable"})


async def test_the_lifespan_is_entered_before_and_left_after(serving: Any) -> None:
    seen: list[str] = []

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        seen.append("in")
        yield
        seen.append("out")

    async with serving(lifespan=lifespan) as served:
        assert seen == ["in"]
        assert (await served.exchange(served.request("/healthz", "GET"))).status == 200
    assert seen == ["in", "out"]


async def test_a_taken_port_is_a_teaching_error(serving: Any) -> None:
    async with serving() as served:
        with pytest.raises(InvalidInput, match="choose another with --port"):
            await serve_http(served.sample.server, port=served.port)


async def test_an_open_address_needs_its_host_names(serving: Any) -> None:
    with pytest.raises(InvalidInput, match="--allowed-host"):
        async with serving(host="0.0.0.0"):
            raise AssertionError


def test_loopback_is_recognised() -> None:
    assert all(is_loopback(host) for host in ("127.0.0.1", "localhost", "::1", "[::1]", "127.0.0.9"))
    assert not any(is_loopback(host) for host in ("0.0.0.0", "::", "10.0.0.1", "example.com"))


def test_connections_hold_back_no_part_of_an_answer() -> None:
    with run.listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        taken, _ = listener.accept()
        with taken:
            assert taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_where_it_serves_is_written_in_one_piece(serving: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces: list[str] = []
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(write=pieces.append, flush=lambda: None))
    async with serving() as served:
        told = [piece for piece in pieces if "serves" in piece]
    assert told == [f"blackboard-mcp serves http://127.0.0.1:{served.port}/mcp\n"], "the log writes there too"


async def test_a_server_stops_as_ever_beside_a_request_that_was_just_refused(serving: Any) -> None:
    async with serving() as served:
        wire = await served.wire()
        await wire.send(served.request(content_length="5", transfer_encoding="chunked"))
        assert (await wire.reply()).status == 400
        served.stop.set()
        await asyncio.wait_for(served.task, PATIENCE)


class Interrupting(tuple[str, ...]):
    """Origins during whose reading Ctrl-C comes: asyncio then cancels the main task."""

    def __iter__(self) -> Any:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return iter(())


async def test_ctrl_c_while_a_server_is_prepared_ends_it_without_a_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = asyncio.all_tasks()
    server = sample_board.Sample().server
    starting = asyncio.create_task(serve_http(server, port=0, allowed_origins=Interrupting()))
    await asyncio.wait([starting])
    assert starting.cancelled()
    # What the interpreter's end does with tasks that are left.
    left = asyncio.all_tasks() - before
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    assert [record.getMessage() for record in caplog.records] == []
