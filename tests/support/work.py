"""A meter of a server process's work: calls of functions, in whatever language, and returns from them.

A count is the same on a slow and busy machine; a time is not. `counted` returns the command that runs the
server with its event loop and all its threads counted; what C does inside one call counts as one.
"""

from __future__ import annotations

import asyncio
import cProfile
import itertools
import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from patience import PATIENCE

MOST_CALLS: Final = 6_000_000
"""The most calls that a request may cause in a server: about a second of CPU without counting."""
MOST_IN_A_TURN: Final = 600_000


@dataclass(frozen=True)
class Work:
    """The work of a server since it was last asked: calls in all, and in the longest turn of its event loop."""

    calls: int
    turn: int

    @property
    def dear(self) -> bool:
        """Tells whether it is more than a request may cause."""
        return self.calls > MOST_CALLS or self.turn > MOST_IN_A_TURN

    def __str__(self) -> str:
        return f"{self.calls:,} calls, {self.turn:,} in a turn"


class Meter:
    """Asks one server for its work; the server must be started with the command of `counted`."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.settimeout(PATIENCE)
        self._connected: socket.socket | None = None

    def counted(self, words: list[str]) -> list[str]:
        """Returns the command line that runs the same command with its work counted."""
        python, _, _, *more = words
        return [python, __file__, str(self._listening.getsockname()[1]), *more]

    def work(self) -> Work:
        """Returns the work since the last call."""
        if self._connected is None:
            self._connected, _ = self._listening.accept()
            self._connected.settimeout(PATIENCE)
        self._connected.sendall(b"?")
        calls, turn = self._connected.recv(100).split()
        return Work(int(calls), int(turn))

    def close(self) -> None:
        self._listening.close()
        if self._connected is not None:
            self._connected.close()


_loop, _elsewhere = itertools.count(), itertools.count()
_longest = _told = 0
_run: Final = asyncio.events.Handle._run


def _turn(self: asyncio.Handle) -> None:
    """Runs one turn of an event loop, and keeps the longest count."""
    global _longest
    begun = next(_loop)
    _run(self)
    _longest = max(_longest, next(_loop) - begun)


def _count(counter: Iterator[int]) -> None:
    """Counts what this thread calls from now on."""
    if sys.version_info < (3, 12):  # the counter is the clock of a profiler written in C
        cProfile.Profile(counter.__next__, 1.0, subcalls=False).enable()
    else:  # that profiler takes all threads together
        sys.setprofile(lambda *_: next(counter))


def _tell(asked: socket.socket) -> None:
    global _longest, _told
    while asked.recv(1):
        calls, turn = next(_loop) + next(_elsewhere), _longest
        asked.sendall(f"{calls - _told} {turn}".encode())
        _told, _longest = calls, 0


if __name__ == "__main__":
    sys.modules["uvloop"] = None  # type: ignore[assignment] # the turns of asyncio's own loop can be seen
    asked = socket.create_connection(("127.0.0.1", int(sys.argv.pop(1))))
    threading.Thread(target=_tell, args=(asked,), daemon=True).start()

    from blackboard_mcp.server.cli import main

    asyncio.events.Handle._run = _turn  # type: ignore[method-assign]
    threading.setprofile(lambda *_: _count(_elsewhere))
    _count(_loop)
    main()
