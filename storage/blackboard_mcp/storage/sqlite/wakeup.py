"""Wake-up of a process when the database changed: a counter, its waiters, and what moves it.

The truth is `PRAGMA data_version`, polled. A datagram without content on the loopback, sent after
every commit to the processes that registered beside the database, only says "poll now": it may be
lost, forged or late without harm.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from blackboard_mcp.protocols.errors import StoreClosed

_GAP = 0.002
"""Seconds at least between two polls, whatever is heard."""
_WAITING = 0.05
"""Seconds between looks while somebody waits here; also how late an idle process heeds a datagram."""
_SURE = 0.5
"""Seconds between polls at most while somebody waits, though the log looks still."""
_IDLE = (0.25, 1.0)
"""Seconds between polls while nobody waits: after a change, and at most."""
_FRESH = 0.1
"""Seconds within which a folder may change again without a new modification time."""


class Changes:
    """A counter of commits this process made or learned of, and whoever waits for it to grow."""

    def __init__(self) -> None:
        self.count = 0
        self.waiting = 0
        self.on_waiting: Callable[[], None] = lambda: None
        self._closed = False
        self._grown = asyncio.Event()

    def bump(self) -> None:
        self.count += 1
        grown, self._grown = self._grown, asyncio.Event()
        grown.set()

    def close(self) -> None:
        """Wake every waiter; they and all later ones get StoreClosed."""
        self._closed = True
        self._grown.set()

    async def wait(self, seen: int, timeout: float, *, hurried: bool = True) -> int:
        """The counter, as soon as it exceeds `seen` or when `timeout` seconds are over.

        A wait that is not hurried costs no look of its own: another process's change is then noticed
        by a datagram, or within a second.

        Raises:
            StoreClosed: the store was closed before or meanwhile.
        """
        self.waiting += hurried
        try:
            if self.count <= seen and not self._closed:
                if hurried and self.waiting == 1:
                    self.on_waiting()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(timeout):
                        while self.count <= seen and not self._closed:
                            await self._grown.wait()
        finally:
            self.waiting -= hurried
        if self._closed and self.count <= seen:
            raise StoreClosed("The store was closed while waiting for a change.")
        return self.count


class Peers:
    """The other processes at the same database: one empty file each in a folder beside it.

    A file is named port-process-namespace. Not for the event loop's thread: everything here is a
    system call on files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._own: str | None = None
        self._namespace = _namespace()
        self._sockets: dict[str, socket.socket] = {}
        self._scanned = (0, 0)

    def register(self, port: int) -> None:
        """Let the others know the port to send to; without a writable folder they poll."""
        self._own = f"{port}-{os.getpid()}-{self._namespace}"
        # The last one to leave removes the folder: it may vanish between the two calls.
        for _ in range(20):
            try:
                self._folder.mkdir(mode=0o700, exist_ok=True)
                (self._folder / self._own).touch(mode=0o600)
                return
            except FileNotFoundError:
                continue
            except OSError:
                return

    def renew(self) -> None:
        """Register again if somebody took our file for a dead process's."""
        # What cannot be looked at is left as it is: a disk that fails must not end the polling.
        with contextlib.suppress(OSError):
            if self._own is not None and not (self._folder / self._own).exists():
                self.register(int(self._own.split("-")[0]))

    def notify(self) -> None:
        """Tell every peer; never fails, never waits."""
        self._scan()
        for name, peer in list(self._sockets.items()):
            try:
                peer.send(b"")
            except ConnectionRefusedError:
                # Nobody is bound to the port that the datagram before this one went to.
                self._forget(name)
            except OSError:
                continue

    def close(self) -> None:
        """Take our file away, and the folder after the last one."""
        for peer in self._sockets.values():
            peer.close()
        self._sockets.clear()
        if self._own is not None:
            with contextlib.suppress(OSError):
                (self._folder / self._own).unlink(missing_ok=True)
                self._folder.rmdir()
            self._own = None

    def _scan(self) -> None:
        try:
            modified = os.stat(self._folder).st_mtime_ns
        except OSError:
            modified = 0
        at, seen = self._scanned
        if modified == seen and at - modified > _FRESH * 1e9:
            return
        self._scanned = (time.time_ns(), modified)
        try:
            names = set(os.listdir(self._folder))
        except OSError:
            names = set()
        for name in self._sockets.keys() - names:
            self._sockets.pop(name).close()
        for name in names - self._sockets.keys() - {self._own}:
            self._meet(name)

    def _meet(self, name: str) -> None:
        port, _, rest = name.partition("-")
        process, _, namespace = rest.partition("-")
        if namespace != self._namespace or not (port.isdecimal() and process.isdecimal()):
            return
        if not 0 < int(port) < 65536 or not _alive(int(process)):
            self._forget(name)
            return
        try:
            peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        except OSError:
            return  # no file handle is left: that process polls
        peer.setblocking(False)
        try:
            peer.connect(("127.0.0.1", int(port)))
        except OSError:
            peer.close()
            return
        self._sockets[name] = peer

    def _forget(self, name: str) -> None:
        if peer := self._sockets.pop(name, None):
            peer.close()
        with contextlib.suppress(OSError):
            (self._folder / name).unlink(missing_ok=True)


