"""The archive index on LanceDB.

It knows documents, and who may see each. The driver and the model are loaded in a worker thread at the first call that
needs them; an index that was never written answers without either.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

from blackboard_mcp.protocols.archive import (
    NOTHING_WAITS,
    ArchiveAnswer,
    ArchiveDocument,
    ArchiveHit,
    ArchiveQuery,
    Embedder,
    SearchMode,
    Sum,
    Waiting,
)
from blackboard_mcp.protocols.errors import ArchiveUnavailable
from blackboard_mcp.protocols.metering import METER
from blackboard_mcp.storage.allocator import bound_allocator, give_back
from blackboard_mcp.storage.lance import heads, holding, rows, upkeep, vectors
from blackboard_mcp.storage.lance.counts import BoardCounts
from blackboard_mcp.storage.lance.dates import months
from blackboard_mcp.storage.lance.engines import EngineReach
from blackboard_mcp.storage.lance.folder import IndexFolder
from blackboard_mcp.storage.lance.fusion import SHARES, VECTOR_WEIGHT, Bm25, Corpus, Shares, fuse
from blackboard_mcp.storage.lance.images import Images
from blackboard_mcp.storage.lance.pending import (
    EMBEDDED,
    WaitingTexts,
    candidates,
    first_windows,
    glances,
    not_indexed,
    visible,
    with_waiting,
)
from blackboard_mcp.storage.lance.retrieving import retrieve
from blackboard_mcp.storage.lance.words import (
    STOP_WORDS,
    Window,
    beginnings,
    clean,
    windows,
    words,
)
from blackboard_mcp.storage.lance.workers import Workers

log = logging.getLogger(__name__)

_DEPTH = 200
_ENGINE_DEPTH = 64
"""The same for the driver's engines, where reading a candidate costs most of the search."""
_DEPTH_PER_HIT = 4
_QUERY_WORDS = 64
_STOP_WORD_WEIGHT = 0.3
_UPSERT_ROWS = 500
_DELETE_ROWS = 500
_STATE = ["id", "number", "seq", "parts"]

NO_MODEL = "No embedding model is in use here: matched by words only."
MODEL_DOWN = "The embedding model did not answer: matched by words only."
OTHER_MODEL = (
    "The archive index was made with another embedding model and is being rebuilt: matched by words only."
)

T = TypeVar("T")


@runtime_checkable
class WeighingEmbedder(Protocol):
    """An embedder that can weigh a query's words: an optional capability of static models."""

    def embed_weighted(self, parts: Sequence[tuple[str, float]]) -> object:
        """Returns the vector of (word, weight) pairs: `(dimension,) float32`, unit length or zero."""
        ...


@runtime_checkable
class ClosableEmbedder(Protocol):
    """An embedder that keeps connections open: an optional capability of endpoints."""

    def close(self) -> None:
        """Closes open connections, and thus ends calls under way. It may be called twice."""
        ...


