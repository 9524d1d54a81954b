"""News on PostgreSQL: this process tells the others of its commits, and hears of theirs.

A notification is a hint, and the number of commits is the truth, for which the server is asked now and then. By the way
this compares the clocks, keeps this machine's index on the list of those that read the outbox, and has the server count
its tables.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from bisect import bisect
from collections.abc import Awaitable, Callable, Collection, Coroutine
from typing import Any, Final

import asyncpg
from blackboard_mcp.protocols.errors import StoreError
from blackboard_mcp.storage.change_counter import Changes
from blackboard_mcp.storage.operation import Operation

from . import migrating
from .address import Address
from .session import Lost, Session
from .standing import AWAY, Standing
from .writing import PAUSES, ask

logger = logging.getLogger(__name__)

CHANNEL: Final = "blackboard_news"
WORDS: Final = "blackboard_words"
"""The channel of what servers tell each other besides."""
_HURRIED: Final = 0.05
_SURE: Final = 1.0
"""The seconds between looks for others' commits: while somebody waits and no notifications come, and otherwise."""
_UNHEARD: Final = 10.0
"""Seconds without an answer after which the connection for news is made anew: its database may be gone unseen."""
_COUNTING: Final = 3_600.0
"""The most seconds in which the server counts its tables."""
_NOW: Final = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
_REGISTER: Final = (
    f"INSERT INTO index_reader(id, seen_at) VALUES (?1, {_NOW}) "  # noqa: S608 - our own
    "ON CONFLICT DO UPDATE SET seen_at = excluded.seen_at"
)
_UNSEEN: Final = f"seen_at < {_NOW} - {30 * 86_400_000_000}"
"""Not for a month, by the database's clock: one server whose own is wrong must not strike others off."""
_FORGET_ROWS: Final = f"DELETE FROM outbox_row WHERE reader IN (SELECT id FROM index_reader WHERE {_UNSEEN})"  # noqa: S608 - our own
_FORGET: Final = f"DELETE FROM index_reader WHERE {_UNSEEN}"  # noqa: S608 - our own
_DAY: Final = 86_400.0
_MILESTONES: Final = (20, 100, 500, 2_500, 12_500)
"""Numbers of commits after which the server counts its tables for the plans of statements."""
_LOOK: Final = (
    f"SELECT pulse, schema, EXISTS (SELECT 1 FROM {{0}}index_reader WHERE id = {{1}}), {_NOW} "  # noqa: S608 - our own
    "FROM {0}installation"
)
_TIME: Final = f"SELECT {_NOW}"
_APART: Final = 0.05
"""The seconds by which this machine's clock and the database's may differ before that is allowed for."""


