"""What a client can make a server hold or do, bounded: each limit against a real process, over raw sockets.

The limits of the served processes are small, so that a few sockets reach them; one of the two is in a hurry as well.
Each test leaves nothing open. What is refused says which limit, and an honest client is served before and after.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import socket
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from blackboard_mcp.server.demo.process import command, environment
from patience import PATIENCE, RUN, until
from work import Meter

MODERN, LEGACY = "2026-07-28", "2025-11-25"
LIMITS: Mapping[str, float] = {
    "connections": 30,
    "connections_per_peer": 20,
    "head_bytes": 8_192,
    "headers": 40,
    "head_seconds": 300,
    "body_bytes": 60_000,
    "body_seconds": 300,
    "bodies_bytes": 80_000,
    "write_seconds": 300,
    "keep_alive_seconds": 300,
    "line_bytes": 20_000,
    "calls": 3,
    "calls_per_principal": 2,
    "waits": 3,
    "waits_per_principal": 2,
    "sessions": 4,
    "sessions_per_principal": 2,
    "session_idle_seconds": 30,
    "streams": 3,
    "streams_per_principal": 2,
    "uris_per_stream": 3,
    "event_streams": 3,
    "event_streams_per_principal": 2,
    "post_characters": 500,
    "posts_per_second": 2,
    "posts_burst": 100,
    "subscriptions_per_agent": 2,
    "groups_per_agent": 1,
}
HURRIED = dict.fromkeys(("head_seconds", "body_seconds", "write_seconds", "keep_alive_seconds"), 0.6)
_names = (f"agent-{n}" for n in itertools.count())


@dataclass
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def message(self) -> Any:
        """The JSON of the answer, out of its event where it is a stream's."""
        text = self.body.decode()
        lines = [line[6:] for line in text.splitlines() if line.startswith("data: ") and len(line) > 6]
        return json.loads(lines[-1] if lines else text)

    @property
    def refusal(self) -> dict[str, Any]:
        """What programs read of a refusal, wherever it stands."""
        found = self.message
        if "result" in found:
            assert found["result"]["isError"], found
            facts = dict(found["result"]["structuredContent"])
            text = found["result"]["content"][0]["text"]
        elif isinstance(found["error"], dict):
            facts = dict(found["error"].get("data") or {})
            text = found["error"]["message"]
        else:
            facts, text = dict(found), found["message"]
        return facts | {"text": text}


@dataclass
class Served:
    """A server process, and raw requests to it."""

    url: str
    pid: int
    data: Path
    open: list[socket.socket] = field(default_factory=list)

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 0

    def connect(self, source: str = "127.0.0.1") -> socket.socket:
        made = socket.create_connection(("127.0.0.1", self.port), PATIENCE, source_address=(source, 0))
        self.open.append(made)
        return made

    def close(self) -> None:
        """Closes what a test left open, and waits until the server saw it."""
        for made in self.open:
            made.close()
        self.open.clear()

    def head(self, method: str, path: str, agent: str, **headers: object) -> bytes:
        given = {"host": f"127.0.0.1:{self.port}", "x-blackboard-agent": agent}
        given |= {"accept": "application/json, text/event-stream", "content-type": "application/json"}
        given |= {name.replace("_", "-"): str(value) for name, value in headers.items()}
        rows = "".join(f"{name}: {value}\r\n" for name, value in given.items())
        return f"{method} {path} HTTP/1.1\r\n{rows}\r\n".encode()

    def modern(self, method: str, params: Mapping[str, Any], agent: str, of: str = "") -> bytes:
        meta = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
            "blackboard/structured": True,
        }
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        body = json.dumps(message).encode()
        more = {"mcp_name": of} if of else {}
        told = {"mcp_protocol_version": MODERN, "mcp_method": method, "content_length": len(body)}
        return self.head("POST", "/mcp", agent, **told, **more) + body

    def tool(self, name: str, arguments: Mapping[str, Any], agent: str) -> bytes:
        return self.modern("tools/call", {"name": name, "arguments": arguments}, agent, of=name)

    def legacy(
        self, method: str, params: Mapping[str, Any], agent: str, session: str | None, id_: int = 1
    ) -> bytes:
        message = {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}
        body = json.dumps(message).encode()
        more = {} if session is None else {"mcp_session_id": session, "mcp_protocol_version": LEGACY}
        return self.head("POST", "/mcp", agent, content_length=len(body), **more) + body

    def initialize(self, agent: str) -> Answer:
        told = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        opened = self.ask(self.legacy("initialize", told, agent, None))
        if opened.status == 200:
            notice = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode()
            more = {"mcp_session_id": opened.headers["mcp-session-id"], "content_length": len(notice)}
            assert self.ask(self.head("POST", "/mcp", agent, **more) + notice).status == 202
        return opened

    def end(self, session: str, agent: str) -> None:
        self.ask(self.head("DELETE", "/mcp", agent, mcp_session_id=session))

    def ask(self, request: bytes) -> Answer:
        """One request on a connection of its own."""
        wire = self.connect()
        try:
            wire.sendall(request)
            return answer(wire)
        finally:
            self.open.remove(wire)
            wire.close()

    def healthy(self) -> bool:
        return self.ask(self.head("GET", "/healthz", "x")).status == 200

    def memory(self) -> int:
        """Resident bytes."""
        words = Path(f"/proc/{self.pid}/statm").read_text().split()
        return int(words[1]) * os.sysconf("SC_PAGE_SIZE")


