"""How fast boards may be written to: a token bucket for each principal and one for each board.

A board's bucket is shared fairly: its last half is given only to principals that have had no more of it lately
than the others on average, so that one who floods a board leaves room for the rest. Counts are of this process.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from blackboard_mcp.protocols.errors import QuotaExceeded, RateLimited
from blackboard_mcp.protocols.groups import MAX_GROUPS

from .limits import Limits

_SWEEP_AT = 256
_SWEEP_SECONDS = 1.0
_LEAST_SECONDS = 0.1
_SLACK = 1 + 1e-6
"""Sums of fractions: one who writes alone has all of the average."""


@dataclass(slots=True)
class _Bucket:
    """What may still be taken, as it stood at `at`; one that is full again is forgotten."""

    level: float
    at: float

    def now(self, now: float, rate: float, burst: float) -> float:
        return min(burst, self.level + (now - self.at) * rate)


@dataclass(slots=True)
class _Board:
    """A board's bucket, and who took how much of it lately: each use is halved every `halving` seconds."""

    bucket: _Bucket
    everybody: _Bucket
    took: dict[str, _Bucket] = field(default_factory=dict)
    swept_at: float = -math.inf

    def lately(self, who: str, now: float, halving: float) -> float:
        took = self.took.get(who)
        return 0.0 if took is None else _halved(took, now, halving)

    def average(self, now: float, halving: float) -> float:
        """Of those that took something lately; the others are forgotten, once in a while."""
        self.sweep(now, halving)
        return _halved(self.everybody, now, halving) / max(1, len(self.took))

    def take(self, who: str, items: int, now: float, halving: float) -> None:
        self.took[who] = _Bucket(self.lately(who, now, halving) + items, now)
        self.everybody = _Bucket(_halved(self.everybody, now, halving) + items, now)

    def sweep(self, now: float, halving: float) -> None:
        if now - self.swept_at < _SWEEP_SECONDS:
            return
        self.swept_at = now
        uses = {who: _halved(took, now, halving) for who, took in self.took.items()}
        for who, use in uses.items():
            if use < 0.5:
                del self.took[who]
        self.everybody = _Bucket(sum(use for use in uses.values() if use >= 0.5), now)


def _halved(took: _Bucket, now: float, halving: float) -> float:
    return took.level * float(2.0 ** (-(now - took.at) / halving))


class Quotas:
    """Who may write how much, now; without limits everybody as much as they like.

    Args:
        owner_of: whom an agent acts for, by its name; agents of one owner are counted together.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        owner_of: Callable[[str], str] = str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits = limits or Limits(groups_per_agent=MAX_GROUPS)
        self._unlimited = limits is None
        self._owner_of = owner_of
        self._clock = clock
        self._principals: dict[str, _Bucket] = {}
        self._boards: dict[str, _Board] = {}
        self._sweep_at = _SWEEP_AT

    def __len__(self) -> int:
        """Principals and boards that are remembered, and uses of boards."""
        return len(self._principals) + sum(1 + len(board.took) for board in self._boards.values())

    def check_text(self, characters: int) -> None:
        """
        Raises:
            QuotaExceeded: an item's text is longer than this server takes.
        """
        most = self.limits.post_characters
        if characters > most and not self._unlimited:
            raise QuotaExceeded(
                f"This server takes at most {most:,} characters of text an item, not {characters:,} (limit "
                "post_characters). Nothing was changed; post it in parts, or a summary of it.",
                limit="post_characters",
                most=most,
            )

    def charge(self, agent: str, board: str, items: int = 1) -> None:
        """Takes so many writes from the buckets of the agent's owner and of the board, or from neither.

        Raises:
            RateLimited: one of them holds too little; `retry_after_seconds` says when it will not.
        """
        if self._unlimited or not items:
            return
        principal, limits, now = self._owner_of(agent), self.limits, self._clock()
        rate, burst = limits.posts_per_second, limits.posts_burst
        mine = self._principals.get(principal)
        level = burst if mine is None else mine.now(now, rate, burst)
        if level < items:
            raise _late(
                f"{principal} writes faster than {rate:g} items a second, beyond a burst of {burst:,}",
                "posts_per_second",
                (items - level) / rate,
            )
        shared = self._boards.get(board)
        if shared is None:
            shared = _Board(_Bucket(limits.board_posts_burst, now), _Bucket(0.0, now))
        self._take(shared, principal, board, items, now)
        self._boards[board] = shared
        if mine is None:
            self._principals[principal] = _Bucket(level - items, now)
        else:
            mine.level, mine.at = level - items, now
        if len(self._principals) + len(self._boards) >= self._sweep_at:
            self._forget(now)

    def _take(self, shared: _Board, principal: str, board: str, items: int, now: float) -> None:
        rate, burst = self.limits.board_posts_per_second, self.limits.board_posts_burst
        halving = burst / rate
        level = shared.bucket.now(now, rate, burst)
        kept = min(burst / 2, burst - items)
        lately = shared.lately(principal, now, halving)
        if level - items < kept and (level < items or lately > _SLACK * shared.average(now, halving)):
            short = items - level if level < items else kept + items - level
            raise _late(
                f"'{board}' takes {rate:g} items a second, beyond a burst of {burst:,}, and what is left is for "
                "those who wrote less",
                "board_posts_per_second",
                short / rate,
            )
        shared.bucket.level, shared.bucket.at = level - items, now
        shared.take(principal, items, now, halving)
        if len(shared.took) >= _SWEEP_AT:
            shared.sweep(now, halving)

    def _forget(self, now: float) -> None:
        """Drops the buckets that are full again: they are as if they had never been."""
        limits = self.limits
        rate, burst = limits.posts_per_second, limits.posts_burst
        self._principals = {
            who: held for who, held in self._principals.items() if held.now(now, rate, burst) < burst
        }
        rate, burst = limits.board_posts_per_second, limits.board_posts_burst
        self._boards = {
            name: held for name, held in self._boards.items() if held.bucket.now(now, rate, burst) < burst
        }
        self._sweep_at = max(_SWEEP_AT, 2 * (len(self._principals) + len(self._boards)))


def _late(why: str, limit: str, seconds: float) -> RateLimited:
    wait = max(_LEAST_SECONDS, round(seconds + 0.05, 1))
    return RateLimited(
        f"{why} (limit {limit}; an item of a batch or transaction counts as one). Nothing was changed; send it again "
        f"in {wait:g} seconds.",
        retry_after_seconds=wait,
        limit=limit,
    )
