"""A server on loopback that stands for a language model, and does whatever a test tells it to."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from patience import PATIENCE


@dataclass
class Asked:
    """A request as it arrived."""

    path: str
    headers: dict[str, str]
    body: Any

    @property
    def prompt(self) -> str:
        return "\n".join(message["content"] for message in self.body["messages"])


@dataclass
class Reply:
    """The way back: `head` begins an answer, `send` goes on; what the client no longer takes raises."""

    writer: asyncio.StreamWriter
    model: FakeModel

    async def head(self, status: int = 200, length: int | None = None, **headers: str) -> None:
        lines = [f"HTTP/1.1 {status} X", "content-type: application/json"]
        if length is not None:
            lines.append(f"content-length: {length}")
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await self.send("\r\n".join([*lines, "connection: close", "", ""]).encode())

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()
        self.model.sent += len(data)

    async def whole(self, data: bytes, status: int = 200, **headers: str) -> None:
        await self.head(status, len(data), **headers)
        await self.send(data)

    async def completion(self, asked: Asked, text: Any) -> None:
        """A well-formed answer in the protocol that was spoken."""
        message = {"role": "assistant", "content": text}
        shape: Any = {"choices": [{"message": message}]}
        if asked.path.endswith("/api/chat"):
            shape = {"message": message, "done": True}
        await self.whole(json.dumps(shape).encode())

    async def hang(self) -> None:
        """Says nothing more until the test is over."""
        await self.model.over.wait()


Behaviour = Callable[[Asked, Reply], Awaitable[None]]


@dataclass
class FakeModel:
    """Listens on loopback; `behave` answers each request, `asked` are those that came."""

    behave: Behaviour | None = None
    asked: list[Asked] = field(default_factory=list)
    sent: int = 0
    url: str = ""
    came: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def says(self, text: Any) -> None:
        async def say(asked: Asked, reply: Reply) -> None:
            await reply.completion(asked, text)

        self.behave = say

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
            body = await reader.readexactly(int(headers["content-length"]))
            asked = Asked(head[0].split()[1], {**headers, "raw": "\n".join(head)}, json.loads(body))
            self.asked.append(asked)
            self.came.set()
            assert self.behave is not None
            await self.behave(asked, Reply(writer, self))
        with contextlib.suppress(ConnectionError):
            writer.close()
            await writer.wait_closed()


@contextlib.asynccontextmanager
async def fake_model() -> AsyncIterator[FakeModel]:
    model = FakeModel()
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        await model.serve(reader, writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    model.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield model
    finally:
        model.over.set()
        server.close()
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=PATIENCE)
            for task in late:
                task.cancel()
