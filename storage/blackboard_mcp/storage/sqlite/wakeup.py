"""Wake-up of a process after a change of the database: a counter, its waiters, and what increments it.

`PRAGMA data_version`, which is polled, tells the truth. After every commit, an empty datagram on the loopback goes
to the processes that registered beside the database. It only means "poll now", so it may be lost, forged or late
without harm.
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
from blackboard_mcp.storage.change_counter import Changes

_GAP = 0.002
"""The least seconds between two polls, whatever datagrams arrive."""
_WAITING = 0.05
"""The seconds between checks of the log while a task waits; also the delay of an idle process after a datagram."""
_SURE = 0.5
"""The most seconds between polls, even if the log seems unchanged."""
_IDLE = (0.25, 1.0)
"""The seconds between polls while nobody waits: right after a change, and at most."""
_FRESH = 0.1
"""The seconds within which a file or folder may change again without a new modification time."""


class Peers:
    """The other processes that use the same database: one empty file for each, in a folder beside the database.

    A file is named port-process-namespace. All methods make system calls on files, so they do not belong in the event
    loop's thread.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._own: str | None = None
        self._namespace = _namespace()
        self._sockets: dict[str, socket.socket] = {}
        self._scanned = (0, 0)

    def register(self, port: int) -> None:
        """Tells the others the port to send to; if the folder cannot be written, they only poll."""
        self._own = f"{port}-{os.getpid()}-{self._namespace}"
        # The last process to close deletes the folder, so it may vanish between the two calls.
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
        """Registers again if another process deleted our file, taking us for dead."""
        # A failing disk must not end the polling.
        with contextlib.suppress(OSError):
            if self._own is not None and not (self._folder / self._own).exists():
                self.register(int(self._own.split("-")[0]))

    def notify(self) -> None:
        """Sends a datagram to every peer; never fails and never waits."""
        self._scan()
        for name, peer in list(self._sockets.items()):
            try:
                peer.send(b"")
            except ConnectionRefusedError:
                # No process listened at the port when the previous datagram arrived.
                self._forget(name)
            except OSError:
                continue

    def close(self) -> None:
        """Deletes our file, and the folder if it is empty then."""
        for peer in self._sockets.values():
            peer.close()
        self._sockets.clear()
        if self._own is not None:
            with contextlib.suppress(OSError):
                (self._folder / self._own).unlink(missing_ok=True)
                self._folder.rmdir()
            self._own = None

    def _scan(self) -> None:
        """Reads the folder again if it may have changed, and updates the list of peers."""
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
        """Connects to a new peer; deletes its file if the process is dead."""
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
            return  # without a free file handle, the peer has to poll
        peer.setblocking(False)
        try:
            peer.connect(("127.0.0.1", int(port)))
        except OSError:
            peer.close()
            return
        self._sockets[name] = peer

    def _forget(self, name: str) -> None:
        """Drops a peer and deletes its file."""
        if peer := self._sockets.pop(name, None):
            peer.close()
        with contextlib.suppress(OSError):
            (self._folder / name).unlink(missing_ok=True)


class Watcher:
    """Polls at intervals, or when a datagram arrives, and increments the counter. There is one for each process.

    `poll` tells whether another process committed since its last call; its argument, whether a datagram arrived. `log`
    is the write-ahead log: while its modification time is the same, no poll is needed.
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
        """Starts polling; returns the port that listens for datagrams, `None` if only polling is possible."""
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
        """Stops polling and listening."""
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
        """Polls as soon as possible."""
        self._schedule(0)

    def _schedule(self, delay: float) -> None:
        """Schedules the next poll in at most `delay` seconds."""
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
        """Starts a poll, unless the log is unchanged or a poll is running."""
        self._timer = None
        if not self._heard and self._loop.time() < self._last + _SURE and self._log_is_still():
            self._schedule(_WAITING if self._changes.waiting else self._idle)
        elif self._polling is None:
            self._polling = self._loop.create_task(self._poll())
        else:
            # The running poll may have looked before this change.
            self._again = True

    def _log_is_still(self) -> bool:
        """Tells whether the log is unchanged since the last check; this takes about a microsecond."""
        if self._log is None:
            return False
        try:
            status = os.stat(self._log)
        except OSError:
            return False
        stamp = (status.st_mtime_ns, status.st_size)
        # Modification times are coarse: a file just written may change again with the same time.
        still = stamp == self._stamp and time.time_ns() - status.st_mtime_ns > _FRESH * 1e9
        self._stamp = stamp
        return still

    async def _poll(self) -> None:
        """Polls once, updates the counter, and schedules the next poll."""
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
        """Starts to listen for datagrams."""
        if self._socket is not None and not self._listening:
            self._loop.add_reader(self._socket, self._hear)
            self._listening = True

    def _deafen(self) -> None:
        """Stops listening for datagrams."""
        if self._socket is not None and self._listening:
            self._loop.remove_reader(self._socket)
            self._listening = False

    def _hear(self) -> None:
        """Receives datagrams, and schedules a poll."""
        # Not listening until the next poll: a flood then costs one wake-up per `_GAP`, and the kernel drops the rest.
        self._deafen()
        self._heard = True
        assert self._socket is not None
        with contextlib.suppress(OSError):
            for _ in range(256):
                self._socket.recv(1)
        self._schedule(0 if self._changes.waiting else _WAITING)


def processes_at(path: Path) -> tuple[list[int], list[Path]]:
    """Returns the processes of this machine that have the database open, and files left by dead ones."""
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
    """Returns the id of the network namespace, which tells containers that share a folder apart."""
    try:
        return "".join(filter(str.isdecimal, os.readlink("/proc/self/ns/net"))) or "0"
    except OSError:
        return "0"


def _alive(process: int) -> bool:
    """Tells whether the process exists; always true on Windows."""
    if sys.platform == "win32":
        # There, os.kill with signal 0 would not be a mere test.
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
