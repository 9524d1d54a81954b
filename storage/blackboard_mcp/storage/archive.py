"""The searchable archive of one installation: store, index and indexer together."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blackboard_mcp.protocols.archive import ArchiveAnswer, ArchiveIndex, ArchiveQuery, ArchiveSource
from blackboard_mcp.protocols.errors import ArchiveUnavailable
from blackboard_mcp.protocols.grants import without
from blackboard_mcp.protocols.metering import METER
from blackboard_mcp.protocols.values import dataclass

from .lance.embedders.choice import EmbedderChoice

if TYPE_CHECKING:
    from .lance.indexer import Indexer
    from .lance.shared import IndexStates

__all__ = [
    "EmbedderChoice",
    "SearchableArchive",
    "SharedLocation",
    "archive_index",
    "has_lance",
    "trouble_at",
]

_ATTEMPTS = 4
_SHARED_BATCH = 1000
BUNDLED = EmbedderChoice()


def has_lance() -> bool:
    """Tells whether LanceDB is installed, which has no wheels for some platforms."""
    return importlib.util.find_spec("lancedb") is not None


def archive_index(path: Path, embedder: EmbedderChoice, *, index_process: bool = False) -> ArchiveIndex:
    """Returns the archive index in a folder: LanceDB's, or without LanceDB an index of words only.

    With `index_process` LanceDB's works in a process of its own, unless Python is part of another program.
    """
    if not has_lance():
        from .fts.index import FtsArchiveIndex

        return FtsArchiveIndex(path)
    if index_process and sys.executable:
        from .lance.process import ProcessArchiveIndex

        return ProcessArchiveIndex(path, embedder)
    from .lance.index import LanceArchiveIndex

    return LanceArchiveIndex(path, embedder.load(), vector_weight=embedder.vector_weight)


def trouble_at(location: str) -> str:
    """Returns why an index that machines share cannot be used at a location; empty if it can."""
    from .lance.shared import SharedTables

    return SharedTables(location).trouble()


@dataclass(frozen=True, slots=True)
class SharedLocation:
    """A location of an index that several machines share, and where the state of it that is in use is kept.

    `every` is the number of seconds in which changes are gathered: small writes make an object store slow and dear.
    """

    location: str
    states: IndexStates
    every: float

    def index(self, embedder: EmbedderChoice) -> ArchiveIndex:
        """Returns the index there, in LanceDB's form."""
        from .lance.shared import SharedArchiveIndex, SharedTables

        tables, model = SharedTables(self.location), embedder.load()
        return SharedArchiveIndex(tables, self.states, model, vector_weight=embedder.vector_weight)


class SearchableArchive:
    """Answers searches, and keeps the index up to date.

    Args:
        source: the store whose archived items are indexed.
        path: the folder of the index.
        holder: the name under which this process takes the indexer's lease.
        eager: starts the indexer with `start`. Otherwise the first search starts it, so that a process without
            searches never loads the index.
        index: the index; by default the one from `archive_index`.
        embedder: chooses the embedding model of the default index.
        shared: a location for it that several machines share, in place of the folder.
        index_process: has the default index work in a process of its own.
    """

    def __init__(
        self,
        source: ArchiveSource,
        path: Path,
        holder: str,
        *,
        eager: bool,
        index: ArchiveIndex | None = None,
        embedder: EmbedderChoice = BUNDLED,
        shared: SharedLocation | None = None,
        index_process: bool = False,
    ) -> None:
        self._source = source
        self._path = path
        self._holder = holder
        self._eager = eager
        self._index = index
        self._embedder = embedder
        self._shared = shared
        self._index_process = index_process
        self._indexer: Indexer | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Starts the indexer if the archive is `eager`."""
        if self._eager:
            self._run()

    def _parts(self) -> tuple[ArchiveIndex, Indexer]:
        """Returns the index and its indexer, and creates them at first use."""
        if self._index is None or self._indexer is None:
            from .lance.indexer import Indexer

            few: dict[str, Any] = {}
            if self._index is None and self._shared is not None:
                self._index = self._shared.index(self._embedder)
                few = {"batch": _SHARED_BATCH, "gather": self._shared.every}
            elif self._index is None:
                self._index = archive_index(self._path, self._embedder, index_process=self._index_process)
            self._indexer = Indexer(self._source, self._index, self._holder, **few)
        return self._index, self._indexer

    def _run(self) -> None:
        """Starts the indexer's task, unless it runs already."""
        if self._task is None:
            _, indexer = self._parts()
            context = without()  # the indexer's work is not charged to whoever searches first
            context.run(METER.set, None)
            self._task = asyncio.create_task(indexer.run(), name="archive-indexer", context=context)

    async def search(self, query: ArchiveQuery) -> ArchiveAnswer:
        """Returns the best hits, including items that are not indexed yet; the store has not confirmed them.

        Raises:
            ArchiveUnavailable: the index cannot be opened or read, or is incomplete. Its repair has begun.
        """
        index, indexer = self._parts()
        self._run()
        indexer.wake()
        try:
            return await self._complete(index, indexer, query)
        except ArchiveUnavailable as error:
            indexer.distrust(error)
            raise

    async def _complete(self, index: ArchiveIndex, indexer: Indexer, query: ArchiveQuery) -> ArchiveAnswer:
        """Searches, and repeats the search until the index is known to be complete.

        Raises:
            ArchiveUnavailable: it is not complete.
        """
        from .lance.pending import waiting_of

        for _ in range(_ATTEMPTS):
            known = indexer.complete_index
            waiting = await waiting_of(self._source, query.board)
            # After the outbox: what another index takes from now on is among what waits.
            if known is not None and not await indexer.still(known):
                known = None
            answer = await index.search(query, waiting)
            if known is not None and answer.life == known.life:
                return answer
            # The searched table is not the one that was found complete, or none was found yet.
            if not await indexer.complete():
                break
        raise ArchiveUnavailable("The archive index is not known to be complete.", reason="incomplete")

    async def rebuild(self, step: Callable[[int], object] | None = None) -> int | None:
        """Deletes the index and fills it again; returns the number of documents, `None` if another process is indexing.

        `step` is called with numbers of documents while they are added.
        """
        _, indexer = self._parts()
        return await indexer.rebuild(step)

    def doubt(self) -> None:
        """Has the index compared with the store anew before it answers again: it may have missed changes."""
        if self._indexer is not None:
            self._indexer.doubt()

    async def drain(self) -> bool:
        """Indexes everything that waits now; returns false if another process is indexing."""
        _, indexer = self._parts()
        return await indexer.drain()

    async def close(self) -> None:
        """Stops the indexer and closes the index."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        if self._indexer is not None:
            await self._indexer.close()
        if self._index is not None:
            await self._index.close()
