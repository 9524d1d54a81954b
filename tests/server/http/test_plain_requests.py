"""Plain requests mean to the server what h11 takes them for, and are answered with the same bytes.

h11 is the reference: each request goes to a connection as it is served and to one where h11 reads everything.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any

import h11
import pytest
import sample_board
import uvicorn
from blackboard_mcp.server.http.connections import BoundedProtocol, bounded_protocol
from blackboard_mcp.server.http.plain_requests import LONGEST_BODY, plain_head
from uvicorn.server import ServerState

HEAD = (
    b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:8420\r\nContent-Type: application/json\r\n"
    b"Accept: application/json, text/event-stream\r\nX-Blackboard-Agent: ada\r\n"
)
BODY = b'{"jsonrpc": "2.0"}'
PLAIN = HEAD + b"Content-Length: 18\r\n\r\n" + BODY
MOST = 16_384
PARTS = (
    b"\r\n", b"\n", b"\r", b" ", b"\t", b":", b",", b"\0", b"\x0b", b"\x80", b"\xff", b"/", b"?", b"%2f", b"#", b"*",
    b"HTTP/1.0", b"HTTP/1.1", b"HTTP/2.0", b"GET", b"HEAD", b"CONNECT", b"POST /", b"Host: a\r\n", b"host:\r\n",
    b"Content-Length: 18\r\n", b"Content-Length: 5\r\n", b"content-length: 018\r\n", b"Content-Length: 18, 18\r\n",
    b"Content-Length: +1\r\n", b"Content-Length:18 \r\n", b"Content-Length: 16385\r\n", b"Content-Length: 0\r\n",
    b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: \r\n", b"Connection: Keep-Alive\r\n",
    b"Connection: close\r\n",
    b"Connection: keep-alive\r\n", b"Connection: upgrade\r\n", b"Upgrade: h2c\r\n", b"Expect: 100-continue\r\n",
    b"X:  two\r\n", b"X: a \r\n", b"X:\r\n", b" folded\r\n", b"X : a\r\n", b"0\r\n\r\n", b"18", b"5", b"a" * 40,
)  # fmt: skip
"""Pieces that mutants gain: separators that parsers disagree about, and lines that say where a request ends."""


def mutants(seed: int, count: int) -> list[bytes]:
    """Plain requests with up to three parts added, taken away, doubled or replaced, and some cut short."""
    chance, made = random.Random(seed), []
    for _ in range(count):
        data = PLAIN
        for _ in range(chance.randint(1, 3)):
            at = chance.choice(
                [chance.randrange(len(data)), data.find(b"\r\n", chance.randrange(len(data))) + 2]
            )
            end = min(len(data), at + chance.choice([0, 0, 0, 1, 2, 20]))
            kept = data[at:end] * 2 if chance.random() < 0.1 else b""
            data = data[:at] + chance.choice([b"", *PARTS]) + kept + data[end:]
        made.append(data if chance.random() < 0.8 else data[: chance.randrange(len(data))])
    return made


@pytest.mark.parametrize("seed", range(4))
def test_h11_reads_all_that_is_plain_as_the_same_request(seed: int) -> None:
    plain = 0
    for data in mutants(seed, 5_000):
        head = plain_head(data, MOST)
        if head is None:
            continue
        plain += 1
        reference = h11.Connection(h11.SERVER, MOST)
        reference.receive_data(data)
        request = reference.next_event()
        assert isinstance(request, h11.Request), data
        assert (request.method, request.target, request.http_version) == (b"POST", head.path, b"1.1"), data
        assert [(name.lower(), value) for name, value in request.headers] == head.headers, data
        assert head.size == data.index(b"\r\n\r\n") + 4, data
        body = b""
        while isinstance(event := reference.next_event(), h11.Data):
            body += event.data
        assert body == data[head.size :], data
        whole = len(body) == head.body
        assert isinstance(event, h11.EndOfMessage) if whole else event is h11.NEED_DATA, data
        assert reference.their_state is (h11.DONE if whole else h11.SEND_BODY), data
        assert not reference.they_are_waiting_for_100_continue, data
    assert 200 < plain < 4_800  # the mutants are of both kinds


def test_what_has_more_than_a_head_and_a_body_or_is_too_large_is_not_plain() -> None:
    assert plain_head(PLAIN, MOST) is not None
    assert plain_head(PLAIN[:-3], MOST) is not None
    assert plain_head(PLAIN + b"P", MOST) is None
    assert plain_head(PLAIN, PLAIN.index(b"\r\n\r\n") + 3) is None
    for length, taken in ((LONGEST_BODY, True), (LONGEST_BODY + 1, False)):
        assert (plain_head(HEAD + b"Content-Length: %d\r\n\r\n" % length, MOST) is not None) is taken


class Transport(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.written: list[bytes] = []
        self.closed = self.aborted = self.paused = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if data and not self.closed:
            self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True

    def can_write_eof(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


Send = Callable[[Any], Awaitable[None]]
OK = ((b"content-type", b"application/json"), (b"content-length", b"2"))


def start(*headers: tuple[bytes, bytes], status: int = 200) -> dict[str, Any]:
    return {"type": "http.response.start", "status": status, "headers": list(headers)}


def body(data: bytes = b"ok", more: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": more}


ANSWERS: dict[str, list[Any]] = {
    "one piece": [start(*OK), body()],
    "nothing in it": [start((b"content-length", b"0")), body(b"")],
    "two pieces": [start(*OK), body(b"o", True), body(b"k")],
    "an empty last piece": [start(*OK), body(b"ok", True), body(b"")],
    "a stream": [start((b"content-type", b"text/event-stream")), body(b"a", True), body(b"b")],
    "chunked": [start((b"transfer-encoding", b"chunked")), body()],
    "not found": [start(*OK, status=404), body()],
    "accepted": [start((b"content-length", b"0"), status=202), body(b"")],
    "no content": [start(status=204), body(b"")],
    "the last": [start(*OK, (b"connection", b"close")), body()],
    "keep alive": [start(*OK, (b"connection", b"keep-alive")), body()],
    "two cookies": [start(*OK, (b"set-cookie", b"a"), (b"set-cookie", b"b")), body()],
    "two lengths": [start(*OK, (b"content-length", b"2")), body()],
    "capital letters": [start((b"Content-Length", b"2"), (b"Connection", b"close")), body()],
    "no number": [start((b"content-length", b"two")), body()],
    "a line break in a header": [start(*OK, (b"x", b"a\r\nb: c")), body()],
    "a name with a value": [start(*OK, (b"x: a", b"b")), body()],
    "a space behind": [start(*OK, (b"x", b"a ")), body()],
    "nothing in a header": [start(*OK, (b"x", b"")), body()],
    "too short": [start(*OK), body(b"o")],
    "too long": [start(*OK), body(b"okay")],
    "twice": [start(*OK), body(), body()],
    "two starts": [start(*OK), start(*OK), body()],
    "no start": [body()],
    "no end": [start(*OK)],
    "nothing": [],
    "a fault": [RuntimeError("no")],
    "a fault after the start": [start(*OK), RuntimeError("no")],
    "a fault after the end": [start(*OK), body(), RuntimeError("no")],
}  # fmt: skip
LONG = HEAD + b"Content-Length: 16384\r\n\r\n" + b"x" * 16_384
REQUESTS: dict[str, list[bytes]] = {
    "whole": [PLAIN],
    "head, then body": [PLAIN[:-18], BODY],
    "head with some of the body": [PLAIN[:-10], BODY[8:10], BODY[10:]],
    "byte for byte": [PLAIN[at : at + 1] for at in range(len(PLAIN))],
    "cut off": [PLAIN[:-10]],
    "no body": [HEAD + b"Content-Length: 0\r\n\r\n"],
    "kept alive": [HEAD + b"Connection: keep-alive\r\nContent-Length: 18\r\n\r\n" + BODY],
    "long": [LONG[:9_000], LONG[9_000:]],
    "three at once": [PLAIN * 3],
    "three in turn": [PLAIN] * 3,
    "body with the next": [PLAIN[:-10], PLAIN[-10:] + PLAIN[:50], PLAIN[50:]],
    "no request behind": [PLAIN, b"nonsense\r\n\r\n"],
    "no request with the body": [PLAIN[:-10], PLAIN[-10:] + b"nonsense\r\n\r\n"],
    "the last behind": [PLAIN, HEAD + b"Connection: close\r\nContent-Length: 18\r\n\r\n" + BODY, PLAIN],
    "two ends of one body": [PLAIN, HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 18\r\n\r\n" + BODY],
    "GET behind": [PLAIN, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", PLAIN],
    "HEAD": [b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", PLAIN],
    "Expect": [HEAD + b"Expect: 100-continue\r\nContent-Length: 18\r\n\r\n", BODY, PLAIN],
    "Upgrade": [HEAD + b"Connection: upgrade\r\nUpgrade: h2c\r\nContent-Length: 18\r\n\r\n" + BODY, PLAIN],
    "empty lines before": [b"\r\n\r\n" + PLAIN],
    "an empty line before": [b"\r\n" + PLAIN],
    "an empty line behind": [PLAIN + b"\r\n", PLAIN],
    "an empty line alone": [PLAIN, b"\r\n", PLAIN],
    "an empty line between": [PLAIN, b"\r", b"\n" + PLAIN],
    "no host": [PLAIN.replace(b"Host: 127.0.0.1:8420\r\n", b"")],
}  # fmt: skip
WAYS = (
    ("reads first", "the client stays"),
    ("reads never", "the client stays"),
    ("reads after", "the client stays"),
    ("reads never", "the client leaves"),
    ("reads first", "the server stops"),
)


async def settle() -> None:
    for _ in range(30):
        await asyncio.sleep(0)


async def served(
    protocol: type[BoundedProtocol], pieces: list[bytes], answer: list[Any], reads: str, end: str
) -> Any:
    """All that an application and a client see of one connection, and whether h11 read anything."""
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Send) -> None:
        seen.append(scope)

        async def read() -> None:
            while True:
                seen.append(await receive())
                if not seen[-1].get("more_body"):
                    return

        if reads == "reads first":
            await read()
        if end == "the server stops":
            connection.shutdown()
        try:
            for message in answer:
                if isinstance(message, Exception):
                    raise message
                await send(message)
        except Exception as fault:
            # h11's message may tell what had been left over, which is not known here.
            seen.append(type(fault))
            raise
        if reads == "reads after":
            await read()

    config = uvicorn.Config(
        app, http=protocol, log_config=None, access_log=False, lifespan="off", proxy_headers=False
    )
    config.load()
    state = ServerState()
    state.default_headers = [(b"date", b"Fri, 27 Nov 2026 00:00:00 GMT")]
    connection: Any = protocol(config=config, server_state=state, app_state={"kept": 1})
    transport = Transport()
    connection.connection_made(transport)
    await settle()
    for piece in pieces:
        if not transport.paused and not transport.closed:
            connection.data_received(piece)
            seen.append((connection._head_timer is None, connection.timeout_keep_alive_task is None))
        if len(pieces) < 9 or piece is pieces[-1]:
            await settle()
    seen.append((connection._head_timer is None, connection.timeout_keep_alive_task is None))
    seen.append((transport.closed, transport.aborted, transport.paused, state.total_requests))
    lost = end == "the client leaves" or transport.closed
    if not lost:
        transport.close()
    connection.connection_lost(None)
    await settle()
    for task in state.tasks:
        task.cancel()
    await settle()
    assert (connection._head_timer, connection.timeout_keep_alive_task, connection._write_timer) == (
        None,
    ) * 3
    return seen, b"".join(transport.written), connection.conn.their_http_version is not None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("asked", REQUESTS)
async def test_applications_and_clients_see_what_h11_would_have_shown_them(
    asked: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = sample_board.Sample().server
    bounded = bounded_protocol(server)
    reference = type("Reference", (bounded,), {"_took": lambda self, data: False})
    caplog.set_level(logging.INFO)
    for answer, messages in ANSWERS.items():
        for reads, end in WAYS:
            results, logs = [], []
            for protocol in (bounded, reference):
                caplog.clear()
                results.append(await served(protocol, REQUESTS[asked], messages, reads, end))
                logs.append([record.getMessage() for record in caplog.records])
            (seen, written, by_h11), (told, wanted, _) = results
            about = (asked, answer, reads, end)
            assert written == wanted, about
            assert seen == told, about
            assert logs[0] == logs[1], about
            if asked in PLAINLY and answer == "one piece" and (reads, end) == WAYS[0]:
                assert b"200 OK" in written
                assert not by_h11


PLAINLY = {
    "whole", "head, then body", "head with some of the body", "no body", "kept alive", "long", "three in turn",
}  # fmt: skip
"""The requests that are answered without h11 if their answers are plain, too."""


@pytest.mark.parametrize("last", [b"Connection: close", b"Connection: keep-alive, close", b"1.0"])
@pytest.mark.parametrize("behind", [b"\r\n", PLAIN, b"nonsense\r\n\r\n"])
async def test_the_last_request_of_a_connection_is_answered_whatever_follows_it(
    last: bytes, behind: bytes
) -> None:
    request = (
        PLAIN.replace(b"HTTP/1.1", b"HTTP/1.0") if last == b"1.0" else PLAIN.replace(b"X-", last + b"\r\nX-")
    )
    bounded = bounded_protocol(sample_board.Sample().server)
    # So many pieces come before the answer.
    pieces = [request, *[behind] * 9]
    seen, written, _ = await served(bounded, pieces, ANSWERS["one piece"], "reads first", "the client stays")
    assert written.startswith(b"HTTP/1.1 200 OK\r\n")
    assert written.endswith(b"\r\n\r\nok")
    assert written.count(b"HTTP/1.1") == 1
    assert seen[-1][0], "the connection is closed"


@pytest.mark.parametrize("cut", range(5))
async def test_an_empty_line_between_two_requests_is_passed_over(cut: int) -> None:
    bounded = bounded_protocol(sample_board.Sample().server)
    stream = b"\r\n" + PLAIN
    pieces = [PLAIN, stream[:cut], stream[cut:]] if cut else [PLAIN + stream]
    _, written, _ = await served(
        bounded, [*filter(None, pieces)], ANSWERS["one piece"], "reads first", "the client stays"
    )
    assert written.count(b"HTTP/1.1 200 OK") == 2
    assert written.count(b"HTTP/1.1") == 2


async def test_more_empty_lines_at_once_are_no_request() -> None:
    bounded = bounded_protocol(sample_board.Sample().server)
    _, written, _ = await served(
        bounded, [b"\r\n" * 3 + PLAIN], ANSWERS["one piece"], "reads first", "the client stays"
    )
    assert written.startswith(b"HTTP/1.1 400")
