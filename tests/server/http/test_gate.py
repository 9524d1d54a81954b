"""What every HTTP request has to pass, seen from the wire."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from blackboard_mcp.protocols.access import Principal, Role, Scope
from blackboard_mcp.protocols.errors import Unauthorized
from blackboard_mcp.server.limits.limits import Limits
from blackboard_mcp.server.mcp.server import ConnectionInfo
from patience import PATIENCE
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route


async def page(request: Request) -> Response:
    return PlainTextResponse("a page")


ROUTES = [Route("/page", page)]


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
async def test_the_names_of_a_loopback_address_are_hosts(serving: Any, name: str) -> None:
    async with serving() as served:
        reply = await served.exchange(served.request("/healthz", "GET", host=f"{name}:{served.port}"))
    assert (reply.status, reply.document) == (200, {"status": "ok"})


@pytest.mark.parametrize(
    "host", ["evil.com", "localhost", "localhost:1.evil.com", "localhost:{port}.evil.com", "", None]
)
async def test_another_host_is_refused_on_every_route(serving: Any, host: str | None) -> None:
    async with serving(routes=ROUTES) as served:
        named = host.format(port=served.port) if host is not None else None
        for path in ("/mcp", "/healthz", "/page", "/nowhere"):
            reply = await served.exchange(served.request(path, "GET", host=named))
            # Without a Host header at all the HTTP parser answers first.
            assert reply.status == (400 if host is None else 421)


@pytest.mark.parametrize(
    "origin",
    ["http://evil.com", "http://localhost:1.evil.com", "http://localhost:{port}.evil.com", "null"],
)
async def test_another_origin_is_refused_on_every_route(serving: Any, origin: str) -> None:
    async with serving(routes=ROUTES) as served:
        for path in ("/mcp", "/healthz", "/page", "/nowhere"):
            data = served.request(path, "GET", origin=origin.format(port=served.port))
            reply = await served.exchange(data)
            assert reply.refusal == (403, "origin")


async def test_the_own_origin_and_a_named_one_are_let_in(serving: Any) -> None:
    async with serving(allowed_origins=["https://ui.example.com"]) as served:
        for origin in (served.url, f"http://localhost:{served.port}", "https://ui.example.com"):
            assert (await served.exchange(served.request("/healthz", "GET", origin=origin))).status == 200


async def test_named_hosts_are_let_in_and_their_origins(serving: Any) -> None:
    async with serving(host="0.0.0.0", allowed_hosts=["board.example.com"]) as served:
        data = served.request("/healthz", "GET", host="board.example.com", origin="https://board.example.com")
        assert (await served.exchange(data)).status == 200
        assert (await served.exchange(served.request("/healthz", "GET"))).status == 421


async def test_further_routes_are_served(serving: Any) -> None:
    async with serving(routes=ROUTES) as served:
        assert (await served.exchange(served.request("/page", "GET"))).body == b"a page"


@pytest.mark.parametrize("path", ["/mcp", "/healthz", "/page"])
async def test_no_path_ends_with_a_line_break(serving: Any, path: str) -> None:
    async with serving(routes=ROUTES) as served:
        for method, body in (("GET", b""), ("POST", b"[" * 60_000)):
            reply = await served.exchange(served.request(f"{path}%0A", method, body))
            assert reply.refusal == (404, "not_found")


async def test_a_half_sent_body_is_answered_and_closed(serving: Any) -> None:
    async with serving(limits=Limits(body_seconds=0.05)) as served:
        wire = await served.wire()
        await wire.send(served.request(body=b"{}", content_length="100"))
        reply = await wire.reply()
        assert reply.refusal == (408, "timeout")
        assert await wire.closed() == b""


async def test_only_a_body_that_is_still_to_come_is_timed(
    serving: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed = asyncio.Event()
    timeout = asyncio.timeout

    def noted(delay: float | None) -> asyncio.Timeout:
        if delay == 77:
            timed.set()
        return timeout(delay)

    monkeypatch.setattr(asyncio, "timeout", noted)
    async with serving(limits=Limits(body_seconds=77)) as served:
        wire = await served.wire()
        for plain in ({}, {"expect": "something else"}):  # h11 reads the second kind
            whole = served.request(body=b"{}", **plain)
            await wire.send(whole)
            await wire.reply()
            assert not timed.is_set()
            await wire.send(whole[:-1])
            await asyncio.wait_for(timed.wait(), PATIENCE)
            await wire.send(whole[-1:])
            await wire.reply()
            timed.clear()


async def test_a_declared_giant_body_is_refused_unread(serving: Any) -> None:
    async with serving() as served:
        reply = await served.exchange(served.request(body=b"{", content_length=str(2**40)))
    assert reply.refusal == (413, "too_large")


async def test_a_client_that_sends_all_of_a_body_too_large_reads_the_refusal(serving: Any) -> None:
    body = b"x" * 5_000_000
    async with serving() as served:
        for headers in ({}, {"transfer_encoding": "chunked", "content_length": None}):
            wire = await served.wire()
            sent = b"4c4b40\r\n" + body + b"\r\n0\r\n\r\n" if headers else body
            head = served.request(body=body, **headers).removesuffix(body)
            await wire.send(head)
            await wire.send(sent)
            assert (await wire.reply()).refusal == (413, "too_large")
            assert await wire.closed() == b""


async def flood(wire: Any) -> None:
    for _ in range(20):
        await wire.send(b"100000\r\n" + b"x" * 0x100000 + b"\r\n")


async def test_an_undeclared_giant_body_is_refused_while_it_arrives(serving: Any) -> None:
    async with serving() as served:
        wire = await served.wire()
        await wire.send(served.request(transfer_encoding="chunked"))
        with pytest.raises(ConnectionError):
            await flood(wire)
        served.wires.remove(wire)
        wire.writer.transport.abort()
        assert (await served.exchange(served.request("/healthz", "GET"))).status == 200


async def test_bodies_under_way_are_limited_together(serving: Any) -> None:
    async with serving(limits=Limits(bodies_bytes=1_000)) as served:
        first = await served.wire()
        await first.send(served.request(body=b"x" * 900, content_length="1000"))
        async with asyncio.timeout(PATIENCE):
            # The first body is held as soon as its bytes have arrived.
            while (reply := await served.exchange(served.request(body=b"y" * 200))).status != 503:
                pass
        assert reply.refusal == (503, "busy")
        await first.send(b"x" * 100)
        assert (await first.reply()).status == 400
        assert (await served.exchange(served.request(body=b"y" * 200))).status == 400


async def test_bodies_of_one_principal_leave_room_for_those_of_others(serving: Any) -> None:
    async with serving(limits=Limits(bodies_bytes_per_principal=1_000)) as served:
        first = await served.wire()
        await first.send(served.request(body=b"x" * 900, content_length="1000"))
        async with asyncio.timeout(PATIENCE):
            while (reply := await served.exchange(served.request(body=b"y" * 200))).status != 429:
                pass
        assert reply.refusal == (429, "busy")
        assert "bodies of alice" in reply.message
        bob = served.request(body=b"y" * 200, x_blackboard_agent="bob")
        assert (await served.exchange(bob)).status == 400
        await first.send(b"x" * 100)
        assert (await first.reply()).status == 400
        assert (await served.exchange(served.request(body=b"y" * 200))).status == 400


@pytest.mark.parametrize("name", ["mcp_protocol_version", "mcp_method", "mcp_name"])
async def test_headers_that_decide_what_is_called_are_sent_once(serving: Any, name: str) -> None:
    async with serving() as served:
        row = f"{name.replace('_', '-')}: 2025-06-18\r\n".encode()
        asked = served.request(body=b"{}").replace(b"accept:", row + row + b"accept:", 1)
        reply = await served.exchange(asked)
        assert reply.refusal == (400, "invalid")
        assert "sent more than once" in reply.message


async def test_a_hundred_headers_are_enough(serving: Any) -> None:
    async with serving() as served:
        few = {f"x_{n}": "1" for n in range(90)}
        many = {f"x_{n}": "1" for n in range(200)}
        assert (await served.exchange(served.request("/healthz", "GET", **few))).status == 200
        reply = await served.exchange(served.request("/healthz", "GET", **many))
    assert reply.refusal == (431, "too_many_headers")


async def test_errors_from_further_in_are_json_too(serving: Any) -> None:
    async with serving() as served:
        missing = await served.exchange(served.request("/nowhere", "GET"))
        method = await served.exchange(served.request("/healthz", "DELETE"))
        kind = await served.exchange(served.request(body=b"{}", content_type="text/plain"))
        accept = await served.exchange(
            served.request(body=b"{}", mcp_protocol_version="2026-07-28", accept="text/html")
        )
    assert [r.status for r in (missing, method, kind, accept)] == [404, 405, 400, 406]
    for reply in (missing, method, kind, accept):
        assert reply.headers["content-type"] == "application/json"
        assert reply.refusal[1] in ("not_found", "method", "http", "accept")
        assert len(reply.message) > 20, "words of our own"
    assert missing.message == "there is nothing at this path; MCP is served at /mcp"


@pytest.mark.parametrize("name", ["a b", "ä", "x" * 65, "", "a/b", "a\tb"])
async def test_a_name_that_is_none_is_a_teaching_400(serving: Any, name: str) -> None:
    async with serving() as served:
        reply = await served.exchange(served.request(body=b"{}", x_blackboard_agent=name))
    assert reply.status == 400
    assert reply.headers["content-type"] == "application/json"
    assert "not an agent's name" in reply.message


async def test_a_request_without_a_name_learns_the_header(serving: Any) -> None:
    async with serving() as served:
        reply = await served.exchange(served.request(body=b"{}", x_blackboard_agent=None))
    assert reply.refusal == (400, "invalid")
    assert "X-Blackboard-Agent" in reply.message


async def test_two_names_in_one_request_are_refused(serving: Any) -> None:
    async with serving() as served:
        data = served.request(body=b"{}").replace(b"\r\n", b"\r\nx-blackboard-agent: bob\r\n", 1)
        reply = await served.exchange(data)
    assert reply.status == 400
    assert "more than once" in reply.message


async def test_every_modern_request_is_its_own_headers_agent(serving: Any) -> None:
    async with serving() as served:
        wire = await served.wire()
        for agent in ("alice", "bob"):
            data = served.modern("tools/call", "post", arguments={"text": "a"})
            await wire.send(data.replace(b"alice", agent.encode()))
            answer = (await wire.reply()).document
            assert answer["result"]["content"][0]["text"] == f"{agent} by http: a"


async def initialize(served: Any, agent: str = "alice", **headers: str) -> str:
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "c", "version": "1"},
    }
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).encode()
    wire = await served.wire()
    await wire.send(served.request(body=body, x_blackboard_agent=agent, **headers))
    reply = await wire.head()
    assert reply.status == 200
    return str(reply.headers["mcp-session-id"])


async def test_a_legacy_session_serves_only_the_agent_who_opened_it(serving: Any) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}).encode()
    async with serving() as served:
        session = await initialize(served, "alice")
        stolen = await served.exchange(
            served.request(body=body, mcp_session_id=session, x_blackboard_agent="bob")
        )
        ended = await served.exchange(
            served.request(method="DELETE", mcp_session_id=session, x_blackboard_agent="bob")
        )
        wire = await served.wire()
        await wire.send(served.request(body=body, mcp_session_id=session))
        own = await wire.head()
    assert (stolen.status, ended.status, own.status) == (404, 404, 200)


@pytest.mark.parametrize("body", [b"[]", b"7", b"{}", b'{"jsonrpc": "1.0", "id": 1, "method": 7}'])
async def test_a_legacy_body_that_is_no_message_is_told_what_one_is(serving: Any, body: bytes) -> None:
    async with serving() as served:
        session = await initialize(served, "alice")
        reply = await served.exchange(served.request(body=body, mcp_session_id=session))
    assert reply.status == 400
    error = json.loads(reply.body)["error"]
    assert error["code"] == -32600
    assert error["message"].startswith("the body is not a JSON-RPC 2.0 message")


async def test_an_agent_with_too_many_sessions_loses_its_oldest(serving: Any) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "ping"}).encode()
    async with serving(limits=Limits(sessions_per_principal=2)) as served:
        sessions = [await initialize(served, "alice") for _ in range(2)]
        other = await initialize(served, "bob")
        sessions.append(await initialize(served, "alice"))
        statuses = []
        for agent, session in [*(("alice", s) for s in sessions), ("bob", other)]:
            wire = await served.wire()
            await wire.send(served.request(body=body, mcp_session_id=session, x_blackboard_agent=agent))
            statuses.append((await wire.head()).status)
    assert statuses == [404, 200, 200, 200]


async def test_a_session_is_closed_to_a_credential_that_may_less_or_more_than_the_one_it_was_opened_with(
    serving: Any,
) -> None:
    contributor = {"*": Role.CONTRIBUTOR}
    holders = {
        "strong": Principal("alice", "ann", contributor, via="token", credential="t1"),
        "as strong": Principal("alice", "ann", contributor, via="token", credential="t2"),
        "higher role": Principal("alice", "ann", {"*": Role.ADMIN}, via="token", credential="t7"),
        "fewer scopes": Principal("alice", "ann", contributor, frozenset({Scope.READ}), "token", "t3"),
        "lower role": Principal("alice", "ann", {"*": Role.OBSERVER}, via="token", credential="t4"),
        "one board only": Principal("alice", "ann", {"main": Role.ADMIN}, via="token", credential="t5"),
        "another's": Principal("alice", "bea", contributor, via="token", credential="t6"),
        "none": Principal("alice", "ann", {"*": Role.ADMIN}, via="header"),
    }

    async def identify(info: ConnectionInfo) -> Principal:
        return holders[info.headers["authorization"]]

    async with serving() as served:
        served.sample.server.identify = identify
        session = await initialize(served, authorization="strong")
        body = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}).encode()
        answers = {}
        for holder in holders:
            request = served.request(body=body, mcp_session_id=session, authorization=holder)
            wire = await served.wire()
            await wire.send(request)
            answers[holder] = (await wire.head()).status
    assert answers == {name: 200 if "strong" in name else 404 for name in holders}


async def test_every_route_asks_who_it_is_but_the_one_that_shows_nothing(serving: Any) -> None:
    async with serving() as served:
        for path, status in (
            ("/mcp", 400),
            ("/boards/main/events", 400),
            ("/nothing", 400),
            ("/healthz", 200),
        ):
            reply = await served.exchange(served.request(path, "GET", x_blackboard_agent=None))
            assert reply.status == status, path


PAGE = "<!doctype html><script>alert(1)</script>"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/healthz", b""),
        ("GET", f"/boards/{PAGE.replace(' ', '%20')}/events", b""),
        ("GET", f"/{PAGE.replace(' ', '%20')}", b""),
        ("GET", "/page", b""),
        ("PUT", "/mcp", PAGE.encode()),
        ("POST", "/mcp", PAGE.encode()),
        ("POST", "/mcp", json.dumps({"jsonrpc": "2.0", "id": PAGE, "method": PAGE}).encode()),
        ("POST", "/mcp", b"[" * 60_000),
    ],
)
async def test_no_answer_can_be_taken_for_a_page(serving: Any, method: str, path: str, body: bytes) -> None:
    async with serving(routes=ROUTES) as served:
        for more in ({}, {"host": "evil.com"}, {"origin": "http://evil.com"}):
            data = served.request(path, method, body, accept="text/html", **more)
            reply = await served.exchange(data)
            assert reply.headers["x-content-type-options"] == "nosniff"
            assert reply.headers.get("content-type", "text/plain").split(";")[0] in (
                "application/json",
                "text/event-stream",
                "text/plain",
            )


async def test_a_body_of_somebody_unknown_is_not_waited_for(serving: Any) -> None:
    def identify(info: ConnectionInfo) -> str:
        raise Unauthorized("show a token")

    async with serving() as served:
        served.sample.server.identify = identify
        for path, status in (("/mcp", 401), ("/page", 401), ("/healthz", 405)):
            wire = await served.wire()
            await wire.send(served.request(path, content_length="4000000", content_type="application/json"))
            await wire.send(b"x" * 1_000)
            # Its first bytes alone: the connection stays a while, for a client that goes on sending.
            assert (await wire.head()).status == status
