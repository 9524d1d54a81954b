"""A connection carries the requests that its client meant, each by whom its own head names, and no other.

Raw sockets against a server process: what no client library would send. Behind every doubtful request stands a
whole second one, by another agent; a proxy in front may have taken it for part of the first.
"""

from __future__ import annotations

import json
import re
import socket
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import pytest
from blackboard_mcp.server.demo.process import Serving
from patience import PATIENCE

MODERN = "2026-07-28"
META = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}


def body_of(tool: str, **arguments: Any) -> bytes:
    params = {"name": tool, "arguments": arguments, "_meta": META | {"blackboard/structured": True}}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()


class Site:
    """One server and raw connections to it."""

    def __init__(self, served: Serving) -> None:
        parts = urlsplit(served.url)
        self.host, self.port = parts.hostname or "", parts.port or 0

    def head(self, agent: str, tool: str = "post", version: str = "1.1") -> bytes:
        return (
            f"POST /mcp HTTP/{version}\r\nHost: {self.host}:{self.port}\r\nContent-Type: application/json\r\n"
            f"Accept: application/json, text/event-stream\r\nX-Blackboard-Agent: {agent}\r\n"
            f"Mcp-Protocol-Version: {MODERN}\r\nMcp-Method: tools/call\r\nMcp-Name: {tool}\r\n"
        ).encode()

    def whole(self, agent: str, tool: str, **arguments: Any) -> bytes:
        body = body_of(tool, **arguments)
        return self.head(agent, tool) + b"Content-Length: %d\r\n\r\n" % len(body) + body

    def send(self, *pieces: bytes) -> bytes:
        """All that comes back until the server closes: at once, or after an honest last request that asks it to."""
        last = f"GET /healthz HTTP/1.1\r\nHost: {self.host}:{self.port}\r\nConnection: close\r\n\r\n".encode()
        with closing(socket.create_connection((self.host, self.port), PATIENCE)) as client:
            client.settimeout(PATIENCE)
            for piece in (*pieces, last):
                client.sendall(piece)
            back = bytearray()
            while data := client.recv(1 << 16):
                back += data
            return bytes(back).removesuffix(b'{"status":"ok"}')

    def ask(self, tool: str, **arguments: Any) -> Any:
        answer = self.send(self.whole("ada", tool, **arguments)).split(b"HTTP/1.1 ")[1]
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"200 "), head
        return json.loads(body)["result"]["structuredContent"]


@pytest.fixture(scope="module")
def site(served: Serving) -> Site:
    site = Site(served)
    site.ask("post", text="the board is there")
    return site


