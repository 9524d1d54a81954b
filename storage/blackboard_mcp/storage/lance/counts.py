"""How often words occur on a board, counted exactly.

The driver's own scores keep counting replaced rows until it is compacted; these counts do not, so the
same documents always score the same.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from blackboard_mcp.storage.lance import rows
from blackboard_mcp.storage.lance.fusion import Corpus

RARE = 50
"""A word that so many documents hold, or fewer, brings all of them into the comparison."""

_CACHED_WORDS = 4096


class BoardCounts:
    """Counts for BM25, remembered until the table changes. Worker threads only."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._version = -1
        self._boards: dict[str, tuple[int, float]] = {}
        self._words: OrderedDict[tuple[str, str], tuple[int, tuple[int, ...]]] = OrderedDict()

    def of(self, table: Any, board: str, asked: Sequence[str]) -> tuple[Corpus, set[int]]:
        """What BM25 needs for the words `asked`, and the numbers of the documents with a rare one."""
        where = rows.on_board(board)
        with self._lock:
            version = table.version
            if version != self._version:
                self._version = version
                self._boards.clear()
                self._words.clear()
            if board not in self._boards:
                lengths = table.search().where(where).select(["length"]).to_arrow()["length"].to_numpy()
                mean = float(lengths.mean()) if len(lengths) else 0.0
                self._boards[board] = (len(lengths), mean)
            documents, mean = self._boards[board]
            holding: dict[str, int] = {}
            rare: set[int] = set()
            for word in asked:
                if (board, word) not in self._words:
                    matches = table.search(rows.holding([word])).where(where, prefilter=True)
                    numbers = (
                        matches.limit(max(documents, 1)).select(["number", "_score"]).to_arrow()["number"]
                    )
                    few = tuple(numbers.to_pylist()) if len(numbers) <= RARE else ()
                    self._words[board, word] = (len(numbers), few)
                    if len(self._words) > _CACHED_WORDS:
                        self._words.popitem(last=False)
                count, few = self._words[board, word]
                holding[word] = count
                rare.update(few)
            return Corpus(documents, mean, holding), rare
