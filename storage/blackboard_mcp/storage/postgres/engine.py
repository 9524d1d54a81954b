"""The PostgreSQL engine: transactions for store operations, on a server that several machines share.

It knows transactions and connections; it knows no board. Every writing transaction begins by locking the one row of
`installation`. So all writers of all machines take turns, as SQLite's do, operations see no other's half, and
sequences rise in the order of the commits. `writing.py` has the writer, `news.py` the news between machines.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import asyncpg
from blackboard_mcp.protocols.errors import StoreBusy, StoreClosed, StoreError
from blackboard_mcp.protocols.metering import METER
from blackboard_mcp.storage.change_counter import Changes
from blackboard_mcp.storage.operation import Operation, T
from blackboard_mcp.storage.trouble import Trouble

from . import copying, migrating
from .address import Address
from .news import News
from .session import LONG, Lost, Session, translated, unreachable
from .standing import Standing
from .writing import PAUSES, Untold, Writer, ask, metered

logger = logging.getLogger(__name__)

_STALLED: Final = 10.0
"""The seconds after which the database ends a transaction whose server stalls in it; others wait longer for a lock."""
_STATE: Final = "SELECT state FROM index_reader WHERE id = ?1"
_MOVE_STATE: Final = "UPDATE index_reader SET state = ?3 WHERE id = ?1 AND state = ?2 RETURNING id"


class PostgresEngine:
    """Runs operations on one schema of a PostgreSQL database. Create it with `open`."""

    def __init__(
        self, address: Address, *, reader: str, readers: int, deadline: float, synchronous: bool
    ) -> None:
        self._address = address
        self._deadline = deadline
        self._process = os.getpid()
        name = f"blackboard-mcp {os.getpid()}"
        self._reader = reader
        self._own = {"blackboard.reader": reader}
        self._ended = self._own | {"idle_in_transaction_session_timeout": str(round(_STALLED * 1000))}
        """The settings of connections whose transactions the database ends when they stall."""
        settings = {
            "lock_timeout": str(round(deadline * 1000)),
            "synchronous_commit": "on" if synchronous else "off",
        }
        self._writer = Session(address, name, self._ended | settings)
        self._readers = [Session(address, name, self._ended) for _ in range(readers)]
        self._idle: asyncio.LifoQueue[Session] = asyncio.LifoQueue()
        for session in self._readers:
            self._idle.put_nowait(session)
        self._newest = migrating.newest()
        self._standing = Standing()
        self._changes = Changes()
        self.news = News(
            address,
            name,
            reader,
            newest=self._newest,
            standing=self._standing,
            changes=self._changes,
            read=self.read,
            write=self.write,
        )
        """The news between the servers on these boards."""
        self._writing = Writer(
            address,
            self._writer,
            deadline=deadline,
            newest=self._newest,
            standing=self._standing,
            committed=self.news.committed,
        )
        self._tasks: list[asyncio.Task[None]] = []
        self._ending: set[asyncio.Task[None]] = set()
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls,
        address: Address,
        *,
        reader: str = "main",
        readers: int = 4,
        deadline: float = 15.0,
        synchronous: bool = True,
    ) -> PostgresEngine:
        """Opens an engine, and brings its schema to the newest version; many processes may do so at once.

        `reader` names the index of the archive that this machine keeps; processes with one index share the name.
        `deadline` is the limit in seconds for each wait for a lock or for the server. Without `synchronous` a commit
        is acknowledged before it is on the server's disk.

        Raises:
            StoreTooNew: a newer version of the product migrated the schema.
            StoreDamaged: the schema has tables of something else.
            StoreBusy: the server did not answer in time.
            StoreError: it refuses us.
        """
        engine = cls(address, reader=reader, readers=readers, deadline=deadline, synchronous=synchronous)
        try:
            tables = await engine._patiently(engine._prepare)
            for session in (engine._writer, *engine._readers):
                session.dialect = tables
            await engine._patiently(lambda: engine.news.measure(engine._writer))
            works = (engine._writing.run(), *engine.news.works(tables.tables))
            engine._tasks = [asyncio.create_task(work) for work in works]
            await engine.news.register()
        except BaseException:
            await engine.close()
            raise
        return engine

    async def read(self, operation: Operation[T]) -> T:
        """Runs the operation on one consistent snapshot, and returns its result.

        The snapshot contains every write that any machine acknowledged before the call.

        Raises:
            StoreBusy, StoreTooNew, StoreClosed: as named.
            StoreError: the operation tried to write, or the database failed otherwise.
            Exception: whatever the operation raised.
        """
        self._check_open()
        session = await self._lent()
        try:
            with metered(METER.get()):
                result: T = await self._patiently(lambda: self._snapshot(session, operation))
            return result
        finally:
            ending = asyncio.create_task(self._end(session))
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)

    async def write(self, operation: Operation[T]) -> T:
        """Runs the operation in a transaction, all or nothing, and returns its result after the commit.

        Operations of one process run in the order of the calls; several may share a commit, but an error undoes only
        its own operation; those of a batch (see `Batched`) may share statements. An expensive one (`Meter.dear`) has
        its own commit, and cheap ones may overtake it. A cancelled call either never started or completes as a whole.

        Raises:
            StoreBusy, StoreFull, StoreTooNew, StoreClosed: nothing was changed.
            StoreError: the connection broke during the commit and the server cannot tell what became of it.
            Exception: whatever the operation raised.
        """
        self._check_open()
        return await self._writing.write(operation)

    @property
    def trouble(self) -> Trouble | None:
        """The reason why the last attempt to write failed, or `None`."""
        return self._standing.trouble

    @property
    def displaced(self) -> bool:
        """Never: a server's data do not move under it."""
        return False

    def changes(self) -> int:
        """Returns a counter that grows when this process commits a change or learns of another's."""
        return self._changes.count

    def stamp(self) -> int | None:
        """Returns `None`: whether another machine committed cannot be told without asking the server."""
        return None

    async def wait_for_change(self, seen: int, timeout: float, *, hurried: bool = True) -> int:
        """Waits until the counter exceeds `seen`, or for `timeout` seconds, and returns it.

        Another process's change is noticed by a notification, usually within milliseconds, at the latest within a
        second; behind a pooler without a direct address, within 50 ms while a hurried call waits.

        Raises:
            StoreClosed: the engine is closed, or was closed meanwhile.
        """
        self._check_open()
        return await self._changes.wait(seen, timeout, hurried=hurried)

    async def backup(self, target: Path, mark: Operation[object] | None = None) -> None:
        """Writes all tables, as of one moment, to a new file of the SQLite engine; runs `mark` in it.

        Raises:
            StoreError: `target` exists or cannot be written.
            StoreFull: the disk has no room for the copy.
        """
        self._check_open()
        session = Session(self._address, f"blackboard-mcp {os.getpid()} copy", self._own)
        try:
            await self._patiently(session.open)
            await copying.to_file(session, target, mark)
        except Lost as lost:
            raise StoreBusy("The database went away during the copy; try again.") from lost
        except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise translated(error, "write the copy") from error
        finally:
            await session.close()

    async def write_from(self, source: Path, operation: Operation[T]) -> T:
        """Runs the operation in a transaction that can read the SQLite file `source` as `staged`; returns its result.

        Rows are laid beside the schema before anybody else has to wait.

        Raises:
            StoreDamaged: `source` has another schema.
            StoreBusy: nothing was changed.
            StoreError: the connection broke during the commit and the server cannot tell what became of it.
            Exception: whatever the operation raised; nothing was changed.
        """
        self._check_open()
        session = Session(self._address, f"blackboard-mcp {os.getpid()} import", self._ended)
        session.dialect, session.seconds = self._writer.dialect, LONG
        try:
            await self._patiently(session.open)
            try:
                await session.execute(session.begin())
                await copying.stage(session, source)
                transaction, pulse = await self._writing.lock(session)
                result = await session.run(operation)
                undone = await self._writing.commit(session, transaction)
            except Lost as lost:
                raise StoreBusy("The database went away. Nothing was changed; try again.") from lost
            except BaseException as error:
                await session.roll_back()
                raise translated(error, f"take over {source.name}") from error
        finally:
            await session.close()
        if isinstance(undone, Untold):
            raise StoreError(
                "The connection to the database broke during the commit, and nobody can tell whether it was made: look "
                "whether the board is there, and try again if not."
            ) from undone
        if undone is not None:
            raise undone
        self.news.committed(pulse)
        return result

    async def close(self) -> None:
        """Finishes pending calls, then closes the connections. A second call does nothing."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    # Connections

    async def _prepare(self) -> Any:
        await self._writer.open()
        try:
            return await migrating.migrate(self._writer, self._address)
        except (TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise translated(error, f"migrate the schema {self._address.schema}") from error

    async def _patiently(self, attempt: Callable[[], Any]) -> Any:
        """Calls `attempt` again while the server is away, until the deadline."""
        until = time.monotonic() + self._deadline
        pauses = iter(PAUSES)
        pause = 0.0
        while True:
            try:
                return await attempt()
            except Lost as lost:
                pause = next(pauses, pause)
                if time.monotonic() + pause > until:
                    if not self._tasks:
                        # Whoever opens a store may know all of it; later callers come over a wire.
                        raise StoreBusy(
                            f"{self._address.shown} did not answer within {self._deadline:g} seconds ({lost}). "
                            "Nothing was changed."
                        ) from lost
                    logger.warning("no answer from %s: %s", self._address.shown, lost)
                    raise unreachable(self._deadline) from lost
            await asyncio.sleep(pause)

    def _check_open(self) -> None:
        """Checks that the engine is open in this process.

        Raises:
            StoreClosed: it is not.
            StoreTooNew: a newer version of the product migrated the schema.
        """
        if self._closing is not None:
            raise StoreClosed("The store is closed; nothing was changed.")
        if os.getpid() != self._process:
            raise StoreClosed("The store was opened before this process was forked off; open it again.")
        if self._standing.outdated is not None:
            raise self._standing.outdated

    # Reading

    async def _lent(self) -> Session:
        """Returns a connection for reading that nobody uses.

        Raises:
            StoreBusy: there is none until the deadline.
        """
        with contextlib.suppress(asyncio.QueueEmpty):
            return self._idle.get_nowait()
        try:
            async with asyncio.timeout(self._deadline):
                return await self._idle.get()
        except TimeoutError:
            raise unreachable(self._deadline) from None

    async def _snapshot(self, session: Session, operation: Operation[T]) -> T:
        """Runs the operation in a transaction that only reads, and returns its result."""
        try:
            if not session.is_open:
                await session.open()
            await session.execute(session.begin("ISOLATION LEVEL REPEATABLE READ READ ONLY"))
            return await session.run(operation)
        except Lost:
            raise
        except BaseException as error:
            await session.roll_back()
            raise translated(error, "read") from error

    async def _end(self, session: Session) -> None:
        """Ends the transaction of a read, for which its caller need not wait, and lends the connection on."""
        await session.roll_back()
        self._idle.put_nowait(session)

    # The archive's indexes

    async def index_state(self) -> str:
        """Returns the state in use of the index that this machine reads; empty at first."""
        rows = await self.read(lambda: ask(_STATE, (self._reader,)))
        return str(rows[0][0]) if rows else ""

    async def move_index_state(self, former: str, to: str) -> bool:
        """Notes another state in place of `former`; returns false and changes nothing if that is not the one in use."""
        return bool(await self.write(lambda: ask(_MOVE_STATE, (self._reader, former, to))))

    async def _close(self) -> None:
        """Ends the writer, then the rest."""
        self._writing.close()
        if self._tasks:
            await asyncio.gather(self._tasks[0], return_exceptions=True)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._changes.close()
        for _ in self._readers:
            await self._idle.get()
        for session in (self._writer, *self._readers):
            await session.close()
        await self.news.close()
