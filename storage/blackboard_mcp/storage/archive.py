"""The searchable archive of one installation: store, index and indexer working together."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from blackboard_mcp.protocols.archive import ArchiveAnswer, ArchiveIndex, ArchiveQuery, ArchiveSource
from blackboard_mcp.protocols.errors import ArchiveUnavailable
from blackboard_mcp.protocols.grants import without
from blackboard_mcp.protocols.metering import METER

from .lance.embedders.choice import EmbedderChoice

if TYPE_CHECKING:
    from .lance.indexer import Indexer

__all__ = ["EmbedderChoice", "SearchableArchive", "archive_index", "has_lance"]

_ATTEMPTS = 4
BUNDLED = EmbedderChoice()


def has_lance() -> bool:
    """Whether LanceDB is installed, which has no wheels for some platforms."""
    return importlib.util.find_spec("lancedb") is not None


def archive_index(path: Path, embedder: EmbedderChoice) -> ArchiveIndex:
    """The archive index in a folder: LanceDB's, or where there is no LanceDB one of words alone."""
    if not has_lance():
        from .fts.index import FtsArchiveIndex

        return FtsArchiveIndex(path)
    from .lance.index import LanceArchiveIndex

    return LanceArchiveIndex(path, embedder.load(), vector_weight=embedder.vector_weight)


class SearchableArchive:
    """Answers searches, and keeps the index in step once it is needed.

    `eager` starts the indexer at once, which loads the index with the first archived item; otherwise it
    starts with the first search, so that a process nobody searches in never loads the index. Without an
    `index` it is the one that `archive_index` says, with the embedding model that `embedder` names.
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
    ) -> None:
        self._source = source
        self._path = path
        self._holder = holder
        self._eager = eager
        self._index = index
        self._embedder = embedder
        self._indexer: Indexer | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to keep the index in step, where `eager` says so."""
        if self._eager:
            self._run()

    def _parts(self) -> tuple[ArchiveIndex, Indexer]:
        """The index and its indexer, made at first use."""
        if self._index is None or self._indexer is None:
            from .lance.indexer import Indexer

            if self._index is None:
                self._index = archive_index(self._path, self._embedder)
            self._indexer = Indexer(self._source, self._index, self._holder)
        return self._index, self._indexer

    def _run(self) -> None:
        if self._task is None:
            _, indexer = self._parts()
            context = without()  # not on the account of whoever searches first
            context.run(METER.set, None)
            self._task = asyncio.create_task(indexer.run(), name="archive-indexer", context=context)

    async def search(self, query: ArchiveQuery) -> ArchiveAnswer:
        """The best hits, those not indexed yet included; not confirmed against the store.

        Raises:
            ArchiveUnavailable: the index cannot be opened or read, or lacks something that does not wait
                for it; it is being mended.
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
        from .lance.pending import search_archive

        for _ in range(_ATTEMPTS):
            known = indexer.complete_life
            answer = await search_archive(self._source, index, query)
            if known is not None and answer.life == known:
                return answer
            # Another table than the one that was found complete, or none was yet.
            if not await indexer.complete():
                break
        raise ArchiveUnavailable("The archive index is not known to be complete.", reason="incomplete")

    async def rebuild(self, step: Callable[[int], object] | None = None) -> int | None:
        """Drops the index and refills it: how many documents, `None` when another process is at it.

        `step` is told of documents as they are taken in.
        """
        _, indexer = self._parts()
        return await indexer.rebuild(step)

    async def drain(self) -> bool:
        """Indexes what waits, now; false when another process is at it."""
        _, indexer = self._parts()
        return await indexer.drain()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        if self._indexer is not None:
            await self._indexer.close()
        if self._index is not None:
            await self._index.close()