class News:
    """Looks for others' commits, and tells them of this process's. `works` have to run meanwhile."""

    def __init__(
        self,
        address: Address,
        name: str,
        reader: str,
        *,
        newest: int,
        standing: Standing,
        changes: Changes,
        read: Callable[[Operation[Any]], Awaitable[Any]],
        write: Callable[[Operation[Any]], Awaitable[Any]],
    ) -> None:
        """`name` is that of its connections, `reader` that of this machine's index; `newest` as for the writer.

        `changes` grow with each commit here or elsewhere. `read` and `write` run an operation.
        """
        self._address = address
        self._reader = reader
        self._newest = newest
        self._standing = standing
        self._changes = changes
        self._read = read
        self._write = write
        direct = Address.parse(address.listen) if address.listen is not None else address
        self.session = Session(direct, name) if address.listen is not None or not address.pooled else None
        """The connection that listens; `None` behind a pooler without a direct address."""
        if self.session is not None:
            self.session.seconds = _UNHEARD
        self._counter = Session(direct, name)
        self._counter.seconds = _COUNTING
        self._tables: Collection[str] = ()
        self._registered = float("inf")
        self.ahead = 0.0
        """The seconds by which the database's clock is ahead of this machine's."""
        self._milestone: int | None = None
        self._told = asyncio.Event()
        self.speaking = asyncio.Lock()
        self._hear = asyncio.Event()
        self.heard: Callable[[str], None] = lambda words: None
        """Called with what another server on these boards told."""
        self.struck: Callable[[], None] = lambda: None
        """Called when this machine's index, which was struck off the list, is on it again: it may miss changes."""
        self._counting: asyncio.Task[None] | None = None

    def works(self, tables: Collection[str]) -> list[Coroutine[Any, Any, None]]:
        """Returns what has to run until `close`; `tables` are those that the server is to count."""
        self._tables = tables
        return [self._kept_up(self._watch), self._kept_up(self._tell)]

    def committed(self, pulse: int) -> None:
        """Wakes who waits here, and has the others told of the commit of this number."""
        self._standing.pulse = pulse
        self._changes.bump()
        self._told.set()
        if self._milestone is not None and bisect(_MILESTONES, pulse) > self._milestone:
            self._hear.set()

    async def close(self) -> None:
        """Ends the counting of tables, and the connection; `works` are cancelled before."""
        if self._counting is not None:
            self._counting.cancel()
            await asyncio.gather(self._counting, return_exceptions=True)
        if self.session is not None:
            await self.session.close()

    async def register(self) -> None:
        """Notes that this machine's index is there, and forgets those that were not seen for a month."""

        def noted() -> Any:
            yield _REGISTER, (self._reader,)
            yield _FORGET_ROWS, ()
            yield _FORGET, ()

        await self._write(noted)
        self._registered = time.monotonic()

    async def _kept_up(self, work: Callable[[], Awaitable[None]]) -> None:
        """Does `work` until the engine closes, and begins it anew, on another connection, whatever it fails with."""
        task, known = asyncio.current_task(), ""
        assert task is not None
        while not self._standing.closing:
            try:
                await work()
            except (Exception, asyncio.CancelledError) as error:
                if task.cancelling():
                    raise
                if self.session is not None:
                    self.session.drop()
                cause = f"{type(error).__name__}: {error}"
                if cause != known:
                    known = cause
                    logger.exception("listening for news of the database failed, and begins anew: %s", cause)
                await asyncio.sleep(PAUSES[-1])

    async def _tell(self) -> None:
        """Notifies other processes after commits, several at once; a lost notification does no harm."""
        while not self._standing.closing:
            await self._told.wait()
            self._told.clear()
            if self.session is None:
                continue
            with contextlib.suppress(Lost, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError):
                if self.session.is_open:
                    await self._notify()

    async def _notify(self) -> None:
        assert self.session is not None
        async with self.speaking:
            await self.session.execute(f"NOTIFY {CHANNEL}, '{self._address.schema}'")

    async def _watch(self) -> None:
        """Looks for others' commits after each notification, and now and then without one."""
        while not self._standing.closing:
            listening = False
            try:
                listening = await self._listen()
                await self._look()
                self._standing.trouble = None
                self._count()
                if time.monotonic() - self._registered > _DAY:
                    await self.register()
            except (Lost, asyncpg.PostgresError, asyncpg.InterfaceError, StoreError, TimeoutError):
                self._standing.trouble = AWAY
            hurried = not listening and self._changes.waiting
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_HURRIED if hurried else _SURE):
                    await self._hear.wait()
            self._hear.clear()

    async def _listen(self) -> bool:
        """Sees that notifications come; returns whether they do."""
        if self.session is None:
            return False
        # Whoever tells something meanwhile waits: the connection does one thing at a time.
        async with self.speaking:
            if not self.session.is_open:
                await self.session.open()
                try:
                    await self.session.listen(CHANNEL, lambda schema: self._hear.set())
                    await self.session.listen(WORDS, self._words)
                except BaseException:
                    self.session.drop()  # an open connection counts as one that listens
                    raise
        return True

    async def tell(self, words: str) -> None:
        """Tells the other servers on these boards something of up to 7,900 bytes, which may be lost.

        Behind a pooler without a direct address nobody hears of it.
        """
        if self.session is None or not self.session.is_open:
            return
        with contextlib.suppress(Lost, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError):
            async with self.speaking:
                await self.session.fetch(
                    "SELECT pg_notify($1::text, $2::text)", [WORDS, f"{self._address.schema} {words}"]
                )

    def _words(self, told: str) -> None:
        schema, _, words = told.partition(" ")
        if schema == self._address.schema:
            self.heard(words)

    async def _look(self) -> None:
        """Asks for the number of commits, and wakes who waits if it grew; compares clocks.

        Sees that this machine's index is listed, too.
        """
        noted = self._registered < float("inf")
        if self.session is not None:
            async with self.speaking:
                before = time.monotonic()
                look = _LOOK.format(f"{self._address.schema}.", "$1::text")
                rows, _ = await self.session.fetch(look, [self._reader])
        else:
            before = time.monotonic()
            rows = await self._read(lambda: ask(_LOOK.format("", "?1"), (self._reader,)))
        pulse, schema, listed, there = rows[0]
        self._compare(there, time.monotonic() - before)
        if schema > self._newest:
            self._standing.outdated = migrating.too_new(schema, self._newest)
        if pulse != self._standing.pulse:
            self._standing.pulse = pulse
            self._changes.bump()
        if noted and not listed:
            await self.register()
            logger.warning("the search index %s was struck off the list, and is compared anew", self._reader)
            self.struck()

    async def measure(self, session: Session) -> None:
        """Learns how far the database's clock is from this machine's, so that all servers go by one clock."""
        await session.open()
        before = time.monotonic()
        ((there,),), _ = await session.fetch(_TIME)
        self._compare(there, time.monotonic() - before)

    def _compare(self, there: int, took: float) -> None:
        """Compares the database's time, which was asked for in the last `took` seconds, with this machine's."""
        ahead = there / 1_000_000 - time.time() + took / 2
        if abs(ahead - self.ahead) > took / 2 + _APART:
            self.ahead = ahead

    def _count(self) -> None:
        """Begins to have the server count its tables, at the first milestones of a new schema.

        Until then it takes each board for a row or two, and goes through whole boards where it should look one item
        up. Later its own background work counts often enough.
        """
        if self._counting is not None and not self._counting.done():
            return
        due, self._milestone = self._milestone, bisect(_MILESTONES, self._standing.pulse)
        if self.session is None or due is None or due == self._milestone:
            return
        self._counting = asyncio.create_task(self._have_counted())

    async def _have_counted(self) -> None:
        """Has the server count its tables, which takes minutes for large ones, on a connection of its own."""
        tables = ", ".join(f"{self._address.schema}.{name}" for name in self._tables)
        try:
            await self._counter.open()
            await self._counter.execute(f"ANALYZE (SKIP_LOCKED) {tables}")
        except (Lost, StoreError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError) as error:
            logger.info(
                "the database did not count its tables, which its own background work does later: %s", error
            )
        finally:
            await self._counter.close()
