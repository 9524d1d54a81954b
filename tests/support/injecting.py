"""A real server process whose system calls on its files fail as told, and posts to it with a journal.

strace is attached to the running process, so that one server serves for many faults.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import wires
from blackboard_mcp.protocols.items import content_hash
from patience import PATIENCE


def needs_strace() -> None:
    """Skips the test if strace cannot trace other processes; in CI the test fails instead."""
    if (lacking := _lacking()) is not None:
        if os.environ.get("CI"):
            pytest.fail(f"{lacking}: .ci/run brings it")
        pytest.skip(lacking)


@cache
def _lacking() -> str | None:
    if shutil.which("strace") is None:
        return "needs strace, which makes disks fail"
    with subprocess.Popen(["sleep", "60"]) as other:
        words = ["strace", "-p", str(other.pid)]
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as tracer:
            assert tracer.stderr is not None
            said = tracer.stderr.readline()
            tracer.terminate()
        other.terminate()
    return None if "attached" in said else "needs the right to trace with strace, which makes disks fail"


FILES = ("", "-wal", "-shm", "-journal")
"""How the names of the store's files end."""


def tracing(
    folder: Path, call: str, error: str, when: str, log: Path, *more: str, files: Sequence[str] = FILES
) -> list[str]:
    """Returns the command line by which strace makes calls on the store's files fail.

    `error` is the error's name, or a signal such as SIGKILL, which the process gets at the call.
    """
    database = folder / "board.sqlite3"
    paths = [word for end in files for word in ("-P", f"{database}{end}")]
    what = "signal" if error.startswith("SIG") else "error"
    fault = ("-e", f"trace={call}", "-e", f"inject={call}:{what}={error}:when={when}")
    return ["strace", "-f", "-o", str(log), *more, *paths, *fault]


