"""Writes and syncs that fail, one by one, under a server that works: nothing acknowledged is lost.

At night every index of every call is tried, and with posts that make SQLite empty its log; so is every index of a
start after a crash, of which by day there is the first.
"""

from __future__ import annotations

import contextlib
import http.client
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from injecting import Poster, Server, health, injected, needs_strace, tool, tracing, was_injected
from profiles import NIGHTLY

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="strace is of Linux")

SYNCS = "fsync,fdatasync"
"""Which of them depends on how SQLite was built."""
POSTS = 3
"""Posts in a run: the faults are at each of their calls."""


@pytest.fixture(autouse=True)
def strace() -> None:
    needs_strace()


def posting_run(server: Server, poster: Poster, call: str, error: str, when: str, log: Path) -> Any:
    """Posts until one fails or all are done: the error, `None` when there was none; and whether one was injected."""
    refused = None
    with injected(server.pid, server.data, call, error, when, log):
        for _ in range(POSTS):
            refused = poster.post(server.wire)
            if refused is not None:
                break
    return refused, was_injected(log)


@pytest.mark.parametrize("call", ["pwrite64", "ftruncate", "write"] if NIGHTLY else ["pwrite64"])
def test_every_write_without_room_refuses_its_post_and_the_next_one_works(
    server: Server, tmp_path: Path, call: str
) -> None:
    poster = Poster(size=180_000 if NIGHTLY else 60)
    assert poster.post(server.wire) is None
    refusals = tried = misses = said_full = 0
    # A run without an injection has fewer calls than asked for: two in a row are the end.
    step = 1 if NIGHTLY else 2
    while misses < 2 and (NIGHTLY or tried < 20):
        tried += 1
        before = len(poster.journal)
        refused, reached = posting_run(server, poster, call, "ENOSPC", str(tried * step), tmp_path / "trace")
        misses = 0 if reached else misses + 1
        if refused is not None:
            refusals += 1
            assert refused["error"] == "full"
            assert "storage full" in refused["message"]
            assert "Nothing was changed" in refused["message"]
            # It says so, until some write of the server's own finds room; and reading goes on.
            code, status = health(server.url)
            assert code == 200
            said_full += status == "full"
            last, text = poster.journal[-1]
            assert tool(server.wire, "read", ids=[last])["items"][0]["text"] == text
            # There is room again: no restart.
            assert poster.post(server.wire) is None
            assert health(server.url) == (200, "ok")
        assert len(poster.journal) > before
        server.said()  # empties the pipe, which holds what hundreds of failures say no more
    poster.check(server.wire)
    print(f"{call} ENOSPC: {tried} indices, {refusals} posts refused, {len(poster.journal)} acknowledged")
    if call == "pwrite64":
        assert refusals > 10
        assert said_full > 0
        said = server.said()
        assert said.count("the store does not write") >= refusals
        assert "the store writes again" in said
        assert "Traceback" not in said
    assert server.stop() == 0
    server.start()
    poster.check(server.wire)


Case = tuple[str, str, Iterable[int]]
CASES: list[list[Case]] = [[("pwrite64", "EIO", (2,)), (SYNCS, "EIO", (1,))]]
"""Each with a server of its own."""
if NIGHTLY:
    CASES = [
        [("pwrite64", "EIO", range(1, 91))],
        [("ftruncate", "EIO", range(1, 3))],
        [(SYNCS, "EIO", range(1, 4))],
        [(SYNCS, "ENOSPC", range(1, 4))],
    ]


@pytest.mark.parametrize("cases", CASES, ids=str)
def test_a_disk_that_fails_stops_writing_until_a_restart_which_loses_nothing_acknowledged(
    server: Server, tmp_path: Path, cases: list[Case]
) -> None:
    poster = Poster()
    assert poster.post(server.wire) is None
    stops = unknown = 0
    for call, error, index in [(call, error, index) for call, error, indices in cases for index in indices]:
        refused, reached = posting_run(server, poster, call, error, str(index), tmp_path / "trace")
        assert (refused is not None) is reached
        if refused is None:
            break
        stops += 1
        assert refused["error"] == "closed"
        assert "read-only until the server is restarted" in refused["message"]
        assert "idempotency_key" in refused["message"]
        # The disk is well again, and after a failed sync a second try would lie: it is refused.
        again = poster.post(server.wire)
        assert again is not None
        assert again["message"] == refused["message"]
        assert health(server.url) == (503, "stopped")
        last, text = poster.journal[-1]
        assert tool(server.wire, "read", ids=[last])["items"][0]["text"] == text
        assert tool(server.wire, "query", text=text.split(":")[0])["items"]
        said = server.said()
        assert said.count("the store does not write") == stops
        assert "Traceback" not in said
        code = server.stop(signal.SIGTERM if index % 2 else signal.SIGKILL)
        assert code == (0 if index % 2 else -signal.SIGKILL)
        server.start()
        assert health(server.url) == (200, "ok")
        assert poster.post(server.wire) is None
        unknown = poster.repeated
    assert stops >= len(cases) or cases[0][0] == "ftruncate"
    poster.check(server.wire)
    print(f"{cases}: {stops} stops; {unknown} of the refused posts were there after the restart")


