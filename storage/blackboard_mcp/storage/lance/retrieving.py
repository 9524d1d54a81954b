"""Retrieval from a table: documents that either engine finds, with the matching passages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import nlargest
from itertools import pairwise
from typing import Any

from blackboard_mcp.protocols.values import dataclass
from blackboard_mcp.storage.lance import rows
from blackboard_mcp.storage.lance.dates import Month, within
from blackboard_mcp.storage.lance.engines import EngineReach, Engines
from blackboard_mcp.storage.lance.fusion import Bm25, FusionCandidate, Passage
from blackboard_mcp.storage.lance.words import QUESTION_MARK

_COLUMNS = ("number", "part", "seq", "thread", "created_us", "words", "start")
_MOST_RARE = 400
_PARTS_OF_RARE = 4
_ROUNDS = 5
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
    The table must stay in one version.
    """
    engines = Engines(table, vector)
    places = _places(engines, reach, list(bm25.weights), rare, depth, wanted)
    documents = _Documents(bm25)
    if places:
        answer = engines.read(places, _COLUMNS)
        documents.take(answer, [engines.heads[place].cosine for place in answer["_rowid"].to_pylist()])
    if near := _beside(table, reach, documents.lenders()):
        columns = [*_COLUMNS, *engines.compared]
        answer = table.search().where(reach.where & rows.first_of(near)).select(columns).to_arrow()
        documents.take(answer, engines.cosines(answer))
    return [
        FusionCandidate(
            number,
            document.thread,
            tuple(document.passages[part] for part in sorted(document.passages)),
            document.asks,
            within(document.created, named),
        )
        for number, document in documents.found.items()
    ]


def _places(
    engines: Engines,
    reach: EngineReach,
    asked: Sequence[str],
    rare: Mapping[str, tuple[int, ...]],
    depth: int,
    wanted: int,
) -> set[int]:
    """Returns the places of the rows that the engines find of `wanted` documents, and of those with rare words."""
    places: set[int] = set()
    numbers: set[int] = set()
    beside = reach
    said, meant = depth if asked else 0, depth if engines.compared else 0
    for _ in range(_ROUNDS):
        by_words, by_meaning = engines.ask(beside, asked, said=said, meant=meant)
        places.update(by_words, by_meaning)
        numbers.update(engines.heads[place].number for place in (*by_words, *by_meaning))
        said, meant = said if len(by_words) >= depth else 0, meant if len(by_meaning) >= depth else 0
        if len(numbers) >= wanted or not (said or meant):
            break
        beside = reach.but(~rows.numbered(numbers))
    order = dict.fromkeys(n for w in sorted(rare, key=lambda w: (len(rare[w]), w)) for n in rare[w])
    if missing := {*list(order)[:_MOST_RARE]} - numbers:
        among = reach.but(rows.numbered(missing))
        places.update(engines.ask(among, list(rare), said=_MOST_RARE * _PARTS_OF_RARE, meant=0)[0])
    return places


class _Documents:
    """The documents that a search found."""

    def __init__(self, bm25: Bm25) -> None:
        self._bm25 = bm25
        self.found: dict[int, _Found] = {}

    def take(self, answer: Any, cosines: Sequence[float | None]) -> None:
        """Takes documents from rows, with their cosines."""
        for number, part, passage, document in _read(answer, self._bm25, cosines):
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


def _read(
    answer: Any, bm25: Bm25, cosines: Sequence[float | None]
) -> Iterator[tuple[int, int, Passage, _Found]]:
    """Yields number, part and passage for each row of a driver's answer, with its document."""
    columns = [answer[name].to_pylist() for name in _COLUMNS]
    for cosine, number, part, seq, thread, created, said, start in zip(cosines, *columns, strict=True):
        there = said.split(" ") if said else []
        asks = QUESTION_MARK in there[-1:]
        passage = bm25.passage(there[:-1] if asks else there, start, cosine)
        yield number, part, passage, _Found(seq, thread, asks, created, {})