class LanceArchiveIndex:
    """The archive index in a folder; without an embedder it searches by words alone.

    `vector_weight` is the vectors' weight, 0 to 1: 0.25 suits static embeddings, 0.4 to 0.5 a transformer.
    """

    def __init__(
        self,
        path: Path,
        embedder: Embedder | None,
        *,
        vector_weight: float = VECTOR_WEIGHT,
        shares: Shares = SHARES,
        folder: IndexFolder | None = None,
    ) -> None:
        bound_allocator()
        self._path = path
        self._folder = folder or IndexFolder(path)
        self._is_draft = folder is not None
        self._embedder = embedder
        self._vector_weight = vector_weight
        self._shares = shares
        self._lock = threading.Lock()
        self._opened: tuple[str, Any] | None = None
        self._snapshots: tuple[str, Callable[[], Any]] | None = None
        self._counts = BoardCounts()
        self._images = Images()
        self._waiting = WaitingTexts()
        self._workers = Workers(self._rest)
        self._rows_at_once = _UPSERT_ROWS

    async def upsert(self, documents: Sequence[ArchiveDocument]) -> None:
        if documents:
            await self._write(lambda: self._upsert(documents), create=True)

    async def remove(self, keys: Sequence[tuple[str, int]]) -> None:
        if keys:
            await self._write(lambda: self._remove(keys))

    async def search(self, query: ArchiveQuery, waiting: Waiting = NOTHING_WAITS) -> ArchiveAnswer:
        return await self._read(lambda: self._search(query, waiting))

    async def life(self) -> str:
        return await self._workers.run(lambda: self._folder.life(self._folder.generation()) or "")

    async def fits(self) -> bool:
        def look() -> bool:
            table = self._table(create=False)
            return table is None or self._fits(table)

        return await self._read(look)

    def draft(self) -> LanceArchiveIndex:
        made_for = hashlib.sha256(f"{rows.SCHEMA_VERSION} {self._name()}".encode()).hexdigest()[:16]
        return LanceArchiveIndex(
            self._path,
            self._embedder,
            vector_weight=self._vector_weight,
            shares=self._shares,
            folder=IndexFolder(self._path, draft=made_for),
        )

    async def publish(self) -> None:
        await self._workers.run(self._publish)

    async def sums(self, apart: Mapping[str, Sequence[int]]) -> dict[str, Sum]:
        return await self._read(lambda: self._sums(apart))

    async def keys(self) -> dict[tuple[str, int], int]:
        return await self._read(self._keys)

    async def reset(self) -> None:
        await self._workers.run(self._reset)

    async def maintain(self) -> None:
        await self._workers.run(self._maintain)

    async def close(self) -> None:
        """Waits for calls under way; later calls raise `ArchiveUnavailable`. It may be called twice."""
        self._workers.refuse()
        # First: a call under way may be waiting for an endpoint that never answers.
        if not self._is_draft and isinstance(self._embedder, ClosableEmbedder):
            await asyncio.to_thread(self._embedder.close)
        await self._workers.close()
        self._opened = self._snapshots = None

    async def _read(self, work: Callable[[], T]) -> T:
        """Returns the result of `work`, which reads the table in use in a worker thread."""
        return await self._workers.run(lambda: self._twice(work))

    async def _write(self, work: Callable[[], None], *, create: bool = False) -> None:
        """Runs `work`, which changes the table in use, in a worker thread; `create` tells whether it may create one."""
        await self._workers.run(work)

    # Everything below runs in a worker thread.

    def _twice(self, work: Callable[[], T]) -> T:
        """Repeats a failed read with a fresh handle: another process may have replaced the files meanwhile."""
        try:
            return work()
        except ArchiveUnavailable:
            raise
        except Exception:
            self._forget()
            return work()

    def _rest(self) -> None:
        """Gives back what the next call can do without, or makes again."""
        self._waiting.clear()
        give_back()

    def _forget(self) -> None:
        with self._lock:
            self._opened = self._snapshots = None
            self._counts = BoardCounts()
            self._images = Images()

    def _table(self, *, create: bool) -> Any | None:
        """Returns the table in use; if there is none, creates it with `create`, otherwise returns `None`."""
        found = self._living(create=create)
        return None if found is None else found[1]

    def _living(self, *, create: bool) -> tuple[str, Any] | None:
        """Returns the name of the index's life and its table.

        Without a table it creates one with `create`, and returns `None` otherwise.

        Raises:
            ArchiveUnavailable: another version of the product made it, or it was replaced meanwhile.
        """
        with self._lock:
            generation = self._folder.generation()
            life = self._folder.life(generation)
            if life is not None and self._opened is not None and self._opened[0] == life:
                return self._opened
            self._opened = self._snapshots = None
            self._counts = BoardCounts()
            self._images = Images()
            if life is not None:
                table = self._folder.open(generation)
            elif create:
                table = self._folder.create(generation, rows.schema(self._name(), self._dimension()))
                life = self._folder.life(generation)
            else:
                return None
            if life is None or life != self._folder.life(generation):
                raise ArchiveUnavailable("The archive index was replaced meanwhile.", reason="replaced")
            rows.check_layout(table.schema)
            self._opened = (life, table)
            return self._opened

    def _snapshot(self) -> tuple[str, Any] | None:
        """Returns the name of the index's life and its table, opened anew in the newest version, where it stays.

        Without a table it returns `None`.
        """
        found = self._living(create=False)
        if found is None:
            return None
        life, table = found
        with self._lock:
            if self._snapshots is None or self._snapshots[0] != life:
                self._snapshots = life, self._folder.snapshots(life.split("/")[0], table)
            opened = self._snapshots[1]
        return life, opened()

    def _own_table(self, *, create: bool) -> Any | None:
        """Returns `_table` after a check that the present model made it.

        Raises:
            ArchiveUnavailable: another model made it.
        """
        table = self._table(create=create)
        if table is not None and not self._fits(table):
            raise ArchiveUnavailable(
                f"The archive index was made with the model {rows.described(table.schema)[1]!r}, here is "
                f"{self._name()!r}: it must be rebuilt.",
                reason="model",
            )
        return table

    def _fits(self, table: Any) -> bool:
        return rows.described(table.schema)[1] == self._name()

    def _name(self) -> str | None:
        return None if self._embedder is None else self._embedder.name

    def _dimension(self) -> int:
        try:
            return 0 if self._embedder is None else self._embedder.dimension
        except Exception as error:
            raise ArchiveUnavailable(f"The embedding model failed: {error}", reason="embedder") from error

    def _upsert(self, documents: Sequence[ArchiveDocument]) -> None:
        newest: dict[tuple[str, int], ArchiveDocument] = {}
        for document in documents:
            key = (rows.stored(document.board), document.number)
            if key not in newest or newest[key].seq < document.seq:
                newest[key] = document
        batch: list[tuple[ArchiveDocument, list[Window]]] = []
        count = 0
        for document in newest.values():
            batch.append((document, windows(clean(document.text))))
            count += max(len(batch[-1][1]), 1)
            if count >= self._rows_at_once:
                self._store(batch)
                batch, count = [], 0
        self._store(batch)
        self._waiting.forget(documents)

    def _store(self, batch: Sequence[tuple[ArchiveDocument, list[Window]]]) -> None:
        if not batch:
            return
        self._workers.check_open()
        made = self._rows(batch)
        upkeep.unless_conflicting(lambda: self._merge(made))

    def _rows(self, batch: Sequence[tuple[ArchiveDocument, list[Window]]]) -> list[dict[str, Any]]:
        # Check the table first, so that nothing is embedded in vain.
        self._own_table(create=False)
        flat = [window.text for _, cut in batch for window in cut]
        meant: Any = None
        if self._embedder is not None and flat:
            try:
                meant = self._embedder.embed_documents(flat)
            except Exception as error:
                raise ArchiveUnavailable(f"The embedding model failed: {error}", reason="embedder") from error
        table = self._own_table(create=True)
        assert table is not None
        dimension = rows.dimension(table.schema)
        if meant is not None:
            rows.check_dimension(table.schema, meant.shape[1])
        packed = iter(() if meant is None else vectors.packed(meant))
        found = []
        for document, cut in batch:
            for row in rows.made(document, cut):
                signs, vector = next(packed) if cut and meant is not None else vectors.NOWHERE
                row[heads.HEAD] = heads.made(row, vector, dimension)
                found.append(row | {vectors.SIGNS: signs} if dimension else row)
        return found

    def _merge(self, made: list[dict[str, Any]]) -> None:
        import pyarrow as pa

        table = self._own_table(create=True)
        assert table is not None
        # The unenforced primary key and the scan instead of an index keep racing processes from
        # inserting a new id twice; the condition names columns only, never a value.
        merged = (
            table.merge_insert("id")
            .use_index(False)
            .when_matched_update_all(where="source.seq >= target.seq")
            .when_not_matched_insert_all()
            .execute(pa.Table.from_pylist(made, schema=table.schema), on_bad_vectors="null")
        )
        if merged.num_inserted_rows != len(made):
            self._sweep(table, made)

    def _sweep(self, table: Any, made: list[dict[str, Any]]) -> None:
        """Deletes rows of former states of these documents, also if this process wrote the former state."""
        by_board: dict[str, set[int]] = {}
        for row in made:
            by_board.setdefault(row["board"], set()).add(row["number"])
        for board, numbers in by_board.items():
            found = (
                table.search().where(rows.of_documents(board, numbers)).select(_STATE).to_arrow().to_pylist()
            )
            newest: dict[int, tuple[int, int]] = {}
            for row in found:
                state = (row["seq"], row["parts"])
                newest[row["number"]] = max(newest.get(row["number"], state), state)
            left = [r["id"] for r in found if (r["seq"], r["parts"]) != newest[r["number"]]]
            for start in range(0, len(left), _DELETE_ROWS):
                table.delete(rows.identified(left[start : start + _DELETE_ROWS]))

    def _remove(self, keys: Sequence[tuple[str, int]]) -> None:
        table = self._own_table(create=False)
        if table is None:
            return
        by_board: dict[str, set[int]] = {}
        for board, number in keys:
            by_board.setdefault(board, set()).add(number)
        for board, numbers in by_board.items():
            wanted = sorted(numbers)
            for start in range(0, len(wanted), _DELETE_ROWS):
                which = rows.of_documents(board, wanted[start : start + _DELETE_ROWS])
                upkeep.unless_conflicting(lambda which=which: table.delete(which))  # type: ignore[misc]

    def _keys(self) -> dict[tuple[str, int], int]:
        return holding.keys(self._table(create=False))

    def _sums(self, apart: Mapping[str, Sequence[int]]) -> dict[str, Sum]:
        return holding.sums(self._table(create=False), apart)

    def _publish(self) -> None:
        if (table := self._table(create=False)) is not None:
            upkeep.maintain(table)
        self._forget()
        self._folder.publish()

    def _reset(self) -> None:
        self._forget()
        self._folder.reset()

    def _maintain(self) -> None:
        try:
            table = self._table(create=False)
            if table is not None and self._is_draft:
                upkeep.compact(table)
            elif table is not None and upkeep.maintain(table):
                self._forget()  # opened again, it gets the caches of a large table
        except Exception as error:
            # Another process compacts it, or the table is gone: the next round will do.
            log.debug("archive index not compacted this time: %s", error)
            self._forget()

    def _search(self, query: ArchiveQuery, waiting: Waiting) -> ArchiveAnswer:
        mode: SearchMode = "lexical" if self._embedder is None else "hybrid"
        notice = NO_MODEL if self._embedder is None else ""
        life, table = self._snapshot() or ("", None)
        self._waiting.keep(query.board, waiting.documents)
        documents = visible(waiting, query)
        if (table is None and not documents) or not query.text.strip():
            return ArchiveAnswer((), mode, notice, life)
        text = clean(query.text)
        asked = list(dict.fromkeys(words(text)))[:_QUERY_WORDS]
        corpus, rare = Corpus(0, 0.0, {}), dict[str, tuple[int, ...]]()
        image = None if table is None else self._images.of(table, query.board)
        if image is not None:
            corpus = image.corpus(asked, query.viewer)
        elif table is not None:
            corpus, rare = self._counts.of(table, query.board, asked)
        # Windows are cached, so only whole texts are split.
        beginning = (n for n, document in enumerate(documents) if document.number in waiting.shortened)
        cuts = self._waiting.cuts(documents[: next(beginning, len(documents))])
        whole = documents[: len(cuts)]
        cuts |= glances(documents[len(cuts) :], beginnings(text, asked))
        corpus = with_waiting(corpus, cuts, asked)

        vector, cosines = None, dict[int, list[float | None]]()
        unmeant = documents
        if self._embedder is None:
            pass
        elif table is not None and not self._fits(table):
            mode, notice = "lexical", OTHER_MODEL
        else:
            try:
                vector = self._query_vector(self._embedder, text, corpus)
                if table is not None and vector is not None:
                    rows.check_dimension(table.schema, len(vector))
                # Waiting documents are not sent to an endpoint: a search would wait for it.
                quick = isinstance(self._embedder, WeighingEmbedder)
                embedded = first_windows(whole, cuts, EMBEDDED) if quick else 0
                if vector is not None:
                    cosines = self._waiting.cosines(documents[:embedded], self._embedder, vector)
                unmeant = documents[embedded:]
            except Exception as error:
                log.warning("the embedding model failed on a query: %s", error)
                vector, cosines = None, {}
                mode, notice = "lexical", MODEL_DOWN
        notice = f"{notice} {not_indexed(unmeant, waiting)}".strip()

        depth = max(_ENGINE_DEPTH if image is None else _DEPTH, _DEPTH_PER_HIT * query.limit)
        found = []
        bm25 = Bm25(asked, corpus)
        if image is not None:
            found = image.candidates(query, bm25, vector, depth)
        elif table is not None:
            reach = EngineReach.of(query, share=self._counts.share(query.board))
            found = retrieve(table, reach, bm25, vector, rare, depth, query.limit, months(query.text))
        outdated = {*(document.number for document in waiting.documents), *waiting.removed}
        found = [candidate for candidate in found if candidate.number not in outdated]
        found += candidates(documents, query, bm25, cuts, cosines, depth)
        scored = fuse(
            found, bm25.weights, depth=depth, vector_weight=self._vector_weight, shares=self._shares
        )
        hits = tuple(ArchiveHit(s.number, s.score, s.start, s.beside) for s in scored[: query.limit])
        return ArchiveAnswer(hits, mode, notice, life)

    def _query_vector(self, embedder: Embedder, text: str, corpus: Corpus) -> Any | None:
        """Returns the query's vector, or `None` if it is zero."""
        if isinstance(embedder, WeighingEmbedder):
            parts = []
            for word in text.split()[: 4 * _QUERY_WORDS]:
                known = [corpus.weight(w) for w in words(word) if w in corpus.holding]
                weight = max(known) if known else _STOP_WORD_WEIGHT
                parts.append((word, _STOP_WORD_WEIGHT if word.lower() in STOP_WORDS else weight))
            vector = cast(Any, embedder.embed_weighted(parts))
        else:
            meter = METER.get()  # an endpoint is waited for
            with nullcontext() if meter is None else meter.outside():
                vector = cast(Any, embedder.embed_query(text))
        return vector if vector.any() else None
