"""Rates of writing, in items and in bytes: a token bucket for each principal and one for each board.

A board's bucket is shared fairly: its last half is given only to principals that have had no more of it lately
than the others on average, so that one who floods a board leaves room for the rest. Counts are of this process.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

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

    def take(self, who: str, items: float, now: float, halving: float) -> None:
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


@dataclass(slots=True)
class _Meter:
    """One kind of thing that is written, measured for each principal and each board.

    `told` says what is counted, `advice` what helps besides waiting.
    """

    unit: str
    limit: str
    rate: float
    burst: float
    board_rate: float
    board_burst: float
    told: str
    advice: str = ""
    _principals: dict[str, _Bucket] = field(default_factory=dict)
    _boards: dict[str, _Board] = field(default_factory=dict)
    _sweep_at: int = _SWEEP_AT

    def __len__(self) -> int:
        return len(self._principals) + sum(1 + len(board.took) for board in self._boards.values())

    def check(self, principal: str, board: str, amount: float, now: float) -> None:
        """
        Raises:
            RateLimited: the bucket of one of them holds too little.
        """
        level = self._left(principal, now)
        if level < amount:
            raise self._late(
                f"{principal} writes faster than {self.rate:,g} {self.unit} a second, beyond a burst of "
                f"{self.burst:,}",
                self.limit,
                (amount - level) / self.rate,
            )
        shared = self._boards.get(board)
        if shared is None:
            return
        level = shared.bucket.now(now, self.board_rate, self.board_burst)
        kept = min(self.board_burst / 2, self.board_burst - amount)
        lately = shared.lately(principal, now, self._halving)
        if level - amount < kept and (level < amount or lately > _SLACK * shared.average(now, self._halving)):
            short = amount - level if level < amount else kept + amount - level
            raise self._late(
                f"'{board}' takes {self.board_rate:,g} {self.unit} a second, beyond a burst of {self.board_burst:,}, "
                "and what is left is for those who wrote less",
                f"board_{self.limit}",
                short / self.board_rate,
            )

    def take(self, principal: str, board: str, amount: float, now: float) -> None:
        """Takes what was checked."""
        mine, level = self._principals.get(principal), self._left(principal, now)
        if mine is None:
            self._principals[principal] = _Bucket(level - amount, now)
        else:
            mine.level, mine.at = level - amount, now
        shared = self._boards.get(board)
        if shared is None:
            shared = self._boards[board] = _Board(_Bucket(self.board_burst, now), _Bucket(0.0, now))
        level = shared.bucket.now(now, self.board_rate, self.board_burst)
        shared.bucket.level, shared.bucket.at = level - amount, now
        shared.take(principal, amount, now, self._halving)
        if len(shared.took) >= _SWEEP_AT:
            shared.sweep(now, self._halving)
        if len(self._principals) + len(self._boards) >= self._sweep_at:
            self._forget(now)

    @property
    def _halving(self) -> float:
        return self.board_burst / self.board_rate

    def _left(self, principal: str, now: float) -> float:
        mine = self._principals.get(principal)
        return self.burst if mine is None else mine.now(now, self.rate, self.burst)

    def _forget(self, now: float) -> None:
        """Drops the buckets that are full again: they are as if they had never been."""
        self._principals = {
            who: held
            for who, held in self._principals.items()
            if held.now(now, self.rate, self.burst) < self.burst
        }
        self._boards = {
            name: held
            for name, held in self._boards.items()
            if held.bucket.now(now, self.board_rate, self.board_burst) < self.board_burst
        }
        self._sweep_at = max(_SWEEP_AT, 2 * (len(self._principals) + len(self._boards)))

    def _late(self, why: str, limit: str, seconds: float) -> RateLimited:
        wait = max(_LEAST_SECONDS, round(seconds + 0.05, 1))
        return RateLimited(
            f"{why} (limit {limit}; {self.told}). Nothing was changed; send it again in {wait:g} seconds{self.advice}.",
            retry_after_seconds=wait,
            limit=limit,
        )


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
        self._items = _Meter(
            "items",
            "posts_per_second",
            self.limits.posts_per_second,
            self.limits.posts_burst,
            self.limits.board_posts_per_second,
            self.limits.board_posts_burst,
            "an item of a batch or transaction counts as one",
        )
        self._bytes = _Meter(
            "bytes",
            "bytes_per_second",
            self.limits.bytes_per_second,
            self.limits.bytes_burst,
            self.limits.board_bytes_per_second,
            self.limits.board_bytes_burst,
            "texts and metadata count, in UTF-8",
            ", or post what others need of it and say where the rest is",
        )

    def __len__(self) -> int:
        """Principals and boards that are remembered, and uses of boards."""
        return len(self._items) + len(self._bytes)

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

    def charge(self, agent: str, board: str, items: int = 1, size: int = 0) -> None:
        """Takes so many writes of so many bytes from the buckets of the agent's owner and of the board, or nothing.

        Raises:
            RateLimited: one of them holds too little; `retry_after_seconds` says when it will not.
        """
        if self._unlimited:
            return
        principal, now = self._owner_of(agent), self._clock()
        wanted = [(meter, amount) for meter, amount in ((self._items, items), (self._bytes, size)) if amount]
        for meter, amount in wanted:
            meter.check(principal, board, amount, now)
        for meter, amount in wanted:
            meter.take(principal, board, amount, now)


def size_of(text: str | None, metadata: Mapping[str, Any] | None = None) -> int:
    """Bytes of what an item says, which stay for good."""
    size = len((text or "").encode("utf-8", "replace"))
    if metadata:
        size += len(json.dumps(metadata, ensure_ascii=False).encode("utf-8", "replace"))
    return size
