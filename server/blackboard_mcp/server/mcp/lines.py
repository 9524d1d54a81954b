"""Reading of bounded lines from a file descriptor, and writing of bytes to one without blocking.

Imports nothing heavy, so that the relay can use it too.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import queue
import re
import select
import stat
import threading
from collections.abc import AsyncIterator, Callable
from typing import Final

NO_ID: Final = "the id of a request is a string or a whole number without a fraction; nothing was done"
MAX_LINE_BYTES: Final = 4 * 1024 * 1024
_READ_BYTES: Final = 65_536
_MAX_WAITING_LINES: Final = 8

_ID_AT_START: Final = re.compile(rb'"id"\s*:\s*("[^"\\]{0,128}"|-?\d{1,18})')
_ID_AT_END: Final = re.compile(rb'"id"\s*:\s*("[^"\\]{0,128}"|-?\d{1,18})\s*}\s*$')


class Oversized:
    """The two ends of a line that was longer than allowed."""

    def __init__(self, head: bytes, tail: bytes) -> None:
        self.head = head
        self.tail = tail

    @property
    def request_id(self) -> int | str | None:
        """The id of the JSON-RPC request, or `None` unless one end of the line shows it beyond doubt."""
        found = _ID_AT_START.search(self.head.split(b'"params"', 1)[0]) or _ID_AT_END.search(self.tail)
        identifier = json.loads(found.group(1)) if found else None
        return identifier if isinstance(identifier, int | str) else None


class LineSplitter:
    """Splits a stream of bytes into lines, and drops the middle of lines longer than `limit` bytes."""

    def __init__(self, limit: int = MAX_LINE_BYTES) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._tail: bytes | None = None

    def feed(self, data: bytes) -> list[bytes | Oversized]:
        """Takes more bytes, and returns the lines that they complete, without newlines."""
        *ended, rest = data.split(b"\n")
        lines = []
        for piece in ended:
            self._take(piece)
            lines.append(self._flush())
        self._take(rest)
        return lines

    def end(self) -> list[bytes | Oversized]:
        """Returns the last line in a list if the input ended without a newline, else an empty list."""
        return [self._flush()] if self._size or self._tail is not None else []

    def _take(self, piece: bytes) -> None:
        if self._tail is not None:
            self._tail = (self._tail + piece)[-512:]
            return
        self._parts.append(piece)
        self._size += len(piece)
        if self._size > self._limit:
            whole = b"".join(self._parts)
            self._parts = [whole[:4096]]
            self._tail = whole[-512:]

    def _flush(self) -> bytes | Oversized:
        whole = b"".join(self._parts)
        line = whole if self._tail is None else Oversized(whole, self._tail)
        self._parts, self._size, self._tail = [], 0, None
        return line


async def read_lines(fd: int, limit: int = MAX_LINE_BYTES) -> AsyncIterator[bytes | Oversized]:
    """Yields the lines of a descriptor, without newlines, until its end.

    A separate thread reads: the descriptor may be a file, a pipe or a terminal, and a read that still blocks
    must not keep the process from ending.
    """
    lines: asyncio.Queue[bytes | Oversized | None] = asyncio.Queue()
    room = threading.Semaphore(_MAX_WAITING_LINES)
    loop = asyncio.get_running_loop()

    def hand_over(line: bytes | Oversized | None) -> None:
        room.acquire()
        loop.call_soon_threadsafe(lines.put_nowait, line)

    threading.Thread(target=_pump, args=(fd, limit, hand_over), daemon=True).start()
    while (line := await lines.get()) is not None:
        room.release()
        yield line


def _pump(fd: int, limit: int, hand_over: Callable[[bytes | Oversized | None], None]) -> None:
    splitter = LineSplitter(limit)
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody reads the lines any more
        with contextlib.suppress(OSError):
            while data := _read(fd):
                for line in splitter.feed(data):
                    hand_over(line)
        for line in splitter.end():
            hand_over(line)
        hand_over(None)


def _read(fd: int) -> bytes:
    """Returns the next bytes of a descriptor, or none at its end; waits for them also where reads do not block."""
    while True:
        try:
            return os.read(fd, _READ_BYTES)
        except BlockingIOError:
            _wait_for(fd, select.POLLIN)


def write_all(fd: int, data: bytes) -> None:
    """Writes all of the data, and holds the thread until it has.

    Raises:
        OSError: the descriptor has no reader any more, or no room.
    """
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            _wait_for(fd, select.POLLOUT)


def _wait_for(fd: int, what: int) -> None:
    """Holds the thread until a descriptor is ready.

    Whoever shares the descriptor may have made it non-blocking, say a launcher in Node that handed its own on.
    """
    poll = select.poll()
    poll.register(fd, what)
    poll.poll()


def is_notification(method: str, identifier: object) -> bool:
    """Tells whether a message with an id that is none is one that expects no answer: some clients say null there."""
    return identifier is None and method.startswith("notifications/")


def is_left(fd: int) -> bool:
    """Tells whether whoever wrote to a descriptor has closed it, though what was written may not all be read."""
    if not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(fd, getattr(select, "POLLRDHUP", 0))
    return bool(poll.poll(0))


class LineWriter:
    """Writes to a descriptor in the order of the calls, without blocking the event loop.

    A separate thread does writes that may block. It is a daemon, so that a reader that has stopped reading
    cannot keep the process from ending; the loop's own worker threads would.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._waiting = 0
        # A pipe that polls as ready takes this many bytes without blocking.
        mode = os.fstat(fd).st_mode
        plain = stat.S_ISFIFO(mode) or stat.S_ISREG(mode)
        self._at_once = select.PIPE_BUF if plain and hasattr(select, "poll") else 0

    async def write(self, data: bytes) -> None:
        """Writes all of the data, and returns when it is written.

        Raises:
            OSError: the descriptor has no reader any more.
        """
        if self._waiting == 0 and len(data) <= self._at_once and self._is_ready():
            with contextlib.suppress(BlockingIOError):  # another writer was faster: the thread waits for room
                os.write(self._fd, data)
                return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._waiting += 1
        self._jobs.put((data, loop, done))
        await done

    def close(self) -> None:
        """Lets the thread end once it has written what is queued."""
        self._jobs.put(None)

    def _is_ready(self) -> bool:
        poll = select.poll()
        poll.register(self._fd, select.POLLOUT)
        return bool(poll.poll(0))

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            data, loop, done = job
            failure: OSError | None = None
            try:
                write_all(self._fd, data)
            except OSError as exc:
                failure = exc
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(self._finish, done, failure)

    def _finish(self, done: asyncio.Future[None], failure: OSError | None) -> None:
        self._waiting -= 1
        if done.done():
            return
        if failure is None:
            done.set_result(None)
        else:
            done.set_exception(failure)


_Job = tuple[bytes, asyncio.AbstractEventLoop, "asyncio.Future[None]"]