def refusal_of(answered: Answer) -> dict[str, Any] | None:
    """What a call was refused with, if it was."""
    return answered.refusal if answered.message["result"].get("isError") else None


def answer(wire: socket.socket) -> Answer:
    with contextlib.closing(http.client.HTTPResponse(wire)) as response:
        response.begin()
        return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())


def begun(wire: socket.socket) -> Answer:
    """The head of an answer that goes on."""
    raw = bytearray()
    while not raw.endswith(b"\r\n\r\n"):
        raw += wire.recv(1) or b"\r\n\r\n"
    first, *rows = raw.decode("latin-1").strip().split("\r\n")
    headers = dict(row.split(": ", 1) for row in rows)
    return Answer(int(first.split()[1]), {k.lower(): v for k, v in headers.items()}, b"")


def ended(wire: socket.socket) -> bool:
    """Whether the server closes the connection."""
    wire.settimeout(PATIENCE)
    try:
        while wire.recv(65_536):
            pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


def still(wire: socket.socket) -> None:
    """Nothing comes: the call waits."""
    wire.settimeout(0.3)
    with pytest.raises(TimeoutError):
        wire.recv(1, socket.MSG_PEEK)


@contextlib.contextmanager
def serving(data: Path, limits: Mapping[str, float], meter: Meter | None = None) -> Iterator[Served]:
    told = environment() | {"BLACKBOARD_LIMITS": json.dumps(limits)}
    line = command("serve", "--transport", "http", "--port", "0", "--data", str(data), "--tools", "all")
    process = subprocess.Popen(
        line if meter is None else meter.counted(line),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=told,
    )
    assert process.stderr is not None
    said: list[str] = []
    for text in process.stderr:
        said.append(text)
        if text.startswith("blackboard-mcp serves "):
            break
    else:
        pytest.fail(f"the server did not start: {said}")
    draining = threading.Thread(target=said.extend, args=(process.stderr,))
    draining.start()
    there = Served(text.split()[-1], process.pid, data)
    try:
        yield there
    finally:
        there.close()
        process.terminate()
        assert process.wait(PATIENCE) == 0, said
        draining.join()
        process.stderr.close()
        crashes = [text for text in said if "Traceback" in text or " ERROR " in text]
        assert not crashes, "".join(said)


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("data"), LIMITS) as there:
        yield there


@pytest.fixture(scope="module")
def meter() -> Iterator[Meter]:
    with contextlib.closing(Meter()) as counting:
        yield counting


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory, meter: Meter) -> Iterator[Served]:
    """A process whose work is counted, which makes all of it dearer."""
    with serving(tmp_path_factory.mktemp("data"), LIMITS, meter) as there:
        yield there


@pytest.fixture
def served(process: Served) -> Iterator[Served]:
    yield process
    process.close()
    until(process.healthy)


@pytest.fixture(scope="module")
def hurried_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("data"), {**LIMITS, **HURRIED}) as there:
        yield there


@pytest.fixture
def hurried(hurried_process: Served) -> Iterator[Served]:
    yield hurried_process
    hurried_process.close()
    until(hurried_process.healthy)


@pytest.fixture
def agent() -> str:
    return next(_names)


# Connections and heads


