"""Several workers behind one port, through clients of both generations: real processes, killed and stopped."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import postgres_server
import pytest
import trustme
from blackboard_mcp.server.demo.process import command, environment, http_clients
from blackboard_mcp.server.demo.replay import call, connected
from commands import refused, run, token
from patience import PATIENCE, WOKEN, until
from warmed import BESIDE
from wires import LEGACY, MODERN, UNHURRIED, HttpWire, ask
from wires import call as said

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes under /proc")
READY = "blackboard-mcp serves "


class Served:
    """A server with several workers, and what it says on standard error."""

    def __init__(self, data: Path, *options: str, limits: dict[str, float] | None = None) -> None:
        self.process = subprocess.Popen(
            command("serve", "--transport", "http", "--port", "0", "--data", str(data), *options),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=environment() | {"BLACKBOARD_LIMITS": json.dumps(UNHURRIED | (limits or {}))},
        )
        self.said: list[str] = []
        self._reading = threading.Thread(target=self._read)
        self._reading.start()
        until(lambda: self.ready() or self.process.poll() is not None, "the server says nothing")
        assert self.ready(), self.said
        self.url = next(line for line in self.said if line.startswith(READY)).removeprefix(READY).strip()
        self.workers = self.children()

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.said.extend(self.process.stderr)

    def ready(self) -> bool:
        return any(line.startswith(READY) for line in list(self.said))

    def children(self) -> list[int]:
        """The workers in the order in which they started."""
        found: list[int] = []
        for thread in Path(f"/proc/{self.process.pid}/task").glob("*/children"):
            with suppress(OSError):  # a thread may end meanwhile
                found += map(int, thread.read_text().split())
        return sorted(pid for pid in found if _name(pid) not in (BESIDE, ""))

    def wire(self, agent: str, *, modern: bool = True) -> HttpWire:
        return HttpWire(self.url, self.process.pid, agent, modern=modern)

    def worker_of(self, wire: HttpWire) -> int:
        """The worker that holds a wire's connection."""
        assert wire._connection is not None
        ours, theirs = wire._connection.sock.getsockname()[1], urlsplit(self.url).port
        holders: list[int] = []

        def look() -> bool:
            # The table may lack a line while it changes, and has connections of others to the same port of ours.
            for line in map(str.split, Path("/proc/net/tcp").read_text().splitlines()[1:]):
                if [int(end.partition(":")[2], 16) for end in line[1:3]] == [theirs, ours]:
                    holders.extend(pid for pid in self.children() if f"socket:[{line[9]}]" in _files(pid))
            return bool(holders)

        until(look, "no worker holds the connection")
        return holders[0]

    def stop(self, told: int = signal.SIGTERM) -> int:
        self.process.send_signal(told)
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        workers = self.children()
        self.process.kill()
        self.process.wait()
        until(lambda: not any(map(_runs, workers)), "workers outlive their parent")
        self._reading.join()
        assert self.process.stderr is not None
        self.process.stderr.close()


def _name(pid: int) -> str:
    """The name of a process; empty if it is over."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _files(pid: int) -> list[str]:
    links = []
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            links.append(os.readlink(file))
    return links


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


Start = Callable[..., Served]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts servers with two workers, or as the options say."""
    started: list[Served] = []

    def begin(*options: str, **more: Any) -> Served:
        started.append(Served(tmp_path / "data", "--workers", "2", *options, **more))
        return started[-1]

    yield begin
    for one in started:
        one.close()


def posted(wire: HttpWire, text: str) -> str:
    """Posts a finding, and returns its id."""
    told = said(wire, "post", json.dumps({"text": text, "type": "LOG"})).message
    assert told is not None
    assert not told["result"].get("isError"), told
    return str(told["result"]["structuredContent"]["items"][0]["id"])


def texts(wire: HttpWire, *ids: str) -> list[str]:
    """Reads items by their ids, and returns their texts."""
    told = said(wire, "read", json.dumps({"ids": list(ids)})).message
    assert told is not None
    return [item["text"] for item in told["result"]["structuredContent"]["items"]]


def test_connections_are_spread_evenly_and_each_worker_reads_at_once_what_another_wrote(start: Start) -> None:
    served = start()
    with ExitStack() as stack:
        wires = [stack.enter_context(closing(served.wire(f"a{n}"))) for n in range(8)]
        for n, wire in enumerate(wires):
            posted(wire, f"pump {n} leaks")
        assert Counter(map(served.worker_of, wires)) == dict.fromkeys(served.workers, 4)
        for n in range(40):
            writer, reader = wires[n % 8], wires[(n + 1) % 8]
            found = posted(writer, f"valve {n} holds")
            assert texts(reader, found) == [f"valve {n} holds"]
    assert served.stop() == 0
    assert sum(line.startswith(READY) for line in served.said) == 1
    assert sum("no access tokens" in line for line in served.said) == 1


