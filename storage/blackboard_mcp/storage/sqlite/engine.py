"""The SQLite engine: transactions for store operations, on connections with their own threads.

It knows transactions, connections and processes; it knows no tables. One connection writes, a few read, and
nothing here blocks the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from blackboard_mcp.protocols.errors import StoreClosed, StoreDamaged, StoreError
from blackboard_mcp.protocols.metering import METER
from blackboard_mcp.storage.change_counter import Changes
from blackboard_mcp.storage.operation import Operation, T
from blackboard_mcp.storage.sqlite import compacting, driver, migrate, place
from blackboard_mcp.storage.sqlite.free_space import FreeSpace
from blackboard_mcp.storage.sqlite.group import GroupWriter, Job, Jobs, run, translated
from blackboard_mcp.storage.sqlite.log_file import tell_of_loss
from blackboard_mcp.storage.sqlite.wakeup import Peers, Watcher
from blackboard_mcp.storage.trouble import Trouble

Synchronous = Literal["FULL", "NORMAL"]

REST_SECONDS = 10.0
_FEW = 100
"""After so many seconds with at most so many calls the connections free the pages that they keep, megabytes for each.

A server that nobody uses makes some calls itself.
"""

_STUCK = 0.002
"""The seconds without a result after which a reader counts as busy with a long query."""
_ENDED = "The store's writer ended; open the store again."


class SqliteEngine:
    """Runs operations on one database file, shared with other processes. Create it with `open`."""

    def __init__(self) -> None:
        self._path: Path | None = None
        self._space: FreeSpace | None = None
        self._newest = 0
        self._deadline = 15.0
        self._process = os.getpid()
        self._loop = asyncio.get_running_loop()
        self._writer: driver.Connection | None = None
        self._checkpointer: driver.Connection | None = None
        self._readers: list[driver.Connection] = []
        self._reads = Jobs()
        self._serving: list[bool] = []
        self._served_at: list[float] = []
        self._answered: deque[Job] = deque()
        self._relief: asyncio.TimerHandle | None = None
        self._asked = self._freed_at = 0
        self._resting: asyncio.TimerHandle | None = None
        self._jobs = Jobs()
        self._writes = False
        """Whether there is a writer that takes jobs; it ends with a failure that nobody foresaw."""
        self._crowded = False
        """Whether the last group held jobs of several callers. They come back in one turn of the event loop, and the
        next group waits for the end of that turn.
        """
        self._changes = Changes()
        self._witness: driver.Raw | None = None
        self._peers: Peers | None = None
        self._watcher: Watcher | None = None
        self._closing: asyncio.Task[None] | None = None
        self.sqlite_version = driver.version()
        """The SQLite library in use, such as "3.53.4"."""
        self.safe_mode = not driver.resets_wal_safely(driver.library().sqlite_version_info)
        """Whether only the writer makes checkpoints, because the library has the WAL-reset bug."""
        self.write_ahead_log = True
        """False if the file system does not support a write-ahead log; writers then wait for readers."""

    @classmethod
    async def open(
        cls,
        path: Path | None,
        *,
        migrations: Sequence[str],
        application_id: int,
        schema: str | None = None,
        fills: Mapping[int, Operation[object]] | None = None,
        synchronous: Synchronous = "FULL",
        readers: int = 2,
        deadline: float = 15.0,
        keep_free: int = 0,
        set_aside: bool = False,
    ) -> SqliteEngine:
        """Opens an engine at the newest schema; with `path` `None`, on a private database in memory.

        Script n of `migrations`, from 1, leads to schema n; the script `schema` makes the newest one in a new file.
        Operation n of `fills` runs in the same
        transaction, after all scripts, on a file with data that had not reached schema n. `deadline` is the
        limit in seconds for each wait for a lock. `keep_free` bytes of the disk stay free for what ends work.
        With `set_aside` a copy of an older file is kept beside it, where the disk has room.
        Missing folders and files are created, private to the user.

        Raises:
            StoreDamaged: the file is no database, is damaged, or belongs to another program.
            StoreTooNew: a newer version of the product migrated it.
            StoreBusy: other processes held it longer than the deadline.
            StoreError: it cannot be created, read or written.
        """
        engine = cls()
        if path is not None and keep_free:
            engine._space = FreeSpace(path.parent, keep_free)
        opening = asyncio.create_task(
            engine._open(
                path,
                tuple(migrations),
                application_id,
                schema,
                dict(fills or {}),
                synchronous,
                readers,
                deadline,
                migrate.set_aside(path) if path is not None and set_aside else None,
            )
        )
        try:
            await asyncio.shield(opening)
        except BaseException:
            # Cancelled or failed: let the opening end, and leave no thread running.
            await asyncio.gather(opening, return_exceptions=True)
            await engine.close()
            raise
        return engine

    async def write(self, operation: Operation[T]) -> T:
        """Runs the operation in a transaction, all or nothing, and returns its result after the commit.

        Operations run one at a time, in the order of the calls. Several may share a commit, but an error undoes
        only its own operation; those of a batch (see `Batched`) may share statements. An expensive one (`Meter.dear`)
        has its own commit, and cheap ones may overtake it, even when it has begun: it is then undone and starts anew. A
        cancelled call either never started or completes as a whole. An operation that changes no row wakes nobody.

        Raises:
            StoreBusy, StoreFull, StoreTooNew: nothing was changed.
            StoreClosed: the engine is closed, or stopped after the disk failed; see `trouble`.
            Exception: whatever the operation raised.
        """
        self._check_open()
        if not self._writes:
            raise StoreClosed(self._group.stopped or "The store's writer ended; open the store again.")
        return await self._ask(self._jobs, operation)

    async def read(self, operation: Operation[T]) -> T:
        """Runs the operation on one consistent snapshot, and returns its result.

        The snapshot contains every write that any process acknowledged before the call.

        Raises:
            StoreBusy, StoreTooNew, StoreDamaged, StoreClosed: as named.
            StoreError: the operation tried to write, or the database failed otherwise.
            Exception: whatever the operation raised.
        """
        self._check_open()
        return await self._ask(self._reads, operation)

    @property
    def trouble(self) -> Trouble | None:
        """The reason why writes fail now, such as a full or failed disk, or `None`; reads go on."""
        return self._group.trouble or (self._space.trouble() if self._space is not None else None)

    @property
    def displaced(self) -> bool:
        """Whether the opened file was moved, replaced or deleted; the next write will then stop the engine."""
        return self._group.displaced

    def changes(self) -> int:
        """Returns a counter that grows when this process commits a change or learns of another's."""
        return self._changes.count

    def stamp(self) -> int | None:
        """Returns a value that differs after every commit of any process, or `None` if that cannot be told now.

        It takes 5 µs in the caller's thread: a connection that never writes learns from the log's shared index
        whether others committed (https://sqlite.org/pragma.html#pragma_data_version).
        """
        if self._closing is not None or os.getpid() != self._process:
            return None
        if self._path is None:
            return self._changes.count
        if self._witness is None:
            return None
        try:
            return int(driver.pragma(self._witness, "data_version"))
        except driver.errors():
            return None

    async def wait_for_change(self, seen: int, timeout: float, *, hurried: bool = True) -> int:
        """Waits until the counter exceeds `seen`, or for `timeout` seconds, and returns it.

        It may return for a change that the caller has read already. A change by another process is noticed
        within 50 ms, usually within 2; if the wait is not `hurried`, within a second.

        Raises:
            StoreClosed: the engine is closed, or was closed meanwhile.
        """
        self._check_open()
        return await self._changes.wait(seen, timeout, hurried=hurried)

    async def backup(self, target: Path, mark: Operation[object] | None = None) -> None:
        """Writes a compact, synced copy of the database, as of one moment, to a new private file.

        `mark` runs in the copy.

        Raises:
            StoreError: `target` exists or cannot be written.
            StoreFull: the disk has no room for the copy.
        """
        self._check_open()
        path = self._path
        if path is None:
            assert self._writer is not None
            await self._copy(self._writer, target, mark)
            return
        # Its own connection: a copy may take long, and readers are few.
        connection = await self._connect(lambda: self._configure(driver.connect(str(path)), "NORMAL"))
        try:
            await self._copy(connection, target, mark)
        finally:
            await connection.close()

    async def write_from(self, source: Path, operation: Operation[T]) -> T:
        """Runs the operation in its own transaction, in which it can read the database file `source` as `staged`.

        Returns the operation's result. Both files must have the same schema.

        Raises:
            StoreBusy, StoreFull, StoreTooNew: nothing was changed.
            StoreDamaged: `source` has another schema.
            Exception: whatever the operation raised.
        """
        self._check_open()
        assert self._writer is not None
        path = self._path
        if path is None:
            result = await self._writer.run(lambda raw: self._joined(raw, source, operation))
            self._changes.bump()
            return result
        connection = await self._connect(lambda: self._configure(driver.connect(str(path)), "FULL"))
        try:
            result = await connection.run(lambda raw: self._joined(raw, source, operation))
        finally:
            await connection.close()
        if (peers := self._peers) is not None:
            await self._writer.run(lambda raw: peers.notify())
        self._changes.bump()
        return result

    async def close(self) -> None:
        """Finishes pending calls, then ends the threads. A second call does nothing."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    # Opening

    async def _open(
        self,
        path: Path | None,
        migrations: Sequence[str],
        application_id: int,
        schema: str | None,
        fills: dict[int, Operation[object]],
        synchronous: Synchronous,
        readers: int,
        deadline: float,
        before: Callable[[int], None] | None,
    ) -> None:
        """Opens the connections, migrates the file, and starts the writer and the watcher."""
        self._path, self._newest, self._deadline = path, len(migrations), deadline

        filling = {number: partial(run, operation=operation) for number, operation in fills.items()}

        def first() -> driver.Raw:
            if path is None:
                raw = driver.connect(":memory:")
            else:
                place.prepare(path)
                self.write_ahead_log = place.bears_wal(path)
                tell_of_loss(path)
                raw = driver.connect(str(path))
            try:
                self._check_owner(raw, application_id)
                if path is not None:
                    driver.patiently(lambda: compacting.prepare(raw), deadline)
                    self._choose_journal(raw)
                self._configure(raw, synchronous)
                migrate.migrate(raw, migrations, application_id, deadline, filling, schema, before)
                raw.execute("PRAGMA foreign_keys=ON")
                if path is not None and self.write_ahead_log:
                    self._bring_home(raw)
            except BaseException:
                raw.close()
                raise
            return raw

        def further() -> driver.Raw:
            return self._configure(driver.connect(str(path)), synchronous)

        def reader() -> driver.Raw:
            raw = further()
            raw.execute("PRAGMA query_only=ON")
            return raw

        self._writer = await self._connect(first)
        log = path.with_name(path.name + "-wal") if path is not None and self.write_ahead_log else None
        if path is not None:
            for _ in range(readers):
                self._readers.append(await self._connect(reader))
            if self.write_ahead_log:
                if not self.safe_mode:
                    self._checkpointer = await self._connect(further)
                # Without the log even a look may have to wait, or to roll back what a dead process left.
                self._witness = driver.connect(str(path))
            self._peers = Peers(path.with_name(path.name + ".peers"))

        def group(raw: driver.Raw) -> GroupWriter:
            writer = GroupWriter(
                self._jobs,
                newest=self._newest,
                deadline=deadline,
                path=path,
                log=log,
                safe_mode=self.safe_mode,
                committed=self._peers.notify if self._peers is not None else lambda: None,
                overtaken=self._overtaken,
                space=self._space,
            )
            writer.poll(raw)
            return writer

        self._group = await self._writer.run(group)
        # In memory the one connection reads as well.
        self._readers = self._readers or [self._writer]
        self._serving = [False] * len(self._readers)
        self._served_at = [0.0] * len(self._readers)
        if (peers := self._peers) is not None:
            self._watcher = Watcher(self._changes, self._poll, log)
            port = self._watcher.start()
            if port is not None:
                await self._writer.run(lambda raw: peers.register(port))
        self._writes = True

    async def _connect(self, connector: Any) -> driver.Connection:
        """Opens a connection, and translates the driver's errors."""
        try:
            return await driver.Connection.open(connector)
        except driver.errors() as error:
            doing = f"open {self._path or 'its memory'}"
            if driver.is_io(error) and self._path is not None and place.lack(self._path, None):
                raise driver.no_room(doing) from error
            raise driver.translate(error, doing) from error

    def _check_owner(self, raw: driver.Raw, application_id: int) -> None:
        """Checks that the file is ours, before anything in it is changed.

        Raises:
            StoreDamaged: it belongs to another program.
            StoreTooNew: a newer version of the product migrated it.
        """

        def look() -> None:
            raw.execute("BEGIN")
            try:
                migrate.check(raw, application_id, self._newest)
            finally:
                driver.roll_back(raw)

        if not self.write_ahead_log:
            # A file that was in WAL elsewhere is read without shared memory this way.
            raw.execute("PRAGMA locking_mode=EXCLUSIVE")
        driver.patiently(look, self._deadline)

    def _choose_journal(self, raw: driver.Raw) -> None:
        """Switches to the write-ahead log, or on file systems without support for it, to the rollback journal.

        Raises:
            StoreError: SQLite refuses the mode.
        """
        mode = "wal" if self.write_ahead_log else "delete"
        # The switch would cause an automatic checkpoint, which is unsafe in safe mode.
        raw.execute("PRAGMA wal_autocheckpoint=0")
        got = driver.patiently(lambda: driver.pragma(raw, f"journal_mode={mode}"), self._deadline)
        if got != mode:
            raise StoreError(f"The database {self._path} cannot use journal mode {mode}, only {got}.")
        if not self.write_ahead_log:
            raw.execute("PRAGMA locking_mode=NORMAL")
            driver.patiently(lambda: raw.execute("SELECT count(*) FROM sqlite_schema").fetchall(), 1.0)

    def _bring_home(self, raw: driver.Raw) -> None:
        """Moves what a dead process left in the log into the file, synced.

        After a failed sync the log may show data that are not on the disk, and no later sync writes them; only writing
        them again does. If other processes have the file open, there is nothing to recover.
        """
        try:
            raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except driver.errors() as error:
            # Without room on the disk the log stays as it is, and is read.
            if not (driver.is_busy(error) or driver.is_full(error)) and not (
                driver.is_io(error) and self._path is not None and place.lack(self._path, None)
            ):
                raise

    def _configure(self, raw: driver.Raw, synchronous: Synchronous) -> driver.Raw:
        """Sets the pragmas of a connection, and returns it."""
        for setting in (
            f"synchronous={synchronous}",
            "foreign_keys=ON",
            "trusted_schema=OFF",
            "recursive_triggers=OFF",
            "cell_size_check=ON",
            "temp_store=MEMORY",
            "cache_size=-8192",
            # With a memory map a failing disk is a SIGBUS, not an error.
            "mmap_size=0",
            f"journal_size_limit={64 << 20}",
            # An automatic checkpoint would be made inside a commit, which would have to wait for it.
            "wal_autocheckpoint=0",
        ):
            raw.execute(f"PRAGMA {setting}").fetchall()
        return raw

    async def _ask(self, jobs: Jobs, operation: Operation[T]) -> T:
        """Queues the operation and waits for its result; withdraws it if the call is cancelled before it started."""
        self._asked += 1
        if self._resting is None:
            self._rest_after(self._asked)
        job = Job(operation, self._loop.create_future(), meter=METER.get())
        resting = jobs.put(job)
        if jobs is self._reads:
            self._call_reader()
        elif resting:
            assert self._writer is not None
            if self._crowded:
                self._loop.call_soon(self._writer.do, self._write)
            else:
                self._writer.do(self._write)
        try:
            result: T = await job.future
        except asyncio.CancelledError:
            jobs.withdraw(job)
            if job.future.done() and not job.future.cancelled():
                job.future.exception()
            raise
        return result

    def _rest_after(self, asked: int) -> None:
        self._resting = self._loop.call_later(REST_SECONDS, self._rest, asked)

    def _rest(self, asked: int) -> None:
        """Has the connections free what they keep, unless there were many calls since the one of the number `asked`.

        They free it once until there were as many again.
        """
        if self._asked - asked > _FEW:
            return self._rest_after(self._asked)
        self._resting = None
        if self._asked - self._freed_at <= _FEW:
            return
        self._freed_at = self._asked
        for connection in {self._writer, self._checkpointer, *self._readers}:
            if connection is not None:
                with contextlib.suppress(StoreClosed):
                    connection.do(_free)

    # Writing

    def _write(self, raw: driver.Raw) -> None:
        """Runs one group of waiting operations, in the writer's thread, and comes again while operations wait.

        Other work for the connection has its turn between two groups.
        """
        assert self._writer is not None
        try:
            settled, changed = self._group.write(raw)
            rests = (
                self._jobs.rest()
            )  # before anybody comes back with the next job, who then decides when to begin
            self._tell(self._wrote, settled, changed)
            if self._group.tidying_is_due(raw) and self._group.tidy(raw) and self._checkpointer is not None:
                self._checkpointer.do(self._checkpoint)
            if not rests:
                self._writer.do(self._write)
        except BaseException as error:
            self._group.stopped = _ENDED  # another group may have been asked for already
            self._tell(self._abandon, error)

    def _checkpoint(self, raw: driver.Raw) -> None:
        """Copies the log into the file, in a thread of its own, so that no commit waits for it."""
        assert self._writer is not None
        try:
            self._group.checkpoint(raw)
        finally:
            self._writer.do(self._group.checkpointed)

    def _wrote(self, settled: Sequence[Job], changed: bool) -> None:
        """Announces a commit, and hands its results to the callers."""
        if changed:
            self._changes.bump()
        self._crowded = len(settled) > 1
        _settle(settled)

    def _tell(self, function: Callable[..., None], *given: Any) -> None:
        """Calls a function in the event loop, from a connection's thread; does nothing if the process is ending."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *given)

    def _abandon(self, error: BaseException) -> None:
        """Fails all waiting operations, because the writer ended."""
        self._writes = False
        closed = StoreClosed(_ENDED)
        closed.__cause__ = error
        jobs = [*self._group.taken, *self._jobs.take_all()]
        for job in jobs:
            job.error = closed
        _settle(jobs)

    # Reading

    def _call_reader(self) -> None:
        """Starts the first idle reader, but the next one only if the readers before it are in a long query.

        Threads that share the GIL halve each other's speed, yet a long query must not delay other reads.
        """
        for number, serves in enumerate(self._serving):
            if not serves:
                self._serve(number)
                return
            if time.monotonic() - self._served_at[number] < _STUCK:
                break
        if self._relief is None:
            # The timer also returns results that were read before a long query began.
            self._relief = self._loop.call_later(_STUCK, self._relieve)

    def _relieve(self) -> None:
        """Returns finished results, and starts another reader if reads wait; repeats while a reader works."""
        self._relief = None
        self._answer()
        if self._reads:
            self._call_reader()
        if self._relief is None and any(self._serving):
            self._relief = self._loop.call_later(_STUCK, self._relieve)

    def _serve(self, number: int) -> None:
        """Lets a reader take waiting reads."""
        self._serving[number] = True
        self._served_at[number] = time.monotonic()
        self._readers[number].do(partial(self._read_waiting, number))

    def _read_waiting(self, number: int, raw: driver.Raw) -> None:
        """Runs waiting reads in the reader's thread, for about a millisecond at a time."""
        until = time.monotonic() + _STUCK / 2
        while (job := self._reads.take()) is not None:
            try:
                job.result = self._snapshot(raw, job.metered)
            except BaseException as error:
                job.error = translated(error, "read")
            # If a long query follows, `_relieve` returns this result.
            self._answered.append(job)
            self._served_at[number] = now = time.monotonic()
            if now > until:
                break
        self._tell(self._served, number)

    def _served(self, number: int) -> None:
        """Hands over what a reader read, and calls it again if reads wait."""
        self._serving[number] = False
        self._answer()
        if self._reads:
            self._serve(number)

    def _answer(self) -> None:
        """Hands the finished results to their callers."""
        answered = []
        while self._answered:
            answered.append(self._answered.popleft())
        _settle(answered)

    def _snapshot(self, raw: driver.Raw, operation: Operation[T]) -> T:
        """Runs the operation in a transaction that only reads, and returns its result."""

        def begin() -> None:
            raw.execute("BEGIN")
            try:
                # The first statement takes the snapshot; only it can find the database busy.
                version = driver.pragma(raw, "user_version")
                if version > self._newest:
                    raise migrate.too_new(version, self._newest)
            except BaseException:
                driver.roll_back(raw)
                raise

        driver.patiently(begin, self._deadline)
        if self._path is None:
            raw.execute("PRAGMA query_only=ON")
        try:
            return run(raw, operation)
        finally:
            driver.roll_back(raw)
            if self._path is None:
                raw.execute("PRAGMA query_only=OFF")

    # Changes by others

    async def _poll(self, heard: bool) -> bool:
        """Tells whether another connection committed; `heard` says whether its message arrived."""
        assert self._writer is not None
        assert self._peers is not None
        peers = self._peers

        def look(raw: driver.Raw) -> bool:
            changed = self._group.poll(raw)
            if changed and not heard:
                peers.renew()
            return changed

        return await self._writer.run(look)

    def _overtaken(self) -> None:
        """Reports, from the writer's thread, that another process committed."""
        self._tell(self._changes.bump)

    # Closing

    def _check_open(self) -> None:
        """Checks that the engine is open in this process.

        Raises:
            StoreClosed: it is not.
        """
        if self._closing is not None or self._writer is None:
            raise StoreClosed("The store is closed; nothing was changed.")
        if os.getpid() != self._process:
            raise StoreClosed("The store was opened before this process was forked off; open it again.")

    async def _copy(
        self, connection: driver.Connection, target: Path, mark: Operation[object] | None
    ) -> None:
        """Writes a copy of the database through this connection; see `backup`."""

        try:
            await connection.run(lambda raw: copy_to(raw, target, mark, self._deadline))
        except driver.errors() as error:
            raise driver.translate(error, f"write the backup {target}") from error
        except OSError as error:
            raise StoreError(f"Cannot write the backup {target}: {error.strerror}.") from error

    def _joined(self, raw: driver.Raw, source: Path, operation: Operation[T]) -> T:
        """Runs the operation in a transaction with `source` attached as `staged`; see `write_from`."""
        try:
            raw.execute("ATTACH DATABASE ? AS staged", (str(source),))
            try:
                driver.patiently(lambda: raw.execute("BEGIN IMMEDIATE"), self._deadline)
                if (version := driver.pragma(raw, "user_version")) > self._newest:
                    raise migrate.too_new(version, self._newest)
                if driver.pragma(raw, "staged.user_version") != version:
                    raise StoreDamaged(f"{source} has another schema. Nothing was changed.")
                result = run(raw, operation)
                driver.patiently(lambda: raw.execute("COMMIT"), self._deadline)
                return result
            finally:
                driver.roll_back(raw)
                raw.execute("DETACH DATABASE staged")
        except driver.errors() as error:
            raise driver.translate(error, f"take over {source.name}") from error

    async def _close(self) -> None:
        """Ends the writer, the watcher and the readers, in this order."""
        if self._writes and self._writer is not None:
            await self._writer.run(_nothing)
            while self._jobs:
                await self._writer.run(_nothing)
            # The last group may still run, and ask for a checkpoint; whether that fails must be known below.
            await self._writer.run(_nothing)
            if self._checkpointer is not None:
                await self._checkpointer.run(_nothing)
                await self._writer.run(_nothing)
        if self._watcher is not None:
            await self._watcher.close()
        self._changes.close()
        while self._reads or any(self._serving):
            self._relieve()
            await asyncio.gather(
                *(self._readers[n].run(_nothing) for n, busy in enumerate(self._serving) if busy)
            )
        for timer in (self._relief, self._resting):
            if timer is not None:
                timer.cancel()
        if self._witness is not None:
            self._witness.close()
        keeper = self._keep_log() if self._writes and self._group.stopped else None
        for reader in self._readers:
            if reader is not self._writer:
                await reader.close()
        if self._checkpointer is not None:
            await self._checkpointer.close()
        if self._writer is not None:
            peers = self._peers
            if peers is not None:
                await self._writer.run(lambda raw: peers.close())
            # Last of all: it empties the log and removes it if no other process is there.
            await self._writer.close()
        if keeper is not None:
            keeper.close()

    def _keep_log(self) -> driver.Raw | None:
        """Returns a connection that keeps the others from removing the log when they are closed, and itself cannot.

        After a failed sync, pages that an earlier checkpoint copied may be lost. The next start copies the whole log.
        """
        assert self._path is not None
        with contextlib.suppress(*driver.errors()):
            raw = driver.connect_to_read(self._path)
            driver.pragma(raw, "user_version")
            return raw
        return None


