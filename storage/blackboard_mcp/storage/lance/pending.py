"""The search of archived items that are not indexed yet.

From an item's move to its indexing, the outbox has a row for it. A search compares these items with the indexed ones,
by words and by meaning, so that every archived item can be found at any time.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from blackboard_mcp.protocols.archive import (
    ArchiveDocument,
    ArchiveQuery,
    ArchiveSource,
    Embedder,
    Waiting,
)
from blackboard_mcp.protocols.errors import ArchiveUnavailable
from blackboard_mcp.storage.lance import vectors
from blackboard_mcp.storage.lance.dates import months, within
from blackboard_mcp.storage.lance.fusion import Bm25, Corpus, FusionCandidate
from blackboard_mcp.storage.lance.rows import labels, microseconds
from blackboard_mcp.storage.lance.words import asks, clean, windows, words
from cachetools import LRUCache

EMBEDDED = 4000
"""Most windows of a board's waiting documents that are also compared by meaning; the newest are taken."""

CUT_CHARACTERS = 100_000
"""Most characters of waiting texts that a search splits into words; in the rest it only looks for the query's words.
"""

_WAITING = 5000
_REMEMBERED = 6000

Cut = tuple[tuple[int, tuple[str, ...]], ...]
"""The offset and the words of each window of a document."""

Key = tuple[str, int, int]


async def waiting_of(source: ArchiveSource, board: str) -> Waiting:
    """Returns what waits on a board for the index. Call it before the search: what leaves meanwhile is found there.

    Raises:
        ArchiveUnavailable: more items wait than a search reads.
    """
    waiting = await source.waiting(board, _WAITING)
    if waiting.more:
        raise ArchiveUnavailable(
            f"More than {_WAITING} items of this board, or very long ones, are not indexed yet.",
            reason="behind",
        )
    return waiting


