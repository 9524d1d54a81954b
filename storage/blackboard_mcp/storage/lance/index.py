"""The archive index on LanceDB.

It knows documents and nothing of access. The driver and the model load in a worker thread at the first
call that needs them; an index that was never written answers without either.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
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
    Waiting,
)
from blackboard_mcp.protocols.errors import ArchiveUnavailable
from blackboard_mcp.storage.lance import rows
from blackboard_mcp.storage.lance.counts import BoardCounts
from blackboard_mcp.storage.lance.folder import IndexFolder
from blackboard_mcp.storage.lance.fusion import VECTOR_WEIGHT, Candidate, Corpus, fuse
from blackboard_mcp.storage.lance.pending import EMBEDDED, WaitingTexts, candidates, with_waiting
from blackboard_mcp.storage.lance.words import STOP_WORDS, clean, windows, words

log = logging.getLogger(__name__)

_DEPTH = 200
_DEPTH_PER_HIT = 4
_QUERY_WORDS = 64
_STOP_WORD_WEIGHT = 0.3
_UPSERT_ROWS = 500
_DELETE_ROWS = 500
_KEEP_VERSIONS = timedelta(minutes=30)
_CONFLICT_ATTEMPTS = 8

NO_MODEL = "No embedding model is installed here: matched by words only."
MODEL_DOWN = "The embedding model did not answer: matched by words only."
OTHER_MODEL = (
    "The archive index was made with another embedding model and is being rebuilt: matched by words only."
)

T = TypeVar("T")


@runtime_checkable
class WeighingEmbedder(Protocol):
    """An embedder that can weigh a query's words: the optional power of static models."""

    def embed_weighted(self, parts: Sequence[tuple[str, float]]) -> object:
        """The vector of (word, weight) pairs: `(dimension,) float32`, unit length or zero."""
        ...


