"""Retrieval from a table: documents that either engine finds, with the matching passages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from blackboard_mcp.protocols.values import dataclass
from blackboard_mcp.storage.lance import rows
from blackboard_mcp.storage.lance.dates import Month, within
from blackboard_mcp.storage.lance.engines import EngineReach, by_vector, by_words
from blackboard_mcp.storage.lance.fusion import Bm25, FusionCandidate, Passage
from blackboard_mcp.storage.lance.words import QUESTION_MARK

_COLUMNS = ("number", "part", "seq", "thread", "created_us", "words", "start")
_MOST_RARE = 400
_PARTS_OF_RARE = 4
_ROUNDS = 5
_MOST_BESIDE = 50_000
"""Most documents of the threads of all candidates that are looked at for those beside them."""


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
    asked = list(bm25.weights)
    columns = [
        "number",
        "part",
        "start",
        "seq",
        "thread",
        "created_us",
        "words",
        *(["vector"] if vector is not None else []),
    ]
    found: dict[int, _Found] = {}

    def take(answer: Any) -> None:
        for number, part, passage, document in _read(answer, bm25, vector):
            if number not in found or found[number].seq < document.seq:
                found[number] = document
            if found[number].seq == document.seq:
                found[number].passages[part] = passage

    beside = reach
    said, meant = bool(asked), vector is not None
    for _ in range(_ROUNDS):
        if said:
            answer = by_words(table, asked, beside, columns, depth)
            take(answer)
            said = answer.num_rows >= depth
        if meant:
            answer = by_vector(table, vector, beside, columns, depth)
            take(answer)
            meant = answer.num_rows >= depth
        if len(found) >= wanted or not (said or meant):
            break
        beside = EngineReach(reach.board, reach.where & ~rows.numbered(found))
    order = dict.fromkeys(n for w in sorted(rare, key=lambda w: (len(rare[w]), w)) for n in rare[w])
    if missing := {*list(order)[:_MOST_RARE]} - found.keys():
        among = EngineReach(reach.board, reach.where & rows.numbered(missing))
        take(by_words(table, list(rare), among, columns, _MOST_RARE * _PARTS_OF_RARE))
    if near := _beside(table, reach, {number: document.thread for number, document in found.items()}):
        take(table.search().where(reach.where & rows.first_of(near)).select(columns).to_arrow())
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

        column = answer["vector"].combine_chunks()
        there = column.is_valid().to_numpy(zero_copy_only=False)
        flat = column.drop_null().flatten().to_numpy(zero_copy_only=False).astype(np.float32)
        products = (flat.reshape(-1, len(vector)) * vector).sum(axis=1, dtype=np.float64)
        for place, product in zip(np.flatnonzero(there).tolist(), products.tolist(), strict=True):
            cosines[place] = round(product, 6)
    columns = [answer[name].to_pylist() for name in _COLUMNS]
    for place, (number, part, seq, thread, created, said, start) in enumerate(zip(*columns, strict=True)):
        there = said.split(" ") if said else []
        asks = QUESTION_MARK in there[-1:]
        passage = bm25.passage(there[:-1] if asks else there, start, cosines[place])
        yield number, part, passage, _Found(seq, thread, asks, created, {})
