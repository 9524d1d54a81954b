"""The process that an archive index works in: it answers what `ProcessArchiveIndex` asks, until its input ends.

Both speak in frames over the process's standard input and output: eight bytes of length, then a pickled tuple. The
pipes belong to the two processes alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from blackboard_mcp.protocols.errors import ArchiveUnavailable
from blackboard_mcp.protocols.metering import METER, Meter
from blackboard_mcp.storage.lance.embedders.choice import EmbedderChoice
from blackboard_mcp.storage.lance.index import LanceArchiveIndex

LENGTH_BYTES: Final = 8
BEAT_SECONDS: Final = 5.0
METHODS: Final = frozenset(
    {"upsert", "remove", "search", "life", "fits", "publish", "sums", "keys", "reset", "maintain", "close"}
)


class Begin(NamedTuple):
    """The first frame: which index to open, and the least level of messages that are wanted of it."""

    path: Path
    embedder: EmbedderChoice
    level: int


class Ask(NamedTuple):
    """A call of a method of the index, or of its draft."""

    number: int
    draft: bool
    method: str
    arguments: tuple[Any, ...]


class Works(NamedTuple):
    """A notice that a call begins to wait for an embedding model elsewhere, or works itself again."""

    number: int
    itself: bool


class Told(NamedTuple):
    """The result of a call, or the words and facts of the error that it met; `seconds` is what the work took."""

    number: int
    result: Any
    error: tuple[str, dict[str, Any]] | None
    seconds: float


class Lives(NamedTuple):
    """A sign of life, sent every `BEAT_SECONDS` while calls are under way."""


class Logged(NamedTuple):
    """A message for the log."""

    logger: str
    level: int
    text: str


def frame(message: object) -> bytes:
    """Returns a message as it goes over a pipe."""
    body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def _read(pipe: BinaryIO) -> Any | None:
    """Returns the next message; `None` at the end."""
    head = pipe.read(LENGTH_BYTES)
    length = int.from_bytes(head, "big")
    body = pipe.read(length) if len(head) == LENGTH_BYTES else b""
    return pickle.loads(body) if body and len(body) == length else None


class _Meter(Meter):
    """A meter that tells when a call begins and ends to wait for something elsewhere."""

    __slots__ = ("_tell",)

    def __init__(self, tell: Callable[[bool], None]) -> None:
        super().__init__()
        self._tell = tell

    @contextlib.contextmanager
    def outside(self) -> Iterator[None]:
        self._tell(False)
        try:
            with super().outside():
                yield
        finally:
            self._tell(True)


class _Log(logging.Handler):
    """Sends messages to the process that began this one."""

    def __init__(self, send: Callable[[object], None]) -> None:
        super().__init__()
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        # What cannot be told any more is no reason to end.
        with contextlib.suppress(OSError):
            self._send(Logged(record.name, record.levelno, self.format(record)))


class _Host:
    """The index and its draft, and the calls under way."""

    def __init__(self, index: LanceArchiveIndex, send: Callable[[object], None]) -> None:
        self._index = index
        self._draft: LanceArchiveIndex | None = None
        self._send = send
        self._calls: set[asyncio.Task[None]] = set()

    def begin(self, ask: Ask) -> None:
        """Begins a call."""
        call = asyncio.create_task(self._call(ask))
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)

    async def end(self) -> None:
        """Ends once all calls have."""
        closing = [index.close() for index in (self._draft, self._index) if index is not None]
        await asyncio.gather(*closing, *self._calls, return_exceptions=True)

    async def _call(self, ask: Ask) -> None:
        meter = _Meter(lambda itself: self._tell(Works(ask.number, itself)))
        METER.set(meter)
        result, error = None, None
        try:
            result = await self._result(ask)
        except ArchiveUnavailable as met:
            error = (str(met), met.facts)
        except Exception as met:
            logging.getLogger(__name__).exception("a call of the archive index failed: %s", ask.method)
            error = (
                f"The archive index failed ({type(met).__name__}: {str(met)[:300]}).",
                {"reason": "damaged"},
            )
        try:
            self._tell(Told(ask.number, result, error, meter.seconds))
        except Exception as met:  # a result that cannot be told is an answer, too
            self._tell(
                Told(
                    ask.number, None, (f"The archive index failed: {met!r:.300}", {"reason": "damaged"}), 0.0
                )
            )

    async def beat(self) -> None:
        """Tells again and again that the process lives, while somebody waits for it."""
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            if self._calls:
                self._tell(Lives())

    def _tell(self, message: object) -> None:
        # Whoever asked may be gone; the end of the input says so.
        with contextlib.suppress(OSError):
            self._send(message)

    async def _result(self, ask: Ask) -> Any:
        assert ask.method in METHODS
        if not ask.draft:
            return await getattr(self._index, ask.method)(*ask.arguments)
        if ask.method == "close":
            draft, self._draft = self._draft, None
            return None if draft is None else await draft.close()
        if self._draft is None:
            self._draft = self._index.draft()
        return await getattr(self._draft, ask.method)(*ask.arguments)


async def _serve(source: BinaryIO, sink: BinaryIO) -> None:
    lock = threading.Lock()

    def send(message: object) -> None:
        made = frame(message)
        with lock:
            sink.write(made)
            sink.flush()

    begin = await asyncio.to_thread(_read, source)
    if begin is None:
        return
    logging.basicConfig(level=begin.level, handlers=[_Log(send)], format="%(message)s")
    index = LanceArchiveIndex(begin.path, begin.embedder.load(), vector_weight=begin.embedder.vector_weight)
    host, loop, ended = _Host(index, send), asyncio.get_running_loop(), asyncio.Event()

    def listen() -> None:
        try:
            while (ask := _read(source)) is not None:
                loop.call_soon_threadsafe(host.begin, ask)
        finally:
            loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=listen, name="asked", daemon=True).start()
    beating = asyncio.create_task(host.beat())
    await ended.wait()
    await host.end()
    beating.cancel()


def main() -> None:
    """Serves until the input ends."""
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, signal.SIG_IGN)  # the process that began this one closes the input when it stops
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints is no frame
    asyncio.run(_serve(sys.stdin.buffer, sink))
