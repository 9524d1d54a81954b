"""The fusion of two engines' results into one order: pure arithmetic, without a driver.

Full text is scored by BM25 with exact counts of the board; a document counts by its best window. The vectors' cosines
are scaled over the candidates, and the two scores are blended. A document also gets a share of the scores of those
beside it in its thread, more of a question's before it, and gains from words that only the rest of the thread has. The
same documents give the same scores, whatever the state of the driver's own indexes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from blackboard_mcp.protocols.values import dataclass

K1 = 1.2
B = 0.75


@dataclass(frozen=True, slots=True)
class Shares:
    """What a document gains beside its own score, as shares of the best; chosen with `benchmarks/archive_recall.py`.

    Attributes:
        forward: of the score of the document before it in the thread.
        question: the same, if the document before it is a question.
        back: of the score of the document after it in the thread.
        thread: for words of the query that only the rest of its thread has.
        dated: for a month or year that the query names, if it was made then.
    """

    forward: float = 0.3
    question: float = 0.6
    back: float = 0.2
    thread: float = 0.2
    dated: float = 0.2


SHARES = Shares()

VECTOR_WEIGHT = 0.25
"""The weight of static embeddings, measured with `benchmarks/archive_recall.py`."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A window of a document: its BM25 score, its offset in characters, and its cosine with the query.

    The cosine is -1 to 1, or `None` if the window or the query has no vector. `words` are those of the query that it
    contains, as bits in their order.
    """

    said: float
    start: int = 0
    cosine: float | None = None
    words: int = 0


@dataclass(frozen=True, slots=True)
class FusionCandidate:
    """A document, with those of its windows that an engine found, in the text's order.

    `asks` says that it is a question, `dated` that it was made in a month or year that the query names.
    """

    number: int
    thread: int
    passages: tuple[Passage, ...]
    asks: bool = False
    dated: bool = False


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
    """A document's score, and the offset of the window that earned most of it.

    `beside` is the number of the document next to it that lent it more than its own score; 0 if none did.
    """

    number: int
    score: float
    start: int = 0
    beside: int = 0


class Bm25:
    """BM25 scores of windows for the words of a query."""

    def __init__(self, query: Iterable[str], corpus: Corpus) -> None:
        self.weights = {word: corpus.weight(word) for word in sorted(set(query))}
        self._mean_length = max(corpus.mean_length, 1.0)

    def passage(self, words: Sequence[str], start: int, cosine: float | None = None) -> Passage:
        """Returns a window with the score of its words."""
        there = set(words)
        bits = sum(1 << place for place, word in enumerate(self.weights) if word in there)
        return Passage(self.score(words), start, cosine, bits)

    def score(self, words: Sequence[str]) -> float:
        """Returns the score of a window's words: 0 if it contains no word of the query."""
        there = sorted(self.weights.keys() & set(words))
        return float(sum(self.part(self.weights[word], words.count(word), len(words)) for word in there))

    def part(self, weight: float, times: Any, length: Any) -> Any:
        """Returns what a word adds to the score of a window; also for arrays of `times` and `length`."""
        return weight * times * (K1 + 1) / (times + K1 * (1 - B + B * length / self._mean_length))


def fuse(
    candidates: Sequence[FusionCandidate],
    weights: Mapping[str, float],
    *,
    depth: int,
    vector_weight: float = VECTOR_WEIGHT,
    shares: Shares = SHARES,
) -> list[Scored]:
    """Returns the candidates with a score above 0, best first; equal scores are ordered by number.

    A document counts by its best window for words and its best window for meaning. Cosines are scaled to 0 to 1,
    between the `depth`-th best of the candidates and the best. Without any cosine only full text counts. `weights` are
    those of the query's words, in the order of the bits of `Passage.words`.
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
        base[c.number] = score
        each = [
            ((1 - weight) * said + weight * meant(p.cosine), -p.start)
            for p, said in zip(c.passages, lexical, strict=True)
        ]
        starts[c.number] = -max(each)[1] if score > 0 else 0

    gained, lenders = _gained(candidates, base, list(weights.values()), shares)
    for c in candidates:
        if c.dated and base[c.number] > 0:
            gained[c.number] += shares.dated
    scored = [Scored(n, round(s + gained[n], 6), starts[n], lenders.get(n, 0)) for n, s in base.items()]
    return sorted((hit for hit in scored if hit.score > 0), key=lambda hit: (-hit.score, hit.number))


def _gained(
    candidates: Sequence[FusionCandidate], base: Mapping[int, float], weights: Sequence[float], shares: Shares
) -> tuple[dict[int, float], dict[int, int]]:
    """Returns what each document gains from its neighbours in the thread, and from words of the rest of it.

    The second map has the neighbour of each document that gains more from it than its own score.
    """
    threads: dict[int, list[FusionCandidate]] = {}
    for c in sorted(candidates, key=lambda c: c.number):
        threads.setdefault(c.thread, []).append(c)
    gained = dict.fromkeys(base, 0.0)
    lenders: dict[int, int] = {}
    worth: dict[int, float] = {}

    def worth_of(bits: int) -> float:
        if bits not in worth:
            worth[bits] = sum(weight for place, weight in enumerate(weights) if bits >> place & 1)
        return worth[bits]

    said = {c.number: _bits(c) for c in candidates}
    most = sum(weights) or 1.0
    for members in threads.values():
        if len(members) == 1:
            continue
        for before, after in pairwise(members):
            forward = shares.question if before.asks else shares.forward
            for lender, other, share in ((before, after, forward), (after, before, shares.back)):
                lent = share * base[lender.number]
                if lent > gained[other.number]:
                    gained[other.number] = lent
                    if lent > base[other.number]:
                        lenders[other.number] = lender.number
        whole = 0
        for c in members:
            whole |= said[c.number]
        for c in members:
            if base[c.number] > 0:
                gained[c.number] += shares.thread * worth_of(whole & ~said[c.number]) / most
    return gained, lenders


def _bits(candidate: FusionCandidate) -> int:
    found = 0
    for passage in candidate.passages:
        found |= passage.words
    return found


def _nearest(candidate: FusionCandidate) -> float | None:
    return max((p.cosine for p in candidate.passages if p.cosine is not None), default=None)


def _stretch(cosine: float, low: float, high: float) -> float:
    """Scales `cosine` from `low` (0) to `high` (1); if the two are equal, the result is 0 or 1 by its sign."""
    if high - low < 1e-6:
        return 1.0 if cosine >= low and cosine > 0 else 0.0
    return min(max((cosine - low) / (high - low), 0.0), 1.0)
