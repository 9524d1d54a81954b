"""The archive index in a process of its own.

LanceDB, Arrow and the embedding model take 100 to 230 MiB. In a process of their own they give all of it back when they
are idle, and a crash of native code ends no server.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import pickle
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from blackboard_mcp.protocols.archive import (
    NOTHING_WAITS,
    ArchiveAnswer,
    ArchiveDocument,
    ArchiveQuery,
    Sum,
    Waiting,
)
from blackboard_mcp.protocols.errors import ArchiveUnavailable
from blackboard_mcp.protocols.grants import without
from blackboard_mcp.protocols.metering import METER
from blackboard_mcp.storage.lance.embedders.choice import EmbedderChoice
from blackboard_mcp.storage.lance.host import LENGTH_BYTES, Ask, Begin, Lives, Logged, Told, Works, frame
from blackboard_mcp.storage.lance.index import LanceArchiveIndex

logger = logging.getLogger(__name__)

IDLE_SECONDS: Final = 300.0
"""The process ends when nothing was asked for so long."""
_SILENT_SECONDS: Final = 60.0
"""A process that keeps callers waiting and says nothing for so long hangs, and is killed."""
_END_SECONDS: Final = 5.0
"""The longest that it may take to end once it is told; then it is killed."""
_LARGE: Final = 256 * 1024
"""Frames above this size, in bytes, are read in a thread."""
_PIPE_BYTES: Final = 1024 * 1024
_ATTEMPTS: Final = 2
_LEFT_ALONE_SECONDS: Final = 30.0
"""Seconds for which no process is begun after one that could not run."""
_HOST: Final = """
import os, pickle, sys
sink = os.dup(1)
try:
    from blackboard_mcp.storage.lance.host import main
    main()
except Exception as error:
    told = pickle.dumps(f"{type(error).__name__}: {error}")
    os.write(sink, len(told).to_bytes(8, "big") + told)
    sys.exit(1)
"""
"""The program: a process that cannot run, as when its package was replaced or removed, says why in a last frame."""
_PROGRAM: Final = (
    sys.executable,
    "-P",  # the folder that a server was started in has no modules of ours
    "-c",
    _HOST,
)
_LEVELS: Final = (logging.DEBUG, logging.INFO, logging.WARNING)


class _Gone(Exception):
    """The process ended before it answered."""


class _Call:
    """A call that waits for its answer. Meanwhile its meter has one that works, unless it waits for somebody else."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[Told] = loop.create_future()
        self.began = loop.time()
        self._meter = METER.get()
        self._works = False
        self.works(itself=True)

    def works(self, *, itself: bool) -> None:
        """Notes whether it works itself."""
        if self._meter is not None and itself != self._works:
            self._meter.working += 1 if itself else -1
            self._works = itself

    def charge(self, seconds: float) -> None:
        """Counts what the work took."""
        if self._meter is not None:
            self._meter.seconds += seconds


class _Running(NamedTuple):
    """A process, and the calls that wait for its answers by number."""

    process: asyncio.subprocess.Process
    calls: dict[int, _Call]
    listening: asyncio.Task[None]