def test_connections_from_one_address_and_in_all_are_bounded_and_the_refusal_is_read(served: Served) -> None:
    for _ in range(20):
        served.connect()
    refused = answer(served.connect())
    assert (refused.status, refused.headers["retry-after"]) == (429, "5")
    assert refused.refusal["limit"] == "connections_per_peer"
    assert "20 connections open" in refused.refusal["text"]
    try:
        others = [served.connect("127.0.0.2") for _ in range(10)]
    except OSError:
        pytest.skip("this machine has one loopback address")
    refused = answer(served.connect("127.0.0.3"))
    assert (refused.status, refused.refusal["limit"]) == (503, "connections")
    others[0].sendall(served.head("GET", "/healthz", "x"))
    assert answer(others[0]).status == 200


def test_sockets_that_say_nothing_hold_up_nobody_and_are_closed(hurried: Served) -> None:
    silent = [hurried.connect() for _ in range(10)]
    until(hurried.healthy)
    assert all(ended(wire) for wire in silent)


@pytest.mark.parametrize("sent", [b"GET /healthz HTT", b"GET /healthz HTTP/1.1\r\nhost: x\r\nx-a: "])
def test_a_head_that_does_not_end_is_told_so_and_cut_off(hurried: Served, sent: bytes) -> None:
    wire = hurried.connect()
    wire.sendall(sent)
    refused = answer(wire)
    assert (refused.status, refused.refusal["limit"]) == (408, "head_seconds")
    assert ended(wire)


def test_a_head_is_bounded_in_bytes_and_in_headers(served: Served) -> None:
    long = served.ask(served.head("GET", "/healthz", "x", x_long="y" * 9_000))
    many = served.ask(served.head("GET", "/healthz", "x", **{f"x_{n}": 1 for n in range(60)}))
    assert (long.status, long.refusal["limit"], long.refusal["most"]) == (431, "head_bytes", 8_192)
    assert (many.status, many.refusal["limit"], many.refusal["most"]) == (431, "headers", 40)


def test_thousands_of_headers_cost_next_to_nothing(counted: Served, meter: Meter) -> None:
    wire = counted.connect()
    meter.work()
    wire.sendall(b"POST /mcp HTTP/1.1\r\n" + b"a: b\r\n" * 200_000)
    assert answer(wire).status == 431
    work = meter.work()
    assert work.calls < 50_000, work


@pytest.mark.parametrize("sent", [b"\x16\x03\x01\x02\x00\x01", b"nonsense"])
def test_what_is_no_http_is_refused_in_json(served: Served, sent: bytes) -> None:
    wire = served.connect()
    wire.sendall(sent + b"\r\n\r\n")
    refused = answer(wire)
    assert (refused.status, refused.refusal["error"]) == (400, "http")
    assert ended(wire)


def test_an_idle_connection_is_closed_and_counts_no_more_than_a_connection(hurried: Served) -> None:
    wire = hurried.connect()
    wire.sendall(hurried.head("GET", "/healthz", "x"))
    assert answer(wire).status == 200
    assert ended(wire)


def test_a_line_break_behind_an_answer_is_no_beginning_of_a_request(hurried: Served) -> None:
    wire = hurried.connect()
    wire.sendall(hurried.head("GET", "/healthz", "x"))
    assert answer(wire).status == 200
    wire.sendall(b"\r\n")
    wire.settimeout(PATIENCE)
    assert wire.recv(65_536) == b"", "closed as an idle connection, without a 408"


# Bodies


def test_half_a_body_is_told_so_and_cut_off(hurried: Served) -> None:
    wires = []
    for _ in range(8):
        wires.append(hurried.connect())
        wires[-1].sendall(hurried.head("POST", "/mcp", "x", content_length=1_000) + b"{")
    until(hurried.healthy)
    for wire in wires:
        refused = answer(wire)
        assert (refused.status, refused.refusal["limit"]) == (408, "body_seconds")
        assert ended(wire)


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_too_large_is_refused_before_it_is_held(served: Served, chunked: bool) -> None:
    wire = served.connect()
    if chunked:
        wire.sendall(served.head("POST", "/mcp", "x", transfer_encoding="chunked"))
        for _ in range(8):
            wire.sendall(b"2710\r\n" + b"x" * 10_000 + b"\r\n")
        wire.sendall(b"0\r\n\r\n")
    else:
        wire.sendall(served.head("POST", "/mcp", "x", content_length=60_001) + b"x" * 60_001)
    refused = answer(wire)
    assert (refused.status, refused.refusal["limit"], refused.refusal["most"]) == (413, "body_bytes", 60_000)


