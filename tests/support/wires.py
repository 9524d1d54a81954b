"""Raw JSON-RPC to a server over each of its transports, as text that no client has checked.

A wire sends one thing at a time and returns what came back: the HTTP status (200 over stdio), the bytes, and
the message in them that is the answer.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import select
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from blackboard_mcp.server.demo.process import command, environment
from patience import PATIENCE
from work import Meter

MODERN: Final = "2026-07-28"
LEGACY: Final = "2025-11-25"
_CAPABILITIES: Final = '"io.modelcontextprotocol/clientCapabilities": {}'
_MODERN_META: Final = f'"io.modelcontextprotocol/protocolVersion": "{MODERN}", {_CAPABILITIES}'


@dataclass(frozen=True)
class Reply:
    """An answer. `message` is the answer to the request, `None` if there is none in JSON."""

    status: int
    raw: bytes
    message: dict[str, Any] | None


class Wire(Protocol):
    """A connection to a server over one transport, in one protocol generation."""

    name: str
    modern: bool

    @property
    def pid(self) -> int: ...

    def send(self, body: bytes, id_: int | None, *, method: str, of: str) -> Reply:
        """Sends a whole message, whatever it contains, and returns the reply.

        `method` and `of` are put into headers that repeat parts of the message.
        """
        ...

    def send_perhaps(self, body: bytes) -> Reply: ...


_numbers = itertools.count(1)


def ask(wire: Wire, method: str, params: str, *, of: str = "", meta: str | None = None) -> Reply:
    """Sends a request with raw parameters, the members of an object without its braces.

    `meta` replaces the request's `_meta`.
    """
    id_ = next(_numbers)
    if meta is None:
        told = (_MODERN_META + ", " if wire.modern else "") + '"blackboard/structured": true'
        meta = "{" + told + "}"
    joined = f'{params}, "_meta": {meta}' if params else f'"_meta": {meta}'
    body = f'{{"jsonrpc": "2.0", "id": {id_}, "method": {json.dumps(method)}, "params": {{{joined}}}}}'
    return wire.send(body.encode(), id_, method=method, of=of)


def call(wire: Wire, tool: str, arguments: str, *, extra: str = "") -> Reply:
    """Calls a tool with raw arguments; `extra` is added to the request's `_meta`."""
    told = (_MODERN_META + ", " if wire.modern else "") + '"blackboard/structured": true'
    params = f'"name": {json.dumps(tool)}, "arguments": {arguments}'
    return ask(wire, "tools/call", params, of=tool, meta="{" + told + extra + "}")


class HttpWire:
    """Requests over HTTP in either generation, on one connection for as long as the server keeps it."""

    def __init__(self, url: str, pid: int, agent: str, *, modern: bool) -> None:
        self.name = "HTTP modern" if modern else "HTTP legacy"
        self.modern = modern
        self._pid = pid
        self._url = urlsplit(url)
        self._agent = agent
        self._session: str | None = None
        self._connection: http.client.HTTPConnection | None = None
        if not modern:
            self._initialize()

    @property
    def pid(self) -> int:
        return self._pid

    def _initialize(self) -> None:
        told = f'"protocolVersion": "{LEGACY}", "capabilities": {{}}, "clientInfo": {{"name": "x", "version": "1"}}'
        ask(self, "initialize", told)
        assert self._session is not None
        body = b'{"jsonrpc": "2.0", "method": "notifications/initialized"}'
        self.send(body, None, method="notifications/initialized", of="")

    def send(self, body: bytes, id_: int | None, *, method: str, of: str) -> Reply:
        headers = {
            "X-Blackboard-Agent": self._agent,
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        if self.modern:
            headers |= {"Mcp-Protocol-Version": MODERN, "Mcp-Method": method}
            if of:
                headers["Mcp-Name"] = of
        elif self._session is not None:
            headers |= {"Mcp-Session-Id": self._session, "Mcp-Protocol-Version": LEGACY}
        status, raw, session = self._post(body, headers)
        if self._session is None:
            self._session = session
        return Reply(status, raw, _answer(raw, id_))

    def send_perhaps(self, body: bytes) -> Reply:
        """Sends a message that may get no JSON-RPC answer."""
        return self.send(body, None, method="tools/list", of="")

    def get(self, path: str) -> Reply:
        """Sends a GET request, and returns the reply; only the head of a stream that does not end."""
        connection = http.client.HTTPConnection(self._url.hostname or "", self._url.port, timeout=PATIENCE)
        try:
            connection.request("GET", path, headers={"X-Blackboard-Agent": self._agent})
            response = connection.getresponse()
            endless = response.status == 200
            raw = b"" if endless else response.read()
            told = response.status < 500 and not endless
            return Reply(response.status, raw, json.loads(raw) if told else None)
        finally:
            connection.close()

    def hand_over(self, body: bytes, query: str = "") -> Reply:
        """Posts a body to the intake; what came of it stands in the reply as a result."""
        headers = {"X-Blackboard-Agent": self._agent, "Content-Type": "application/x-ndjson"}
        status, raw, _ = self._post(body, headers, f"/intake{query}")
        told = json.loads(raw) if status < 500 else None
        return Reply(status, raw, {"result": told} if status == 200 else told)

    def _post(
        self, body: bytes, headers: dict[str, str], path: str | None = None
    ) -> tuple[int, bytes, str | None]:
        for attempt in (1, 2):
            fresh = self._connection is None
            if self._connection is None:
                host = self._url.hostname or ""
                self._connection = http.client.HTTPConnection(host, self._url.port, timeout=PATIENCE)
            try:
                self._connection.request("POST", path or self._url.path, body, headers)
                response = self._connection.getresponse()
                raw = response.read()
            except (http.client.HTTPException, ConnectionError):
                self.close()
                if fresh or attempt == 2:  # else the server may have closed an idle connection: try again
                    raise
                continue
            if response.will_close:
                self.close()
            return response.status, raw, response.headers["Mcp-Session-Id"]
        raise AssertionError("unreachable")

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class StdioWire:
    """Lines to a server process over stdio; the first request decides the protocol generation."""

    def __init__(self, process: subprocess.Popen[bytes], *, modern: bool) -> None:
        self.name = "stdio modern" if modern else "stdio legacy"
        self.modern = modern
        self._process = process
        self._rest = b""
        if not modern:
            told = f'"protocolVersion": "{LEGACY}", "capabilities": {{}}, "clientInfo": {{"name": "x", "version": "1"}}'
            assert ask(self, "initialize", told).message is not None
            body = b'{"jsonrpc": "2.0", "method": "notifications/initialized"}'
            self.send(body, None, method="", of="")

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, body: bytes, id_: int | None, *, method: str, of: str) -> Reply:
        stdin = self._process.stdin
        assert stdin is not None
        stdin.write(body.replace(b"\n", b" ") + b"\n")
        stdin.flush()
        if id_ is None:
            return Reply(202, b"", None)
        while True:
            line = self._line()
            message = json.loads(line)
            if message.get("id") == id_ or ("error" in message and message.get("id") is None):
                return Reply(200, line, message)

    def send_perhaps(self, body: bytes) -> Reply:
        """Sends a message that may get no answer.

        A valid request is sent after it; if that is answered first, the reply has status 202.
        """
        after = f"after-{next(_numbers)}"
        told = "{" + (_MODERN_META if self.modern else "") + "}"
        honest = (
            f'{{"jsonrpc": "2.0", "id": "{after}", "method": "tools/list", "params": {{"_meta": {told}}}}}'
        )
        self.send(body, None, method="", of="")
        self.send(honest.encode(), None, method="", of="")
        found: Reply | None = None
        while True:
            line = self._line()
            message = json.loads(line)
            if message.get("id") == after:
                return found or Reply(202, b"", None)
            if "method" not in message:
                found = Reply(200, line, message)

    def _line(self) -> bytes:
        stdout = self._process.stdout
        assert stdout is not None
        parts = [self._rest]
        while b"\n" not in parts[-1]:
            ready, _, _ = select.select([stdout], [], [], PATIENCE)
            data = os.read(stdout.fileno(), 1 << 20) if ready else b""
            if not data:
                raise ConnectionError(f"the server {'is gone' if ready else 'did not answer'}")
            parts.append(data)
        line, _, self._rest = b"".join(parts).partition(b"\n")
        return line


