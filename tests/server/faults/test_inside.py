"""A store that fails tells callers what to do and nothing of the inside, and its server says that it is not ready.

Server processes over HTTP in both generations; the log has what the answers leave out.
"""

from __future__ import annotations

import http.client
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import judge
import pytest
from patience import PATIENCE

wires = judge.wires
DRIVER = (b"disk image", b"malformed", b"database", b"disk I/O")


def damaged(file: Path) -> None:
    """All but the first page is overwritten, in place: what is open stays open."""
    size = file.stat().st_size
    handle = os.open(file, os.O_WRONLY)
    os.pwrite(handle, b"\xa5" * (size - 4_096), 4_096)
    os.close(handle)


def moved(file: Path) -> None:
    file.rename(file.with_name("elsewhere.sqlite3"))


def health(url: str, path: str = "/healthz") -> tuple[int, str]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, json.loads(response.read())["status"]
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("harm", "status", "logged"),
    [(damaged, "failing", "malformed"), (moved, "stopped", "moved, replaced or deleted")],
)
def test_a_store_that_fails_tells_nothing_of_the_inside_and_is_not_ready(
    tmp_path: Path, harm: Callable[[Path], None], status: str, logged: str
) -> None:
    data, log = tmp_path / "secret-place", tmp_path / "log"
    with wires.http_process(data, tmp_path / "first.log") as (url, pid):
        wire = wires.HttpWire(url, pid, "ada", modern=True)
        for n in range(40):
            judge.good(wire, "post", json.dumps({"text": f"{n} " + "word " * 1_000}))
        wire.close()
    with wires.http_process(data, log) as (url, pid):
        both = [wires.HttpWire(url, pid, "ada", modern=modern) for modern in (True, False)]
        assert health(url) == (200, "ok")
        harm(data / "board.sqlite3")
        until = time.monotonic() + PATIENCE
        while health(url)[1] != status:
            assert time.monotonic() < until, health(url)
            time.sleep(0.2)
        assert health(url) == (503, status)
        assert health(url, "/livez") == (200, "ok")
        refused = 0
        for wire in both:
            for tool, given in (
                ("post", '{"text": "x"}'),
                ("read", '{"ids": ["F-1", "F-20"]}'),
                ("query", '{"text": "word"}'),
                ("debate", '{"op": "status", "id": "F-2"}'),
                ("board", "{}"),
            ):
                told = wires.call(wire, tool, given).raw
                if b'isError":true' in told or b'"error"' in told:
                    refused += 1
                    assert str(tmp_path).encode() not in told
                    assert not judge.LEAKS.search(told), told
                    assert not [word for word in DRIVER if word in told], told
                    assert b"who runs the server" in told or b"start again" in told, told
            read = wires.ask(wire, "resources/read", '"uri": "board://main/items/F-20"').raw
            assert not judge.LEAKS.search(read), read
            assert not [word for word in DRIVER if word in read], read
            wire.close()
        assert refused >= 2
    said = log.read_text("utf-8", "replace")
    assert logged in said
    assert "Traceback" not in said
