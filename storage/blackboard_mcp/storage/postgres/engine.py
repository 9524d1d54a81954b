"""The PostgreSQL engine: transactions for store operations, on a server that several machines share.

It knows transactions and connections; it knows no board. Every writing transaction begins by locking the one row of
`installation`. So all writers of all machines take turns, as SQLite's do, operations see no other's half, and
sequences rise in the order of the commits. Operations that wait in one process share a transaction.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from bisect import bisect
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import asyncpg
from blackboard_mcp.protocols.errors import StoreBusy, StoreClosed, StoreError
from blackboard_mcp.protocols.metering import METER, Meter, shared
from blackboard_mcp.storage.change_counter import Changes
from blackboard_mcp.storage.operation import Batch, Batched, Operation, Outcome, Pauses, Spoilt, T
from blackboard_mcp.storage.trouble import Trouble

from ..operations.ledger.rows import sql
from . import copying, migrating
from .address import Address
from .session import HERE, LONG, Lost, Session, translated, unreachable

logger = logging.getLogger(__name__)

CHANNEL: Final = "blackboard_news"
WORDS: Final = "blackboard_words"
"""The channel of what servers tell each other besides."""
_MEMBERS: Final = 64
"""The most operations in one transaction."""
_SPAN: Final = 0.05
"""The seconds after which a transaction takes no more operations, since other machines wait for the lock."""
_STALLED: Final = 10.0
"""The seconds after which the database ends a transaction whose server stalls in it; others wait longer for a lock."""
_PAUSES: Final = (0.05, 0.1, 0.2, 0.5, 1.0)
"""The seconds between attempts to connect; the last one repeats."""
_HURRIED: Final = 0.05
_SURE: Final = 1.0
"""The seconds between looks for others' commits: while somebody waits and no notifications come, and otherwise."""
_UNHEARD: Final = 10.0
"""Seconds without an answer after which the connection for news is made anew: its database may be gone unseen."""
_COUNTING: Final = 3_600.0
"""The most seconds in which the server counts its tables."""
_LOCK: Final = (
    "UPDATE installation SET pulse = pulse + 1 "
    "RETURNING schema, pg_current_xact_id()::text, pulse, place, tableoid::bigint"
)
_LOCK_POOLED: Final = f"{_LOCK}, {HERE}"
"""The same behind a pooler, which connects a session to a promoted standby without a word."""
_MOST_COUNTED: Final = 0.05
"""The most seconds that an operation counts as its caller's work: a database that stalls works for nobody."""
_NOW: Final = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
_REGISTER: Final = (
    f"INSERT INTO index_reader(id, seen_at) VALUES (?1, {_NOW}) "  # noqa: S608 - our own
    "ON CONFLICT DO UPDATE SET seen_at = excluded.seen_at"
)
_STATE: Final = "SELECT state FROM index_reader WHERE id = ?1"
_MOVE_STATE: Final = "UPDATE index_reader SET state = ?3 WHERE id = ?1 AND state = ?2 RETURNING id"
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


class _Untold(StoreError):
    """Nobody can tell whether a commit was made, so nothing of it may run again."""


