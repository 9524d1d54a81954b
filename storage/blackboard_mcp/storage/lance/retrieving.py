"""Retrieval from a table: documents that either engine finds, with the matching passages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import nlargest
from itertools import pairwise
from typing import Any

from blackboard_mcp.protocols.values import dataclass
from blackboard_mcp.storage.lance import rows, vectors
from blackboard_mcp.storage.lance.dates import Month, within
from blackboard_mcp.storage.lance.engines import EngineReach, by_vector, by_words
from blackboard_mcp.storage.lance.fusion import Bm25, FusionCandidate, Passage
from blackboard_mcp.storage.lance.words import QUESTION_MARK

_COLUMNS = ("number", "part", "seq", "thread", "created_us", "words", "start")
_MOST_RARE = 400
_PARTS_OF_RARE = 4
_ROUNDS = 5
_ATTEMPTS = 3
_LENDERS = 50
"""The best documents by words, and as many by meaning, for which those beside them are looked for."""
_MOST_BESIDE = 50_000
"""Most documents of the threads of these that are looked at for those beside them."""


def retrieve(
    table: Any,
    reach: EngineReach,
    bm25: Bm25,
    vector: Any | None,
    rare: Mapping[str, tuple[int, ...]],
    depth: int,
    wanted: int,
    named: Sequence[Month] = (),
) -> list[FusionCandidate]:
    """Returns documents that either engine finds, and those that contain the rarest words of the query.

    If a few long documents take all places, the engines are asked again without these, until `wanted` documents are
    found. `rare` maps rare words to the numbers of documents with them. `named` are the months that the query names.
    """
    for at_once in (*[True] * _ATTEMPTS, False):
        version = table.version
        documents = _Documents(table, bm25, vector, at_once=at_once)
        _ask(documents, reach, rare, depth, wanted)
        # The place of a row is only valid in the version that it was found in.
        if not at_once or table.version == version:
            break
    found = documents.found
    if near := _beside(table, reach, documents.lenders()):
        documents.take(
            table.search().where(reach.where & rows.first_of(near)).select(documents.columns).to_arrow()
        )
    return [
        FusionCandidate(
            number,
            document.thread,
            tuple(document.passages[part] for part in sorted(document.passages)),
            document.asks,
            within(document.created, named),
        )
        for number, document in found.items()
    ]


def _ask(
    documents: _Documents,
    reach: EngineReach,
    rare: Mapping[str, tuple[int, ...]],
    depth: int,
    wanted: int,
) -> None:
    """Asks both engines, until they found `wanted` documents, and looks for those that contain rare words."""
    table, vector = documents.table, documents.vector
    asked = list(documents.bm25.weights)
    beside = reach
    said, meant = bool(asked), vector is not None
    for _ in range(_ROUNDS):
        if said:
            said = documents.add(by_words(table, asked, beside, documents.wanted, depth)) >= depth
        if meant:
            meant = documents.add(by_vector(table, vector, beside, documents.wanted, depth)) >= depth
        if len(documents.numbers) >= wanted or not (said or meant):
            break
        beside = EngineReach(reach.board, reach.where & ~rows.numbered(documents.numbers))
    order = dict.fromkeys(n for w in sorted(rare, key=lambda w: (len(rare[w]), w)) for n in rare[w])
    if missing := {*list(order)[:_MOST_RARE]} - documents.numbers:
        among = EngineReach(reach.board, reach.where & rows.numbered(missing))
        documents.add(by_words(table, list(rare), among, documents.wanted, _MOST_RARE * _PARTS_OF_RARE))
    documents.read()


class _Documents:
    """The documents that a search found. With `at_once` all found rows are read together, each once."""

    def __init__(self, table: Any, bm25: Bm25, vector: Any | None, *, at_once: bool) -> None:
        self.table = table
        self.bm25 = bm25
        self.vector = vector
        self.columns = [*_COLUMNS, *(vectors.COLUMNS if vector is not None else ())]
        self.wanted = ["number"] if at_once else self.columns
        self.found: dict[int, _Found] = {}
        self.numbers: set[int] = set()
        self._places: set[int] = set()
        self._at_once = at_once

    def add(self, answer: Any) -> int:
        """Adds the rows of an engine's answer, and returns how many these are."""
        self.numbers.update(answer["number"].to_pylist())
        if self._at_once:
            self._places.update(answer["_rowid"].to_pylist())
        else:
            self.take(answer)
        return int(answer.num_rows)

    def read(self) -> None:
        """Reads the rows that were added."""
        if self._places:
            self.take(self.table.take_row_ids(sorted(self._places)).select(self.columns).to_arrow())

    def take(self, answer: Any) -> None:
        """Takes documents from rows with all columns."""
        for number, part, passage, document in _read(answer, self.bm25, self.vector):
            if number not in self.found or self.found[number].seq < document.seq:
                self.found[number] = document
            if self.found[number].seq == document.seq:
                self.found[number].passages[part] = passage

    def lenders(self) -> dict[int, int]:
        """Returns the threads of the best documents by number: of the best by words and of the best by meaning."""
        best: dict[int, int] = {}
        for worth in (_said, _meant):
            for number in nlargest(_LENDERS, self.found, key=lambda n: (worth(self.found[n]), -n)):
                best[number] = self.found[number].thread
        return best


def _beside(table: Any, reach: EngineReach, found: Mapping[int, int]) -> set[int]:
    """Returns the documents next to some in their threads, which `found` has by number, that are none of these."""
    if not found:
        return set()
    where = reach.where & rows.first_in(found.values())
    answer = table.search().where(where).select(["number", "thread"]).limit(_MOST_BESIDE).to_arrow()
    listed = sorted({*zip(answer["thread"].to_pylist(), answer["number"].to_pylist(), strict=True)})
    beside = set()
    for (thread, before), (other, after) in pairwise(listed):
        if thread == other and (before in found) != (after in found):
            beside.add(after if before in found else before)
    return beside


def _said(document: _Found) -> float:
    return max(passage.said for passage in document.passages.values())


def _meant(document: _Found) -> float:
    return max(-2.0 if p.cosine is None else p.cosine for p in document.passages.values())


@dataclass(frozen=True, slots=True)
class _Found:
    """A document as an engine found it, with its passages by part."""

    seq: int
    thread: int
    asks: bool
    created: int
    passages: dict[int, Passage]


def _read(answer: Any, bm25: Bm25, vector: Any | None) -> Iterator[tuple[int, int, Passage, _Found]]:
    """Yields number, part and passage for each row of a driver's answer, with its document."""
    cosines: list[float | None] = [None] * answer.num_rows
    if vector is not None and answer.num_rows:
        import numpy as np

        own = vectors.directions(vectors.of_rows(answer, len(vector)))
        meant = np.flatnonzero(own.any(axis=1))
        products = (own[meant] * vector).sum(axis=1, dtype=np.float64)
        for place, product in zip(meant.tolist(), products.tolist(), strict=True):
            cosines[place] = round(product, 6)
    columns = [answer[name].to_pylist() for name in _COLUMNS]
    for place, (number, part, seq, thread, created, said, start) in enumerate(zip(*columns, strict=True)):
        there = said.split(" ") if said else []
        asks = QUESTION_MARK in there[-1:]
        passage = bm25.passage(there[:-1] if asks else there, start, cosines[place])
        yield number, part, passage, _Found(seq, thread, asks, created, {})
