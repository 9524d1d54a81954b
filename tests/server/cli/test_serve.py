"""`serve` on a terminal: a person is told what it waits for, on standard error and nowhere else.

Nor does it need anybody to read there.
"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE, RUN

SERVE = [Path(sys.executable).with_name("blackboard-mcp"), "serve"]


def test_on_a_terminal_serve_says_what_it_waits_for_and_how_to_get_http(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    server = subprocess.Popen(
        [*SERVE, "--data", tmp_path], stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    os.close(theirs)
    assert server.stderr is not None
    said = [server.stderr.readline() for _ in range(4)]
    assert "waits for an MCP client" in said[0]
    assert said[1].rstrip().endswith("blackboard-mcp serve --transport http")
    os.write(ours, b"\x04")
    out, rest = server.communicate(timeout=PATIENCE)
    os.close(ours)
    assert (server.returncode, out, rest) == (0, "", "")


def heed_interrupts() -> None:
    """Tests that run in the background of a shell are begun with interrupts ignored, and so is what they begin."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_ctrl_c_on_a_terminal_ends_serve_without_a_word(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    try:
        with subprocess.Popen(
            [*SERVE, "--data", tmp_path],
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=heed_interrupts,
        ) as server:
            os.close(theirs)
            assert server.stderr is not None
            assert [server.stderr.readline() for _ in range(4)][3] == "Ctrl-C ends it.\n"
            server.send_signal(signal.SIGINT)
            out, rest = server.communicate(timeout=PATIENCE)
    finally:
        os.close(ours)
    assert (server.returncode, out, rest) == (130, "", "")


def test_to_a_client_serve_says_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [*SERVE, "--data", tmp_path],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_without_standard_error_serve_ends_well(tmp_path: Path) -> None:
    done = subprocess.run(
        [*SERVE, "--data", tmp_path],
        input='{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n',
        stdout=subprocess.PIPE,
        text=True,
        timeout=RUN,
        preexec_fn=lambda: os.close(2),
    )
    assert (done.returncode, json.loads(done.stdout)["id"]) == (0, 1)


def test_with_closed_standard_streams_a_server_over_http_ends_in_order(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*SERVE, "--transport", "http", "--port", "0", "--data", tmp_path],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: os.closerange(0, 2),
    ) as server:
        assert server.stderr is not None
        assert server.stderr.readline().startswith("blackboard-mcp serves ")
        server.terminate()
        _, rest = server.communicate(timeout=PATIENCE)
    assert "Assertion" not in rest
    assert server.returncode == 0


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("serve",), 0, ""),
        (("hook", "stop"), 1, "there is no board 'main'"),
        (("post", "-"), 2, "no text on standard input"),
        (("intake",), 1, "1 to 200 lines of JSON, not 0"),
    ],
)
def test_a_closed_standard_input_is_taken_for_an_empty_one(
    tmp_path: Path, words: tuple[str, ...], status: int, said: str
) -> None:
    subprocess.run([*SERVE, "--data", tmp_path], stdin=subprocess.DEVNULL, check=True, timeout=RUN)
    done = subprocess.run(
        [SERVE[0], *words, "--data", tmp_path],
        capture_output=True,
        text=True,
        timeout=RUN,
        preexec_fn=lambda: os.close(0),
    )
    assert done.returncode == status, done
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_client_that_never_reads_the_log_is_answered(tmp_path: Path) -> None:
    unread, log = os.pipe()
    os.set_blocking(log, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(log, b"x" * 512)
    os.set_blocking(log, True)
    asked = [{"jsonrpc": "2.0", "id": n, "method": "ping"} for n in range(50)]
    try:
        done = subprocess.run(
            [*SERVE, "--data", tmp_path, "--log-level", "DEBUG"],
            input="".join(json.dumps(ping) + "\n" for ping in asked),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            timeout=PATIENCE,
        )
    finally:
        os.close(log)
        os.close(unread)
    assert done.returncode == 0
    assert [json.loads(answer)["id"] for answer in done.stdout.splitlines()] == list(range(50))