@pytest.mark.parametrize("mode", ["legacy", MODERN])
async def test_who_waits_is_woken_whichever_worker_the_news_come_to(start: Start, mode: str) -> None:
    served = start()
    names = [f"a{n}" for n in range(4)]
    async with connected(http_clients(served.url, mode=mode), (*names, "bob")) as clients:
        bob = clients.pop("bob")
        seq = (await call(bob, "read"))["seq"]
        for client in clients.values():
            await call(client, "read")
        waits = [asyncio.create_task(call(c, "wait", since=seq, seconds=50)) for c in clients.values()]
        await call(bob, "post", text="the seal is torn", type="FACT")
        async with asyncio.timeout(WOKEN):
            told = await asyncio.gather(*waits)
        assert all(one["events"] for one in told)
    assert served.stop() == 0


def exchange(served: Served, session: str | None, method: str, body: bytes = b"") -> tuple[int, bytes, str]:
    """Sends one request of the older generation over a connection of its own."""
    url = urlsplit(served.url)
    headers = {
        "X-Blackboard-Agent": "ann",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }
    if session is not None:
        headers |= {"Mcp-Session-Id": session, "Mcp-Protocol-Version": LEGACY}
    with closing(http.client.HTTPConnection(str(url.hostname), url.port, timeout=PATIENCE)) as connection:
        connection.request(method, url.path, body or None, headers)
        response = connection.getresponse()
        return response.status, response.read(), response.headers["Content-Type"] or ""


def message(method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).encode()


def test_a_session_is_reached_over_any_connection_and_streams_until_it_ends(start: Start) -> None:
    served = start()
    url = urlsplit(served.url)
    with ExitStack() as stack:
        ann, ben = (stack.enter_context(closing(served.wire(name, modern=False))) for name in ("ann", "ben"))
        assert {served.worker_of(ann), served.worker_of(ben)} == set(served.workers)
        posted(ann, "pump 1 leaks")
        posted(ben, "pump 2 leaks")
        session = ann._session
        assert session is not None
        streams = []
        for _ in range(2):  # the second replaces the first, whichever workers they come to
            streams.append(http.client.HTTPConnection(str(url.hostname), url.port, timeout=PATIENCE))
            stack.enter_context(closing(streams[-1]))
            told = {"X-Blackboard-Agent": "ann", "Accept": "text/event-stream", "Mcp-Session-Id": session}
            streams[-1].request("GET", url.path, headers=told | {"Mcp-Protocol-Version": LEGACY})
            answer = streams[-1].getresponse()
            if answer.status == 200:
                break
        assert answer.status == 200
        status, _, _ = exchange(
            served, session, "POST", message("resources/subscribe", uri="board://main/events")
        )
        assert status == 200
        posted(ben, "pump 3 leaks")
        while b"notifications/resources/updated" not in (line := answer.readline()):
            assert line, "the stream ended"
        for _ in range(6):
            status, raw, _ = exchange(served, session, "POST", message("tools/list"))
            assert (status, b'"tools"' in raw) == (200, True)
            assert exchange(served, "0" * 32, "POST", message("tools/list"))[0] == 404
        # Whoever is not its owner is told that there is no such session, on each worker.
        for _ in range(4):
            other = HttpWire(served.url, 0, "eve", modern=True)
            other.modern, other._session = False, session
            with closing(other):
                assert ask(other, "tools/list", "").status == 404
        assert exchange(served, session, "DELETE")[0] == 200
        assert answer.read() is not None, "the stream ends with its session"
        for _ in range(4):
            assert exchange(served, session, "POST", message("tools/list"))[0] == 404
        posted(ben, "others go on")
    assert served.stop() == 0
    assert not [line for line in served.said if "Traceback" in line or " ERROR " in line], served.said


