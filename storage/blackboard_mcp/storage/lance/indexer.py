"""The move of archived items from the store's outbox into the index, exactly once even after a crash.

The store writes an outbox row in the transaction that changes what is archived. Of all processes one indexer, the
holder of a lease, reads rows with the items' present state, brings the index to that state, and only then deletes
these rows. After a crash the same rows are read again, and the same writes change nothing. Before its first work each
process compares index and store in both directions, and again whenever it is about to take rows after another index of
the same store took some.

Boards that archive nothing load nothing: the index is touched at the first outbox row, or when `wake` announces a
search.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple, cast

from blackboard_mcp.protocols.archive import (
    ArchiveIndex,
    ArchiveSource,
    ClaimedIndex,
    Fed,
    FedSource,
    ReplaceableIndex,
    SummingIndex,
    SummingSource,
)
from blackboard_mcp.protocols.errors import ArchiveUnavailable, BlackboardError
from blackboard_mcp.protocols.values import dataclass

log = logging.getLogger(__name__)

LEASE = "archive-index"
Step = Callable[[int], object]
"""Is called with the number of documents just added."""

_LEASE_SECONDS = 30.0
_RENEW_SECONDS = 10.0
_WAIT_SECONDS = 60.0
_OTHERS_TURN_SECONDS = 1.0
_BACKOFF_SECONDS = (1.0, 60.0)
_FAILURES_BEFORE_RESET = 3
_CHECK_SECONDS = 5.0
_CHECK_SHARE = 4.0
_CHECK_ATTEMPTS = 3
_WAITING = 10_000
_CLEANUP_SECONDS = 600.0
_CLEANUPS = 4
_REBUILD_BATCH = 2000
_PASSING = frozenset(
    {"embedder", "closed", "replaced", "incomplete", "behind", "slow", "unreachable", "newer"}
)


@dataclass(frozen=True, slots=True)
class IndexRepair:
    """The result of a repair: the numbers of documents stored and removed, and whether the index was rebuilt."""

    stored: int = 0
    forgotten: int = 0
    rebuilt: bool = False


class CompleteIndex(NamedTuple):
    """The life of an index that lacks nothing but what waits in the outbox, and what the store's `fed` was then."""

    life: str
    fed: Fed | None