class _Job:
    """One operation to run, and the future of its caller."""

    __slots__ = ("future", "meter", "operation", "overdue", "started", "until")

    def __init__(
        self, operation: Operation[Any], future: asyncio.Future[Any], until: float, meter: Meter | None
    ) -> None:
        self.operation = operation
        self.future = future
        self.until = until
        self.meter = meter
        self.started = False
        self.overdue: asyncio.TimerHandle | None = None
        """The timer that refuses the operation if it waits too long."""

    @property
    def dear(self) -> bool:
        return self.meter is not None and self.meter.dear

    def settle(self, result: Any) -> None:
        if not self.future.done():
            self.future.set_result(result)

    def fail(self, error: BaseException) -> None:
        if not self.future.done():
            self.future.set_exception(error)


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
        direct = Address.parse(address.listen) if address.listen is not None else address
        self._news = Session(direct, name) if address.listen is not None or not address.pooled else None
        if self._news is not None:
            self._news.seconds = _UNHEARD
        self._counter = Session(direct, name)
        self._counter.seconds = _COUNTING
        self._newest = migrating.newest()
        self._jobs: deque[_Job] = deque()
        self._dear: deque[_Job] = deque()
        self._dear_is_next = False
        self._pauses = Pauses()
        self._answered = time.monotonic()
        """When the database last took a write."""
        self._wanted = asyncio.Event()
        self._changes = Changes()
        self._pulse = 0
        self._registered = float("inf")
        self.ahead = 0.0
        """The seconds by which the database's clock is ahead of this machine's."""
        self._milestone: int | None = None
        self._told = asyncio.Event()
        self._speaking = asyncio.Lock()
        self._hear = asyncio.Event()
        self.heard: Callable[[str], None] = lambda words: None
        """Called with what another server on these boards told."""
        self.struck: Callable[[], None] = lambda: None
        """Called when this machine's index, which was struck off the list, is on it again: it may miss changes."""
        self._tasks: list[asyncio.Task[None]] = []
        self._counting: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._trouble: Trouble | None = None
        self._outdated: BaseException | None = None
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
            await engine._patiently(engine._measure)
            works = (engine._write(), engine._kept_up(engine._watch), engine._kept_up(engine._tell))
            engine._tasks = [asyncio.create_task(work) for work in works]
            await engine._register()
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
            with _metered(METER.get()):
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
        loop = asyncio.get_running_loop()
        job = _Job(operation, loop.create_future(), time.monotonic() + self._deadline, METER.get())
        (self._dear if job.dear else self._jobs).append(job)
        self._wanted.set()
        job.overdue = loop.call_later(self._deadline, self._refuse_late, job)
        try:
            result: T = await job.future
        except asyncio.CancelledError:
            if not job.started:
                with contextlib.suppress(ValueError):
                    (self._dear if job.dear else self._jobs).remove(job)
            if job.future.done() and not job.future.cancelled():
                job.future.exception()
            raise
        finally:
            job.overdue.cancel()
        return result

    @property
    def trouble(self) -> Trouble | None:
        """The reason why the last attempt to write failed, or `None`."""
        return self._trouble

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
                transaction, _ = await self._lock(session)
                result = await session.run(operation)
                undone = await self._commit(session, transaction)
            except Lost as lost:
                raise StoreBusy("The database went away. Nothing was changed; try again.") from lost
            except BaseException as error:
                await session.roll_back()
                raise translated(error, f"take over {source.name}") from error
        finally:
            await session.close()
        if isinstance(undone, _Untold):
            raise StoreError(
                "The connection to the database broke during the commit, and nobody can tell whether it was made: look "
                "whether the board is there, and try again if not."
            ) from undone
        if undone is not None:
            raise undone
        self._committed()
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
        pauses = iter(_PAUSES)
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
        if self._outdated is not None:
            raise self._outdated

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

    # Writing

    async def _write(self) -> None:
        """Runs waiting operations as long as there are any, until the engine closes."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            while (job := self._next()) is not None:
                await self._group(job)
            if self._closing is not None:
                return

    def _next(self) -> _Job | None:
        """Removes and returns the next operation; expensive ones and others take turns."""
        dear = bool(self._dear) and (self._dear_is_next or not self._jobs)
        self._dear_is_next = not dear
        line = self._dear if dear else self._jobs
        return line.popleft() if line else None

    def _patience_with(self, job: _Job) -> float:
        """Returns the seconds for which an operation may wait yet; at most 0 if it is to be refused.

        While the database takes other writes it may wait beyond its deadline.
        """
        return max(job.until, self._answered + self._deadline) - time.monotonic()

    def _refuse_late(self, job: _Job) -> None:
        """Refuses an operation that still waits for its turn, when its time is up."""
        if job.started:
            return
        if (left := self._patience_with(job)) > 0:
            job.overdue = asyncio.get_running_loop().call_later(left, self._refuse_late, job)
            return
        (self._dear if job.dear else self._jobs).remove(job)
        job.fail(unreachable(self._deadline))

    async def _group(self, first: _Job, *, alone: bool = False) -> None:
        """Runs operations in one transaction and settles them; after a loss, again until the deadline.

        With `alone` no others join the first.
        """
        group = [first]
        first.started = True
        pauses = iter(_PAUSES)
        pause = 0.0
        while group:
            try:
                for job in await self._attempt(group, alone=alone):
                    if self._patience_with(job) > 0:
                        await self._group(job, alone=True)
                    else:
                        job.fail(unreachable(self._deadline))
                return
            except Lost as lost:
                pause = next(pauses, pause)
                # Who has an answer already was told that nothing was changed.
                group = [job for job in group if not job.future.done()]
                late = [job for job in group if time.monotonic() + pause > job.until]
                group = [job for job in group if job not in late]
                self._trouble = Trouble("stopped", "The database cannot be reached.")
                for job in late:
                    logger.warning("no answer from %s: %s", self._address.shown, lost)
                    job.fail(unreachable(self._deadline))
                if group:
                    await asyncio.sleep(pause)
            except asyncio.CancelledError:
                # The loop ends without `close`: the connection takes the transaction with it.
                self._writer.drop()
                raise
            except Exception as error:
                # Whatever it is, the writer goes on and nobody waits for ever.
                await self._writer.roll_back()
                for job in group:
                    job.fail(translated(error, "write"))
                return

    async def _attempt(self, group: list[_Job], *, alone: bool) -> list[_Job]:
        """Runs the group, and more that waits, in one transaction; returns jobs to run again, each by itself.

        An error that leaves the transaction as it was is its own operation's alone. After another, all that went
        before runs again, since one operation is undone by the end of its transaction.

        Raises:
            Lost: the server is away, and nothing was changed.
        """
        session, changed, results = self._writer, [False], list[tuple[_Job, Any]]()
        together = self._pauses.over() and not alone
        failed = list[tuple[_Job, BaseException]]()

        def change() -> None:
            changed[0] = True

        try:
            if not session.is_open:
                await session.open()
            await session.prepare_together()
            await session.execute(session.begin())
            batch = _batch_of(group[0]) if together and self._jobs else None
            shares = batch is not None and batch == _batch_of(self._jobs[0])
            first = group[0].operation if len(group) == 1 and not (alone or shares) else None
            transaction, pulse = await self._lock(session, lambda: first)
        except (Lost, asyncio.CancelledError):
            raise
        except BaseException as error:
            await session.roll_back()
            for job in group:
                job.fail(translated(error, "write"))
            return []
        until = time.monotonic() + _SPAN
        place = 0

        def following() -> Operation[Any] | None:
            if place + 1 < len(group):
                return group[place + 1].operation
            ends = job.dear or place + 1 >= _MEMBERS or time.monotonic() > until
            return self._jobs[0].operation if self._jobs and not ends else None

        odd = -1
        while place < len(group):
            if place and time.monotonic() > until:
                self._give_back(group[place:])
                del group[place:]
                break
            job = group[place]
            session.wrote = session.ventured = False
            if together and place != odd and len(alike := self._alike(group, place)) > 1:
                outcomes = await self._run_together(session, alike, change)
                if outcomes is None:
                    self._pauses.begin()
                    await session.roll_back()
                    return [one for one in group if not one.future.done()]
                for one, outcome in zip(alike, outcomes, strict=False):
                    if outcome.error is not None:
                        failed.append((one, outcome.error))
                    else:
                        results.append((one, outcome.result))
                place += len(outcomes)
                odd = place
                together = self._pauses.go_on(len(outcomes))
            else:
                try:
                    with _metered(job.meter):
                        done = await session.run(job.operation, change, None if alone else following)
                    results.append((job, done))
                except (Lost, asyncio.CancelledError):
                    raise
                except BaseException as error:
                    if session.ventured or (session.wrote and results):
                        await session.roll_back()
                        return [one for one in group if not one.future.done()]
                    if results:  # what it met may be undone yet
                        failed.append((job, error))
                    else:
                        job.fail(translated(error, "write"))
                    if session.wrote:
                        await session.roll_back()
                        return group[place + 1 :]
                place += 1
            ends = alone or job.dear or place >= _MEMBERS or time.monotonic() > until
            if place == len(group) and self._jobs and not ends:
                more = self._jobs.popleft()
                more.started = True
                group.append(more)
        if not changed[0]:
            await session.roll_back()
        elif (undone := await self._commit(session, transaction)) is not None:
            if len(results) > 1 and not isinstance(undone, _Untold):
                # One of them broke a reference that is checked at the end: each alone shows which.
                return [job for job, _ in (*results, *failed)]
            for job, _ in (*results, *failed):
                job.fail(undone)
            return []
        self._trouble = None
        self._answered = time.monotonic()
        for job, met in failed:
            job.fail(translated(met, "write"))
        for job, outcome in results:
            job.settle(outcome)
        if changed[0]:
            self._pulse = pulse
            self._committed()
        return []

    def _give_back(self, jobs: Sequence[_Job]) -> None:
        """Has jobs that were taken wait again, before all others."""
        for job in reversed(jobs):
            job.started = False
            self._jobs.appendleft(job)
            if job.overdue is not None:
                job.overdue.cancel()
            left = max(0.0, self._patience_with(job))
            job.overdue = asyncio.get_running_loop().call_later(left, self._refuse_late, job)

    def _alike(self, group: list[_Job], place: int) -> list[_Job]:
        """Returns the jobs of a group that may run together, from a place on; adds those that wait to the group."""
        batch = _batch_of(group[place])
        end = place + 1
        if batch is None:
            return [group[place]]
        while end < len(group) and _batch_of(group[end]) == batch:
            end += 1
        while end == len(group) < _MEMBERS and self._jobs and _batch_of(self._jobs[0]) == batch:
            more = self._jobs.popleft()
            more.started = True
            group.append(more)
            end += 1
        return group[place:end]

    async def _run_together(
        self, session: Session, jobs: Sequence[_Job], changed: Callable[[], None]
    ) -> list[Outcome] | None:
        """Runs jobs of a batch together; returns the outcomes of the first of them, or `None` if all have to be undone.

        Raises:
            Lost: the server is away.
        """
        batch = _batch_of(jobs[0])
        assert batch is not None
        try:
            with shared(
                [job.meter for job in jobs if job.meter is not None], time.perf_counter, _MOST_COUNTED
            ):
                return await session.run(partial(batch.together, [job.operation for job in jobs]), changed)
        except (Lost, asyncio.CancelledError):
            raise
        except BaseException as error:
            if not isinstance(error, (asyncpg.PostgresError, Spoilt, TimeoutError)):
                logger.exception("operations failed together, and run one by one")
            return None

    async def _lock(
        self, session: Session, following: Callable[[], Operation[Any] | None] | None = None
    ) -> tuple[str, int]:
        """Takes the lock of all writers; returns the transaction's number, and the number of commits with it.

        The first statement of the operation that follows may go with it.

        Data that are a copy (a promoted standby, a restored dump) are marked as one first, so that no sequence that
        the original may have given is given again.

        Raises:
            StoreTooNew: a newer version of the product migrated the schema.
        """
        rows = await session.ask(_LOCK_POOLED if self._address.pooled else _LOCK, following)
        schema, transaction, pulse, place, tables, *here = rows[0]
        if here:
            session.place, session.started = here
        else:  # a dump may have been restored over the data while the session was open
            session.place = f"{session.place.rpartition('/')[0]}/{tables}"
        if schema > self._newest:
            self._outdated = migrating.too_new(schema, self._newest)
            raise self._outdated
        if place != session.place:
            await session.fetch("UPDATE installation SET place = $1::text", [session.place])
            if place:
                logger.warning(
                    "the data at %s are a copy: their boards begin new epochs", self._address.shown
                )
                await session.run(lambda: _ask(sql("boards_copied")))
                # The original goes on writing to a shared index; the copy makes one of its own.
                await session.fetch("UPDATE index_reader SET state = ''")
        return str(transaction), int(pulse)

    async def _commit(self, session: Session, transaction: str) -> BaseException | None:
        """Commits; returns the error that undid the transaction, or `None`.

        If the connection breaks meanwhile, or no answer comes, the server is asked what became of the transaction.

        Raises:
            Lost: the server undid it.
        """
        place, started = session.place, session.started
        try:
            await session.execute("COMMIT")
        except (Lost, TimeoutError) as lost:
            state = await self._state(session, transaction, place)
            if state == "committed" and session.started != started:
                # A server that crashed gives the numbers of transactions that it lost to others.
                state = None
            if state == "aborted":
                raise Lost(f"{lost}") from lost
            if state == "committed":
                return None
            return _Untold(
                "The connection to the database broke during the commit, and nobody can tell whether it was made. Call "
                "again with the same idempotency_key, which applies once; without one, read first."
            ).with_traceback(lost.__traceback__)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            await session.roll_back()
            return translated(error, "write")
        return None

    async def _state(self, session: Session, transaction: str, place: str) -> str | None:
        """Returns "committed" or "aborted", or `None` if the server cannot tell."""
        until = time.monotonic() + self._deadline
        while time.monotonic() < until:
            try:
                await session.open()
                if session.place != place:
                    return None
                state = (await session.fetch("SELECT pg_xact_status($1::text::xid8)", [transaction]))[0][0][0]
            except (Lost, TimeoutError):
                await asyncio.sleep(_PAUSES[1])
                continue
            except (StoreError, asyncpg.PostgresError):
                return None
            if state != "in progress":
                return str(state) if state is not None else None
            await asyncio.sleep(_PAUSES[0])
        return None

    def _committed(self) -> None:
        """Wakes who waits here, and has the others told."""
        self._changes.bump()
        self._told.set()
        if self._milestone is not None and bisect(_MILESTONES, self._pulse) > self._milestone:
            self._hear.set()

    # The archive's indexes

    async def index_state(self) -> str:
        """Returns the state in use of the index that this machine reads; empty at first."""
        rows = await self.read(lambda: _ask(_STATE, (self._reader,)))
        return str(rows[0][0]) if rows else ""

    async def move_index_state(self, former: str, to: str) -> bool:
        """Notes another state in place of `former`; returns false and changes nothing if that is not the one in use."""
        return bool(await self.write(lambda: _ask(_MOVE_STATE, (self._reader, former, to))))

    async def _register(self) -> None:
        """Notes that this machine's index is there, and forgets those that were not seen for a month."""

        def noted() -> Any:
            yield _REGISTER, (self._reader,)
            yield _FORGET_ROWS, ()
            yield _FORGET, ()

        await self.write(noted)
        self._registered = time.monotonic()

    # News

    async def _kept_up(self, work: Callable[[], Awaitable[None]]) -> None:
        """Does `work` until the engine closes, and begins it anew, on another connection, whatever it fails with."""
        task, known = asyncio.current_task(), ""
        assert task is not None
        while self._closing is None:
            try:
                await work()
            except (Exception, asyncio.CancelledError) as error:
                if task.cancelling():
                    raise
                if self._news is not None:
                    self._news.drop()
                cause = f"{type(error).__name__}: {error}"
                if cause != known:
                    known = cause
                    logger.exception("listening for news of the database failed, and begins anew: %s", cause)
                await asyncio.sleep(_PAUSES[-1])

    async def _tell(self) -> None:
        """Notifies other processes after commits, several at once; a lost notification does no harm."""
        while self._closing is None:
            await self._told.wait()
            self._told.clear()
            if self._news is None:
                continue
            with contextlib.suppress(Lost, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError):
                if self._news.is_open:
                    await self._notify()

    async def _notify(self) -> None:
        assert self._news is not None
        async with self._speaking:
            await self._news.execute(f"NOTIFY {CHANNEL}, '{self._address.schema}'")

    async def _watch(self) -> None:
        """Looks for others' commits after each notification, and now and then without one."""
        while self._closing is None:
            listening = False
            try:
                listening = await self._listen()
                await self._look()
                self._trouble = None
                self._count()
                if time.monotonic() - self._registered > _DAY:
                    await self._register()
            except (Lost, asyncpg.PostgresError, asyncpg.InterfaceError, StoreError, TimeoutError):
                self._trouble = Trouble("stopped", "The database cannot be reached.")
            hurried = not listening and self._changes.waiting
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_HURRIED if hurried else _SURE):
                    await self._hear.wait()
            self._hear.clear()

    async def _listen(self) -> bool:
        """Sees that notifications come; returns whether they do."""
        if self._news is None:
            return False
        # Whoever tells something meanwhile waits: the connection does one thing at a time.
        async with self._speaking:
            if not self._news.is_open:
                await self._news.open()
                try:
                    await self._news.listen(CHANNEL, lambda schema: self._hear.set())
                    await self._news.listen(WORDS, self._words)
                except BaseException:
                    self._news.drop()  # an open connection counts as one that listens
                    raise
        return True

    async def tell(self, words: str) -> None:
        """Tells the other servers on these boards something of up to 7,900 bytes, which may be lost.

        Behind a pooler without a direct address nobody hears of it.
        """
        if self._news is None or not self._news.is_open:
            return
        with contextlib.suppress(Lost, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError):
            async with self._speaking:
                await self._news.fetch(
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
        if self._news is not None:
            async with self._speaking:
                before = time.monotonic()
                look = _LOOK.format(f"{self._address.schema}.", "$1::text")
                rows, _ = await self._news.fetch(look, [self._reader])
        else:
            before = time.monotonic()
            rows = await self.read(lambda: _ask(_LOOK.format("", "?1"), (self._reader,)))
        pulse, schema, listed, there = rows[0]
        self._compare(there, time.monotonic() - before)
        if schema > self._newest:
            self._outdated = migrating.too_new(schema, self._newest)
        if pulse != self._pulse:
            self._pulse = pulse
            self._changes.bump()
        if not listed and self._registered < float("inf"):
            await self._register()
            logger.warning("the search index %s was struck off the list, and is compared anew", self._reader)
            self.struck()

    async def _measure(self) -> None:
        """Learns how far the database's clock is from this machine's, so that all servers go by one clock."""
        await self._writer.open()
        before = time.monotonic()
        ((there,),), _ = await self._writer.fetch(_TIME)
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
        due, self._milestone = self._milestone, bisect(_MILESTONES, self._pulse)
        if self._news is None or due is None or due == self._milestone:
            return
        self._counting = asyncio.create_task(self._have_counted())

    async def _have_counted(self) -> None:
        """Has the server count its tables, which takes minutes for large ones, on a connection of its own."""
        assert self._writer.dialect is not None
        tables = ", ".join(f"{self._address.schema}.{name}" for name in self._writer.dialect.tables)
        try:
            await self._counter.open()
            await self._counter.execute(f"ANALYZE (SKIP_LOCKED) {tables}")
        except (Lost, StoreError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError) as error:
            logger.info(
                "the database did not count its tables, which its own background work does later: %s", error
            )
        finally:
            await self._counter.close()

    async def _close(self) -> None:
        """Ends the writer, then the rest."""
        self._wanted.set()
        if self._tasks:
            await asyncio.gather(self._tasks[0], return_exceptions=True)
        others = [*self._tasks, *([self._counting] if self._counting else [])]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        self._changes.close()
        for _ in self._readers:
            await self._idle.get()
        for session in (self._writer, *self._readers, *([self._news] if self._news else [])):
            await session.close()


def _batch_of(job: _Job) -> Batch | None:
    return job.operation.batch if isinstance(job.operation, Batched) and not job.dear else None


def _ask(statement: str, values: tuple[object, ...] = ()) -> Any:
    """Runs one statement and returns its rows."""
    return (yield statement, values)


@contextlib.contextmanager
def _metered(meter: Meter | None) -> Any:
    """Counts the time of an operation for its caller; the server works meanwhile."""
    if meter is None:
        yield
        return
    with meter.in_thread(time.perf_counter, _MOST_COUNTED):
        yield