def test_what_is_refused_of_sessions_is_refused_by_each_worker_alike(start: Start) -> None:
    served = start(limits={"body_bytes": 2_000})
    url = urlsplit(served.url)
    hello = message(
        "initialize", protocolVersion=LEGACY, capabilities={}, clientInfo={"name": "x", "version": "1"}
    )

    def answered(body: bytes, **headers: str) -> tuple[int, bytes]:
        with closing(http.client.HTTPConnection(str(url.hostname), url.port, timeout=PATIENCE)) as connection:
            told = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
            connection.request("POST", url.path, body, told | headers)
            response = connection.getresponse()
            return response.status, response.read()

    for headers, body, status in (
        ({"Host": "board.example.com"}, hello, 421),
        ({"Origin": "https://evil.example"}, hello, 403),
        ({"X-Blackboard-Agent": "no name!"}, hello, 400),
        ({}, hello + b" " * 3_000, 413),
        ({}, b"{}", 400),
    ):
        # Of connections that come one after the other, all go to the same worker while another is open at the other.
        with closing(socket.create_connection((str(url.hostname), url.port or 0))):
            # Often, since an answer given before the body was read must not be lost on its way back.
            found = {answered(body, **headers) for _ in range(30)}
            with closing(socket.create_connection((str(url.hostname), url.port or 0))):
                found |= {answered(body, **headers) for _ in range(5)}
        assert [one[0] for one in found] == [status], found
    assert served.stop() == 0
    assert not [line for line in served.said if "Traceback" in line or " ERROR " in line], served.said


def test_a_worker_that_is_killed_comes_back_and_nothing_that_was_acknowledged_is_lost(start: Start) -> None:
    served = start()
    kept: list[str] = []
    enough = threading.Event()

    def post(name: str) -> None:
        count = 0
        while not enough.is_set():
            with closing(served.wire(name)) as wire, suppress(OSError, http.client.HTTPException, ValueError):
                while not enough.is_set():
                    kept.append(posted(wire, f"{name} saw {count}"))
                    count += 1

    agents = [threading.Thread(target=post, args=(f"a{n}",)) for n in range(4)]
    for agent in agents:
        agent.start()
    dead: set[int] = set()
    try:
        for which in (1, 0, 0):  # the second, the first, and the one that came in the second's place
            until(lambda: len(kept) > 20 * (len(dead) + 1), "nothing is posted")
            victim = sorted(set(served.children()) - dead)[which]
            os.kill(victim, signal.SIGKILL)
            dead.add(victim)
            until(lambda: len(set(served.children()) - dead) == 2, "no worker comes back")
            until(
                lambda: sum(" answers again (process " in one for one in list(served.said)) == len(dead),
                "the log",
            )
        count = len(kept)
        until(lambda: len(kept) > count + 20, "nothing is posted any more")
    finally:
        enough.set()
        for agent in agents:
            agent.join()
    with closing(served.wire("zoe")) as wire:
        for n in range(0, len(kept), 50):
            assert len(texts(wire, *kept[n : n + 50])) == len(kept[n : n + 50])
    assert len(set(kept)) == len(kept)
    assert served.stop() == 0
    told = [line for line in served.said if "was killed by SIGKILL; it starts again" in line]
    assert len(told) == 3, served.said


def test_sessions_of_a_worker_that_died_are_unknown_and_new_ones_begin(start: Start) -> None:
    served = start()
    with closing(served.wire("ann", modern=False)) as ann:
        session = ann._session
    os.kill(served.workers[0], signal.SIGKILL)
    statuses = set()

    def begins() -> bool:
        with suppress(OSError, http.client.HTTPException):
            statuses.add(exchange(served, session, "POST", message("tools/list"))[0])
            hello = {
                "protocolVersion": LEGACY,
                "capabilities": {},
                "clientInfo": {"name": "x", "version": "1"},
            }
            status, _, _ = exchange(served, None, "POST", message("initialize", **hello))
            assert status in (200, 503)
            return status == 200
        return False

    until(begins, "no session begins")
    assert statuses == {404}
    assert served.stop() == 0


@pytest.mark.usefixtures("hangups")
@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_all_workers_and_answers_who_waits(start: Start, told: int) -> None:
    served = start()
    answers: list[Any] = []
    asked = threading.Semaphore(0)

    def wait(modern: bool) -> None:
        with closing(served.wire("ann" if modern else "ben", modern=modern)) as wire:
            seq = said(wire, "read", "{}").message["result"]["structuredContent"]["seq"]  # type: ignore[index]
            connection = wire._connection
            assert connection is not None
            send = connection.request

            def request(*given: Any) -> None:
                send(*given)
                asked.release()

            connection.request = request  # type: ignore[method-assign]
            answers.append(said(wire, "wait", json.dumps({"since": seq, "seconds": 50})).message)

    with ExitStack() as stack:
        pairs = [
            [stack.enter_context(closing(served.wire("cleo", modern=modern))) for _ in range(2)]
            for modern in (True, False)
        ]
        waiting = [threading.Thread(target=wait, args=(modern,)) for modern in (True, True, False, False)]
        for one in waiting:
            one.start()
            assert asked.acquire(timeout=PATIENCE)
        for pair in pairs:
            # What came to a worker before a call that it has answered is under way there, or with the sessions' worker.
            assert {said(wire, "read", "{}").status for wire in pair} == {200}
            assert {served.worker_of(wire) for wire in pair} == set(served.workers)
    assert served.stop(told) == 0
    for one in waiting:
        one.join()
    assert all("structuredContent" in answer["result"] for answer in answers), answers
    assert len(answers) == 4
    assert not any(map(_runs, served.workers))
    assert not [line for line in served.said if "Traceback" in line or " ERROR " in line], served.said