def test_bodies_under_way_are_bounded_together(served: Served) -> None:
    first = served.connect()
    first.sendall(served.head("POST", "/mcp", "x", content_length=59_000) + b"x" * 58_000)
    second = served.connect()
    second.sendall(served.head("POST", "/mcp", "y", content_length=59_000) + b"y" * 59_000)
    refused = answer(second)
    assert (refused.status, refused.headers["retry-after"]) == (503, "1")
    assert refused.refusal["limit"] == "bodies_bytes"


def test_a_fault_in_the_midst_of_a_body_gets_one_answer(served: Served) -> None:
    wire = served.connect()
    wire.sendall(served.head("POST", "/mcp", "x", transfer_encoding="chunked") + b"5\r\nhello\r\nzz\r\n")
    assert answer(wire).status == 400
    assert ended(wire)


# What agents send


def test_unknown_arguments_are_refused_by_name(served: Served, agent: str) -> None:
    refused = served.ask(served.tool("post", {"text": "a", "colour": "red"}, agent)).refusal
    assert (refused["error"], refused["fields"]) == ("invalid", ["colour"])


def test_a_giant_list_of_the_wrong_type_is_answered_with_little_work_and_few_words(
    counted: Served, meter: Meter, agent: str
) -> None:
    body = counted.tool("post", {"text": "a", "tags": [1] * 18_000}, agent)
    meter.work()
    refused = counted.ask(body)
    work = meter.work()
    assert 100 < work.turn < work.calls < 20 * 18_000, work
    assert refused.refusal["error"] == "invalid"
    assert len(refused.body) < 4_000


def test_a_text_is_bounded_in_a_post_and_in_each_item_of_a_batch(served: Served, agent: str) -> None:
    for arguments in (
        {"text": "x" * 501},
        {"items": [{"text": "good"}, {"text": "x" * 501}]},
    ):
        refused = served.ask(served.tool("post", arguments, agent)).refusal
        assert (refused["error"], refused["limit"], refused["most"]) == ("quota", "post_characters", 500)
    found = served.ask(served.tool("query", {"author": agent}, agent)).message["result"]["structuredContent"]
    assert found["items"] == []


def test_writes_are_bounded_in_a_second_and_the_wait_that_is_told_is_enough(
    served: Served, agent: str
) -> None:
    batch = {"items": [{"text": f"{n}"} for n in range(50)]}
    for _ in range(2):
        assert not served.ask(served.tool("post", batch, agent)).message["result"].get("isError")
    taken = served.ask(served.tool("post", {"items": batch["items"]}, agent))
    refused = taken.refusal
    assert (refused["error"], refused["limit"]) == ("rate_limited", "posts_per_second")
    assert taken.status == 200
    assert 0 < refused["retry_after_seconds"] <= 25
    assert "Nothing was changed" in refused["text"]
    # Somebody else writes, and reading goes on.
    assert (
        not served.ask(served.tool("post", {"text": "hello"}, next(_names))).message["result"].get("isError")
    )
    assert not served.ask(served.tool("read", {}, agent)).message["result"].get("isError")
    few = served.tool("post", {"items": batch["items"][:4]}, agent)
    refused = until(lambda: refusal_of(served.ask(few)))
    time.sleep(refused["retry_after_seconds"])
    assert refusal_of(served.ask(few)) is None


def test_a_transaction_counts_its_writes(served: Served, agent: str) -> None:
    writes = [{"text": f"{n}"} for n in range(80)]
    done = served.ask(served.tool("transaction", {"reads": {}, "writes": writes}, agent)).message["result"]
    assert not done.get("isError"), done
    refused = served.ask(served.tool("transaction", {"reads": {}, "writes": writes}, agent)).refusal
    assert refused["limit"] == "posts_per_second"


def test_subscriptions_and_groups_of_an_agent_are_bounded(served: Served, agent: str) -> None:
    for _ in range(2):
        done = served.ask(served.tool("subscribe", {"filter": {"type": "FACT"}}, agent)).message
        assert not done["result"].get("isError"), done
    refused = served.ask(served.tool("subscribe", {"filter": {"type": "LOG"}}, agent)).refusal
    assert (refused["error"], refused["limit"]) == ("quota", "subscriptions_per_agent")
    made = {"group": f"g-{agent}", "filter": {"type": "FACT"}, "seconds": 0}
    assert not served.ask(served.tool("consume", made, agent)).message["result"].get("isError")
    refused = served.ask(served.tool("consume", made | {"group": f"h-{agent}"}, agent)).refusal
    assert (refused["error"], refused["limit"]) == ("quota", "groups_per_agent")