class WaitingTexts:
    """The words and vectors of waiting documents, with a cache of recent ones. For worker threads only."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._vectors: LRUCache[Key, Any] = LRUCache(_REMEMBERED)
        self._cuts: LRUCache[Key, list[tuple[int, str]]] = LRUCache(_REMEMBERED)

    def forget(self, documents: Sequence[ArchiveDocument]) -> None:
        """Forgets documents that wait no more."""
        with self._lock:
            for key in map(_key, documents):
                self._vectors.pop(key, None)
                self._cuts.pop(key, None)

    def keep(self, board: str, documents: Sequence[ArchiveDocument]) -> None:
        """Forgets all documents of a board but these.

        A search that began before documents were indexed may have added them after `forget`.
        """
        with self._lock:
            if not (self._vectors or self._cuts):
                return
            kept = set(map(_key, documents))
            for known in (self._vectors, self._cuts):
                for key in [key for key in known if key[0] == board and key not in kept]:
                    del known[key]

    def clear(self) -> None:
        """Forgets all documents."""
        with self._lock:
            self._vectors.clear()
            self._cuts.clear()

    def cuts(self, documents: Sequence[ArchiveDocument]) -> dict[int, Cut]:
        """Returns the windows of documents by number, for as many of the first documents as a search splits."""
        made: dict[int, Cut] = {}
        left = CUT_CHARACTERS
        for document in documents:
            key = _key(document)
            with self._lock:
                known = self._cuts.get(key)
            if known is None:
                left -= len(document.text)
                if left < 0 and made:
                    break
                cut = windows(clean(document.text))
                names = labels(document)
                known = [(window.start, " ".join([*names, *words(window.text)])) for window in cut]
                with self._lock:
                    self._cuts[key] = known
            made[document.number] = tuple((start, tuple(w.split(" ")) if w else ()) for start, w in known)
        return made

    def cosines(
        self, documents: Sequence[ArchiveDocument], embedder: Embedder, vector: Any
    ) -> dict[int, list[float | None]]:
        """Returns the cosine with `vector` of each window of each document, by number.

        A window without a vector has `None`.
        """
        found: dict[Key, Any] = {}
        texts: list[str] = []
        places: list[tuple[Key, int, int]] = []
        for document in documents:
            key = _key(document)
            with self._lock:
                known = self._vectors.get(key)
            if known is None:
                cut = windows(clean(document.text))
                places.append((key, len(texts), len(texts) + len(cut)))
                texts += [window.text for window in cut]
            else:
                found[key] = known
        made: Any = embedder.embed_documents(texts) if texts else ()
        for key, start, end in places:
            # Use the index's precision, so that an item ranks the same once it is indexed. A slice would
            # keep all of `made` alive.
            own: Any = vectors.kept(made[start:end]) if end > start else ()
            found[key] = own
            with self._lock:
                self._vectors[key] = own
        return {
            number: [
                round(float(near), 6) if there else None
                for near, there in zip(
                    (own * vector).sum(axis=1, dtype="float64"), own.any(axis=1), strict=True
                )
            ]
            for (_, number, _), own in found.items()
            if len(own)
        }


def glances(documents: Sequence[ArchiveDocument], beginnings: Mapping[str, str]) -> dict[int, Cut]:
    """Returns for each document, by number, one window of the words of the query that occur in it or its labels.

    `beginnings` maps the beginning that a word has in a text to the word.
    """
    made: dict[int, Cut] = {}
    asked = set(beginnings.values())
    for document in documents:
        text = document.text.casefold()
        places = {word: text.find(beginning) for beginning, word in beginnings.items()}
        there = {word: place for word, place in places.items() if place >= 0}
        names = [word for word in labels(document) if word in asked and word not in there]
        made[document.number] = ((min(there.values(), default=0), (*names, *there)),)
    return made


def first_windows(documents: Sequence[ArchiveDocument], cuts: dict[int, Cut], most: int) -> int:
    """Returns how many of the first `documents` have at most `most` windows together."""
    total = 0
    for place, document in enumerate(documents):
        total += len(cuts[document.number])
        if total > most:
            return place
    return len(documents)


def with_waiting(corpus: Corpus, cuts: dict[int, Cut], asked: Sequence[str]) -> Corpus:
    """Returns the figures of `corpus` with the waiting documents `cuts` added."""
    if not cuts:
        return corpus
    wanted = set(asked)
    holding = Counter(dict(corpus.holding))
    total, count = corpus.mean_length * corpus.windows, corpus.windows
    for cut in cuts.values():
        for _, window in cut:
            holding.update(wanted.intersection(window))
            total += len(window)
            count += 1
    return Corpus(count, total / max(count, 1), holding)


def candidates(
    documents: Sequence[ArchiveDocument],
    query: ArchiveQuery,
    bm25: Bm25,
    cuts: dict[int, Cut],
    cosines: dict[int, list[float | None]],
    depth: int,
) -> list[FusionCandidate]:
    """Returns documents that match the query's filters and contain a word of it, or are near by meaning.

    The `depth` documents with the highest cosines are near.
    """
    kept = [document for document in documents if matches(document, query)]
    best = {n: max((c for c in own if c is not None), default=-2.0) for n, own in cosines.items()}
    ranked = sorted((d.number for d in kept if best.get(d.number, -2.0) > -2), key=lambda n: (-best[n], n))
    near = set(ranked[:depth])
    named = months(query.text)
    found = []
    for d in kept:
        own = cosines.get(d.number) or [None] * len(cuts[d.number])
        passages = tuple(
            bm25.passage(window, start, cosine)
            for (start, window), cosine in zip(cuts[d.number], own, strict=True)
        )
        if d.number in near or any(passage.said for passage in passages):
            dated = within(microseconds(d.created_at), named)
            found.append(FusionCandidate(d.number, d.thread, passages, asks(d.text), dated))
    return found


def visible(waiting: Waiting, query: ArchiveQuery) -> tuple[ArchiveDocument, ...]:
    """Returns the waiting documents that the query's viewer may see."""
    viewer = query.viewer
    return tuple(d for d in waiting.documents if viewer is None or viewer.sees(d.owner))


def _key(document: ArchiveDocument) -> Key:
    return (document.board, document.number, document.seq)


def matches(document: ArchiveDocument, query: ArchiveQuery) -> bool:
    """Tells whether a document matches the query's filters; its text is not considered."""
    return (
        document.board == query.board
        and (not query.types or document.type in query.types)
        and set(query.tags) <= set(document.tags)
        and query.author in (None, document.author)
        and query.thread in (None, document.thread)
        and (query.after is None or document.created_at >= query.after)
        and (query.before is None or document.created_at < query.before)
    )


def not_indexed(documents: Sequence[ArchiveDocument], waiting: Waiting) -> str:
    """Returns a sentence on how many of these waiting documents were searched by words alone; empty if none were."""
    count = sum(document.number not in waiting.private for document in documents)
    if not count:
        return ""
    told = (
        "1 item is not indexed yet; it was searched by words."
        if count == 1
        else f"{count} items are not indexed yet; they were searched by words."
    )
    shortened = len(waiting.shortened - waiting.private)
    return f"{told} Of {shortened} long ones only the beginning was searched." if shortened else told
