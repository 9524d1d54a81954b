"""The parent of several worker processes: it listens, hands each connection to a worker, and keeps workers running.

It accepts by itself, because workers that accept from one socket share connections badly, and workers with sockets of
their own lose those that wait at one of them when it dies. It knows no boards and reads nothing of what clients send.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import pickle
import signal
import socket
import sys
from dataclasses import dataclass, replace
from typing import Final

from blackboard_mcp.server.background import stop_signals
from blackboard_mcp.server.http.channel import CONNECTION, ENDED, READY, REQUEST, START, TAKEN, Channel
from blackboard_mcp.server.http.listening import base_url, listen, say_ready
from blackboard_mcp.server.limits.limits import part_of
from blackboard_mcp.server.settings.server import WORKER_VARIABLE, Settings, check_workers

logger = logging.getLogger(__name__)

PAUSES: Final = (0.2, 30.0)
"""The seconds until a worker that ended is started again: at first, and at most; each time twice as long."""
STEADY_SECONDS: Final = 60.0
"""The seconds after which a worker counts as started well."""
STOP_SECONDS: Final = 15.0
"""The seconds that workers have to stop, more than they take."""
_AT_ONCE: Final = 64
_NO_ROOM_SECONDS: Final = 0.2


async def supervise(settings: Settings) -> int:
    """Serves with several workers until a stop signal comes, and returns the exit code.

    Raises:
        InvalidInput: there cannot be several workers, or the address cannot be bound.
    """
    check_workers(settings)
    with listen(settings.host, settings.port) as listener:
        listener.setblocking(False)
        return await _Workers(settings, listener).run()


@dataclass(eq=False, slots=True)
class _Worker:
    """A worker process: its channel, the number of its connections, and whether it takes any."""

    number: int
    process: asyncio.subprocess.Process
    channel: Channel
    ready: bool = False
    open: int = 0


class _Workers:
    def __init__(self, settings: Settings, listener: socket.socket) -> None:
        self._listener = listener
        self._url = base_url(settings.host, listener.getsockname()[1], tls=settings.tls_cert is not None)
        self._settings = replace(
            settings, port=listener.getsockname()[1], limits=part_of(settings.limits, settings.workers)
        )
        self._workers: dict[int, _Worker] = {}
        self._loop = asyncio.get_running_loop()
        self._started = asyncio.Event()
        self._first = asyncio.Event()
        self._ending = asyncio.Event()
        self._code = 0

    async def run(self) -> int:
        """Runs the workers until a signal comes, or one of them cannot start; returns the exit code."""
        for told in stop_signals():
            self._loop.add_signal_handler(told, self._end, told)
        # One alone first: it brings the boards' file to this version, and says what none of them can start with.
        keeping = [asyncio.create_task(self._keep(1))]
        ending = asyncio.create_task(self._ending.wait())
        await asyncio.wait({ending, asyncio.create_task(self._first.wait())}, return_when="FIRST_COMPLETED")
        if not self._ending.is_set():
            keeping += [asyncio.create_task(self._keep(n)) for n in range(2, self._settings.workers + 1)]
        await ending
        self._loop.remove_reader(self._listener)
        self._listener.close()
        _, late = await asyncio.wait(keeping, timeout=STOP_SECONDS)
        if late:
            names = ", ".join(f"worker {number}" for number in sorted(self._workers))
            logger.error(
                "%s did not stop within %g seconds: killed; what was acknowledged is kept",
                names,
                STOP_SECONDS,
            )
            self._send(signal.SIGKILL)
            await asyncio.wait(late)
            self._code = 1
        for task in keeping:
            task.result()
        return self._code

    def _end(self, told: signal.Signals = signal.SIGTERM) -> None:
        """Stops all workers, which end their streams and finish their calls."""
        self._ending.set()
        self._send(told)

    def _send(self, told: signal.Signals) -> None:
        for worker in self._workers.values():
            with contextlib.suppress(ProcessLookupError):
                # One that starts would show an interruption as an error of its own, and does not know a hang-up yet.
                plain = worker.ready or told == signal.SIGKILL
                worker.process.send_signal(told if plain else signal.SIGTERM)

    async def _keep(self, number: int) -> None:
        """Runs a worker, and starts it again when it ends, until all end."""
        pause = PAUSES[0]
        while not self._ending.is_set():
            began = self._loop.time()
            ended, by_itself = await self._until_it_ends(number)
            if self._ending.is_set():
                return
            if not self._started.is_set():
                # One that ends by itself has said why.
                level = logging.INFO if by_itself else logging.ERROR
                logger.log(level, "worker %d %s, so the server does not start", number, ended)
                self._code = 1
                self._end()
                return
            if self._loop.time() - began > STEADY_SECONDS:
                pause = PAUSES[0]
            logger.error("worker %d %s; it starts again in %g s", number, ended, pause)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._ending.wait()
            pause = min(2 * pause, PAUSES[1])

    async def _until_it_ends(self, number: int) -> tuple[str, bool]:
        """Runs a worker once, and returns how it ended, and whether by itself."""
        try:
            worker = await self._start(number)
        except OSError as error:
            return f"cannot be started ({error})", False
        code = await worker.process.wait()
        self._forget(worker)
        if self._ending.is_set() and code not in (0, -signal.SIGTERM):
            self._code = 1
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        return f"(process {worker.process.pid}) {how}", code >= 0

    async def _start(self, number: int) -> _Worker:
        """Starts a worker by the command line of this process."""
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, *sys.orig_argv[1:]),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=os.environ | {WORKER_VARIABLE: str(theirs.fileno())},
                # Ctrl-C on a terminal goes to this process alone, which passes it on: two would cut calls off.
                start_new_session=True,
            )
        channel = Channel(ours)
        worker = self._workers[number] = _Worker(number, process, channel)
        channel.send(START, pickle.dumps((self._settings, number)))
        self._loop.add_reader(channel, self._hear, worker)
        if self._ending.is_set():  # the signal came before there was a process to send it to
            self._send(signal.SIGTERM)
        return worker

    def _forget(self, worker: _Worker) -> None:
        del self._workers[worker.number]
        self._loop.remove_reader(worker.channel)
        worker.channel.close()

    def _hear(self, worker: _Worker) -> None:
        messages = worker.channel.received()
        if messages is None:
            worker.ready = False
            self._loop.remove_reader(worker.channel)
            return
        for kind, body, file in messages:
            if kind == READY:
                worker.ready = True
                self._first.set()
                self._listen()
                if self._started.is_set():
                    logger.warning("worker %d answers again (process %d)", worker.number, worker.process.pid)
                if not self._started.is_set() and len(self._ready()) == self._settings.workers:
                    self._started.set()
                    say_ready(self._url)
            elif kind == ENDED:
                worker.open = max(0, worker.open - 1)
            elif kind == TAKEN:
                for other in self._ready():
                    if other is not worker:
                        other.channel.send(TAKEN, body)
            elif kind == REQUEST and file is not None:
                keeper = self._workers.get(1)
                if keeper is not None and keeper.ready:
                    keeper.channel.send(REQUEST, file=file)
                os.close(file)

    def _ready(self) -> list[_Worker]:
        return [worker for worker in self._workers.values() if worker.ready]

    def _listen(self) -> None:
        if not self._ending.is_set():
            self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        """Gives connections that wait to the workers with the fewest; without any worker they go on waiting."""
        for _ in range(_AT_ONCE):
            workers = sorted(self._ready(), key=lambda worker: (worker.open, worker.number))
            if not workers:
                self._loop.remove_reader(self._listener)
                return
            try:
                connection, _address = self._listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                logger.error("cannot accept connections at the moment: %s", error)
                self._loop.remove_reader(self._listener)
                self._loop.call_later(_NO_ROOM_SECONDS, self._listen)
                return
            with connection:
                for worker in workers:
                    if worker.channel.send(CONNECTION, file=connection.fileno()):
                        worker.open += 1
                        break