# Calls under way


def test_waiting_calls_are_bounded_for_each_and_in_all_apart_from_work(served: Served, agent: str) -> None:
    board = f"b-{agent}"
    served.ask(served.tool("post", {"text": "a", "board": board}, agent))
    wait = {"seconds": 50, "board": board}

    def hold(who: str) -> socket.socket:
        wire = served.connect()
        wire.sendall(served.tool("wait", wait, who))
        still(wire)
        return wire

    hold(agent)
    hold(agent)

    def refused_for(who: str) -> dict[str, Any]:
        """The refusal of a wait; those that hold the places may be on their way yet."""
        brief = served.tool("wait", {"seconds": 0.01, "board": board}, who)
        return until(lambda: refusal_of(served.ask(brief)))

    refused = refused_for(agent)
    assert (refused["error"], refused["limit"]) == ("rate_limited", "waits_per_principal")
    assert refused["retry_after_seconds"] == 1.0
    third = hold(next(_names))
    assert refused_for(next(_names))["limit"] == "waits"
    # Those who work, or look without waiting, are not held up by those who wait.
    assert not served.ask(served.tool("read", {"board": board}, agent)).message["result"].get("isError")
    now = served.tool("wait", {"seconds": 0, "board": board}, agent)
    assert not served.ask(now).message["result"].get("isError")
    third.close()  # a place is free again when its client is gone
    other = served.tool("wait", {"seconds": 0.01, "board": board}, next(_names))
    until(lambda: not served.ask(other).message["result"].get("isError"))


def test_calls_under_way_are_bounded_for_each_and_in_all(served: Served, agent: str) -> None:
    served.ask(served.tool("post", {"text": "a"}, agent))
    database = sqlite3.connect(served.data / "board.sqlite3", isolation_level=None)
    database.execute("BEGIN IMMEDIATE")  # posts wait for this
    try:
        wires = [served.connect() for _ in range(3)]
        for wire, who in zip(wires, (agent, agent, next(_names)), strict=True):
            wire.sendall(served.tool("post", {"text": "b"}, who))
        until(
            lambda: served.ask(served.tool("post", {"text": "c"}, agent)).refusal["error"] == "rate_limited"
        )
        refused = served.ask(served.tool("read", {}, agent)).refusal
        assert (refused["error"], refused["limit"]) == ("rate_limited", "calls_per_principal")
        assert "2 calls under way" in refused["text"]
        refused = served.ask(
            served.modern("resources/read", {"uri": "board://main/stats"}, agent, "board://main/stats")
        )
        assert refused.refusal["limit"] == "calls_per_principal"
        until(lambda: served.ask(served.tool("read", {}, "somebody")).refusal["limit"] == "calls")
    finally:
        database.rollback()
        database.close()
    assert [answer(wire).message["result"].get("isError", False) for wire in wires] == [False] * 3
    assert not served.ask(served.tool("read", {}, agent)).message["result"].get("isError")


# Sessions and streams


def test_sessions_are_bounded_for_each_and_in_all_and_those_in_use_are_kept(
    served: Served, agent: str
) -> None:
    sessions = [served.initialize(agent).headers["mcp-session-id"] for _ in range(3)]
    listing = [served.ask(served.legacy("tools/list", {}, agent, session)).status for session in sessions]
    assert listing == [404, 200, 200]
    standing = [served.connect() for _ in range(2)]
    for wire, session in zip(standing, sessions[1:], strict=True):
        wire.sendall(served.head("GET", "/mcp", agent, mcp_session_id=session))
        assert begun(wire).status == 200
    refused = served.initialize(agent)
    assert (refused.status, refused.refusal["limit"]) == (429, "sessions_per_principal")
    assert refused.refusal["error"] == "rate_limited"
    # Of others' sessions none is ended that was just used: the server is full then, and says so.
    other, third = next(_names), next(_names)
    others = [served.initialize(other).headers["mcp-session-id"] for _ in range(2)]
    full = served.initialize(third)
    assert (full.status, full.refusal["limit"], full.headers["retry-after"]) == (503, "sessions", "5")
    assert served.ask(served.legacy("tools/list", {}, other, others[0])).status == 200
    assert not served.ask(served.tool("read", {}, third)).message["result"].get("isError")
    for session in sessions[1:]:
        served.end(session, agent)
    for session in others:
        served.end(session, other)
    opened = served.initialize(third)
    assert opened.status == 200
    served.end(opened.headers["mcp-session-id"], third)


