"""The channel between a parent process and one of its workers: small messages, some with an open file.

Knows both ends and what is said over them. It is a pair of sockets without a name, so no other process can join.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import select
import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from blackboard_mcp.server.settings.server import WORKER_VARIABLE, Settings

START, READY, ENDED, TAKEN = b"s", b"r", b"e", b"t"
"""The worker's settings; that it answers; that one of its connections ended; what was taken from rates."""
CONNECTION, REQUEST = b"C", b"R"
"""A client's connection; a request that belongs to the worker with the sessions. Both come with an open file."""

_HEAD: Final = struct.Struct(">cI")
_PIECE: Final = 65_536
_MOST_FILES: Final = 16


class Heard(NamedTuple):
    """A message, and the file that came with it: the receiver closes it. `None` where there was no room for it."""

    kind: bytes
    body: bytes
    file: int | None


class Channel:
    """One end. Kinds of messages with a file are capital letters."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._end = end
        self._unsent = b""
        self._heard = bytearray()
        self._files: deque[int | None] = deque()

    def fileno(self) -> int:
        return self._end.fileno()

    def close(self) -> None:
        self._end.close()

    def send(self, kind: bytes, body: bytes = b"", file: int | None = None) -> bool:
        """Sends a message, and tells whether the other side is there and takes messages. Never waits."""
        data = self._unsent + _HEAD.pack(kind, len(body)) + body
        try:
            sent = socket.send_fds(self._end, [data], [] if file is None else [file])
        except OSError:
            return False
        self._unsent = data[sent:]  # leaves with the next message; a file before its message keeps its order
        return True

    def received(self) -> list[Heard] | None:
        """Returns the messages that have come, or `None` once the other side is gone. Never waits."""
        try:
            data, files, flags, _ = socket.recv_fds(self._end, _PIECE, _MOST_FILES)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not data:
            return None
        for file in files:
            os.set_inheritable(
                file, False
            )  # else programs that a worker runs would hold its clients' connections
        self._heard += data
        self._files.extend(files)
        if flags & socket.MSG_CTRUNC:  # this process has no descriptor left, and the file is closed
            self._files.append(None)
        messages = []
        while len(self._heard) >= _HEAD.size:
            kind, size = _HEAD.unpack_from(self._heard)
            end = _HEAD.size + size
            if len(self._heard) < end:
                break
            body = bytes(self._heard[_HEAD.size : end])
            del self._heard[:end]
            messages.append(Heard(kind, body, self._files.popleft() if kind.isupper() else None))
        return messages


class Worker:
    """A worker's place among the others: its settings, and its end of the channel to the parent.

    It is also what limits know of the others (`limits.shared_rates.Peers`).
    """

    def __init__(self, channel: Channel, settings: Settings, number: int) -> None:
        self._channel = channel
        self.settings = settings
        self.number = number
        """From 1. The first keeps the sessions of the older protocol generation."""
        self.heard: Callable[[str], None] = lambda words: None

    @staticmethod
    def joined() -> Worker | None:
        """Returns the place that the parent gives this process, or `None` if it is no worker.

        Raises:
            SystemExit: the parent is gone.
        """
        told = os.environ.pop(WORKER_VARIABLE, None)
        if told is None:
            return None
        os.set_inheritable(int(told), False)
        channel = Channel(socket.socket(fileno=int(told)))
        while (heard := channel.received()) is not None:
            for message in heard:
                settings, number = pickle.loads(message.body)
                return Worker(channel, settings, number)
            select.select([channel], [], [])
        raise SystemExit(1)

    @property
    def keeps_sessions(self) -> bool:
        return self.number == 1

    def begin(
        self,
        *,
        connected: Callable[[socket.socket], None],
        asked: Callable[[socket.socket], None],
        gone: Callable[[], None],
    ) -> None:
        """Tells the parent that this worker answers, and takes what it sends.

        That is clients' connections, and requests of sessions that other workers pass on. `gone` is called when the
        parent has ended.
        """
        loop = asyncio.get_running_loop()

        def hear() -> None:
            messages = self._channel.received()
            if messages is None:
                loop.remove_reader(self._channel)
                gone()
                return
            for kind, body, file in messages:
                if kind == TAKEN:
                    self.heard(body.decode())
                elif file is None:
                    if kind == CONNECTION:
                        self.ended()
                else:
                    with contextlib.suppress(OSError):  # the client may have gone at once
                        took = socket.socket(fileno=file)
                        took.setblocking(False)
                        (connected if kind == CONNECTION else asked)(took)

        loop.add_reader(self._channel, hear)
        self._channel.send(READY)

    def leave(self) -> None:
        """Takes nothing more."""
        asyncio.get_running_loop().remove_reader(self._channel)

    def ended(self) -> None:
        """Tells the parent that a connection ended."""
        self._channel.send(ENDED)

    def pass_on(self, request: socket.socket) -> None:
        """Gives the worker with the sessions one end of a request; it is closed if there is none at the moment."""
        self._channel.send(REQUEST, file=request.fileno())

    async def tell(self, words: str) -> None:
        """Tells the other workers what was taken from rates here."""
        self._channel.send(TAKEN, words.encode())
