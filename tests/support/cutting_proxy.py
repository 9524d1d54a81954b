"""A proxy between a client and a server on loopback, which cuts connections when a test wants it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

Passing = Callable[[bytes], bool]


class Proxy:
    """Passes bytes on to a port, until it is told to cut."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._open: set[asyncio.StreamWriter] = set()
        self._clients: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        self.refusing = False
        self.cut_after: bytes | None = None
        """Words of the client: when they come they are passed on, and the connection ends before the answer."""
        self.cut_before: bytes | None = None
        """Words of the client: when they come the connection ends, and the server never sees them."""
        self.silent_after: bytes | None = None
        """Words of the client: when they come they are passed on, and no answer on that connection arrives any more."""
        self.delay = 0.0
        """The seconds that each piece of an answer is held back."""
        self.cuts = 0

    def cut(self) -> None:
        """Ends all connections."""
        for writer in list(self._open):
            writer.transport.abort()
        self._open.clear()

    def say(self, words: bytes) -> None:
        """Sends all clients words that the server has not said."""
        for writer in self._clients:
            writer.write(words)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refusing:
            writer.transport.abort()
            return
        try:
            there, here = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            writer.transport.abort()
            return
        ends = (writer, here)
        self._open.update(ends)
        self._clients.add(writer)
        cutting, silent = asyncio.Event(), asyncio.Event()
        both = [
            self._start(self._up(reader, ends, cutting, silent)),
            self._start(self._down(there, ends, cutting, silent)),
        ]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        self._clients.discard(writer)
        for end in ends:
            end.transport.abort()
            self._open.discard(end)

    def _start(self, work: object) -> asyncio.Task[None]:
        task = asyncio.create_task(work)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _up(
        self,
        reader: asyncio.StreamReader,
        ends: tuple[asyncio.StreamWriter, ...],
        cutting: asyncio.Event,
        silent: asyncio.Event,
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                if self.cut_before is not None and self.cut_before in data:
                    self.cut_before = None
                    self.cuts += 1
                    return
                if self.cut_after is not None and self.cut_after in data:
                    self.cut_after = None
                    self.cuts += 1
                    cutting.set()
                if self.silent_after is not None and self.silent_after in data:
                    self.silent_after = None
                    silent.set()
                ends[1].write(data)
                await ends[1].drain()

    async def _down(
        self,
        reader: asyncio.StreamReader,
        ends: tuple[asyncio.StreamWriter, ...],
        cutting: asyncio.Event,
        silent: asyncio.Event,
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                if cutting.is_set():
                    return
                if silent.is_set():
                    continue
                await asyncio.sleep(self.delay)
                ends[0].write(data)
                await ends[0].drain()

    async def close(self) -> None:
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def proxy(port: int) -> AsyncIterator[Proxy]:
    """Yields a proxy to a port."""
    made = Proxy(port)
    server = await asyncio.start_server(made._serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        await made.close()
