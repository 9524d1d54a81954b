"""A served sample, and the raw wire to it."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import sample_board
from blackboard_mcp.server.http.run import serve_http
from patience import PATIENCE

MODERN_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    @property
    def refusal(self) -> tuple[int, str]:
        """Status and code, in the MCP endpoint's words or in those of the other routes."""
        error = self.document["error"]
        return self.status, error["data"]["error"] if isinstance(error, dict) else error

    @property
    def message(self) -> str:
        error = self.document["error"]
        return str(error["message"] if isinstance(error, dict) else self.document["message"])


@dataclass
class Wire:
    """One TCP connection, byte for byte."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def head(self) -> Reply:
        raw = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), PATIENCE)
        first, *rows = raw.decode("latin-1").strip().split("\r\n")
        headers = {name.lower(): value for name, value in (row.split(": ", 1) for row in rows)}
        return Reply(int(first.split()[1]), headers, b"")

    async def reply(self) -> Reply:
        """A whole answer, with a length or until the connection closes."""
        reply = await self.head()
        length = reply.headers.get("content-length")
        rest = self.reader.readexactly(int(length)) if length is not None else self.reader.read()
        reply.body = await asyncio.wait_for(rest, PATIENCE)
        return reply

    async def until(self, text: bytes) -> bytes:
        return await asyncio.wait_for(self.reader.readuntil(text), PATIENCE)

    async def closed(self) -> bytes:
        """Everything until the server closes the connection."""
        try:
            return await asyncio.wait_for(self.reader.read(), PATIENCE)
        except ConnectionResetError:
            return b""


@dataclass
class Served:
    sample: Any
    url: str
    stop: asyncio.Event
    task: asyncio.Task[None]
    wires: list[Wire] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def mcp(self) -> str:
        return f"{self.url}/mcp"

    async def wire(self, said: bytes = b"", **options: Any) -> Wire:
        """A connection; `said` is there as soon as it is, however slow the machine."""
        if said:
            raw = socket.create_connection(("127.0.0.1", self.port))
            raw.sendall(said)
            wire = Wire(*await asyncio.open_connection(sock=raw))
        else:
            wire = Wire(*await asyncio.open_connection("127.0.0.1", self.port, **options))
        self.wires.append(wire)
        return wire

    def request(
        self, path: str = "/mcp", method: str = "POST", body: bytes = b"", **headers: str | None
    ) -> bytes:
        """The bytes of a request, with a right Host and an agent unless told otherwise (None: left out)."""
        given: dict[str, str | None] = {"host": f"127.0.0.1:{self.port}", "x-blackboard-agent": "alice"}
        if body:
            given |= {"content-length": str(len(body)), "content-type": "application/json"}
        given |= {"accept": "application/json, text/event-stream"}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        rows = [f"{name}: {value}" for name, value in given.items() if value is not None]
        return f"{method} {path} HTTP/1.1\r\n".encode() + "\r\n".join([*rows, "", ""]).encode() + body

    def modern(self, method: str, name: str | None = None, **params: Any) -> bytes:
        """The bytes of a request of the modern generation."""
        params |= {"_meta": MODERN_META} | ({"name": name} if name is not None else {})
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        body = json.dumps(message).encode()
        return self.request(body=body, mcp_protocol_version="2026-07-28", mcp_method=method, mcp_name=name)

    async def exchange(self, data: bytes) -> Reply:
        wire = await self.wire()
        await wire.send(data)
        return await wire.reply()


@pytest.fixture
def serving() -> Callable[..., AbstractAsyncContextManager[Served]]:
    @asynccontextmanager
    async def serve(**options: Any) -> AsyncIterator[Served]:
        sample = options.pop("sample", None) or sample_board.Sample(limits=options.pop("limits", None))
        ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        stop = asyncio.Event()
        options = {"port": 0, **options}
        task = asyncio.create_task(serve_http(sample.server, **options, on_ready=ready.set_result, stop=stop))
        both: list[asyncio.Future[Any]] = [task, ready]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task
        served = Served(sample, await ready, stop, task)
        try:
            yield served
        finally:
            for wire in served.wires:
                wire.writer.close()
            stop.set()
            await asyncio.wait_for(task, PATIENCE)

    return serve