def _nothing(raw: driver.Raw) -> None:
    """Does nothing, in a connection's thread: whoever waits for it waits for what was asked of the thread before."""


def _free(raw: driver.Raw) -> None:
    """Frees the pages that a connection keeps, in its thread, and gives their room back to the system."""
    raw.execute("PRAGMA shrink_memory").fetchall()
    from blackboard_mcp.storage.allocator import trim  # takes long to import

    trim()


def _settle(jobs: Sequence[Job]) -> None:
    """Hands results and errors of finished jobs to their callers."""
    for job in jobs:
        if job.future.done():
            continue
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.result)


def copy_to(raw: driver.Raw, target: Path, mark: Operation[object] | None, deadline: float) -> None:
    """Writes a compact, synced copy of the database, as of one moment, to a new private file; `mark` runs in it.

    Raises:
        StoreError: `target` exists or cannot be made.
    """
    try:
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except OSError as error:
        raise StoreError(f"Cannot make the backup {target}: {error.strerror}.") from error
    try:
        driver.patiently(lambda: raw.execute("VACUUM INTO ?", (str(target),)), deadline)
        if mark is not None:
            _mark(target, mark)
        # No connection has the copy open, so opening it here drops no lock.
        handle = os.open(target, os.O_RDWR)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def _mark(copy: Path, mark: Operation[object]) -> None:
    """Runs the operation `mark` in a copy of the database."""
    raw = driver.connect(str(copy))
    try:
        raw.execute("BEGIN IMMEDIATE")
        run(raw, mark)
        raw.execute("COMMIT")
    finally:
        raw.close()