class LanceArchiveIndex:
    """The archive index in a folder; without an embedder it searches by words alone.

    `vector_weight` is the vectors' part in the blend, 0 to 1: 0.25 suits static embeddings, 0.4 to 0.5
    a transformer.
    """

    def __init__(
        self, path: Path, embedder: Embedder | None, *, vector_weight: float = VECTOR_WEIGHT
    ) -> None:
        self._folder = IndexFolder(path)
        self._embedder = embedder
        self._vector_weight = vector_weight
        self._lock = threading.Lock()
        self._opened: tuple[str, Any] | None = None
        self._counts = BoardCounts()
        self._waiting = WaitingTexts()
        self._workers: ThreadPoolExecutor | None = None
        self._closed = False

    async def upsert(self, documents: Sequence[ArchiveDocument]) -> None:
        if documents:
            await self._in_worker(lambda: self._upsert(documents))

    async def remove(self, keys: Sequence[tuple[str, int]]) -> None:
        if keys:
            await self._in_worker(lambda: self._remove(keys))

    async def search(self, query: ArchiveQuery, waiting: Waiting = NOTHING_WAITS) -> ArchiveAnswer:
        return await self._in_worker(lambda: self._twice(lambda: self._search(query, waiting)))

    async def life(self) -> str:
        return await self._in_worker(lambda: self._folder.life(self._folder.generation()) or "")

    async def keys(self) -> dict[tuple[str, int], int]:
        return await self._in_worker(lambda: self._twice(self._keys))

    async def reset(self) -> None:
        await self._in_worker(self._reset)

    async def maintain(self) -> None:
        await self._in_worker(self._maintain)

    async def close(self) -> None:
        """Wait for calls under way; later calls raise `ArchiveUnavailable`. Twice is harmless."""
        self._closed = True
        workers, self._workers = self._workers, None
        if workers is not None:
            await asyncio.to_thread(workers.shutdown)
        self._opened = None

    # Everything below runs in a worker thread.

    async def _in_worker(self, work: Callable[[], T]) -> T:
        if self._closed:
            raise ArchiveUnavailable("The archive index was closed.", reason="closed")
        if self._workers is None:
            self._workers = ThreadPoolExecutor(max_workers=3, thread_name_prefix="archive")
        return await asyncio.get_running_loop().run_in_executor(self._workers, lambda: _translated(work))

    def _twice(self, work: Callable[[], T]) -> T:
        """Do a read once more on a fresh handle: another process may have replaced the files under it."""
        try:
            return work()
        except ArchiveUnavailable:
            raise
        except Exception:
            self._forget()
            return work()

    def _forget(self) -> None:
        with self._lock:
            self._opened = None
            self._counts = BoardCounts()

    def _table(self, *, create: bool) -> Any | None:
        """The table in use, or `None` where there is none and none is wanted."""
        found = self._living(create=create)
        return None if found is None else found[1]

    def _living(self, *, create: bool) -> tuple[str, Any] | None:
        """The table in use under the name of its life, or `None` where there is none and none is wanted.

        Raises:
            ArchiveUnavailable: it was made by another version of the product.
        """
        with self._lock:
            generation = self._folder.generation()
            life = self._folder.life(generation)
            if life is not None and self._opened is not None and self._opened[0] == life:
                return self._opened
            self._opened = None
            self._counts = BoardCounts()
            if life is not None:
                table = self._folder.open(generation)
            elif create:
                model, dimension = self._model()
                table = self._folder.create(generation, rows.schema(model, dimension))
                life = self._folder.life(generation)
            else:
                return None
            if life is None or life != self._folder.life(generation):
                raise ArchiveUnavailable("The archive index was replaced meanwhile.", reason="replaced")
            version, _ = rows.described(table.schema)
            if version != rows.SCHEMA_VERSION:
                raise ArchiveUnavailable(
                    f"The archive index has layout {version}, this version needs {rows.SCHEMA_VERSION}: "
                    "it must be rebuilt.",
                    reason="schema",
                )
            self._opened = (life, table)
            return self._opened

    def _own_table(self, *, create: bool) -> Any | None:
        """Like `_table`, and refuses a table of another model."""
        table = self._table(create=create)
        if table is not None and (made_for := rows.described(table.schema)[1]) != self._model()[0]:
            raise ArchiveUnavailable(
                f"The archive index was made with the model {made_for!r}, here is {self._model()[0]!r}: "
                "it must be rebuilt.",
                reason="model",
            )
        return table

    def _model(self) -> tuple[str | None, int]:
        return (None, 0) if self._embedder is None else (self._embedder.name, self._embedder.dimension)

    def _upsert(self, documents: Sequence[ArchiveDocument]) -> None:
        newest: dict[str, ArchiveDocument] = {}
        for document in documents:
            key = rows.row_id(document.board, document.number)
            if key not in newest or newest[key].seq < document.seq:
                newest[key] = document
        wanted = list(newest.values())
        for start in range(0, len(wanted), _UPSERT_ROWS):
            batch = wanted[start : start + _UPSERT_ROWS]
            made = self._rows(batch)
            _unless_conflicting(lambda made=made: self._merge(made))  # type: ignore[misc]

    def _rows(self, documents: Sequence[ArchiveDocument]) -> list[dict[str, Any]]:
        cut = [windows(clean(document.text)) for document in documents]
        if self._embedder is None:
            return [rows.row(d, c, None) for d, c in zip(documents, cut, strict=True)]
        flat = [window for c in cut for window in c]
        try:
            vectors = cast(Any, self._embedder.embed_documents(flat)) if flat else []
        except Exception as error:
            raise ArchiveUnavailable(f"The embedding model failed: {error}", reason="embedder") from error
        made, start = [], 0
        for document, c in zip(documents, cut, strict=True):
            made.append(rows.row(document, c, vectors[start : start + len(c)]))
            start += len(c)
        return made

    def _merge(self, made: list[dict[str, Any]]) -> None:
        import pyarrow as pa

        table = self._own_table(create=True)
        assert table is not None
        # The unenforced primary key and the scan instead of an index keep racing processes from
        # inserting a new id twice; the condition names columns only, never a value.
        (
            table.merge_insert("id")
            .use_index(False)
            .when_matched_update_all(where="source.seq >= target.seq")
            .when_not_matched_insert_all()
            .execute(pa.Table.from_pylist(made, schema=table.schema))
        )

    def _remove(self, keys: Sequence[tuple[str, int]]) -> None:
        table = self._own_table(create=False)
        if table is None:
            return
        wanted = sorted(set(keys))
        for start in range(0, len(wanted), _DELETE_ROWS):
            which = rows.identified(wanted[start : start + _DELETE_ROWS])
            _unless_conflicting(lambda which=which: table.delete(which))  # type: ignore[misc]

    def _keys(self) -> dict[tuple[str, int], int]:
        table = self._own_table(create=False)
        if table is None:
            return {}
        found = table.search().select(["board", "number", "seq"]).to_arrow()
        pairs = zip(found["board"].to_pylist(), found["number"].to_pylist(), strict=True)
        return dict(zip(pairs, found["seq"].to_pylist(), strict=True))

    def _reset(self) -> None:
        self._forget()
        self._folder.reset()

    def _maintain(self) -> None:
        try:
            table = self._table(create=False)
            if table is not None:
                table.checkout_latest()
                table.optimize(cleanup_older_than=_KEEP_VERSIONS)
        except Exception as error:
            # Another process is at it, or the table is gone: the next round will do.
            log.debug("archive index not compacted this time: %s", error)
            self._forget()

    def _search(self, query: ArchiveQuery, waiting: Waiting) -> ArchiveAnswer:
        mode: SearchMode = "lexical" if self._embedder is None else "hybrid"
        notice = NO_MODEL if self._embedder is None else ""
        life, table = self._living(create=False) or ("", None)
        documents = waiting.documents
        if (table is None and not documents) or not query.text.strip():
            return ArchiveAnswer((), mode, notice, life)
        text = clean(query.text)
        asked = list(dict.fromkeys(words(text)))[:_QUERY_WORDS]
        corpus, rare = Corpus(0, 0.0, {}), set[int]()
        if table is not None:
            corpus, rare = self._counts.of(table, query.board, asked)
        cuts = self._waiting.cuts(documents)
        corpus = with_waiting(corpus, cuts, asked)

        vector, cosines = None, dict[int, float]()
        by_words = documents
        if self._embedder is None:
            pass
        elif table is not None and rows.described(table.schema)[1] != self._embedder.name:
            mode, notice = "lexical", OTHER_MODEL
        else:
            try:
                vector = self._query_vector(self._embedder, text, corpus)
                if vector is not None:
                    cosines = self._waiting.cosines(documents[:EMBEDDED], self._embedder, vector)
                by_words = documents[EMBEDDED:]
            except Exception as error:
                log.warning("the embedding model failed on a query: %s", error)
                vector = None
                mode, notice = "lexical", MODEL_DOWN
        if count := sum(document.number not in waiting.private for document in by_words):
            notice = f"{notice} {_not_indexed(count)}".strip()

        depth = max(_DEPTH, _DEPTH_PER_HIT * query.limit)
        found = []
        if table is not None:
            outdated = {*cuts, *waiting.removed}
            indexed = self._candidates(table, query, asked, vector, rare, depth)
            found = [candidate for candidate in indexed if candidate.number not in outdated]
        found += candidates(documents, query, asked, cuts, cosines, depth)
        scored = fuse(found, asked, corpus, depth=depth, vector_weight=self._vector_weight)
        hits = tuple(ArchiveHit(s.number, s.score) for s in scored[: query.limit])
        return ArchiveAnswer(hits, mode, notice, life)

    def _query_vector(self, embedder: Embedder, text: str, corpus: Corpus) -> Any | None:
        """The query's vector, or `None` when it has no direction."""
        if isinstance(embedder, WeighingEmbedder):
            parts = []
            for word in text.split()[: 4 * _QUERY_WORDS]:
                known = [corpus.weight(w) for w in words(word) if w in corpus.holding]
                weight = max(known) if known else _STOP_WORD_WEIGHT
                parts.append((word, _STOP_WORD_WEIGHT if word.lower() in STOP_WORDS else weight))
            vector = cast(Any, embedder.embed_weighted(parts))
        else:
            vector = cast(Any, embedder.embed_query(text))
        return vector if vector.any() else None

    def _candidates(
        self,
        table: Any,
        query: ArchiveQuery,
        asked: list[str],
        vector: Any | None,
        rare: set[int],
        depth: int,
    ) -> list[Candidate]:
        """What either engine finds, and every document that holds a rare word of the query."""
        columns = ["number", "seq", "thread", "windows", *(["vectors"] if vector is not None else [])]
        where = rows.matching(query)
        found: dict[int, tuple[int, Candidate]] = {}

        def take(answer: Any) -> None:
            for seq, candidate in _read(answer, vector):
                if candidate.number not in found or found[candidate.number][0] < seq:
                    found[candidate.number] = (seq, candidate)

        if asked:
            by_words = table.search(rows.holding(asked))
            take(by_words.where(where, prefilter=True).limit(depth).select([*columns, "_score"]).to_arrow())
        if vector is not None:
            by_vector = table.search(vector, vector_column_name="vectors").distance_type("cosine")
            near = by_vector.where(where, prefilter=True).limit(depth).select([*columns, "_distance"])
            take(near.to_arrow())
        if missing := rare - found.keys():
            take(table.search().where(where & rows.numbered(missing)).select(columns).to_arrow())
        return [candidate for _, candidate in found.values()]


