"""A server whose machine's clock is set back and forth while it works: order, times to live and callers bear it."""

from __future__ import annotations

import contextlib
import http.client
import threading
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import moved_clock
import pytest
from injecting import Poster, Server, health, log_of, tool, wires
from patience import PATIENCE, until

DAY = 86_400


class Clock(moved_clock.Clock):
    """The clock of a server, which is told when the server has seen it."""

    def move(self, server: Server, seconds: int) -> None:
        """The same, seen by the server."""
        self.set(seconds)
        address = urlsplit(server.url)
        until(lambda: abs(told(address.netloc) - time.time() - seconds) < 60)


def told(address: str) -> float:
    """What a server's clock says."""
    connection = http.client.HTTPConnection(address, timeout=PATIENCE)
    with contextlib.closing(connection):
        connection.request("GET", "/livez")
        response = connection.getresponse()
        response.read()
        return parsedate_to_datetime(response.headers["Date"]).timestamp()


@pytest.fixture
def clock(tmp_path: Path) -> Clock:
    moved_clock.needs_faketime()
    return Clock(tmp_path)


@pytest.fixture
def server(tmp_path: Path, clock: Clock) -> Iterator[Server]:
    server = Server(tmp_path / "data", tmp_path / "log", "--target-tokens", "600")
    server.start(*clock.before)
    try:
        yield server
    finally:
        server.abandon()


def waiting(server: Server) -> tuple[threading.Thread, list[dict[str, Any]]]:
    """Somebody's call for news, under way, and what it gets."""
    heard: list[dict[str, Any]] = []

    def wait() -> None:
        cid = wires.HttpWire(server.url, server.pid, "cid", modern=True)
        tool(cid, "wait", since=0)  # all there is
        caught_up.set()
        heard.append(tool(cid, "wait", seconds=50))
        cid.close()

    caught_up = threading.Event()
    thread = threading.Thread(target=wait)
    thread.start()
    assert caught_up.wait(PATIENCE)
    return thread, heard


def test_I17_a_clock_that_jumps_under_a_server_loses_nothing_and_holds_up_nobody(
    server: Server, clock: Clock
) -> None:
    poster = Poster(size=200)
    for _ in range(15):
        assert poster.post(server.wire) is None
    thread, heard = waiting(server)
    clock.move(server, -2 * DAY)
    bob = wires.HttpWire(server.url, server.pid, "bob", modern=True)
    tool(bob, "post", text="who waits hears of it: @cid", type="FACT")
    bob.close()
    thread.join(PATIENCE)
    (news,) = heard
    assert [event["agent"] for event in news["events"]] == ["bob"]
    for away in (0, 3_653 * DAY, -2 * DAY):
        clock.move(server, away)
        for _ in range(10):
            assert poster.post(server.wire) is None, "rates go by what has passed, not by the clock"
    left = until(lambda: [e for e in log_of(server.wire) if e["event"] == "item.archived"])
    assert left, "passes go on"
    poster.check(server.wire)
    assert health(server.url) == (200, "ok")
    assert server.stop() == 0
    # Started where the clock says that the newest change is yet to come.
    clock.set(-3_653 * DAY)
    server.start(*clock.before)
    assert poster.post(server.wire) is None
    poster.check(server.wire)
    assert "Traceback" not in server.said()


def test_I36_a_time_to_live_ends_by_the_clock_once_and_what_is_left_of_it_is_no_longer_than_the_jump(
    server: Server, clock: Clock
) -> None:
    posted = tool(server.wire, "post", text="a lock for an hour", type="LOG", ttl_seconds=3_600)
    id_ = posted["items"][0]["id"]

    def zone() -> str:
        return str(tool(server.wire, "read", ids=[id_])["items"][0]["zone"])

    clock.move(server, -DAY)
    tool(server.wire, "post", text="something to sweep after", type="LOG", ttl_seconds=1)
    until(lambda: [e for e in log_of(server.wire) if e["event"] == "item.expired"])
    assert zone() == "working"
    clock.move(server, 2 * 3_600)
    until(lambda: zone() == "archive")
    clock.move(server, 0)
    assert zone() == "archive"
    expired = [e["item"] for e in log_of(server.wire) if e["event"] == "item.expired"]
    assert expired.count(id_) == 1
