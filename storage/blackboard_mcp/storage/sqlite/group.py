"""Group commit: the part of the writer that runs in the thread of its connection.

One BEGIN IMMEDIATE and one COMMIT serve all waiting operations, each after the first inside its own SAVEPOINT. No
operation gets its result before the commit that holds it. So an expensive operation has its own commit, and cheap ones
run between expensive ones, or interrupt one, which then starts anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from functools import partial
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

from blackboard_mcp.protocols.errors import StoreBusy, StoreClosed, StoreError, StoreFull, StoreLow
from blackboard_mcp.protocols.metering import Meter, shared
from blackboard_mcp.storage.operation import (
    Batch,
    Batched,
    Operation,
    Pauses,
    Rows,
    Spoilt,
    Statement,
    T,
)
from blackboard_mcp.storage.sqlite import compacting, driver, migrate, place
from blackboard_mcp.storage.sqlite.free_space import FreeSpace
from blackboard_mcp.storage.sqlite.packing import fetched
from blackboard_mcp.storage.trouble import ROOM, Trouble

logger = logging.getLogger(__name__)

_MEMBERS = 65
"""The most operations in one transaction."""
_FEWEST = 4
"""The fewest operations besides the first one that run together: what that takes by itself costs less from there on."""
_SPAN = 0.05
"""The seconds after which a group takes no more operations, since other processes wait for the lock."""
_PATIENCE = 0.003
"""The seconds from which on an expensive operation gives way to a cheap one: before, it is sooner done than undone."""
_INTERRUPTIONS = 3
"""How often an expensive operation starts anew because a cheap one came."""
_WAL_LIMIT = 64 << 20
"""The bytes above which the log is emptied."""
_WAL_WAIT = 100
"""The most milliseconds to wait for reads that keep such a log from being emptied."""
_WAL_LIMIT_SAFE = 4 << 20
"""The same if only the writer may make checkpoints."""
_CHECKPOINT_ROWS = 2_000
"""The changed rows after which a checkpoint is due; they take about 1,000 pages."""
_CHECKPOINT_BYTES = 4 << 20
"""The growth of the log after which a checkpoint is due."""


class Job:
    """One operation to run, and the future of its caller; `metered` is the operation as it counts its time.

    Jobs of an equal `batch` may run together. `interrupted` counts how often cheap ones made an expensive one
    start anew.
    """

    __slots__ = (
        "asked",
        "batch",
        "dear",
        "error",
        "future",
        "interrupted",
        "meter",
        "metered",
        "operation",
        "result",
        "steady",
    )

    def __init__(
        self, operation: Operation[Any], future: asyncio.Future[Any], *, meter: Meter | None = None
    ) -> None:
        self.operation = operation
        self.future = future
        self.meter = meter
        self.metered = operation if meter is None else _metered(operation, meter)
        self.batch = operation.batch if isinstance(operation, Batched) else None
        self.dear = meter is not None and meter.dear
        self.steady = meter is not None and meter.steady
        self.interrupted = 0
        self.asked = time.monotonic()
        self.result: Any = None
        self.error: BaseException | None = None


class Jobs:
    """The queue between the event loop and a connection's thread; a job that was taken cannot be withdrawn.

    Expensive jobs have their own line, and the two lines take turns. So a cheap job waits for at most one expensive
    job, however many there are, and seldom for that: it makes the job start anew after it, unless others have done so
    a few times.
    """

    def __init__(self) -> None:
        self._cheap: deque[Job] = deque()
        self._dear: deque[Job] = deque()
        self._dear_is_next = False
        self._lock = threading.Lock()
        self._resting = True

    def __len__(self) -> int:
        return len(self._cheap) + len(self._dear)

    def put(self, job: Job) -> bool:
        """Adds a job to its line; returns whether the one who works them rests and has to be called."""
        with self._lock:
            (self._dear if job.dear else self._cheap).append(job)
            resting, self._resting = self._resting, False
            return resting

    def rest(self) -> bool:
        """Tells whether no job waits; the next `put` then says that the one who works them has to be called."""
        with self._lock:
            self._resting = not (self._cheap or self._dear)
            return self._resting

    def take(self) -> Job | None:
        """Removes and returns the next job of the line whose turn it is; `None` if none waits."""
        with self._lock:
            dear = bool(self._dear) and (self._dear_is_next or not self._cheap)
            self._dear_is_next = not dear
            line = self._dear if dear else self._cheap
            return line.popleft() if line else None

    def take_beside(self) -> Job | None:
        """Removes and returns the next cheap job, to share a commit; `None` if none waits."""
        with self._lock:
            return self._cheap.popleft() if self._cheap else None

    def take_alike(self, batch: Batch, most: int) -> list[Job]:
        """Removes and returns the next cheap jobs, up to `most`, that belong to a batch; none if they are few."""
        with self._lock:
            taken = list(takewhile(lambda job: job.batch == batch, islice(self._cheap, most)))
            if len(taken) < _FEWEST:
                return []
            for _ in taken:
                self._cheap.popleft()
            return taken

    def give_back(self, jobs: list[Job]) -> None:
        """Puts cheap jobs back to the head of their line."""
        with self._lock:
            self._cheap.extendleft(reversed(jobs))

    def interrupts(self) -> bool:
        """Tells whether a cheap job waits."""
        return bool(self._cheap)

    def put_back(self, job: Job) -> None:
        """Puts an interrupted job back to the head of its line; the cheap job that waits is taken before it."""
        with self._lock:
            job.interrupted += 1
            self._dear.appendleft(job)

    def take_all(self, asked_before: float = float("inf")) -> list[Job]:
        """Removes and returns all jobs that were added before a time on the monotonic clock, by default all."""
        with self._lock:
            taken = []
            for line in (self._cheap, self._dear):
                while line and line[0].asked <= asked_before:
                    taken.append(line.popleft())
            return taken

    def withdraw(self, job: Job) -> None:
        """Removes a job that has not been started; has no effect on others."""
        with self._lock, contextlib.suppress(ValueError):
            (self._dear if job.dear else self._cheap).remove(job)


class GroupWriter:
    """Runs the queue's jobs in transactions; every method is called in the connection's thread."""

    def __init__(
        self,
        jobs: Jobs,
        *,
        newest: int,
        deadline: float,
        path: Path | None,
        log: Path | None,
        safe_mode: bool,
        committed: Callable[[], None],
        overtaken: Callable[[], None],
        space: FreeSpace | None = None,
    ) -> None:
        """Creates a writer for the queue; the connection's thread must call this.

        `newest` is the schema version of this code, and `deadline` the limit in seconds for waiting for a lock.
        `committed` is called after each commit that changed rows; `overtaken`, when another process committed
        while this one waits for the lock, or before a transaction of this one that changes nothing.
        """
        self._jobs = jobs
        self._newest = newest
        self._deadline = deadline
        self._path = path
        self._file = _identity(path)
        self._log = log
        self._safe_mode = safe_mode
        self._log_limit = _WAL_LIMIT_SAFE if safe_mode else _WAL_LIMIT
        self._due_rows = math.inf if safe_mode else _CHECKPOINT_ROWS
        self._due_bytes: float = self._log_limit if safe_mode else _CHECKPOINT_BYTES
        """The changed rows and the bytes of the log from which on a checkpoint is due; infinite while one runs."""
        self._checkpoint_failed: BaseException | None = None
        self._committed = committed
        self._overtaken = overtaken
        self._space = space
        self._seen_version: int | None = None
        self._missed = False
        """Whether another process committed since the last look, which nobody here has been told of."""
        self._groups = 0
        self._pauses = Pauses()
        self._next_look = 0.0
        self.taken: list[Job] = []
        """The jobs of the current transaction, whose callers wait."""
        self.stopped: str | None = None
        """The reason why writing stopped for good: the disk failed, or the file was replaced; else `None`."""
        self.trouble: Trouble | None = None
        """The trouble of the last attempt to write; `None` if it succeeded."""

    def write(self, raw: driver.Raw) -> tuple[list[Job], bool]:
        """Runs some waiting jobs; returns the finished ones, with result or error, and whether rows changed."""
        self._missed = False
        settled, changed = self._write(raw)
        if self._missed and not changed:
            self._overtaken()
        met = [job.error for job in settled if job.error is not None]
        full = next((e for e in met if isinstance(e, StoreFull) and not isinstance(e, StoreLow)), None)
        if full is not None:
            self._meet(Trouble("full", full.message))
        elif changed and self.stopped is None:
            self._meet(None)
        self.taken = []
        return settled, changed

    def _write(self, raw: driver.Raw) -> tuple[list[Job], bool]:
        """Does what `write` says, except for recording trouble."""
        if self.stopped is None:
            expired = self._begin(raw)
            if expired is not None:
                return expired, False
        if self.stopped is not None:
            return fail(self._jobs.take_all(), StoreClosed(self.stopped)), False
        if self._space is not None:
            ROOM.set(self._space.room())
        group = self.taken = []
        before = raw.total_changes
        try:
            self._check(raw)
            until = time.monotonic() + _SPAN
            together, odd = self._pauses.over(), None
            job = self._jobs.take()
            while job is not None:
                group.append(job)
                alike: list[Job] = []
                if job.batch is not None and together and job is not odd and not job.dear:
                    alike = self._jobs.take_alike(job.batch, _MEMBERS - len(group))
                if job.batch is not None and alike:
                    group += alike
                    ran = self._attempt_together(raw, job.batch, [job, *alike])
                    if left := [job, *alike][ran:]:
                        del group[-len(left) :]
                        self._jobs.give_back(left)
                        odd = left[0]
                    together = self._pauses.go_on(ran)
                    if not ran:
                        job = self._jobs.take_beside()
                        continue
                else:
                    gives_way = job.dear and not job.steady and job.interrupted < _INTERRUPTIONS
                    self._attempt(raw, job, gives_way=gives_way, first=len(group) == 1)
                    if job.error is not None and not raw.in_transaction:
                        return group, False
                if job.dear or len(group) >= _MEMBERS or time.monotonic() > until:
                    break
                job = self._jobs.take_beside()
            changed = raw.total_changes != before and any(job.error is None for job in group)
            self._commit(raw)
        except _GivesWay:
            driver.roll_back(raw)
            self._jobs.put_back(group[0])
            return [], False
        except _Lost as lost:
            if lost.__cause__ is not None and driver.is_io(lost.__cause__):
                return fail(group, self._translated(lost.__cause__, "write")), False
            return self._one_by_one(raw, group, lost), True
        except BaseException as error:
            driver.roll_back(raw)
            return fail(group or self._jobs.take_all(), self._translated(error, "write")), False
        if changed:
            self._committed()
        return group, changed

    def poll(self, raw: driver.Raw) -> bool:
        """Tells whether another connection committed since the last call."""
        try:
            version: int = driver.pragma(raw, "data_version")
        except driver.errors():
            return False
        seen, self._seen_version = self._seen_version, version
        return seen is not None and seen != version

    def tidying_is_due(self, raw: driver.Raw) -> bool:
        """Tells whether to check the sizes of the log and the file; a cheap call."""
        self._groups += 1
        return self._log is not None and (
            raw.total_changes >= self._due_rows
            or self._groups % 64 == 0
            or time.monotonic() >= self._next_look
        )

    def tidy(self, raw: driver.Raw) -> bool:
        """Gives free pages back to the disk; returns whether to have `checkpoint` called.

        In safe mode it empties a long log itself.
        """
        self._next_look = time.monotonic() + 1.0
        if self.stopped is not None or self.displaced:
            return False
        self._give_back(raw)
        if raw.total_changes < self._due_rows and self._log_size() < self._due_bytes:
            return False
        if self._safe_mode:
            self._restart_log(raw)
            return False
        self._due_rows = self._due_bytes = math.inf
        return True

    def checkpoint(self, raw: driver.Raw) -> None:
        """Copies the log into the file while others read and write; the thread of another connection calls this.

        It is followed by `checkpointed`.
        """
        if self.stopped is not None:
            return
        try:
            # The second one copies what was written during the first.
            for _ in range(2):
                raw.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        except driver.errors() as error:
            # Without room for the copy, or the lock, the log stays as it is.
            if driver.is_io(error) and not (self._path and place.is_at_a_limit(self._path, self._log)):
                self._checkpoint_failed = error

    def checkpointed(self, raw: driver.Raw) -> None:
        """Copies the little that is left of the log, so that it begins anew.

        If the disk failed in a checkpoint, the writer is stopped instead.
        """
        with contextlib.suppress(StoreClosed):
            self._check_disk()
            self._restart_log(raw)
        self._due_rows = raw.total_changes + _CHECKPOINT_ROWS
        self._due_bytes = self._log_size() + _CHECKPOINT_BYTES

    def _check_disk(self) -> None:
        """Checks that the disk failed in no checkpoint, since a sync may take the error of another one.

        Raises:
            StoreClosed: it did; the writer is stopped.
        """
        if self._checkpoint_failed is not None:
            raise self._stop(self._checkpoint_failed)

    def _log_size(self) -> int:
        """Returns the bytes of the log; 0 if it cannot be looked at."""
        with contextlib.suppress(OSError):
            if self._log is not None:
                return os.stat(self._log).st_size
        return 0

    def _restart_log(self, raw: driver.Raw) -> None:
        """Copies what is left of the log, so that it begins anew, if nobody reads from it; empties a long one.

        A failed disk stops the writer.
        """
        if self.stopped is not None:
            return
        size = self._log_size()
        mode = "RESTART" if size < self._log_limit else "TRUNCATE"
        try:
            if size >= _WAL_LIMIT:
                # Reads that overlap would keep the log for ever; those that begin while this waits do not use it.
                raw.execute(f"PRAGMA busy_timeout={_WAL_WAIT}").fetchall()
            # This takes the writer's lock. A busy database is normal, and a later call tries again.
            raw.execute(f"PRAGMA wal_checkpoint({mode})").fetchall()
        except driver.errors() as error:
            if driver.is_io(error):
                self._translated(error, "copy the log")
        finally:
            raw.execute("PRAGMA busy_timeout=0").fetchall()

    def _give_back(self, raw: driver.Raw) -> None:
        """Gives free pages back to the disk; a failed disk stops the writer."""
        try:
            compacting.give_back(raw)
        except driver.errors() as error:
            # If the disk fails this commit, writing stops. A busy database is normal.
            driver.roll_back(raw)
            if driver.is_io(error):
                self._translated(error, "give back room")

    def _begin(self, raw: driver.Raw) -> list[Job] | None:
        """Takes the lock and returns `None`; otherwise returns the jobs that failed, perhaps none."""
        begun = time.monotonic()
        while True:
            try:
                raw.execute("BEGIN IMMEDIATE")
                return None
            except driver.errors() as error:
                if not driver.is_busy(error):
                    return fail(self._jobs.take_all(), self._translated(error, "begin to write"))
            if expired := self._jobs.take_all(time.monotonic() - self._deadline):
                busy = f"No write lock within {self._deadline:g} seconds: other processes hold it. "
                return fail(expired, StoreBusy(busy + "Nothing was changed; try again."))
            if not self._jobs:
                return []
            if self.poll(raw):
                self._overtaken()
            driver.pause(time.monotonic() - begun)

    @property
    def displaced(self) -> bool:
        """Whether the file was moved, replaced or deleted; SQLite would write on to a file without a name."""
        return _identity(self._path) != self._file

    def _check(self, raw: driver.Raw) -> None:
        """Checks the file before a group of jobs writes to it.

        Raises:
            StoreTooNew: a newer version of the product migrated it meanwhile.
            StoreClosed: it was moved, replaced or deleted.
        """
        # If we change something, our own commit wakes all waiters, so an earlier commit by others need not.
        self._missed = self.poll(raw) or self._missed
        version = driver.pragma(raw, "user_version")
        if version > self._newest:
            raise migrate.too_new(version, self._newest)
        if self.displaced:
            self.stopped = (
                "The board's file was moved, replaced or deleted while the server ran, so the store takes no more "
                "writes. Nothing was changed. Tell who runs the server: it has to be started again."
            )
            self._meet(Trouble("stopped", f"{self._path} was moved, replaced or deleted; start again."))
            raise StoreClosed(self.stopped)

    def _commit(self, raw: driver.Raw) -> None:
        """Commits the transaction.

        Raises:
            _Lost: a job violated a constraint that is checked at the commit.
            StoreClosed: the disk failed in a checkpoint meanwhile.
        """
        try:
            # Busy only without a write-ahead log, where a commit waits for readers.
            driver.patiently(lambda: raw.execute("COMMIT"), self._deadline)
            self._check_disk()
        except driver.errors() as error:
            driver.roll_back(raw)
            if driver.is_constraint(error):
                raise _Lost from error
            raise

    def _translated(self, error: BaseException, doing: str) -> BaseException:
        """Returns the product's error for a driver's error; stops the writer if the disk failed."""
        if not isinstance(error, driver.errors()):
            return error
        if driver.is_io(error):
            if self._path is None or not place.is_at_a_limit(self._path, self._log):
                return self._stop(error)
            full = driver.no_room(doing)
            full.__cause__ = error
            return full
        return translated(error, doing)

    def _stop(self, error: BaseException) -> StoreClosed:
        """Stops all further writes, because the disk failed; returns the error."""
        # After a failed sync the kernel may call lost pages clean: trying again would lie. Not every binding
        # of SQLite tells a failed sync from a failed write.
        self.stopped = (
            "The disk failed, so the store takes no more writes: the board is read-only until the server is "
            "restarted; reading goes on. Whether the last writes are there shows then: repeat them with the same "
            "idempotency_key."
        )
        self._meet(Trouble("stopped", f"{self._path}: {error}. {self.stopped}"))
        stopped = StoreClosed(self.stopped)
        stopped.__cause__ = error
        return stopped

    def _meet(self, trouble: Trouble | None) -> None:
        """Records the present trouble, and logs when it begins or ends."""
        was, self.trouble = self.trouble, trouble
        if trouble is None:
            if was is not None:
                logger.warning("the store writes again")
        elif was is None or was.kind != trouble.kind:
            logger.error("the store does not write: %s", trouble.message)

    def _attempt(self, raw: driver.Raw, job: Job, *, gives_way: bool = False, first: bool = True) -> None:
        """Runs a job, whose error undoes only this job.

        An error of the first job ends the transaction, which holds nothing else yet. Each other job has a savepoint,
        for which SQLite copies the pages that the job changes.

        Raises:
            _GivesWay: it gives way to a cheap one.
            _Lost: SQLite rolled back the whole transaction.
        """
        if not first:
            raw.execute("SAVEPOINT operation")
        try:
            job.result = run(raw, job.metered, self._interrupts() if gives_way else None)
        except _GivesWay:
            raise
        except BaseException as error:
            job.error = self._translated(error, "write")
            if not raw.in_transaction:
                # A full disk, for example, may roll back more than the statement.
                raise _Lost(job) from error
            raw.execute("ROLLBACK" if first else "ROLLBACK TO operation")
        if not first:
            raw.execute("RELEASE operation")

    def _interrupts(self) -> Callable[[], bool]:
        """Returns a test of whether a cheap job waits and the job that begins now has run for `_PATIENCE`."""
        until = time.monotonic() + _PATIENCE
        return lambda: self._jobs.interrupts() and time.monotonic() >= until

    def _attempt_together(self, raw: driver.Raw, batch: Batch, jobs: list[Job]) -> int:
        """Runs jobs of a batch together; returns how many of them, from the first on, are over.

        Raises:
            _Lost: something failed that has undone the whole transaction.
        """
        try:
            with shared([job.meter for job in jobs if job.meter is not None]):
                outcomes = run(raw, partial(batch.together, [job.operation for job in jobs]))
        except BaseException as error:
            if not isinstance(error, (*driver.errors(), Spoilt)):
                logger.exception("operations failed together, and run one by one")
            driver.roll_back(raw)
            self._pauses.begin()
            raise _Lost from error
        for job, outcome in zip(jobs, outcomes, strict=False):
            job.result = outcome.result
            job.error = outcome.error and self._translated(outcome.error, "write")
        return len(outcomes)

    def _one_by_one(self, raw: driver.Raw, group: list[Job], lost: _Lost) -> list[Job]:
        """Runs the jobs of a lost transaction again, each in its own transaction, without the culprit."""
        for job in group:
            if lost.culprit is not None and job is lost.culprit:
                continue
            job.result = job.error = None
            if self.stopped is not None:
                job.error = StoreClosed(self.stopped)
                continue
            try:
                driver.patiently(lambda: raw.execute("BEGIN IMMEDIATE"), self._deadline)
                self._check(raw)
                self._attempt(raw, job)
                if job.error is None:
                    self._commit(raw)
            except _Lost as again:
                if job.error is None:
                    job.error = self._translated(again.__cause__ or again, "write")
            except BaseException as error:
                driver.roll_back(raw)
                job.error = self._translated(error, "write")
        self._committed()
        return group


class _GivesWay(Exception):
    """Raised inside an expensive operation when a cheap one comes."""


class _Lost(Exception):
    """Raised if the whole transaction was rolled back; `culprit` is the job that caused it, if known."""

    def __init__(self, culprit: Job | None = None) -> None:
        super().__init__()
        self.culprit = culprit


def _identity(path: Path | None) -> tuple[int, int] | None:
    """Returns device and inode of the file; `None` if it does not exist."""
    if path is None:
        return None
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def run(raw: driver.Raw, operation: Operation[T], interrupts: Callable[[], bool] | None = None) -> T:
    """Runs the operation's statements one after another in this thread, and returns its result.

    Raises:
        _GivesWay: `interrupts` told so between two statements.
    """
    steps = operation()
    execute = raw.cursor().execute
    try:
        sql, parameters = next(steps)
        while True:
            try:
                rows = fetched(execute, sql, parameters)
            except driver.errors() as error:
                error.add_note(sql)
                raise
            if interrupts is not None and interrupts():
                raise _GivesWay
            sql, parameters = steps.send(rows)
    except StopIteration as stop:
        value: T = stop.value
        return value
    finally:
        steps.close()


def translated(error: BaseException, doing: str) -> BaseException:
    """Returns the product's error for a driver's error, others unchanged; `doing` as in `driver.for_callers`."""
    if not isinstance(error, driver.errors()):
        return error
    product = driver.for_callers(error, doing)
    product.__cause__ = error
    return product


def fail(jobs: list[Job], error: BaseException) -> list[Job]:
    """Sets this error as the outcome of all the jobs, and returns them."""
    for job in jobs:
        # Each caller gets its own error, since a shared one would collect all tracebacks.
        own = error
        if isinstance(error, StoreError):
            own = type(error)(error.message, **error.facts)
            own.__cause__ = error.__cause__
        job.result, job.error = None, own
    return jobs


def _metered(operation: Operation[T], meter: Meter) -> Operation[T]:
    """Returns the operation, which now adds its time in the thread to the meter.

    A run that others interrupted no longer counts once it begins anew. Otherwise a cheap call would look expensive, and
    would be interrupted the next time, too.
    """
    undone = 0.0

    def counted() -> Generator[Statement, Rows, T]:
        nonlocal undone
        meter.seconds -= undone
        meter.working += 1
        begun = time.thread_time()
        try:
            return (yield from operation())
        finally:
            undone = time.thread_time() - begun
            meter.seconds += undone
            meter.working -= 1

    return counted