def test_workers_end_with_a_parent_that_is_killed(start: Start) -> None:
    served = start()
    served.process.kill()
    until(lambda: not any(map(_runs, served.workers)), "workers outlive their parent")


def test_rates_hold_over_all_workers(start: Start) -> None:
    served = start(limits={"posts_per_second": 0.01, "posts_burst": 100})
    with ExitStack() as stack:
        one, other = (stack.enter_context(closing(served.wire("ann"))) for _ in range(2))
        posted(other, "pump 0 leaks")
        for n in range(99):
            posted(one, f"pump {n} drips")
        assert served.worker_of(one) != served.worker_of(other)
        taken = 0

        def is_refused() -> bool:
            nonlocal taken
            taken += 1
            told = said(other, "post", json.dumps({"text": f"again {taken}", "type": "LOG"})).message
            assert told is not None
            return told["result"].get("isError") is True

        # The other worker has given out one post of a hundred, and hears of the others within half a second.
        while not is_refused():
            assert taken < 90, "the workers count apart"
            threading.Event().wait(0.1)
    assert served.stop() == 0


def test_connections_are_bounded_over_all_workers(start: Start) -> None:
    served = start(limits={"connections": 6})
    url = urlsplit(served.url)
    with ExitStack() as stack:
        wires = [stack.enter_context(closing(served.wire(f"a{n}"))) for n in range(6)]
        for wire in wires:
            posted(wire, "pump 1 leaks")
        with closing(http.client.HTTPConnection(str(url.hostname), url.port, timeout=PATIENCE)) as late:
            late.request("GET", "/healthz")
            assert late.getresponse().status == 503
        wires[0].close()

        def answers() -> bool:
            with closing(http.client.HTTPConnection(str(url.hostname), url.port, timeout=PATIENCE)) as late:
                late.request("GET", "/healthz")
                return late.getresponse().status == 200

        until(answers, "there is no room again")
    assert served.stop() == 0


def test_a_worker_that_had_no_file_handles_left_gets_its_share_of_connections_again(start: Start) -> None:
    import resource

    served = start()
    url = urlsplit(served.url)
    short = served.workers[1]
    with ExitStack() as stack:
        for n in range(2):  # what a first call loads needs files
            posted(stack.enter_context(closing(served.wire(f"a{n}"))), "pump 1 leaks")
    before = resource.prlimit(short, resource.RLIMIT_NOFILE)
    used = {int(file.name) for file in Path(f"/proc/{short}/fd").iterdir()}
    resource.prlimit(
        short, resource.RLIMIT_NOFILE, (next(n for n in range(10_000) if n not in used), before[1])
    )
    with ExitStack() as stack:
        for _ in range(20):
            asking = stack.enter_context(socket.create_connection((url.hostname, url.port), timeout=PATIENCE))
            with suppress(ConnectionError):  # closed by the worker that cannot take it
                asking.sendall(f"GET /livez HTTP/1.1\r\nHost: {url.netloc}\r\n\r\n".encode())
                asking.recv(1_000)
    resource.prlimit(short, resource.RLIMIT_NOFILE, before)

    def spread() -> bool:
        with ExitStack() as stack:
            wires = [stack.enter_context(closing(served.wire(f"a{n}"))) for n in range(8)]
            for wire in wires:
                posted(wire, "pump 1 leaks")
            return Counter(map(served.worker_of, wires)) == dict.fromkeys(served.workers, 4)

    until(spread, "the worker gets no connections")
    assert served.stop() == 0
    assert not [line for line in served.said if "Traceback" in line], served.said


