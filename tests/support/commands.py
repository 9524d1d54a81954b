"""Helpers that run the product's commands as people do, on a folder or on a server that asks for tokens."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from blackboard_mcp.server.demo.process import environment
from patience import PATIENCE, RUN

PROGRAM = (sys.executable, "-m", "blackboard_mcp.server")


def run(given: dict[str, str], *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Runs a command with these variables in its environment, and returns its result."""
    return subprocess.run(
        [*PROGRAM, *words],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=RUN,
        env=environment() | given,
    )


def said(given: dict[str, str], *words: str, stdin: str = "") -> str:
    """Runs a command that must succeed without any line on standard error, and returns its output."""
    done = run(given, *words, stdin=stdin)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


def answered(given: dict[str, str], *words: str) -> dict[str, Any]:
    """Runs a command with `--json`, and returns its parsed output."""
    answer: dict[str, Any] = json.loads(said(given, *words, "--json"))
    return answer


def refused(given: dict[str, str], *words: str) -> str:
    """Runs a command that must fail, and returns its error of one line."""
    done = run(given, *words)
    assert (done.returncode, done.stdout) == (1, ""), done
    assert len(done.stderr.splitlines()) == 1, done.stderr
    return done.stderr


def on_terminal(given: dict[str, str], *words: str) -> str:
    """Returns what a command writes to a terminal of 80 columns."""
    import pty  # missing on Windows

    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*PROGRAM, *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment() | {"TERM": "xterm-256color", "COLUMNS": "80", **given},
    ) as process:
        os.close(theirs)
        found = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # the command has closed its end
                break
            if not piece:
                break
            found += piece
        assert process.wait(PATIENCE) == 0, found
    os.close(ours)
    return found.decode()


def token(data: Path, *words: str) -> str:
    """Makes an access token by the command, and returns its text."""
    return run({"BLACKBOARD_DATA": str(data)}, "token", "create", *words).stdout.strip()


@contextmanager
def serving(data: Path, port: int = 0, *more: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Runs a server that asks for tokens and has all tools, with `more` options; yields its URL and its process.

    The process may be ended before the context is left.
    """
    words = ("serve", "--transport", "http", "--port", str(port), "--data", str(data), "--tools", "all")
    with subprocess.Popen(
        [*PROGRAM, *words, "--auth", "token", *more],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as process:
        assert process.stderr is not None
        url = process.stderr.readline().removeprefix("blackboard-mcp serves ").strip()
        draining = threading.Thread(target=process.stderr.read)
        draining.start()
        try:
            yield url, process
        finally:
            process.terminate()
            process.wait(PATIENCE)
            draining.join()
