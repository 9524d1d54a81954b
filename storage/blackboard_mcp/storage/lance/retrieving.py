"""Retrieval from a table: documents that either engine finds, with the matching passages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import nlargest
from itertools import pairwise
from typing import Any

from blackboard_mcp.protocols.values import dataclass
from blackboard_mcp.storage.lance import rows
from blackboard_mcp.storage.lance.dates import Month, within
from blackboard_mcp.storage.lance.engines import EngineReach, Engines, Head
from blackboard_mcp.storage.lance.fusion import Bm25, FusionCandidate, Passage
from blackboard_mcp.storage.lance.words import QUESTION_MARK

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
    documents = _Documents(bm25, engines.heads)
    if places:
        documents.take(engines.words(places))
    if near := _beside(table, engines, reach, documents.lenders()):
        documents.take(engines.those(reach.where & rows.first_of(near)))
    return [
        FusionCandidate(
            number,
            document.thread,
            tuple(document.passages[start] for start in sorted(document.passages)),
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
    said, meant = depth if asked else 0, depth if engines.by_meaning else 0
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
    """The documents that a search found; `heads` has what is known of their rows by place."""

    def __init__(self, bm25: Bm25, heads: Mapping[int, Head]) -> None:
        self._bm25 = bm25
        self._heads = heads
        self.found: dict[int, _Found] = {}

    def take(self, words: Mapping[int, str]) -> None:
        """Takes documents from rows, which have these words by place."""
        for place, said in words.items():
            head = self._heads[place]
            there = said.split(" ") if said else []
            asks = QUESTION_MARK in there[-1:]
            passage = self._bm25.passage(there[:-1] if asks else there, head.start, head.cosine)
            if head.number not in self.found or self.found[head.number].seq < head.seq:
                self.found[head.number] = _Found(head.seq, head.thread, asks, head.created_us, {})
            if self.found[head.number].seq == head.seq:
                self.found[head.number].passages[head.start] = passage

    def lenders(self) -> dict[int, int]:
        """Returns the threads of the best documents by number: of the best by words and of the best by meaning."""
        best: dict[int, int] = {}
        for worth in (_said, _meant):
            for number in nlargest(_LENDERS, self.found, key=lambda n: (worth(self.found[n]), -n)):
                best[number] = self.found[number].thread
        return best


def _beside(table: Any, engines: Engines, reach: EngineReach, found: Mapping[int, int]) -> set[int]:
    """Returns the documents next to some in their threads, which `found` has by number, that are none of these."""
    if not found:
        return set()
    threads = rows.in_threads(found.values())
    known = engines.known(rows.on_board(reach.board) & threads)
    if known is None:
        where = reach.where & threads & rows.first()
        answer = table.search().where(where).select(["number", "thread"]).limit(_MOST_BESIDE).to_arrow()
        listed = {*zip(answer["thread"].to_pylist(), answer["number"].to_pylist(), strict=True)}
    else:  # as where each of these threads has one document
        heads = (engines.heads[place] for place in known)
        listed = {(head.thread, head.number) for head in heads if head.within}
    beside = set()
    for (thread, before), (other, after) in pairwise(sorted(listed)):
        if thread == other and (before in found) != (after in found):
            beside.add(after if before in found else before)
    return beside


def _said(document: _Found) -> float:
    return max(passage.said for passage in document.passages.values())


def _meant(document: _Found) -> float:
    return max(-2.0 if p.cosine is None else p.cosine for p in document.passages.values())


@dataclass(frozen=True, slots=True)
class _Found:
    """A document as an engine found it, with its passages by their places in it."""

    seq: int
    thread: int
    asks: bool
    created: int
    passages: dict[int, Passage]