def test_workers_serve_over_tls_and_with_tokens(start: Start, tmp_path: Path) -> None:
    issued = (authority := trustme.CA()).issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    (tmp_path / "key.pem").chmod(0o600)
    issued.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    given = token(tmp_path / "data", "--agent", "ann")
    served = start("--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem"))
    url = urlsplit(served.url)
    assert url.scheme == "https"
    # A handshake that fails leaves no trace in the count of connections.
    for _ in range(3):
        with closing(socket.create_connection((str(url.hostname), url.port or 0))) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
            while plain.recv(1_000):
                pass
    context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    hello = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    with ExitStack() as stack:
        found = []
        for n in range(4):
            connection = http.client.HTTPSConnection("127.0.0.1", url.port, context=context, timeout=PATIENCE)
            stack.enter_context(closing(connection))
            told = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
            if n < 2:
                told["Authorization"] = f"Bearer {given}"
            connection.request("POST", url.path, message("initialize", **hello), told)
            response = connection.getresponse()
            found.append((response.status, response.headers["Mcp-Session-Id"] is not None))
            response.read()
    assert found == [(200, True), (200, True), (401, False), (401, False)]
    assert served.stop() == 0


def test_a_token_that_is_revoked_is_refused_by_each_worker(start: Start, tmp_path: Path) -> None:
    given, other = (token(tmp_path / "data", "--agent", agent) for agent in ("ann", "ben"))
    served = start()
    url = urlsplit(served.url)
    hello = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    with ExitStack() as stack:
        opened = [http.client.HTTPConnection("127.0.0.1", url.port, timeout=PATIENCE) for _ in range(4)]
        for connection in opened:
            stack.enter_context(closing(connection))

        def answers(token: str) -> list[int]:
            found = []
            for connection in opened:
                told = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
                told["Authorization"] = f"Bearer {token}"
                connection.request("POST", url.path, message("initialize", **hello), told)
                with connection.getresponse() as response:
                    found.append(response.status)
                    response.read()
            return found

        assert answers(given) == answers(other) == [200] * 4
        run({"BLACKBOARD_DATA": str(tmp_path / "data")}, "token", "revoke", given.split("_")[1])
        until(lambda: answers(given) == [401] * 4, "a worker takes a revoked token")
        assert answers(other) == [200] * 4
    assert served.stop() == 0


def test_workers_share_boards_in_postgresql(start: Start, tmp_path: Path) -> None:
    address = postgres_server.address(tmp_path)
    try:
        served = start("--store", address)
        with ExitStack() as stack:
            wires = [stack.enter_context(closing(served.wire(f"a{n}"))) for n in range(4)]
            found = [posted(wires[n % 4], f"valve {n} holds") for n in range(8)]
            for wire in wires:
                assert texts(wire, *found) == [f"valve {n} holds" for n in range(8)]
            os.kill(served.workers[1], signal.SIGKILL)
        until(lambda: len(served.children()) == 2 and served.workers[1] not in served.children(), "none came")
        with closing(served.wire("bob")) as wire:
            assert texts(wire, found[-1]) == ["valve 7 holds"]
        assert served.stop() == 0
        served.close()
    finally:
        postgres_server.give_back(tmp_path)


def test_a_port_in_use_and_what_no_worker_can_start_with_are_told_once(start: Start, tmp_path: Path) -> None:
    served = start()
    serve = ("serve", "--transport", "http", "--workers", "2")
    port = str(urlsplit(served.url).port)
    there = {"BLACKBOARD_DATA": str(tmp_path / "other")}
    assert f"cannot serve on 127.0.0.1 port {port}" in refused(there, *serve, "--port", port)
    elsewhere = refused(there, *serve, "--port", "0", "--host", "192.0.2.1", "--allowed-hosts", "x.example")
    assert "192.0.2.1 is no address of this machine; choose another with --host" in elsewhere
    told = refused(there, *serve, "--port", "0", "--host", "0.0.0.0")
    assert "allowed-hosts" in told or "allowed_hosts" in told
    assert served.stop() == 0


def test_workers_where_there_cannot_be_several_are_refused_with_what_helps(tmp_path: Path) -> None:
    there = {"BLACKBOARD_DATA": str(tmp_path)}
    assert "Serve with --transport http" in refused(there, "serve", "--workers", "2")
    told = refused(there, "serve", "--transport", "http", "--workers", "2", "--store", "mine:Store")
    assert "store is mine:Store" in told
    for wrong in ("0", "65", "-1"):
        assert "--workers is" in refused(there, "serve", "--transport", "http", "--workers", wrong)
    assert "not a valid integer" in run(there, "serve", "--workers", "two").stderr
    assert not list(tmp_path.iterdir())