@contextmanager
def injected(
    pid: int, folder: Path, call: str, error: str, when: str, log: Path, *, files: Sequence[str] = FILES
) -> Iterator[None]:
    """Makes a system call on the store's files fail with `error` while the context is entered; see `tracing`.

    `when` is counted for each thread, as in strace: "3" is the third call only, "3+" each from the third on.
    A killed process ends its strace too. An strace that is asked to end just then may wait for ever for threads
    that die, so it is not asked, and an strace that stays is killed.
    """
    process = subprocess.Popen(
        tracing(folder, call, error, when, log, "-p", str(pid), files=files),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    said = process.stderr.readline()
    try:
        assert "attached" in said, said
        yield
    finally:
        if not error.startswith("SIG"):
            process.send_signal(signal.SIGINT)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(PATIENCE)
        process.stderr.close()


def was_injected(log: Path) -> bool:
    """Tells whether strace's log shows a failed call."""
    return "(INJECTED)" in log.read_text(errors="replace")


@dataclass
class Poster:
    """Posts of one agent in order, each with an idempotency key; `journal` holds the acknowledged ones."""

    agent: str = "ada"
    size: int = 60
    journal: list[tuple[str, str]] = field(default_factory=list)
    """The id and text of each acknowledged post."""
    repeated: int = 0

    def post(self, wire: Any) -> dict[str, Any] | None:
        """Sends the next post; returns `None` if it was acknowledged, else the error with its facts.

        A failed post is sent again by the next call.
        """
        n = len(self.journal)
        text = f"{self.agent} {n}: " + "x" * self.size
        words = json.dumps({"text": text, "type": "LOG", "idempotency_key": f"{self.agent}-{n}"})
        message = wires.call(wire, "post", words).message
        assert message is not None
        assert "result" in message, message
        result = message["result"]
        if result["isError"]:
            found: dict[str, Any] = result["structuredContent"]
            return found
        answer = result["structuredContent"]
        self.repeated += answer["repeated"]
        self.journal.append((answer["items"][0]["id"], text))
        return None

    def check(self, wire: Any, events: list[dict[str, Any]] | None = None) -> None:
        """Checks that each acknowledged post is there once, byte for byte.

        The log must have no gap, and no other posts of the agent.
        """
        few = 40 if self.size < 10_000 else 4  # an answer has at most 1 MiB
        for start in range(0, len(self.journal), few):
            part = self.journal[start : start + few]
            found = tool(wire, "read", ids=[id_ for id_, _ in part])["items"]
            assert [(item["id"], item["text"]) for item in found] == part
            assert all(item["sha256"] == content_hash(item["text"]) for item in found)
        assert len({id_ for id_, _ in self.journal}) == len(self.journal)
        events = log_of(wire) if events is None else events
        assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
        posted = [e["item"] for e in events if e["event"] == "item.posted" and e["agent"] == self.agent]
        assert posted == [id_ for id_, _ in self.journal], "something was lost, or came twice"


def tool(wire: Any, name: str, **arguments: Any) -> dict[str, Any]:
    """Calls a tool that must succeed, and returns its structured answer."""
    message = wires.call(wire, name, json.dumps(arguments)).message
    assert message is not None
    result = message["result"]
    assert not result["isError"], result
    answer: dict[str, Any] = result["structuredContent"]
    return answer


def log_of(wire: Any) -> list[dict[str, Any]]:
    """Returns the board's whole log, as far as the agent may see it."""
    events: list[dict[str, Any]] = []
    after = 0
    while True:
        uri = f"board://main/events.json?after={after}"
        message = wires.ask(wire, "resources/read", f'"uri": "{uri}"', of=uri).message
        assert message is not None
        page = json.loads(message["result"]["contents"][0]["text"])
        events += page["events"]
        if page["cursor"] >= page["seq"]:
            return events
        after = page["cursor"]


def health(url: str) -> tuple[int, str]:
    """Returns the HTTP status of `/healthz` and the health in its answer."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=PATIENCE)
    with contextlib.closing(connection):
        connection.request("GET", "/healthz")
        response = connection.getresponse()
        return response.status, json.loads(response.read())["status"]


class Server:
    """A server over HTTP on a data folder that can be stopped, killed and started again."""

    def __init__(self, data: Path, log: Path, *options: str, limits: dict[str, int] | None = None) -> None:
        self.data, self.log, self.options = data, log, options
        self.added = {} if limits is None else {"BLACKBOARD_LIMITS": json.dumps(limits)}
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""
        self.wire: Any = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self, *before: str, preexec: Any = None) -> None:
        """Starts the server; `before` are the words of a command that runs it.

        Raises:
            RuntimeError: the server ended before it was ready; the message has its output.
        """
        ready = "blackboard-mcp serves "
        words = wires.command("serve", "--transport", "http", "--port", "0", "--data", str(self.data))
        read, write = os.pipe()
        self._process = subprocess.Popen(
            [*before, *words, *self.options],
            stdin=subprocess.DEVNULL,
            stderr=write,
            env=wires.environment() | self.added,
            preexec_fn=preexec,
        )
        os.close(write)
        self.log.touch()
        self._err = open(read, "rb", buffering=0)  # noqa: SIM115 - lives as long as the process
        said = b""
        while piece := os.read(self._err.fileno(), 65_536):
            said += piece
            if any(line.startswith(ready.encode()) for line in said.splitlines() if said.endswith(b"\n")):
                break
        else:
            self._process.wait()
            self._err.close()
            raise RuntimeError(said.decode(errors="replace"))
        with self.log.open("ab") as log:
            log.write(said)
        line = next(line for line in said.decode().splitlines() if line.startswith(ready))
        self.url = line.removeprefix(ready).strip()
        self.wire = wires.HttpWire(self.url, self.pid, "ada", modern=True)

    def said(self) -> str:
        """Returns all that the server wrote to standard error so far."""
        os.set_blocking(self._err.fileno(), False)
        with self.log.open("ab") as log:
            while piece := self._err.read(65_536):
                log.write(piece)
        return self.log.read_text(errors="replace")

    def stop(self, sent: signal.Signals = signal.SIGTERM) -> int:
        """Ends the server by a signal, and returns its exit code."""
        assert self._process is not None
        if self.wire is not None:
            self.wire.close()
        self._process.send_signal(sent)
        code = self._process.wait(PATIENCE)
        self.said()
        self._err.close()
        return code

    def wait(self) -> int:
        """Waits until the server ends by itself, and returns its exit code."""
        assert self._process is not None
        code = self._process.wait(PATIENCE)
        self.wire.close()
        self.said()
        self._err.close()
        return code

    def abandon(self) -> None:
        """Kills the server if it still runs."""
        if self.wire is not None:
            self.wire.close()
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(PATIENCE)
            self._err.close()