STARTS = [("pwrite64", (1,))]
if NIGHTLY:
    STARTS = [("pwrite64", range(1, 91)), (SYNCS, range(1, 9)), ("ftruncate", range(1, 5))]


@pytest.mark.parametrize(("call", "indices"), STARTS, ids=str)
def test_a_disk_that_fails_at_the_start_after_a_crash_is_named_and_the_next_start_loses_nothing(
    server: Server, tmp_path: Path, call: str, indices: Iterable[int]
) -> None:
    poster = Poster()
    refusals = 0
    for index in indices:
        assert poster.post(server.wire) is None
        # What a process that died leaves in its log is brought home at the next start.
        assert server.stop(signal.SIGKILL) == -signal.SIGKILL
        log = tmp_path / f"trace-{index}"
        refused = ""
        try:
            # -D: the process is the server, and strace its child.
            server.start(*tracing(server.data, call, "EIO", str(index), log, "-D"))
        except RuntimeError as error:
            refused = str(error)
        if refused:
            refusals += 1
            assert "the disk failed" in refused
            assert "Traceback" not in refused
        else:
            assert server.stop() == 0
        server.start()
        poster.check(server.wire)
        if not was_injected(log):
            break
    assert refusals > 0 or call == "ftruncate"
    assert poster.post(server.wire) is None


DATABASE = ("",)
"""The database file alone, which only a checkpoint writes to while the server runs."""
UNTIL_A_CHECKPOINT = 200
"""Posts of 100,000 characters, more than enough to make a checkpoint due."""


@pytest.mark.parametrize("call", ["pwrite64", SYNCS])
def test_a_checkpoint_for_which_the_disk_fails_stops_writing_and_leaves_its_log_to_the_next_start(
    server: Server, tmp_path: Path, call: str
) -> None:
    poster = Poster(size=100_000)
    refused = None
    with injected(server.pid, server.data, call, "EIO", "1", tmp_path / "trace", files=DATABASE):
        for _ in range(UNTIL_A_CHECKPOINT):
            if (refused := poster.post(server.wire)) is not None:
                break
    # The writer, which would meet the fault as well, does not try again what failed.
    assert (tmp_path / "trace").read_text(errors="replace").count("(INJECTED)") == 1
    assert refused is not None
    assert "read-only until the server is restarted" in refused["message"]
    assert health(server.url) == (503, "stopped")
    last, text = poster.journal[-1]
    assert tool(server.wire, "read", ids=[last])["items"][0]["text"] == text
    said = server.said()
    assert said.count("the store does not write") == 1
    assert "Traceback" not in said
    # An orderly end would copy the rest of the log and remove it, though what was copied before may be lost.
    assert server.stop() == 0
    assert (server.data / "board.sqlite3-wal").stat().st_size > 0
    server.start()
    assert poster.post(server.wire) is None
    poster.check(server.wire)


def test_a_checkpoint_without_room_refuses_no_post_and_a_later_one_copies_all(
    server: Server, tmp_path: Path
) -> None:
    poster = Poster(size=100_000)
    with injected(server.pid, server.data, "pwrite64", "ENOSPC", "1+", tmp_path / "trace", files=DATABASE):
        before = failed = 0
        for _ in range(UNTIL_A_CHECKPOINT):
            assert poster.post(server.wire) is None
            before, failed = failed, (tmp_path / "trace").read_text(errors="replace").count("(INJECTED)")
            # strace that leaves in the middle of a call makes it fail as one that the system does not have.
            if failed and failed == before:
                break
    assert was_injected(tmp_path / "trace")
    assert poster.post(server.wire) is None
    assert health(server.url) == (200, "ok")
    assert server.stop() == 0
    assert not (server.data / "board.sqlite3-wal").exists()
    server.start()
    poster.check(server.wire)


@pytest.mark.parametrize(("call", "when"), [("pwrite64", 1), ("pwrite64", 300), (SYNCS, 1)])
def test_a_process_killed_in_a_checkpoint_loses_nothing(
    server: Server, tmp_path: Path, call: str, when: int
) -> None:
    poster = Poster(size=100_000)
    with (
        contextlib.suppress(OSError, http.client.HTTPException),
        injected(server.pid, server.data, call, "SIGKILL", str(when), tmp_path / "trace", files=DATABASE),
    ):
        for _ in range(UNTIL_A_CHECKPOINT):
            assert poster.post(server.wire) is None
    assert server.stop(signal.SIGKILL) == -signal.SIGKILL
    assert len(poster.journal) < UNTIL_A_CHECKPOINT
    server.start()
    assert poster.post(server.wire) is None
    poster.check(server.wire)