class Indexer:
    """Keeps an index in step with a store. Each process has one `run`, with a `holder` of its own.

    `batch` outbox rows are processed together. The index is compacted after the first of these batches, and then after
    every `maintain_every`. After news it waits `gather` seconds for more. `pause` is the function that waits between
    attempts, for a number of seconds.
    """

    def __init__(
        self,
        source: ArchiveSource,
        index: ArchiveIndex,
        holder: str,
        *,
        batch: int = 200,
        maintain_every: int = 32,
        gather: float = 0.0,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._source = source
        self._index = index
        self._holder = holder
        self._batch = batch
        self._maintain_every = maintain_every
        self._gather = gather
        self._pause = pause
        self._wake = asyncio.Event()
        self._work = asyncio.Lock()
        self._repair_due = False
        self._repaired = False
        self._broken = False
        self._commits = maintain_every - 1  # former processes may each have ended before they compacted it
        self._cleanups = 0
        self._cleanup_at = 0.0
        self._failures = 0
        self._rebuilding = False
        self._complete: CompleteIndex | None = None
        self._checking: asyncio.Task[None] | None = None
        self._check_again = 0.0
        self._doubts = 0

    @property
    def rebuilding(self) -> bool:
        """True while this process rebuilds the index: answers may be incomplete meanwhile."""
        return self._rebuilding

    def wake(self) -> None:
        """Announces a search: the first time, `run` compares index and store. Never waits."""
        if not self._repaired:
            self._repair_due = True
            self._wake.set()

    def doubt(self) -> None:
        """Announces that changes were missed: index and store are compared anew. Never waits."""
        self._doubts += 1
        self._complete = None
        self._checking = None
        self._repaired = False
        self.wake()

    @property
    def complete_index(self) -> CompleteIndex | None:
        """The index that this process found complete; `None` before."""
        return self._complete

    async def still(self, known: CompleteIndex) -> bool:
        """Tells whether no other index of the same store took changes since this one was found complete."""
        fed = await self._fed()
        return fed is None or fed.life == known.life or fed == known.fed

    async def complete(self) -> bool:
        """Compares index and store for at most five seconds; returns whether nothing is missing.

        If so, `complete_index` names the index. Otherwise `run` repairs it.

        Raises:
            ArchiveUnavailable: the index cannot be read, or time is up; the comparison goes on.
        """
        if self._checking is None:
            if time.monotonic() < self._check_again:
                return False
            self._complete = None
            self._checking = asyncio.create_task(self._check(), name="archive-check")
        checking = self._checking
        await asyncio.wait({checking}, timeout=_CHECK_SECONDS)
        if not checking.done():
            words = f"The archive index was not compared with the store within {_CHECK_SECONDS:g} s."
            raise ArchiveUnavailable(words, reason="slow")
        if self._checking is checking:
            self._checking = None
        checking.result()
        return self._complete is not None

    async def _check(self) -> None:
        started, doubts = time.monotonic(), self._doubts
        for _ in range(_CHECK_ATTEMPTS):
            life, fed = await self._index.life(), await self._fed()
            if await self._equal_sums():
                if await self._index.life() == life:
                    self._found(CompleteIndex(life, fed), doubts)
                    return
                continue
            # Read the store first: later changes of it have outbox rows.
            wanted = await self._source.settled_keys()
            there = await self._index.keys() if wanted else {}
            if any(there.get(key, -1) < seq for key, seq in wanted.items()):
                break
            if await self._index.life() == life:
                self._found(CompleteIndex(life, fed), doubts)
                return
        # Do not compare again at once: another process may be filling the index.
        now = time.monotonic()
        self._check_again = now + _CHECK_SHARE * (now - started)
        self._repaired = False
        self.wake()

    def _found(self, complete: CompleteIndex, doubts: int) -> None:
        """Notes that the index is complete, unless that was doubted since the comparison began."""
        if doubts == self._doubts:
            self._complete = complete

    async def _equal_sums(self) -> bool:
        """Tells whether store and index have equal sums; false also if one has none, or too many items wait."""
        if not isinstance(self._source, SummingSource) or not isinstance(self._index, SummingIndex):
            return False
        # Read the store first: later changes of it have outbox rows.
        settled = await self._source.settled(_WAITING)
        return settled is not None and await self._index.sums(settled.waiting) == settled.sums

    async def _fed(self) -> Fed | None:
        return await self._source.fed() if isinstance(self._source, FedSource) else None

    async def close(self) -> None:
        """Ends a comparison under way."""
        checking, self._checking = self._checking, None
        if checking is not None:
            checking.cancel()
            await asyncio.gather(checking, return_exceptions=True)

    def distrust(self, error: ArchiveUnavailable) -> None:
        """Announces a failed search: `run` then rebuilds the index, unless the failure may pass. Never waits.

        If the process of the index ended, it may have been killed: index and store are compared, and the index is
        rebuilt if that fails, too.
        """
        if error.facts.get("reason") == "ended":
            self._repaired = False
            self.wake()
        elif not _passes(error):
            self._broken = True
            self._wake.set()

    async def run(self) -> None:
        """Works until cancelled. No error ends it: it waits longer each time, and repairs the index."""
        while True:
            try:
                idle = await self._step()
                self._failures = 0
            except Exception as error:
                await self._after(error)
                continue
            if idle:
                await self._news(_WAIT_SECONDS)
            else:
                await self._pause(_OTHERS_TURN_SECONDS)

    async def drain(self) -> bool:
        """Processes the outbox now; returns false while another process does so.

        Raises:
            ArchiveUnavailable: the index refused; the outbox rows stay.
        """
        async with self._leased() as mine:
            if mine:
                await self._drain()
            return mine

    async def repair(self) -> IndexRepair | None:
        """Makes the index contain exactly what the store has archived; rebuilds an index that cannot be opened.

        Returns `None` while another process works on it. Later changes are left to the outbox. Safe at any time.
        """
        async with self._leased() as mine:
            return await self._repair() if mine else None

    async def rebuild(self, step: Step | None = None) -> int | None:
        """Rebuilds the index from the store and returns the number of documents.

        What an interrupted rebuild had added is kept. Returns `None` while another process works on it. `step` is
        called as documents are added.
        """
        async with self._leased() as mine:
            return await self._rebuild(anew=False, step=step) if mine else None

    async def _step(self) -> bool:
        """Does the work that is due; returns whether nothing is left."""
        self._wake.clear()
        first = await self._source.outbox_batch(1)
        if not (first.ids or self._broken or (self._repair_due and not self._repaired)):
            await self._clean_up()
            return True
        if self._gather and self._repaired and not self._broken:
            await self._pause(self._gather)
        async with self._leased() as mine:
            if not mine:
                return False
            if self._broken:
                await self._rebuild()
            elif not self._repaired:
                await self._repair()
            await self._drain()
        return True

    async def _drain(self) -> None:
        fed = await self._fed()
        if fed is not None and fed.life != await self._index.life():
            await self._repair()
        while True:
            work = await self._source.outbox_batch(self._batch)
            if not work.ids:
                return
            await self._index.upsert(work.documents)
            await self._index.remove(work.removed)
            if isinstance(self._source, FedSource):
                await self._source.outbox_fed(work.ids, await self._index.life())
            else:
                await self._source.outbox_done(work.ids)
            await self._committed()

    async def _repair(self) -> IndexRepair:
        try:
            if isinstance(self._index, ReplaceableIndex) and not await self._index.fits():
                log.warning("the archive index was made with another embedding model and is built anew")
                return IndexRepair(stored=await self._rebuild(anew=False), rebuilt=True)
            if await self._equal_sums():
                self._repaired = True
                return IndexRepair()
            # Read the store first: items archived later have outbox rows.
            wanted = await self._source.archived_keys()
            there = await self._index.keys()
        except ArchiveUnavailable as error:
            if _passes(error):
                raise
            log.warning("the archive index cannot be opened and is built anew: %s", error)
            return IndexRepair(stored=await self._rebuild(), rebuilt=True)
        surplus = [key for key, seq in there.items() if wanted.get(key, -1) < seq]
        lacking = [key for key, seq in wanted.items() if there.get(key) != seq]
        for start in range(0, len(surplus), self._batch):
            await self._index.remove(surplus[start : start + self._batch])
            await self._committed()
        for start in range(0, len(lacking), self._batch):
            await self._index.upsert(await self._source.documents(lacking[start : start + self._batch]))
            await self._committed()
        self._repaired = True
        return IndexRepair(stored=len(lacking), forgotten=len(surplus))

    async def _rebuild(self, *, anew: bool = True, step: Step | None = None) -> int:
        """Rebuilds the index: beside the one in use if it is replaceable, otherwise in its place.

        Unless `anew`, documents from an earlier attempt that are still right are kept.
        """
        self._rebuilding = True
        try:
            if isinstance(self._index, ReplaceableIndex):
                draft = self._index.draft()
                try:
                    count = await self._fill(draft, anew=anew, step=step)
                    await cast(ReplaceableIndex, draft).publish()
                finally:
                    await draft.close()
            else:
                count = await self._fill(self._index, anew=True, step=step)
            self._repaired = True
            self._broken = False
            return count
        finally:
            self._rebuilding = False

    async def _fill(self, index: ArchiveIndex, *, anew: bool, step: Step | None) -> int:
        there: dict[tuple[str, int], int] = {}
        if anew:
            await index.reset()
        else:
            try:
                there = await index.keys()
            except ArchiveUnavailable as error:
                if _passes(error):
                    raise  # what an earlier attempt added is still there
                await index.reset()
        count = commits = 0
        async for documents in self._source.archived_documents(max(self._batch, _REBUILD_BATCH)):
            lacking = [d for d in documents if there.pop((d.board, d.number), None) != d.seq]
            count += len(documents)
            if lacking:
                await index.upsert(lacking)
                commits += 1
                if commits % self._maintain_every == 0:
                    await index.maintain()
            if step is not None:
                step(len(documents))
        await index.remove(list(there))
        if count:
            await index.maintain()
        self._committing()
        return count

    async def _committed(self) -> None:
        self._committing()
        self._commits += 1
        if self._commits >= self._maintain_every:
            self._commits = 0
            await self._index.maintain()

    def _committing(self) -> None:
        self._cleanups = _CLEANUPS
        self._cleanup_at = time.monotonic() + _CLEANUP_SECONDS

    async def _clean_up(self) -> None:
        """Compacts the index every ten minutes after the last commits, until nothing old is left to delete."""
        if not self._cleanups or time.monotonic() < self._cleanup_at:
            return
        async with self._leased() as mine:
            if mine:
                self._commits = 0
                self._cleanups -= 1
                self._cleanup_at = time.monotonic() + _CLEANUP_SECONDS
                await self._index.maintain()

    async def _after(self, error: Exception) -> None:
        """Waits after a failure, and makes the next step check the index first."""
        self._failures += 1
        if isinstance(error, BlackboardError):
            log.warning("indexing the archive failed, attempt %d: %s", self._failures, error)
        else:
            log.error("indexing the archive failed, attempt %d", self._failures, exc_info=error)
        if isinstance(error, ArchiveUnavailable) and not _passes(error):
            self._repaired = False
            if self._failures % _FAILURES_BEFORE_RESET == 0:
                await self._begin_anew()
        least, most = _BACKOFF_SECONDS
        await self._pause(min(least * 2 ** (self._failures - 1), most))

    async def _begin_anew(self) -> None:
        """Rebuilds an index that can be opened but not written."""
        try:
            async with self._leased() as mine:
                if mine:
                    await self._rebuild()
        except Exception as error:
            log.warning("the archive index could not be built anew: %s", error)

    async def _news(self, seconds: float) -> None:
        """Returns when the outbox may have rows, or a search was announced, or after `seconds`."""
        tasks = [
            asyncio.ensure_future(self._source.outbox_wait(seconds)),
            asyncio.ensure_future(self._wake.wait()),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    @asynccontextmanager
    async def _leased(self) -> AsyncIterator[bool]:
        """Holds the lease, renewed in the background; yields false if another process has it.

        If a stall loses the lease, a repair can mend all harm: writes are idempotent and never return to an older
        sequence. An index that is claimed refuses such writes.
        """
        async with self._work:
            if not await self._source.lease(LEASE, self._holder, _LEASE_SECONDS):
                yield False
                return
            renewing = asyncio.ensure_future(self._renew())
            try:
                if isinstance(self._index, ClaimedIndex):
                    await self._index.claim()
                yield True
            finally:
                renewing.cancel()
                try:
                    await asyncio.gather(renewing, return_exceptions=True)
                finally:
                    await asyncio.shield(self._release())

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(_RENEW_SECONDS)
            try:
                await self._source.lease(LEASE, self._holder, _LEASE_SECONDS)
            except BlackboardError as error:
                log.debug("the lease was not renewed: %s", error)

    async def _release(self) -> None:
        try:
            await self._source.release(LEASE, self._holder)
        except BlackboardError as error:
            log.debug("the lease was not released and will run out: %s", error)


def _passes(error: ArchiveUnavailable) -> bool:
    """Tells whether a rebuild would not help, as when the model is down, or the index is closed or out of reach."""
    return error.facts.get("reason") in _PASSING