class Watcher:
    """Polls when it is time to, or when a datagram says so, and moves the counter. One per process.

    `poll` says whether somebody else committed since it was last asked; its argument, whether a
    datagram was heard. `log` is the write-ahead log: one whose time has not changed saves a poll.
    """

    def __init__(self, changes: Changes, poll: Callable[[bool], Awaitable[bool]], log: Path | None) -> None:
        self._changes = changes
        self._ask = poll
        self._log = log
        self._stamp = (0, 0)
        self._loop = asyncio.get_running_loop()
        self._socket: socket.socket | None = None
        self._listening = False
        self._heard = False
        self._again = False
        self._timer: asyncio.TimerHandle | None = None
        self._polling: asyncio.Task[None] | None = None
        self._due = 0.0
        self._last = 0.0
        self._idle = _IDLE[0]
        self._closed = False

    def start(self) -> int | None:
        """Begin; the port that listens for datagrams, or None where only polling is possible."""
        self._changes.on_waiting = self._now
        self._schedule(self._idle)
        ear = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            ear.setblocking(False)
            ear.bind(("127.0.0.1", 0))
            self._socket = ear
            self._listen()
        except (OSError, NotImplementedError):
            # No loopback, or an event loop without readers (Windows): polling alone.
            self._socket = None
            ear.close()
            return None
        port: int = ear.getsockname()[1]
        return port

    async def close(self) -> None:
        """Stop polling and listening."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.gather(self._polling, return_exceptions=True)
        if self._socket is not None:
            self._deafen()
            self._socket.close()
            self._socket = None

    def _now(self) -> None:
        self._schedule(0)

    def _schedule(self, delay: float) -> None:
        """Poll after `delay` seconds at the latest."""
        if self._closed:
            return
        at = max(self._loop.time() + delay, self._last + _GAP)
        if self._timer is not None:
            if self._due <= at:
                return
            self._timer.cancel()
        # uvloop's handle of a call that is due at once has no `when`.
        self._due = at
        self._timer = self._loop.call_at(at, self._begin)

    def _begin(self) -> None:
        self._timer = None
        if not self._heard and self._loop.time() < self._last + _SURE and self._log_is_still():
            self._schedule(_WAITING if self._changes.waiting else self._idle)
        elif self._polling is None:
            self._polling = self._loop.create_task(self._poll())
        else:
            # The poll under way may have looked already.
            self._again = True

    def _log_is_still(self) -> bool:
        """Whether the log has not been written since the last look; a system call of a microsecond."""
        if self._log is None:
            return False
        try:
            status = os.stat(self._log)
        except OSError:
            return False
        stamp = (status.st_mtime_ns, status.st_size)
        # The clock of files is coarse: what has just been written may be written again unseen.
        still = stamp == self._stamp and time.time_ns() - status.st_mtime_ns > _FRESH * 1e9
        self._stamp = stamp
        return still

    async def _poll(self) -> None:
        heard, self._heard = self._heard, False
        self._last = self._loop.time()
        self._listen()
        changed = False
        try:
            changed = await self._ask(heard)
        except StoreClosed:
            return
        finally:
            self._polling = None
        if changed:
            self._changes.bump()
        self._idle = _IDLE[0] if changed else min(2 * self._idle, _IDLE[1])
        again, self._again = self._again, False
        self._schedule(0 if again else _WAITING if self._changes.waiting else self._idle)

    def _listen(self) -> None:
        if self._socket is not None and not self._listening:
            self._loop.add_reader(self._socket, self._hear)
            self._listening = True

    def _deafen(self) -> None:
        if self._socket is not None and self._listening:
            self._loop.remove_reader(self._socket)
            self._listening = False

    def _hear(self) -> None:
        # Deaf until the next poll: a flood costs one wake-up per gap, the kernel drops the rest.
        self._deafen()
        self._heard = True
        assert self._socket is not None
        with contextlib.suppress(OSError):
            for _ in range(256):
                self._socket.recv(1)
        self._schedule(0 if self._changes.waiting else _WAITING)


def processes_at(path: Path) -> tuple[list[int], list[Path]]:
    """Processes of this machine that have the database at `path` open, and what dead ones left beside it."""
    alive: set[int] = set()
    dead: list[Path] = []
    namespace = _namespace()
    try:
        registered = sorted(path.with_name(path.name + ".peers").iterdir())
    except OSError:
        return [], []
    for file in registered:
        _, process, *rest = [*file.name.split("-"), "", ""]
        if not process.isdecimal() or rest[0] != namespace:
            continue
        if _alive(int(process)):
            alive.add(int(process))
        else:
            dead.append(file)
    return sorted(alive), dead


def _namespace() -> str:
    """What tells apart loopbacks and process numbers of two containers that share a folder."""
    try:
        return "".join(filter(str.isdecimal, os.readlink("/proc/self/ns/net"))) or "0"
    except OSError:
        return "0"


def _alive(process: int) -> bool:
    if sys.platform == "win32":
        # os.kill with signal 0 is not a question there.
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
