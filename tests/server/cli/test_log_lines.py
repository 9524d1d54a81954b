"""What strangers cause is told in a few lines, all else as it comes."""

from __future__ import annotations

import errno
import io
import logging
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from blackboard_mcp.server.cli import log_lines
from blackboard_mcp.server.cli.log_lines import AT_ONCE, MOST_WAITING, Aside, OneLine, Summaries
from patience import PATIENCE


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """What a handler writes, and the time it goes by."""
    time, out = SimpleNamespace(now=0.0), io.StringIO()
    filter_ = Summaries(monotonic=lambda: time.now)
    monkeypatch.setattr(filter_, "_tell_later", lambda key: None)
    handler = logging.StreamHandler(out)
    handler.setFormatter(OneLine("%(levelname)s %(message)s"))
    handler.addFilter(filter_)
    names = ("blackboard_mcp.server.http.x", "blackboard_mcp.server.pruning.pruner", log_lines.__name__)
    for name in names:
        logging.getLogger(name).addHandler(handler)
    yield SimpleNamespace(
        wire=logging.getLogger(names[0]),
        own=logging.getLogger(names[1]),
        filter=filter_,
        time=time,
        lines=lambda: out.getvalue().splitlines(),
    )
    for name in names:
        logging.getLogger(name).removeHandler(handler)


def test_the_first_lines_of_a_place_are_written_and_the_rest_counted(log: Any) -> None:
    for round_ in range(2):
        for n in range(500):
            log.wire.warning("refused %d in %d", n, round_)
        log.time.now += 61
    assert len(log.lines()) == 2 * AT_ONCE + 1
    assert log.lines()[AT_ONCE].endswith(
        f"{500 - AT_ONCE} more lines of this kind within a minute were left out"
    )


def test_a_place_that_falls_silent_is_told_of_as_well(log: Any) -> None:
    for n in range(30):
        log.wire.warning("refused %d", n)
    for key in list(log.filter._places):
        log.filter._settle(key)
    assert "20 more lines" in log.lines()[-1]
    assert not log.filter._places


def test_errors_tracebacks_and_what_the_server_does_itself_are_all_written(log: Any) -> None:
    for n in range(30):
        log.wire.error("failed %d", n)
        log.own.warning("moved %d", n)
        try:
            raise ValueError("inside")
        except ValueError:
            log.wire.info("odd", exc_info=True)
            log.wire.warning("odd", exc_info=True)
    assert (
        sum(line.startswith(("ERROR failed", "WARNING moved", "WARNING odd")) for line in log.lines()) == 90
    )


def test_a_record_is_one_line_whatever_it_repeats(log: Any) -> None:
    log.wire.warning("a name: %s", "x\nERROR forged\x1b[2K\u2028y")
    assert log.lines() == ["WARNING a name: x\\u000aERROR forged\\u001b[2K\\u2028y"]


def test_records_wait_for_a_reader_in_their_order_and_those_without_room_are_counted() -> None:
    reading, writing = os.pipe()
    handler, sent = Aside(writing), 2 * MOST_WAITING
    for n in range(sent):
        handler.handle(logging.makeLogRecord({"msg": f"{n:04} {'x' * 500}"}))
    numbers, left_out = [], 0
    with os.fdopen(reading) as log:
        while len(numbers) + left_out < sent:
            line = log.readline()
            counted = re.fullmatch(r"(\d+) lines were left out: nobody read the log\n", line)
            if counted:
                left_out += int(counted[1])
            else:
                numbers.append(int(line[:4]))
        assert left_out > 0
        assert numbers == sorted(set(numbers))
        handler.handle(logging.makeLogRecord({"msg": "the last"}))
        handler.flush()
        assert log.readline() == "the last\n"
    os.close(writing)


def test_records_that_could_not_be_written_are_counted_once_they_can_be(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)  # whoever writes fails, as on a full disk
    handler = Aside(writing)
    for n in range(3):
        handler.handle(logging.makeLogRecord({"msg": f"lost {n}"}))
    handler.flush()
    log = tmp_path / "log"
    with log.open("wb") as file:
        os.dup2(file.fileno(), writing)
    for n in range(2):
        handler.handle(logging.makeLogRecord({"msg": f"written {n}"}))
    handler.flush()
    os.close(writing)
    assert log.read_text("utf-8").split("\n") == [
        *("", "3 lines were left out: they could not be written", "written 0", "written 1", "")
    ]


def test_no_lost_record_is_counted_twice_where_there_is_room_for_the_count_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = 0

    def write(fd: int, data: bytes) -> None:
        nonlocal room
        written = os.write(fd, data[:room])
        room -= written
        if written < len(data):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(log_lines, "write_all", write)
    count = "\n1 lines were left out: they could not be written\n"
    with (tmp_path / "log").open("wb") as file:
        handler = Aside(file.fileno())
        for n, more in enumerate((3, len(count), 1000)):
            room = more
            handler.handle(logging.makeLogRecord({"msg": f"record {n}"}))
            handler.flush()
    said = (tmp_path / "log").read_text("utf-8")
    assert sum(map(int, re.findall(r"^(\d+) lines were left out", said, re.MULTILINE))) == 2
    assert said.endswith("\nrecord 2\n")


def test_all_that_waits_is_written_before_the_end_also_where_there_is_no_more_room() -> None:
    reading, writing = os.pipe()
    handler = Aside(writing)
    for n in range(2 * MOST_WAITING):
        handler.handle(logging.makeLogRecord({"msg": f"{n:04} {'x' * 500}"}))
    read: list[bytes] = []

    def drain() -> None:
        while data := os.read(reading, 65_536):
            read.append(data)

    reader = threading.Thread(target=drain, daemon=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_lines, "_LAST_SECONDS", PATIENCE)
        reader.start()
        handler.flush()
    os.close(writing)
    reader.join()
    os.close(reading)
    assert b"".join(read).count(b"\n") > MOST_WAITING


_COLLECTING = """
import gc, logging, os
from blackboard_mcp.server.cli.log_lines import Aside

class Fallen:  # garbage in a circle, whose collection logs, as that of a task that failed unnoticed does
    def __init__(self):
        self.itself = self

    def __del__(self):
        logging.getLogger("fallen").error("a task failed")

handler = Aside(os.open(os.devnull, os.O_WRONLY))
logging.getLogger("fallen").addHandler(handler)
for n in range(20_000):
    gc.set_threshold(1 + n % 50)
    Fallen()
    handler.handle(logging.makeLogRecord({"msg": "a line"}))
"""


def test_what_is_logged_by_the_collection_of_garbage_amid_another_record_holds_up_nobody() -> None:
    subprocess.run([sys.executable, "-c", _COLLECTING], timeout=PATIENCE, check=True)
