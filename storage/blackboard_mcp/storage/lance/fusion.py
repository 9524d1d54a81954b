"""From two engines' opinions to one order: pure arithmetic, no driver.

Full text is weighed by BM25 with the board's exact counts, a document by its best window; the vectors'
cosines are stretched over the candidates; the two are blended, and a hit lends a share of its score to
its neighbours on the board. The same documents give the same scores whatever the state of the
driver's own indexes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

K1 = 1.2
B = 0.75
NEIGHBOUR_WEIGHT = 0.2

VECTOR_WEIGHT = 0.25
"""The vectors' part for static embeddings, measured with `benchmarks/archive_recall.py`."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A document that one of the engines found.

    `windows` are the words of each of its windows; `cosine` is that of its best window with the query,
    -1 to 1, or `None` where either has no vector.
    """

    number: int
    thread: int
    windows: tuple[Sequence[str], ...]
    cosine: float | None = None


@dataclass(frozen=True, slots=True)
class Corpus:
    """What BM25 must know of the board: documents, mean words in a document's window, and for each word
    of the query the number of documents that hold it."""

    documents: int
    mean_length: float
    holding: Mapping[str, int]

    def weight(self, word: str) -> float:
        """The inverse document frequency of `word`, above 0: rare words weigh more."""
        held = min(self.holding.get(word, 0), self.documents)
        return math.log(1 + (self.documents - held + 0.5) / (held + 0.5))


@dataclass(frozen=True, slots=True)
class Scored:
    number: int
    score: float


def full_text(candidate: Candidate, query: Iterable[str], corpus: Corpus) -> float:
    """The BM25 score of the candidate's best window: 0 when it holds no word of the query."""
    wanted = sorted(set(query))
    best = 0.0
    for window in candidate.windows:
        counts = Counter(window)
        norm = K1 * (1 - B + B * len(window) / max(corpus.mean_length, 1.0))
        score = 0.0
        for word in wanted:
            if times := counts.get(word):
                score += corpus.weight(word) * times * (K1 + 1) / (times + norm)
        best = max(best, score)
    return best


def fuse(
    candidates: Sequence[Candidate],
    query: Iterable[str],
    corpus: Corpus,
    *,
    depth: int,
    vector_weight: float = VECTOR_WEIGHT,
) -> list[Scored]:
    """Every candidate that has anything to do with the query, best first; equal scores by number.

    The cosines are stretched from 0 to 1 between the `depth`-th best of the candidates and the best.
    Without any cosine the order is full text's alone.
    """
    wanted = sorted(set(query))
    lexical = {c.number: full_text(c, wanted, corpus) for c in candidates}
    top = max(lexical.values(), default=0.0)
    cosines = sorted((c.cosine for c in candidates if c.cosine is not None), reverse=True)[:depth]
    weight = vector_weight if cosines else 0.0

    base: dict[int, float] = {}
    for c in candidates:
        score = (1 - weight) * lexical[c.number] / top if top > 0 else 0.0
        if c.cosine is not None:
            score += weight * _stretch(c.cosine, cosines[-1], cosines[0])
        if score > 0:
            base[c.number] = score

    threads: dict[int, list[int]] = {}
    for c in sorted(candidates, key=lambda c: c.number):
        if c.number in base:
            threads.setdefault(c.thread, []).append(c.number)
    lent = {number: _lent(number, base) for number in base}
    for members in threads.values():
        for before, after in pairwise(members):
            lent[before] = max(lent[before], base[after])
            lent[after] = max(lent[after], base[before])

    scored = [Scored(n, round(s + NEIGHBOUR_WEIGHT * lent[n], 6)) for n, s in base.items()]
    return sorted(scored, key=lambda hit: (-hit.score, hit.number))


def _lent(number: int, base: Mapping[int, float]) -> float:
    return max(base.get(number - 1, 0.0), base.get(number + 1, 0.0))


def _stretch(cosine: float, low: float, high: float) -> float:
    """`cosine` between `low` (0) and `high` (1); where the two meet, all or nothing by its sign."""
    if high - low < 1e-6:
        return 1.0 if cosine >= low and cosine > 0 else 0.0
    return min(max((cosine - low) / (high - low), 0.0), 1.0)
