"""Writing to PostgreSQL: operations that wait in one process share a transaction.

Each transaction begins by locking the one row of `installation`. So all writers of all machines take turns.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import asyncpg
from blackboard_mcp.protocols.errors import StoreError
from blackboard_mcp.protocols.metering import METER, Meter, shared
from blackboard_mcp.storage.operation import Batch, Batched, Operation, Outcome, Pauses, Spoilt, T

from ..operations.ledger.rows import sql
from . import migrating
from .address import Address
from .session import HERE, Lost, Session, translated, unreachable
from .standing import AWAY, Standing

logger = logging.getLogger(__name__)

PAUSES: Final = (0.05, 0.1, 0.2, 0.5, 1.0)
"""The seconds between attempts to connect; the last one repeats."""
_MEMBERS: Final = 64
"""The most operations in one transaction."""
_SPAN: Final = 0.05
"""The seconds after which a transaction takes no more operations, since other machines wait for the lock."""
_LOCK: Final = (
    "UPDATE installation SET pulse = pulse + 1 "
    "RETURNING schema, pg_current_xact_id()::text, pulse, place, tableoid::bigint"
)
_LOCK_POOLED: Final = f"{_LOCK}, {HERE}"
"""The same behind a pooler, which connects a session to a promoted standby without a word."""
_MOST_COUNTED: Final = 0.05
"""The most seconds that an operation counts as its caller's work: a database that stalls works for nobody."""


class Untold(StoreError):
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


class Writer:
    """Runs operations one after another, each all or nothing, through one connection. `run` has to run meanwhile."""

    def __init__(
        self,
        address: Address,
        session: Session,
        *,
        deadline: float,
        newest: int,
        standing: Standing,
        committed: Callable[[int], None],
    ) -> None:
        """`newest` is the schema version of this code; `committed` is called with the number of each commit."""
        self.session = session
        self._address = address
        self._deadline = deadline
        self._newest = newest
        self._standing = standing
        self._committed = committed
        self._jobs: deque[_Job] = deque()
        self._dear: deque[_Job] = deque()
        self._dear_is_next = False
        self._pauses = Pauses()
        self._answered = time.monotonic()
        """When the database last took a write."""
        self._wanted = asyncio.Event()

    async def write(self, operation: Operation[T]) -> T:
        """Runs an operation as `PostgresEngine.write` says."""
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

    def close(self) -> None:
        """Has `run` return after the operations that wait."""
        self._standing.closing = True
        self._wanted.set()

    async def run(self) -> None:
        """Runs operations as they come; after `close` it returns once there are no more."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            while (job := self._next()) is not None:
                await self._group(job)
            if self._standing.closing:
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
        pauses = iter(PAUSES)
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
                self._standing.trouble = AWAY
                for job in late:
                    logger.warning("no answer from %s: %s", self._address.shown, lost)
                    job.fail(unreachable(self._deadline))
                if group:
                    await asyncio.sleep(pause)
            except asyncio.CancelledError:
                # The loop ends without `close`: the connection takes the transaction with it.
                self.session.drop()
                raise
            except Exception as error:
                # Whatever it is, the writer goes on and nobody waits for ever.
                await self.session.roll_back()
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
        session, changed, results = self.session, [False], list[tuple[_Job, Any]]()
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
            transaction, pulse = await self.lock(session, lambda: first)
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
                    with metered(job.meter):
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
        elif (undone := await self.commit(session, transaction)) is not None:
            if len(results) > 1 and not isinstance(undone, Untold):
                # One of them broke a reference that is checked at the end: each alone shows which.
                return [job for job, _ in (*results, *failed)]
            for job, _ in (*results, *failed):
                job.fail(undone)
            return []
        self._standing.trouble = None
        self._answered = time.monotonic()
        for job, met in failed:
            job.fail(translated(met, "write"))
        for job, outcome in results:
            job.settle(outcome)
        if changed[0]:
            self._committed(pulse)
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

    async def lock(
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
            self._standing.outdated = migrating.too_new(schema, self._newest)
            raise self._standing.outdated
        if place != session.place:
            await session.fetch("UPDATE installation SET place = $1::text", [session.place])
            if place:
                logger.warning(
                    "the data at %s are a copy: their boards begin new epochs", self._address.shown
                )
                await session.run(lambda: ask(sql("boards_copied")))
                # The original goes on writing to a shared index; the copy makes one of its own.
                await session.fetch("UPDATE index_reader SET state = ''")
        return str(transaction), int(pulse)

    async def commit(self, session: Session, transaction: str) -> BaseException | None:
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
            return Untold(
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
                await asyncio.sleep(PAUSES[1])
                continue
            except (StoreError, asyncpg.PostgresError):
                return None
            if state != "in progress":
                return str(state) if state is not None else None
            await asyncio.sleep(PAUSES[0])
        return None


def _batch_of(job: _Job) -> Batch | None:
    return job.operation.batch if isinstance(job.operation, Batched) and not job.dear else None


def ask(statement: str, values: tuple[object, ...] = ()) -> Any:
    """Runs one statement and returns its rows."""
    return (yield statement, values)


@contextlib.contextmanager
def metered(meter: Meter | None) -> Iterator[None]:
    """Counts the time of an operation for its caller; the server works meanwhile."""
    if meter is None:
        yield
        return
    with meter.in_thread(time.perf_counter, _MOST_COUNTED):
        yield
