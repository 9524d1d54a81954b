"""A server that may open no more files: it goes on for those who are connected, and for all when it may again."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from typing import Any
from urllib.parse import urlsplit

import pytest
from injecting import Poster, Server, health, tool, wires
from patience import PATIENCE, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="prlimit is of Linux")


def test_a_server_without_file_handles_survives_and_takes_clients_again_when_they_are_given_back(
    server: Server,
) -> None:
    import resource

    poster = Poster()
    assert poster.post(server.wire) is None
    address = urlsplit(server.url)
    used = len(os.listdir(f"/proc/{server.pid}/fd"))
    _, hard = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (used + 8, hard))
    with contextlib.ExitStack() as stack:
        # They take all that is left, and more wait to be accepted.
        for _ in range(30):
            taken = socket.create_connection((address.hostname, address.port), timeout=PATIENCE)
            stack.callback(taken.close)
        until(lambda: len(os.listdir(f"/proc/{server.pid}/fd")) >= used + 8)
        # Who is connected works on.
        for _ in range(5):
            assert poster.post(server.wire) is None
            assert tool(server.wire, "read")
        with pytest.raises(OSError):  # noqa: PT011 - nobody answers
            answer_within(server.url, 1.0)
    # All are given back, once the server has seen that they left: until then it closes who comes.
    until(lambda: len(os.listdir(f"/proc/{server.pid}/fd")) <= used + 2)
    answered = wires.HttpWire(server.url, server.pid, "bob", modern=True)
    with contextlib.closing(answered):
        assert tool(answered, "read")
    assert health(server.url) == (200, "ok")
    # A low limit from now on, with clients that come and go.
    for n in range(20):
        passing = wires.HttpWire(server.url, server.pid, f"p{n}", modern=n % 2 == 0)
        with contextlib.closing(passing):
            assert tool(passing, "read")
    poster.check(server.wire)
    said = server.said()
    assert len(said) < 100_000, "it floods its log"
    assert server.stop() == 0
    server.start()
    poster.check(server.wire)


def answer_within(url: str, seconds: float) -> Any:
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port), timeout=seconds) as asking:
        asking.sendall(f"GET /healthz HTTP/1.1\r\nHost: {address.netloc}\r\n\r\n".encode())
        if not (answer := asking.recv(1_000)):
            raise OSError("closed without a word")
        return answer
