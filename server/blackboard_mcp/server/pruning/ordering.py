"""The built-in pruning policies, and the order that a composition of policies gives to candidates.

The functions are pure. Every order ends in the same tie-break, so no two candidates are left unordered.
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
"""Function that returns candidates in the order in which they leave, given working memory's tokens by owner."""


def token_importance(candidate: Candidate) -> Any:
    """Returns a sort key: fresh items last, then the least important first, then the oldest change first."""
    return candidate.fresh, candidate.importance, candidate.seq, candidate.number


def least_recent(candidate: Candidate) -> Any:
    """Returns a sort key: the item that was read or written longest ago first."""
    read = candidate.last_read
    return candidate.updated_at if read is None else max(candidate.updated_at, read)


def least_frequent(candidate: Candidate) -> Any:
    """Returns a sort key: the least read item first, then the oldest change first."""
    return candidate.reads, candidate.seq


def largest(candidate: Candidate) -> Any:
    """Returns a sort key: the item with most tokens per point of importance first."""
    return -candidate.tokens / candidate.importance


KEYS: dict[str, Key] = {
    "token-importance": token_importance,
    "lru": least_recent,
    "lfu": least_frequent,
    "size": largest,
}
DEFAULT = DEFAULT_POLICY
SHARE = "fair-share"
"""Policy by which the owner that uses most of working memory loses first; later policies order each owner's
items.
"""
BUILT_IN = (*KEYS, SHARE)


@dataclass(frozen=True, slots=True)
class Composition:
    """An order made of sort keys before and after the sharing between owners, and optionally a user's own
    policy at the end.
    """

    before: tuple[Key, ...] = ()
    shares: bool = False
    after: tuple[Key, ...] = ()
    last: EvictionPolicy | None = None

    def order(self, candidates: Sequence[Candidate], used: Mapping[str, int]) -> list[Candidate]:
        """Returns all candidates in the order in which they leave. `used` maps owners to their tokens in
        working memory.

        Raises:
            OutOfOrder: the policy `last` named an item that it was not given.
            Exception: any error of a user's own key or policy.
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
        """Yields candidates, each from the owner who uses most at that moment; `left` is reduced by their
        tokens.
        """
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
    """Returns groups of candidates with equal keys, smallest keys first; inside a group the order stays."""
    if not keys:
        return [list(candidates)]

    def together(candidate: Candidate) -> tuple[Any, ...]:
        return tuple(key(candidate) for key in keys)

    return [list(group) for _, group in groupby(sorted(candidates, key=together), key=together)]


def _own_order(
    policy: EvictionPolicy, candidates: Sequence[Candidate], used: Mapping[str, int]
) -> list[Candidate]:
    """Returns the candidates in the order of a user's policy; those that it does not name come last.

    Raises:
        OutOfOrder: the policy named an item that it was not given, or named one twice.
    """
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