def test_a_session_is_of_who_opened_it_and_replays_nothing(served: Served, agent: str) -> None:
    session = served.initialize(agent).headers["mcp-session-id"]
    body = served.legacy("tools/call", {"name": "post", "arguments": {"text": "mine"}}, agent, session)
    assert served.ask(body).status == 200
    for last in ("0", "1", "x"):
        stolen = served.head("GET", "/mcp", next(_names), mcp_session_id=session, last_event_id=last)
        assert served.ask(stolen).status == 404
    own = served.connect()
    own.settimeout(0.3)
    own.sendall(served.head("GET", "/mcp", agent, mcp_session_id=session, last_event_id="0"))
    assert begun(own).status == 200
    with pytest.raises(TimeoutError):
        own.recv(1)
    served.end(session, agent)


def listen(served: Served, agent: str, *uris: str) -> bytes:
    return served.modern(
        "subscriptions/listen", {"notifications": {"resourceSubscriptions": list(uris)}}, agent
    )


def test_streams_and_what_they_are_told_of_are_bounded(served: Served, agent: str) -> None:
    served.ask(served.tool("post", {"text": "a"}, agent))
    uris = [f"board://main/events?after={n}" for n in range(4)]
    refused = served.ask(listen(served, agent, *uris)).refusal
    assert "uris_per_stream" in refused["text"]
    held = [served.connect() for _ in range(2)]
    for wire in held:
        wire.sendall(listen(served, agent, *uris[:3]))
        assert begun(wire).status == 200
    assert "streams_per_principal" in served.ask(listen(served, agent, uris[0])).refusal["text"]
    third = served.connect()
    third.sendall(listen(served, next(_names), uris[0]))
    assert begun(third).status == 200
    assert "limit streams)" in served.ask(listen(served, next(_names), uris[0])).refusal["text"]
    for wire in (*held, third):
        wire.close()
    other = next(_names)

    def again() -> bool:
        wire = served.connect()
        wire.sendall(listen(served, other, uris[0]))
        return begun(wire).headers["content-type"].startswith("text/event-stream")

    until(again)


def test_a_legacy_session_is_told_of_so_many_resources(served: Served, agent: str) -> None:
    session = served.initialize(agent).headers["mcp-session-id"]
    answers = [
        served.ask(
            served.legacy("resources/subscribe", {"uri": f"board://main/events?after={n}"}, agent, session)
        )
        for n in range(4)
    ]
    assert ["error" in one.message for one in answers] == [False, False, False, True]
    assert "uris_per_stream" in answers[3].refusal["text"]
    served.end(session, agent)


def test_nobody_listens_to_what_is_not_theirs_or_not_there(served: Served, agent: str) -> None:
    served.ask(served.tool("post", {"text": "a"}, agent))
    wire = served.connect()
    wire.sendall(listen(served, agent, "board://main/view/somebody", "file:///etc/passwd"))
    told = wire.makefile("rb")
    line = next(line for line in told if line.startswith(b"data: {"))
    assert b"resourceSubscriptions" not in line
    told.close()


def test_event_streams_are_bounded_for_each_and_in_all(served: Served, agent: str) -> None:
    served.ask(served.tool("post", {"text": "a"}, agent))
    other = next(_names)
    for who in (agent, agent, other):
        wire = served.connect()
        wire.sendall(served.head("GET", "/boards/main/events", who))
        assert begun(wire).status == 200
    for who, limit in ((agent, "event_streams_per_principal"), (next(_names), "event_streams")):
        refused = served.ask(served.head("GET", "/boards/main/events", who))
        assert (refused.status, refused.refusal["error"]) == (429, "rate_limited")
        assert (refused.refusal["limit"], refused.headers["retry-after"]) == (limit, "5")


