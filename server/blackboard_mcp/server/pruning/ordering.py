"""The policies that come with the server, and how a composition orders candidates.

Pure: candidates and figures in, an order out. Every order ends in the same tie-break, so it is total.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby, islice
from typing import Any

from blackboard_mcp.protocols.board import DEFAULT_POLICY
from blackboard_mcp.protocols.policy import EvictionPolicy
from blackboard_mcp.protocols.pruning import Candidate
from blackboard_mcp.protocols.values import dataclass

from ..plugins.bounded import OutOfOrder

Key = Callable[[Candidate], Any]
Order = Callable[[Sequence[Candidate], Mapping[str, int]], list[Candidate]]
"""Candidates in the order in which they go, given the tokens of working memory by owner."""


def token_importance(candidate: Candidate) -> Any:
    """What is not fresh first; then the least important, oldest change first among equals."""
    return candidate.fresh, candidate.importance, candidate.seq, candidate.number


def least_recent(candidate: Candidate) -> Any:
    """Longest ago read or written first."""
    read = candidate.last_read
    return candidate.updated_at if read is None else max(candidate.updated_at, read)


def least_frequent(candidate: Candidate) -> Any:
    """Least read first, oldest change first among equals."""
    return candidate.reads, candidate.seq


def largest(candidate: Candidate) -> Any:
    """Most tokens per point of importance first."""
    return -candidate.tokens / candidate.importance


KEYS: dict[str, Key] = {
    "token-importance": token_importance,
    "lru": least_recent,
    "lfu": least_frequent,
    "size": largest,
}
DEFAULT = DEFAULT_POLICY
SHARE = "fair-share"
"""The owner who uses most of working memory loses first; what it has is ordered by what follows."""
BUILT_IN = (*KEYS, SHARE)


@dataclass(frozen=True, slots=True)
class Composition:
    """Keys before the shares and after them, and at the end perhaps an order of a user's own."""

    before: tuple[Key, ...] = ()
    shares: bool = False
    after: tuple[Key, ...] = ()
    last: EvictionPolicy | None = None

    def order(self, candidates: Sequence[Candidate], used: Mapping[str, int]) -> list[Candidate]:
        """All of the candidates.

        Raises:
            OutOfOrder: `last` named what it was not given.
            Exception: whatever a key or an order of a user's raised.
        """
        left = dict(used)
        placed = sorted(candidates, key=token_importance)
        if not self.shares:
            return self._within(placed, (*self.before, *self.after), left)
        found: list[Candidate] = []
        for group in _groups(placed, self.before):
            found += self._shared(group, left)
        return found

    def _shared(self, candidates: Sequence[Candidate], left: dict[str, int]) -> Iterable[Candidate]:
        """From whoever uses most at each step; `left` is counted down."""
        mine: dict[str, list[Candidate]] = {}
        for candidate in candidates:
            mine.setdefault(candidate.owner, []).append(candidate)
        queues = {
            owner: iter(self._within(listed, self.after, left)) for owner, listed in sorted(mine.items())
        }
        heap = [(-left.get(owner, 0), owner) for owner in queues]
        heapq.heapify(heap)
        while heap:
            _, owner = heap[0]
            taken = next(queues[owner], None)
            if taken is None:
                heapq.heappop(heap)
                continue
            left[owner] = left.get(owner, 0) - taken.tokens
            heapq.heapreplace(heap, (-left[owner], owner))
            yield taken

    def _within(
        self, candidates: Sequence[Candidate], keys: Sequence[Key], used: Mapping[str, int]
    ) -> list[Candidate]:
        if self.last is None:
            return sorted(candidates, key=lambda c: tuple(key(c) for key in keys))
        found: list[Candidate] = []
        for group in _groups(candidates, keys):
            found += _own_order(self.last, group, used)
        return found


def _groups(candidates: Sequence[Candidate], keys: Sequence[Key]) -> list[list[Candidate]]:
    """Candidates by equal keys, smallest first; in a group they stand as they came."""
    if not keys:
        return [list(candidates)]

    def together(candidate: Candidate) -> tuple[Any, ...]:
        return tuple(key(candidate) for key in keys)

    return [list(group) for _, group in groupby(sorted(candidates, key=together), key=together)]


def _own_order(
    policy: EvictionPolicy, candidates: Sequence[Candidate], used: Mapping[str, int]
) -> list[Candidate]:
    left = {c.number: c for c in candidates}
    shown = tuple(sorted(candidates, key=lambda c: (c.seq, c.number)))
    named = list(islice(policy.order(shown, dict(used)), len(shown) + 1))
    found: list[Candidate] = []
    for number in named:
        candidate = left.pop(number, None) if type(number) is int else None
        if candidate is None:
            raise OutOfOrder
        found.append(candidate)
    return found + list(left.values())
