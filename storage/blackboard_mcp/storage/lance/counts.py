"""Counts of words on a large board, independent of the driver's.

The driver's own scores count replaced rows until it is compacted. These counts do not, so the same documents always
get the same scores. Frequent words are counted together in a sample: one bucket of `rows.BUCKETS`, to which the same
documents always belong. Words that fewer than `SURE` windows of it contain are counted exactly, up to `EXACT`.

Only what everybody sees is counted. Counts are kept until the table has grown or shrunk by a hundredth.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

from blackboard_mcp.protocols.visibility import Viewer
from blackboard_mcp.storage.lance import rows
from blackboard_mcp.storage.lance.engines import MOST, EngineReach, Engines
from blackboard_mcp.storage.lance.fusion import Corpus
from cachetools import LRUCache

RARE = 50
"""Most windows that contain a rare word; all documents with such a word are compared."""

SURE = 8
EXACT = 2000
LARGE = 40_000
"""Most windows that are kept in memory for searches. A larger board is searched by the driver's engines."""

_DRIFT = 0.01
_SAMPLED = 0
_CACHED_WORDS = 16_384
_EVERYBODY = Viewer("")
"""Sees what everybody sees: nothing else is counted, so that no hidden item changes a score."""


class BoardCounts:
    """Counts for BM25. For worker threads only."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._version = -1
        self._rows = 0
        self._boards: dict[str, tuple[int, float]] = {}
        self._samples: dict[str, dict[str, int]] = {}
        self._words: LRUCache[tuple[str, str], tuple[int, tuple[int, ...]]] = LRUCache(_CACHED_WORDS)

    def of(self, table: Any, board: str, asked: Sequence[str]) -> tuple[Corpus, dict[str, tuple[int, ...]]]:
        """Returns the figures that BM25 needs for the words `asked`, and a map from rare words to document numbers."""
        with self._lock:
            self._renew(table)
            if board not in self._boards:
                lengths = (
                    table.search()
                    .where(rows.on_board(board) & rows.seen_by(_EVERYBODY))
                    .select(["length"])
                    .to_arrow()["length"]
                    .to_numpy()
                )
                self._boards[board] = (len(lengths), float(lengths.mean()) if len(lengths) else 0.0)
            windows, mean = self._boards[board]
            holding: dict[str, int] = {}
            rare: dict[str, tuple[int, ...]] = {}
            if unknown := [word for word in asked if (board, word) not in self._words]:
                counted = self._count(table, board, unknown, windows)
                self._words.update({(board, word): each for word, each in counted.items()})
            for word in asked:
                holding[word], few = self._words[board, word]
                if few:
                    rare[word] = few
            return Corpus(windows, mean, holding), rare

    def _renew(self, table: Any) -> None:
        version = table.version
        if version == self._version:
            return
        self._version = version
        count = table.count_rows()
        if abs(count - self._rows) > self._rows * _DRIFT:
            self._rows = count
            self._boards.clear()
            self._samples.clear()
            self._words.clear()

    def _count(
        self, table: Any, board: str, unknown: Sequence[str], windows: int
    ) -> dict[str, tuple[int, tuple[int, ...]]]:
        """Returns the number of windows of the board that contain each word, and the documents if it is rare."""
        sample = self._sample(table, board)
        counted: dict[str, tuple[int, tuple[int, ...]]]
        counted = {word: (sample[word] * rows.BUCKETS, ()) for word in unknown if word in sample}
        holders: dict[str, list[int]] = {word: [] for word in unknown if word not in sample}
        if not holders:
            return counted
        where = rows.on_board(board) & rows.seen_by(_EVERYBODY)
        reach = EngineReach(rows.stored(board), where, self._share(windows), _EVERYBODY)
        # Asked for together, they cost what one costs.
        engines = Engines(table)
        places, _ = engines.ask(reach, list(holders), said=EXACT + 1, meant=0)
        found = engines.words(places)
        if len(found) > EXACT and len(holders) > 1:
            for word in holders:
                counted |= self._count(table, board, [word], windows)
            return counted
        for place, said in found.items():
            number = engines.heads[place].number
            for word in holders.keys() & set(said.split(" ")):
                holders[word].append(number)
        for word, numbers in holders.items():
            counted[word] = len(numbers), tuple(sorted(set(numbers))) if len(numbers) <= RARE else ()
        return counted

    def _sample(self, table: Any, board: str) -> dict[str, int]:
        """Returns how many windows of the sample contain each word that at least `SURE` of them contain."""
        if board not in self._samples:
            where = rows.on_board(board) & rows.seen_by(_EVERYBODY) & rows.in_bucket(_SAMPLED)
            found = table.search().where(where).select(["words"]).to_arrow()["words"].to_pylist()
            times = Counter(word for said in found for word in set(said.split(" ")))
            self._samples[board] = {word: count for word, count in times.items() if count >= SURE}
        return self._samples[board]

    def share(self, board: str) -> float:
        """Returns the share of a large table that the board fills, by the counts known so far; 0 if it is not most."""
        with self._lock:
            return self._share(self._boards.get(board, (0, 0.0))[0])

    def _share(self, windows: int) -> float:
        return min(windows / self._rows, 1.0) if windows and windows >= MOST * self._rows else 0.0
