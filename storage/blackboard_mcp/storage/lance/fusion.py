"""The fusion of two engines' results into one order: pure arithmetic, without a driver.

Full text is scored by BM25 with exact counts of the board; a document counts by its best window. The vectors' cosines
are scaled over the candidates, and the two scores are blended. A hit gives a share of its score to its neighbours on
the board. The same documents give the same scores, whatever the state of the driver's own indexes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from blackboard_mcp.protocols.values import dataclass

K1 = 1.2
B = 0.75
NEIGHBOUR_WEIGHT = 0.2

VECTOR_WEIGHT = 0.25
"""The weight of static embeddings, measured with `benchmarks/archive_recall.py`."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A window of a document: its BM25 score, its offset in characters, and its cosine with the query.

    The cosine is -1 to 1, or `None` if the window or the query has no vector.
    """

    said: float
    start: int = 0
    cosine: float | None = None


@dataclass(frozen=True, slots=True)
class FusionCandidate:
    """A document, with those of its windows that an engine found, in the text's order."""

    number: int
    thread: int
    passages: tuple[Passage, ...]


@dataclass(frozen=True, slots=True)
class Corpus:
    """The figures of a board that BM25 needs.

    They are the number of windows, the mean number of words in a window, and for each word of the query the number of
    windows that contain it.
    """

    windows: int
    mean_length: float
    holding: Mapping[str, int]

    def weight(self, word: str) -> float:
        """Returns the inverse document frequency of `word`, above 0: rare words weigh more."""
        held = min(self.holding.get(word, 0), self.windows)
        return math.log(1 + (self.windows - held + 0.5) / (held + 0.5))


@dataclass(frozen=True, slots=True)
class Scored:
    """A document's score, and the offset of the window that earned most of it."""

    number: int
    score: float
    start: int = 0


class Bm25:
    """BM25 scores of windows for the words of a query."""

    def __init__(self, query: Iterable[str], corpus: Corpus) -> None:
        self.weights = {word: corpus.weight(word) for word in sorted(set(query))}
        self._mean_length = max(corpus.mean_length, 1.0)

    def score(self, words: Sequence[str]) -> float:
        """Returns the score of a window's words: 0 if it contains no word of the query."""
        there = sorted(self.weights.keys() & set(words))
        return float(sum(self.part(self.weights[word], words.count(word), len(words)) for word in there))

    def part(self, weight: float, times: Any, length: Any) -> Any:
        """Returns what a word adds to the score of a window; also for arrays of `times` and `length`."""
        return weight * times * (K1 + 1) / (times + K1 * (1 - B + B * length / self._mean_length))


def fuse(
    candidates: Sequence[FusionCandidate],
    *,
    depth: int,
    vector_weight: float = VECTOR_WEIGHT,
) -> list[Scored]:
    """Returns the candidates with a score above 0, best first; equal scores are ordered by number.

    A document counts by its best window for words and its best window for meaning. Cosines are scaled to 0 to 1,
    between the `depth`-th best of the candidates and the best. Without any cosine only full text counts.
    """
    top = max((p.said for c in candidates for p in c.passages), default=0.0)
    nearest = {c.number: _nearest(c) for c in candidates}
    cosines = sorted((n for n in nearest.values() if n is not None), reverse=True)[:depth]
    weight = vector_weight if cosines else 0.0

    def meant(cosine: float | None) -> float:
        return 0.0 if cosine is None or not cosines else _stretch(cosine, cosines[-1], cosines[0])

    base: dict[int, float] = {}
    starts: dict[int, int] = {}
    for c in candidates:
        lexical = [p.said / top if top > 0 else 0.0 for p in c.passages]
        score = (1 - weight) * max(lexical, default=0.0) + weight * meant(nearest[c.number])
        if score > 0:
            base[c.number] = score
            each = [
                ((1 - weight) * said + weight * meant(p.cosine), -p.start)
                for p, said in zip(c.passages, lexical, strict=True)
            ]
            starts[c.number] = -max(each)[1]

    threads: dict[int, list[int]] = {}
    for c in sorted(candidates, key=lambda c: c.number):
        if c.number in base:
            threads.setdefault(c.thread, []).append(c.number)
    lent = {number: _lent(number, base) for number in base}
    for members in threads.values():
        for before, after in pairwise(members):
            lent[before] = max(lent[before], base[after])
            lent[after] = max(lent[after], base[before])

    scored = [Scored(n, round(s + NEIGHBOUR_WEIGHT * lent[n], 6), starts[n]) for n, s in base.items()]
    return sorted(scored, key=lambda hit: (-hit.score, hit.number))


def _nearest(candidate: FusionCandidate) -> float | None:
    return max((p.cosine for p in candidate.passages if p.cosine is not None), default=None)


def _lent(number: int, base: Mapping[int, float]) -> float:
    return max(base.get(number - 1, 0.0), base.get(number + 1, 0.0))


def _stretch(cosine: float, low: float, high: float) -> float:
    """Scales `cosine` from `low` (0) to `high` (1); if the two are equal, the result is 0 or 1 by its sign."""
    if high - low < 1e-6:
        return 1.0 if cosine >= low and cosine > 0 else 0.0
    return min(max((cosine - low) / (high - low), 0.0), 1.0)