def test_a_reader_that_stalls_is_dropped_and_holds_up_nobody(hurried: Served, agent: str) -> None:
    """The stalled reader asks for a log that fills its connection; a healthy one hears all the while."""
    board = f"b-{agent}"
    tags = [f"{n}-{'y' * 50}" for n in range(19)]

    def post() -> None:
        who = next(_names)
        items = [{"text": f"{who} {n}", "tags": tags} for n in range(50)]
        done = hurried.ask(hurried.tool("post", {"items": items, "board": board}, who))
        assert not done.message["result"].get("isError")

    for _ in range(8):
        post()
    stalled = socket.socket()
    stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    hurried.open.append(stalled)
    stalled.connect(("127.0.0.1", hurried.port))
    stalled.sendall(hurried.head("GET", f"/boards/{board}/events?after=0", agent))
    healthy = hurried.connect()
    healthy.sendall(hurried.head("GET", f"/boards/{board}/events", agent))
    stream = healthy.makefile("rb")

    def dropped() -> bool:
        # What nobody reads fills the connection; the place is free again when it was dropped.
        post()
        posted = (line for line in stream if line.startswith(b"event: item.posted"))
        assert len(list(itertools.islice(posted, 50))) == 50
        wire = hurried.connect()
        wire.sendall(hurried.head("GET", f"/boards/{board}/events", agent))
        free = begun(wire).status == 200
        wire.close()
        return free

    until(dropped)
    stream.close()


def test_a_legacy_client_that_drops_leaves_no_call_waiting(served: Served, agent: str) -> None:
    session = served.initialize(agent).headers["mcp-session-id"]
    board = f"b-{agent}"
    served.ask(served.tool("post", {"text": "a", "board": board}, agent))
    wait = {"name": "wait", "arguments": {"seconds": 50, "board": board}}
    for id_ in (2, 3):
        wire = served.connect()
        wire.sendall(served.legacy("tools/call", wait, agent, session, id_))
        assert begun(wire).status == 200
        still(wire)
    full = served.tool("wait", {"seconds": 0.01, "board": board}, agent)
    assert until(lambda: refusal_of(served.ask(full)))["limit"] == "waits_per_principal"
    served.close()
    until(lambda: not served.ask(full).message["result"].get("isError"))
    served.end(session, agent)


# One process for itself


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_sessions_that_nobody_uses_end_and_their_memory_with_them(tmp_path: Path) -> None:
    """Hundreds of principals come, each with a session and a post, and go."""
    limits = {"session_idle_seconds": 0.1, "sessions": 200, "sessions_per_principal": 1}
    with serving(tmp_path, limits) as there:
        first = there.initialize("first").headers["mcp-session-id"]
        connection = there.connect()

        def come(names: range) -> None:
            told = {
                "protocolVersion": LEGACY,
                "capabilities": {},
                "clientInfo": {"name": "c", "version": "1"},
            }
            for n in names:
                connection.sendall(there.tool("post", {"text": f"hello {n}"}, f"p-{n}"))
                answer(connection)
                connection.sendall(there.legacy("initialize", told, f"p-{n}", None))
                assert answer(connection).status == 200

        come(range(200))
        before = there.memory()
        come(range(200, 600))
        assert there.memory() - before < 14 << 20
        assert there.ask(there.legacy("tools/list", {}, "first", first)).status == 404


def test_stdio_lines_are_bounded_and_refused_with_their_id(tmp_path: Path) -> None:
    told = environment() | {"BLACKBOARD_LIMITS": json.dumps(LIMITS)}
    line = command("serve", "--data", str(tmp_path), "--agent", "alice")
    process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=told)
    assert process.stdin is not None
    assert process.stdout is not None
    giant = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"x": "y" * 30_000}}
    process.stdin.write(json.dumps(giant).encode() + b"\n")
    process.stdin.flush()
    refused = json.loads(process.stdout.readline())
    assert refused["id"] == 7
    assert "longer than 20000 bytes" in refused["error"]["message"]
    out, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (0, b"")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ('{"head_seconds": 0}', "head_seconds must be from 0.05 to 600"),
        ('{"hedders": 3}', "names 'hedders'"),
        ("[]", "must be an object"),
    ],
)
def test_a_server_with_a_limit_that_is_none_does_not_start(tmp_path: Path, said: str, words: str) -> None:
    done = subprocess.run(
        command("serve", "--transport", "http", "--data", str(tmp_path)),
        env=environment() | {"BLACKBOARD_LIMITS": said},
        capture_output=True,
        text=True,
        timeout=RUN,
    )
    assert done.returncode != 0
    assert words in done.stderr
    assert "BLACKBOARD_LIMITS" in done.stderr
    assert "Traceback" not in done.stderr