def statuses(raw: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", raw)]


FIRST = body_of("post", text="first")
CHUNKED = b"%x\r\n%s\r\n0\r\n\r\n" % (len(FIRST), FIRST)
REFUSED = (
    # Two ends of one body, in every spelling.
    (b"Content-Length: {all}\r\nTransfer-Encoding: chunked\r\n", CHUNKED),
    (b"Transfer-Encoding: chunked\r\nContent-Length: {all}\r\n", CHUNKED),
    (b"content-length: {first}\r\ntransfer-encoding: CHUNKED\r\n", CHUNKED),
    (b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", CHUNKED),
    (b"Content-Length: {all}\r\nTransfer-Encoding:\r\n chunked\r\n", CHUNKED),
    (b"Content-Length: {all}\r\nTransfer-Encoding: chunked\r\nConnection: Transfer-Encoding\r\n", CHUNKED),
    (b"Content-Length: {first}\r\nContent-Length: {all}\r\n", FIRST),
    (b"Content-Length: {first}, {all}\r\n", FIRST),
    (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", CHUNKED),
    (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", CHUNKED),
    (b"Transfer-Encoding: identity, chunked\r\n", CHUNKED),
    (b"Transfer-Encoding: chunked, identity\r\n", CHUNKED),
    (b"Transfer-Encoding: xchunked\r\n", CHUNKED),
    (b"Transfer-Encoding: gzip, chunked\r\n", CHUNKED),
    (b"Transfer-Encoding: identity\r\nContent-Length: {first}\r\n", FIRST),
    # Names and values that some read and others do not.
    (b"Transfer-Encoding : chunked\r\nContent-Length: {all}\r\n", CHUNKED),
    (b"Transfer-Encoding\t: chunked\r\nContent-Length: {all}\r\n", CHUNKED),
    (b"Transfer\x00-Encoding: chunked\r\nContent-Length: {all}\r\n", CHUNKED),
    (b"Transfer-Encoding: \x0bchunked\r\nContent-Length: {all}\r\n", CHUNKED),
    (b"Transfer-Encoding: chunked\x00\r\nContent-Length: {all}\r\n", CHUNKED),
    (b"X: a\rTransfer-Encoding: chunked\r\nContent-Length: {all}\r\n", CHUNKED),
    (b"Content-Length: +{first}\r\n", FIRST),
    (b"Content-Length: -1\r\n", FIRST),
    (b"Content-Length: 0x10\r\n", FIRST),
    (b"Content-Length: {first} {first}\r\n", FIRST),
    (b"Content-Length: 1_0\r\n", FIRST),
    (b"Content-Length: \xd9\xa1\r\n", FIRST),
    (b"Content-Length:\r\n", FIRST),
    (b"Content-Length: 99999999999999999999999999\r\n", FIRST),
    # Chunks whose end is told wrong.
    (b"Transfer-Encoding: chunked\r\n", b"0x5\r\nhello\r\n0\r\n\r\n"),
    (b"Transfer-Encoding: chunked\r\n", b"-1\r\nhello\r\n0\r\n\r\n"),
    (b"Transfer-Encoding: chunked\r\n", b"5\r\nhelloXX0\r\n\r\n"),
    (b"Transfer-Encoding: chunked\r\n", b"5\nhello\n0\n\n"),
    (b"Transfer-Encoding: chunked\r\n", b"fffffffffffffffffffff\r\nhello\r\n0\r\n\r\n"),
    (b"Transfer-Encoding: chunked\r\n", b"\r\n5\r\nhello\r\n0\r\n\r\n"),
)
"""Heads and bodies that say in no way, or in two, where the request ends."""


@pytest.mark.parametrize(("lines", "body"), REFUSED, ids=[repr(lines + body[:12]) for lines, body in REFUSED])
def test_a_request_whose_end_is_in_doubt_is_the_last_of_its_connection(
    site: Site, lines: bytes, body: bytes
) -> None:
    before = site.ask("query", author="mallory")["items"]
    inner = site.whole("mallory", "post", text="smuggled")
    told = lines.replace(b"{all}", b"%d" % len(body + inner)).replace(b"{first}", b"%d" % len(FIRST))
    back = site.send(site.head("ada") + told + b"\r\n" + body + inner)
    assert len(statuses(back)) == 1, back
    assert statuses(back)[0] in (400, 501), back
    assert b"connection: close" in back.lower()
    assert site.ask("query", author="mallory")["items"] == before


def test_a_whole_request_that_is_refused_runs_nothing_either(site: Site) -> None:
    assert site.ask("query", author="eve")["items"] == []
    body = body_of("post", text="by eve")
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    both = b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n" % len(chunked)
    for raw in (
        site.head("eve") + both + chunked,
        site.head("eve", version="1.0") + b"Transfer-Encoding: chunked\r\n\r\n" + chunked,
        site.head("eve", version="2.0") + b"Content-Length: %d\r\n\r\n" % len(body) + body,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + site.whole("eve", "post", text="by eve"),
    ):
        assert statuses(site.send(raw)) == [400]
    assert site.ask("query", author="eve")["items"] == []


def test_a_doubtful_request_behind_a_good_one_ends_the_connection_after_its_answer(site: Site) -> None:
    doubtful = site.head("ada") + b"Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKED
    smuggled = site.whole("mallory", "post", text="smuggled behind two")
    back = site.send(site.whole("ben", "post", text="a good one") + doubtful + smuggled)
    assert statuses(back) == [200, 400]
    texts = [item["text"] for item in site.ask("query", limit=100)["items"]]
    assert "a good one" in texts
    assert "smuggled behind two" not in texts


@pytest.mark.parametrize("size", [1, 7, 1_000_000], ids=lambda size: f"in pieces of {size}")
def test_pipelined_requests_are_answered_in_turn_each_by_its_own_agent(site: Site, size: int) -> None:
    names = [f"agent-{size}-{n}" for n in range(8)]
    raw = b"".join(site.whole(name, "post", text=f"by {name}") for name in names)
    pieces = [raw[at : at + size] for at in range(0, len(raw), size)]
    back = site.send(*pieces)
    assert statuses(back) == [200] * (len(names) + 1)
    listed = [site.ask("query", author=name)["items"] for name in names]
    assert [[item["text"] for item in items] for items in listed] == [[f"by {name}"] for name in names]
    order = [items[0]["number"] for items in listed]
    assert order == sorted(order)


def test_a_body_that_nobody_asked_for_is_no_request(site: Site) -> None:
    """What is refused, or takes no body, swallows the body or closes; the body never runs."""
    inner = site.whole("mallory", "post", text="a body that runs")
    host = f"Host: {site.host}:{site.port}\r\n".encode()
    length = b"Content-Length: %d\r\n\r\n" % len(inner)
    for head in (
        b"GET /healthz HTTP/1.1\r\n" + host,
        b"HEAD /healthz HTTP/1.1\r\n" + host,
        b"POST /healthz HTTP/1.1\r\n" + host,
        b"GET /nowhere HTTP/1.1\r\n" + host,
        b"GET /healthz HTTP/1.1\r\nHost: evil.example\r\n",
        b"OPTIONS * HTTP/1.1\r\n" + host,
        b"POST /mcp HTTP/1.1\r\n" + host + b"Origin: http://evil.example\r\n",
        b"POST /mcp HTTP/1.1\r\n" + host + b"Expect: 100-continue\r\n",
        b"GET /mcp HTTP/1.1\r\n" + host + b"Connection: Upgrade\r\nUpgrade: h2c\r\n",
        b"GET http://evil.example/mcp HTTP/1.1\r\n" + host,
    ):
        found = [status for status in statuses(site.send(head + length + inner)) if status != 100]
        assert len(found) == 1 or found[1:] == [200], (head, found)
    texts = [item["text"] for item in site.ask("query", author="mallory")["items"]]
    assert "a body that runs" not in texts


def test_a_refused_connection_is_closed_though_its_client_stays(site: Site) -> None:
    with closing(socket.create_connection((site.host, site.port), PATIENCE)) as client:
        client.settimeout(PATIENCE)
        client.sendall(b"no request at all\r\n\r\n")
        while client.recv(1 << 16):
            pass
        with pytest.raises(ConnectionError):  # noqa: PT012, the first writes go into buffers
            while True:
                client.sendall(b"x" * (1 << 16))
