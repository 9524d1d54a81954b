"""SIGTERM or SIGHUP while everybody is at work: what was acknowledged is there, and the process ends in order."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from injecting import Poster, Server, log_of, wires
from patience import PATIENCE, until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGTERM")

POSTERS = 32
POSTS = 200
GONE = (OSError, http.client.HTTPException, ConnectionError, AssertionError, ValueError)
"""What a client meets whose server stops: AssertionError is an answer that was cut off."""


def test_a_server_over_http_that_is_told_to_stop_under_load_loses_nothing(server: Server) -> None:
    posters = [Poster(f"p{n}") for n in range(POSTERS)]
    some = threading.Semaphore(0)
    stopping = threading.Event()
    wrong: list[BaseException] = []
    pid, url = server.pid, server.url

    def live(work: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                work()
            except GONE as error:
                if not stopping.is_set():
                    wrong.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def post(n: int) -> None:
        wire = wires.HttpWire(url, pid, f"p{n}", modern=n % 2 == 0)
        with contextlib.closing(wire):
            while not stopping.is_set():
                refused = posters[n].post(wire)
                assert refused is None or stopping.is_set()
                some.release()

    def wait() -> None:
        wire = wires.HttpWire(url, pid, "waiter", modern=True)
        with contextlib.closing(wire):
            wires.call(wire, "wait", json.dumps({"since": 1_000_000, "seconds": 50}))

    def listen() -> None:
        address = urlsplit(url)
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=PATIENCE)
        with contextlib.closing(connection):
            connection.request("GET", "/boards/main/events", headers={"X-Blackboard-Agent": "ear"})
            response = connection.getresponse()
            assert response.status == 200
            while response.read1(4_096):
                pass

    assert Poster("first").post(server.wire) is None
    threads = [live(lambda n=n: post(n)) for n in range(POSTERS)]  # type: ignore[misc]
    threads += [live(work) for work in (wait, wait, listen, listen)]
    try:
        for _ in range(POSTS):
            assert some.acquire(timeout=PATIENCE)
        assert not wrong
    finally:
        stopping.set()
        code = server.stop()
        for thread in threads:
            thread.join(PATIENCE)
    assert not wrong
    said = server.log.read_text()
    assert code == 0, said
    assert "Traceback" not in said
    server.start()
    # What was under way at that moment is tried again.
    for poster in posters:
        wire = wires.HttpWire(server.url, server.pid, poster.agent, modern=True)
        with contextlib.closing(wire):
            assert poster.post(wire) is None
    events = log_of(server.wire)
    for poster in posters:
        poster.check(server.wire, events)
    done = sum(len(poster.journal) for poster in posters)
    print(
        f"{done} posts by {POSTERS} agents, "
        f"{sum(poster.repeated for poster in posters)} had been committed and not acknowledged"
    )


def test_a_call_that_waits_for_a_model_when_the_server_stops_is_told_so(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as model:  # it never answers
        address = f"http://127.0.0.1:{model.getsockname()[1]}/v1"
        options = ("--tools", "all", "--capture", "model", "--summariser", "openai", "--summary-model", "m")
        server = Server(tmp_path / "data", tmp_path / "log", *options, "--summary-url", address)
        server.start()
        told: list[Any] = []

        def ask() -> None:
            with contextlib.closing(wires.HttpWire(server.url, server.pid, "ada", modern=True)) as wire:
                told.append(
                    wires.call(wire, "constraint", json.dumps({"message": "Green buttons look cheap."}))
                )

        thread = threading.Thread(target=ask)
        thread.start()
        asked, _ = model.accept()
        with asked:
            code = server.stop()
            thread.join(PATIENCE)
    assert code == 0
    (reply,) = told
    assert reply.status == 503
    assert reply.message["error"]["data"]["error"] == "stopping"
    assert "make the same call again with the idempotency_key" in reply.message["error"]["message"]
    assert "Traceback" not in server.log.read_text()


def test_a_server_under_nohup_goes_on_when_its_terminal_is_closed(tmp_path: Path) -> None:
    server = Server(tmp_path / "data", tmp_path / "log")
    server.start(preexec=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    os.kill(server.pid, signal.SIGHUP)
    assert Poster("ada").post(server.wire) is None
    assert server.stop() == 0


@pytest.mark.usefixtures("hangups")
@pytest.mark.parametrize(
    ("modern", "told"),
    [(True, signal.SIGTERM), (False, signal.SIGTERM), (True, signal.SIGHUP)],
    ids=["modern", "legacy", "hang-up"],
)
def test_a_server_over_stdio_that_is_told_to_stop_loses_nothing(
    tmp_path: Path, modern: bool, told: signal.Signals
) -> None:
    poster = Poster()
    words = wires.command("serve", "--transport", "stdio", "--data", str(tmp_path / "data"), "--agent", "ada")

    def start() -> tuple[subprocess.Popen[bytes], Any]:
        with (tmp_path / "log").open("ab") as log:
            process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=wires.environment()
            )
        return process, wires.StdioWire(process, modern=modern)

    process, wire = start()
    stopping = threading.Event()

    def post() -> None:
        with contextlib.suppress(*GONE):
            while True:
                if poster.post(wire) is not None:
                    assert stopping.is_set()
                    return

    thread = threading.Thread(target=post)
    thread.start()
    until(lambda: len(poster.journal) >= 20)
    stopping.set()
    process.send_signal(told)
    code = process.wait(PATIENCE)
    assert code == 0, (tmp_path / "log").read_text()
    thread.join(PATIENCE)
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        with contextlib.suppress(OSError):
            pipe.close()
    process, wire = start()
    assert poster.post(wire) is None
    poster.check(wire)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    assert process.wait(PATIENCE) == 0
    process.stdout.close()
    assert "Traceback" not in (tmp_path / "log").read_text()
