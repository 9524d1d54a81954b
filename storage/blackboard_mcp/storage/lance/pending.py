"""Searching what is archived and not indexed yet.

Between an item's move and its indexing the outbox holds it; a search compares what waits there with what
the index holds, by words and by meaning, so that nothing is ever out of sight.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Sequence
from typing import Any

from blackboard_mcp.protocols.archive import (
    ArchiveAnswer,
    ArchiveDocument,
    ArchiveIndex,
    ArchiveQuery,
    ArchiveSource,
    Embedder,
)
from blackboard_mcp.protocols.errors import ArchiveUnavailable
from blackboard_mcp.storage.lance.fusion import Candidate, Corpus
from blackboard_mcp.storage.lance.words import clean, windows, words

EMBEDDED = 2000
"""So many of a board's waiting documents, the newest, are compared by meaning as well."""

_WAITING = 5000
_REMEMBERED = 6000

Cut = tuple[tuple[str, ...], ...]
"""The words of each window of a document."""


async def search_archive(source: ArchiveSource, index: ArchiveIndex, query: ArchiveQuery) -> ArchiveAnswer:
    """The index's answer, what waits for it included.

    Raises:
        ArchiveUnavailable: the index did not answer, or more than five thousand items of the board wait.
    """
    # The outbox first: an item that leaves it meanwhile is in the index by then.
    waiting = await source.waiting(query.board, _WAITING)
    if waiting.more:
        raise ArchiveUnavailable(
            f"More than {_WAITING} items of this board are not indexed yet.", reason="behind"
        )
    return await index.search(query, waiting)


class WaitingTexts:
    """Words and vectors of waiting documents, the recent ones remembered. Worker threads only."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._vectors: OrderedDict[tuple[str, int, int], Any] = OrderedDict()
        self._cuts: OrderedDict[tuple[str, int, int], list[str]] = OrderedDict()

    def cuts(self, documents: Sequence[ArchiveDocument]) -> dict[int, Cut]:
        """The words of each document, by number."""
        made = {}
        for document in documents:
            key = (document.board, document.number, document.seq)
            known = _recall(self._lock, self._cuts, key)
            if known is None:
                known = [" ".join(words(window)) for window in windows(clean(document.text))]
                _remember(self._lock, self._cuts, key, known)
            made[document.number] = tuple(tuple(w.split(" ")) for w in known if w)
        return made

    def cosines(
        self, documents: Sequence[ArchiveDocument], embedder: Embedder, vector: Any
    ) -> dict[int, float]:
        """How near each document's best window comes to `vector`, by number."""
        found: dict[tuple[str, int, int], Any] = {}
        texts: list[str] = []
        places: list[tuple[tuple[str, int, int], int, int]] = []
        for document in documents:
            key = (document.board, document.number, document.seq)
            known = _recall(self._lock, self._vectors, key)
            if known is None:
                cut = windows(clean(document.text))
                places.append((key, len(texts), len(texts) + len(cut)))
                texts += cut
            else:
                found[key] = known
        made: Any = embedder.embed_documents(texts) if texts else ()
        for key, start, end in places:
            # A copy: a slice would keep all of `made` alive.
            own: Any = made[start:end].copy() if end > start else ()
            found[key] = own
            _remember(self._lock, self._vectors, key, own)
        nearest = {}
        for (_, number, _), own in found.items():
            if len(own) and own.any():
                nearest[number] = round(float((own * vector).sum(axis=1, dtype="float64").max()), 6)
        return nearest


def with_waiting(corpus: Corpus, cuts: dict[int, Cut], asked: Sequence[str]) -> Corpus:
    """What BM25 must know when these documents come to those of `corpus`."""
    if not cuts:
        return corpus
    wanted = set(asked)
    holding = Counter(dict(corpus.holding))
    total = 0.0
    for cut in cuts.values():
        holding.update(wanted.intersection(word for window in cut for word in window))
        total += sum(map(len, cut)) / max(len(cut), 1)
    documents = corpus.documents + len(cuts)
    mean = (corpus.mean_length * corpus.documents + total) / documents
    return Corpus(documents, mean, holding)


def candidates(
    documents: Sequence[ArchiveDocument],
    query: ArchiveQuery,
    asked: Sequence[str],
    cuts: dict[int, Cut],
    cosines: dict[int, float],
    depth: int,
) -> list[Candidate]:
    """Those that match the query's filters and hold a word of it, and the `depth` nearest by meaning."""
    kept = [document for document in documents if _matches(document, query)]
    ranked = sorted((d.number for d in kept if d.number in cosines), key=lambda n: (-cosines[n], n))
    near = set(ranked[:depth])
    wanted = set(asked)
    return [
        Candidate(d.number, d.thread, cuts[d.number], cosines.get(d.number))
        for d in kept
        if d.number in near or any(not wanted.isdisjoint(window) for window in cuts[d.number])
    ]


def _recall(lock: threading.Lock, memory: OrderedDict[Any, Any], key: object) -> Any | None:
    with lock:
        if key not in memory:
            return None
        memory.move_to_end(key)
        return memory[key]


def _remember(lock: threading.Lock, memory: OrderedDict[Any, Any], key: object, value: object) -> None:
    with lock:
        memory[key] = value
        while len(memory) > _REMEMBERED:
            memory.popitem(last=False)


def _matches(document: ArchiveDocument, query: ArchiveQuery) -> bool:
    return (
        document.board == query.board
        and (not query.types or document.type in query.types)
        and set(query.tags) <= set(document.tags)
        and query.author in (None, document.author)
        and query.thread in (None, document.thread)
        and (query.after is None or document.created_at >= query.after)
        and (query.before is None or document.created_at < query.before)
    )