class IndexProcess:
    """Begins the process when something is asked, and again after it ended. Several indexes may use it."""

    def __init__(self, path: Path, embedder: EmbedderChoice) -> None:
        self._begin = Begin(
            path, embedder, next((n for n in _LEVELS if logger.isEnabledFor(n)), logging.ERROR)
        )
        self._running: _Running | None = None
        self._starting = asyncio.Lock()
        self._number = 0
        self._idle: asyncio.TimerHandle | None = None
        self._unable = ""
        self._left_alone_until = 0.0
        self._ending: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The number of the process, if one runs."""
        return None if self._running is None else self._running.process.pid

    async def ask(self, method: str, *arguments: Any, draft: bool = False) -> Any:
        """Calls a method of the index, or of its draft. All methods may be called twice, so a call whose process ended
        is made once more.

        Raises:
            ArchiveUnavailable: the index raised it, it was closed, or its process ended twice or cannot run.
        """
        for _ in range(_ATTEMPTS):
            try:
                return await self._ask(method, arguments, draft=draft)
            except _Gone as gone:
                logger.warning("the process of the archive index ended (%s)", gone)
        raise ArchiveUnavailable(
            "The process of the archive index ended twice before it answered. Nothing is lost: the index can be "
            "rebuilt from the store.",
            reason="ended",
        )

    async def _ask(self, method: str, arguments: tuple[Any, ...], *, draft: bool) -> Any:
        running = await self._started()
        self._number += 1
        number = self._number
        call = running.calls[number] = _Call()
        try:
            assert running.process.stdin is not None
            with contextlib.suppress(ConnectionError, RuntimeError):  # how it ended is told by the answer
                running.process.stdin.write(frame(Ask(number, draft, method, arguments)))
                await running.process.stdin.drain()
            told = await call.answer
        finally:
            del running.calls[number]
            call.works(itself=False)
            if not running.calls and running is self._running:
                self._rest()
        call.charge(told.seconds)
        if told.error is not None:
            words, facts = told.error
            raise ArchiveUnavailable(words, **facts)
        return told.result

    async def _started(self) -> _Running:
        """Returns the process that runs, and begins one if there is none.

        Raises:
            ArchiveUnavailable: the index was closed, or no process can be begun, or one could not run a moment ago.
        """
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        async with self._starting:
            if self._closed:
                raise ArchiveUnavailable("The archive index was closed.", reason="closed")
            if self._running is None:
                if asyncio.get_running_loop().time() < self._left_alone_until:
                    raise self._cannot_run()
                try:
                    process = await asyncio.create_subprocess_exec(
                        *_PROGRAM,
                        stdin=asyncio.subprocess.PIPE,
                        stdout=asyncio.subprocess.PIPE,
                        limit=_PIPE_BYTES,
                        start_new_session=True,  # Ctrl-C is for the server, which ends it
                    )
                except OSError as error:
                    raise ArchiveUnavailable(
                        f"No process can be begun for the archive index: {error}.", reason="unreachable"
                    ) from error
                assert process.stdin is not None
                with contextlib.suppress(
                    ConnectionError, RuntimeError
                ):  # one that ended already is noticed below
                    process.stdin.write(frame(self._begin))
                calls: dict[int, _Call] = {}
                context = without()  # it outlives the call that begins it
                context.run(METER.set, None)
                listening = asyncio.create_task(self._listen(process, calls), name="archive", context=context)
                self._running = _Running(process, calls, listening)
            return self._running

    async def _listen(self, process: asyncio.subprocess.Process, calls: dict[int, _Call]) -> None:
        """Hands answers to those who wait, until the process ends."""
        assert process.stdout is not None
        unable = False
        try:
            while True:
                if (head := await _head(process.stdout, calls)) is None:
                    logger.error("the process of the archive index hangs and is killed")
                    break
                body = await process.stdout.readexactly(int.from_bytes(head, "big"))
                large = len(body) > _LARGE
                message = await asyncio.to_thread(pickle.loads, body) if large else pickle.loads(body)
                if isinstance(message, Logged):
                    logging.getLogger(message.logger).log(message.level, "%s", message.text)
                elif isinstance(message, str):
                    unable, self._unable = True, message
                    self._left_alone_until = asyncio.get_running_loop().time() + _LEFT_ALONE_SECONDS
                elif isinstance(message, Lives):
                    pass
                elif (call := calls.get(message.number)) is None:
                    pass  # whoever called was cancelled
                elif isinstance(message, Works):
                    call.works(itself=message.itself)
                elif not call.answer.done():
                    call.answer.set_result(message)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except Exception:
            # The package may have been replaced by another version since the server began.
            logger.exception("the process of the archive index says what cannot be read, and is killed")
        finally:
            if self._running is not None and self._running.process is process:
                self._running = None
            if not process.stdout.at_eof():
                _kill(process)
            code = await process.wait()
            for call in calls.values():
                if not call.answer.done():
                    call.answer.set_exception(self._cannot_run() if unable else _Gone(f"code {code}"))

    def _cannot_run(self) -> ArchiveUnavailable:
        return ArchiveUnavailable(
            f"The process of the archive index cannot run: {self._unable}.", reason="unreachable"
        )

    def _rest(self) -> None:
        """Ends the process later if nothing is asked until then."""
        if self._idle is not None:
            self._idle.cancel()
        self._idle = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._let_go)

    def _let_go(self) -> None:
        self._idle = None
        running = self._running
        if running is not None and not running.calls:
            self._running = None
            ending = asyncio.create_task(_end(running), name="archive-end")
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        """Ends the process after its calls under way; later calls are refused. It may be called twice."""
        self._closed = True
        if self._idle is not None:
            self._idle.cancel()
        async with self._starting:
            running, self._running = self._running, None
        if running is not None:
            await _end(running)
        await asyncio.gather(*self._ending)


async def _end(running: _Running) -> None:
    """Has a process end after its calls, and kills it if it does not."""
    assert running.process.stdin is not None
    running.process.stdin.close()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_END_SECONDS):
            await asyncio.shield(running.listening)
    if not running.listening.done():
        _kill(running.process)
        await running.listening


def _kill(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()


async def _head(stream: asyncio.StreamReader, calls: dict[int, _Call]) -> bytes | None:
    """Returns the length of the next message; `None` if a call has waited for it for too long."""
    loop = asyncio.get_running_loop()
    heard = loop.time()
    while True:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SILENT_SECONDS / 4):
                return await stream.readexactly(LENGTH_BYTES)
        since = max(heard, min((call.began for call in calls.values()), default=loop.time()))
        if loop.time() - since > _SILENT_SECONDS:
            return None


class ProcessArchiveIndex:
    """The index in a folder, as `LanceArchiveIndex` is, with its work in a process of its own.

    What a folder without an index is asked needs no process.
    """

    def __init__(self, path: Path, embedder: EmbedderChoice, *, process: IndexProcess | None = None) -> None:
        self._path = path
        self._embedder = embedder
        self._process = process or IndexProcess(path, embedder)
        self._is_draft = process is not None
        self._empty = LanceArchiveIndex(path, embedder.load(), vector_weight=embedder.vector_weight)

    async def upsert(self, documents: Sequence[ArchiveDocument]) -> None:
        if documents:
            await self._ask("upsert", documents)

    async def remove(self, keys: Sequence[tuple[str, int]]) -> None:
        if keys and await self._exists():
            await self._ask("remove", keys)

    async def search(self, query: ArchiveQuery, waiting: Waiting = NOTHING_WAITS) -> ArchiveAnswer:
        if not waiting.documents and not await self._exists():
            return await self._empty.search(query, waiting)
        return cast(ArchiveAnswer, await self._ask("search", query, waiting))

    async def life(self) -> str:
        return await self._empty.life() if not self._is_draft else str(await self._ask("life"))

    async def fits(self) -> bool:
        return not await self._exists() or bool(await self._ask("fits"))

    def draft(self) -> ProcessArchiveIndex:
        return ProcessArchiveIndex(self._path, self._embedder, process=self._process)

    async def publish(self) -> None:
        await self._ask("publish")

    async def sums(self, apart: Mapping[str, Sequence[int]]) -> dict[str, Sum]:
        if not await self._exists():
            return {}
        return cast("dict[str, Sum]", await self._ask("sums", dict(apart)))

    async def keys(self) -> dict[tuple[str, int], int]:
        if not await self._exists():
            return {}
        return cast("dict[tuple[str, int], int]", await self._ask("keys"))

    async def reset(self) -> None:
        await self._ask("reset")

    async def maintain(self) -> None:
        if await self._exists():
            await self._ask("maintain")

    async def close(self) -> None:
        """Waits for calls under way; later calls raise `ArchiveUnavailable`. It may be called twice."""
        if not self._is_draft:
            await self._process.close()
        elif self._process.pid is not None:
            await self._ask("close")
        await self._empty.close()

    async def _exists(self) -> bool:
        """Tells whether the process has anything to look at."""
        return self._is_draft or self._process.pid is not None or bool(await self._empty.life())

    async def _ask(self, method: str, *arguments: Any) -> Any:
        return await self._process.ask(method, *arguments, draft=self._is_draft)