@contextmanager
def stdio_wire(
    data: Path, log: Path, *, modern: bool, agent: str = "ada", meter: Meter | None = None
) -> Iterator[StdioWire]:
    """Runs a server over stdio on a data folder, with standard error in `log`, and yields a wire to it."""
    words = command("serve", "--transport", "stdio", "--data", str(data), "--agent", agent, "--tools", "all")
    with log.open("wb") as err:
        process = subprocess.Popen(
            words if meter is None else meter.counted(words),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=err,
            env=environment(),
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield StdioWire(process, modern=modern)
            process.stdin.close()
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


UNHURRIED = {
    "posts_per_second": 1_000_000,
    "posts_burst": 10_000_000,
    "board_posts_per_second": 1_000_000,
    "board_posts_burst": 10_000_000,
    "bytes_per_second": 1_000_000_000,
    "bytes_burst": 1_000_000_000_000,
    "board_bytes_per_second": 1_000_000_000,
    "board_bytes_burst": 1_000_000_000_000,
}
"""Limits that allow one agent to write as fast as these tests do."""


@contextmanager
def http_process(
    data: Path, log: Path, *options: str, meter: Meter | None = None
) -> Iterator[tuple[str, int]]:
    """Runs a server over HTTP on a data folder, with standard error in `log`; yields its URL and process id."""
    ready = "blackboard-mcp serves "
    words = command(
        "serve", "--transport", "http", "--port", "0", "--data", str(data), "--tools", "all", *options
    )
    with log.open("wb") as err:
        told = environment() | {"BLACKBOARD_LIMITS": json.dumps(UNHURRIED)}
        process = subprocess.Popen(
            words if meter is None else meter.counted(words),
            stdin=subprocess.DEVNULL,
            stderr=err,
            env=told,
        )
        try:
            while process.poll() is None:
                said = [
                    line for line in log.read_text("utf-8", "replace").splitlines() if line.startswith(ready)
                ]
                if said:
                    break
                select.select([], [], [], 0.05)
            else:
                raise AssertionError(log.read_text("utf-8", "replace"))
            yield said[0].removeprefix(ready).strip(), process.pid
            process.terminate()
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
            process.wait()


def _answer(raw: bytes, id_: int | None) -> dict[str, Any] | None:
    """Returns the answer in a body, which may be a stream of events; `id_` `None` accepts any id."""
    if not raw:
        return None
    if raw.startswith((b"event:", b"data:", b":", b"id:", b"retry:")):
        for line in raw.split(b"\n"):
            if line.startswith(b"data:") and line[5:].strip():
                message: dict[str, Any] = json.loads(line[5:])
                answers = "id" in message and ("result" in message or "error" in message)
                if answers and (id_ is None or message["id"] in (id_, None)):
                    return message
        return None
    whole: dict[str, Any] = json.loads(raw)
    return whole