def _read(answer: Any, vector: Any | None) -> list[tuple[int, Candidate]]:
    """(seq, candidate) of each row of a driver's answer."""
    cosines: list[float | None] = [None] * answer.num_rows
    if vector is not None:
        import numpy as np

        for place, own in enumerate(answer["vectors"]):
            if own.values is not None and len(own.values):
                flat = own.values.flatten().to_numpy(zero_copy_only=False)
                products = (flat.reshape(-1, len(vector)) * vector).sum(axis=1, dtype=np.float64)
                cosines[place] = round(float(products.max()), 6)
    return [
        (seq, Candidate(number, thread, tuple(w.split(" ") for w in cut or () if w), cosine))
        for number, seq, thread, cut, cosine in zip(
            answer["number"].to_pylist(),
            answer["seq"].to_pylist(),
            answer["thread"].to_pylist(),
            answer["windows"].to_pylist(),
            cosines,
            strict=True,
        )
    ]


def _not_indexed(count: int) -> str:
    if count == 1:
        return "1 item is not indexed yet; it was searched by words."
    return f"{count} items are not indexed yet; they were searched by words."


def _unless_conflicting(step: Callable[[], object]) -> None:
    """Repeat `step` while another process commits in between."""
    for attempt in range(_CONFLICT_ATTEMPTS):
        try:
            step()
            return
        except Exception as error:
            said = str(error).lower()
            if attempt + 1 == _CONFLICT_ATTEMPTS or not ("conflict" in said or "retry" in said):
                raise
            time.sleep(random.uniform(0.01, 0.05) * 2**attempt)


def _translated(work: Callable[[], T]) -> T:
    try:
        return work()
    except ArchiveUnavailable:
        raise
    except Exception as error:
        raise ArchiveUnavailable(
            f"The archive index cannot be used ({type(error).__name__}: {str(error)[:300]}). "
            "Nothing is lost: it can be rebuilt from the store.",
            reason="damaged",
        ) from error
