"""Rates of writing, in items and in bytes: a token bucket for each principal and one for each board.

A board's bucket is shared fairly: only principals that lately wrote no more than the average may use its last
half. So a principal that floods a board leaves room for the rest. Counts are per process; workers, and
several servers on one PostgreSQL, tell each other what was taken (`shared_rates.py`).
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from blackboard_mcp.protocols.errors import QuotaExceeded, RateLimited
from blackboard_mcp.protocols.groups import MAX_GROUPS

from .limits import Limits

_SWEEP_AT = 256
_SWEEP_SECONDS = 1.0
_LEAST_SECONDS = 0.1
_SLACK = 1 + 1e-6
"""Tolerance for rounding: the only writer equals the average, and must not come out above it."""


Taken = tuple[str, str, str, float]
"""The unit, who took it, from which board's bucket besides his own, and how much."""


@dataclass(slots=True)
class _Bucket:
    """A bucket's level at the instant `at`, in seconds. Full buckets are forgotten."""

    level: float
    at: float

    def now(self, now: float, rate: float, burst: float) -> float:
        """Returns the level at `now`: it grows by `rate` a second, up to `burst`."""
        return min(burst, self.level + (now - self.at) * rate)


@dataclass(slots=True)
class _Board:
    """A board's bucket, and how much each principal wrote lately. Each use halves every `halving` seconds."""

    bucket: _Bucket
    everybody: _Bucket
    took: dict[str, _Bucket] = field(default_factory=dict)
    swept_at: float = -math.inf

    def lately(self, who: str, now: float, halving: float) -> float:
        """Returns how much a principal wrote lately."""
        took = self.took.get(who)
        return 0.0 if took is None else _halved(took, now, halving)

    def average(self, now: float, halving: float) -> float:
        """Returns the average recent use of the principals that wrote lately; it also forgets the others from
        time to time.
        """
        self.sweep(now, halving)
        return _halved(self.everybody, now, halving) / max(1, len(self.took))

    def take(self, who: str, items: float, now: float, halving: float) -> None:
        """Records that a principal wrote `items` units at `now`."""
        took = self.took.get(who)
        if took is None:
            took = self.took[who] = _Bucket(0.0, now)
        for bucket in (took, self.everybody):
            bucket.level, bucket.at = _halved(bucket, now, halving) + items, now

    def sweep(self, now: float, halving: float) -> None:
        """Forgets principals with hardly any recent use, at most once a second."""
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
    """Meter for one unit, items or bytes, with a bucket for each principal and each board.

    `told` says in errors what is counted; `advice` says what helps besides waiting.
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
    untold: dict[tuple[str, str], float] = field(default_factory=dict)
    """What principals took from boards since others were last told."""

    def __len__(self) -> int:
        return len(self._principals) + sum(1 + len(board.took) for board in self._boards.values())

    def refusals(self, principal: str, board: str, amount: float, now: float) -> Iterator[RateLimited]:
        """Yields an error for each bucket, the principal's and the board's, that holds too little for `amount`.

        A call that asks for more than a whole burst needs a full bucket, and its principal pays the rest back.
        """
        level, needed = self._left(principal, now), min(amount, self.burst)
        if level < needed:
            yield self._late(
                f"{principal} writes faster than {self.rate:,g} {self.unit} a second, beyond a burst of "
                f"{self.burst:,}",
                self.limit,
                (needed - level) / self.rate,
            )
        shared = self._boards.get(board)
        if shared is None:
            return
        level = shared.bucket.now(now, self.board_rate, self.board_burst)
        needed = min(amount + self.board_burst / 2, self.board_burst)
        if level >= needed:
            return
        if shared.lately(principal, now, self._halving) <= _SLACK * shared.average(now, self._halving):
            needed = min(amount, self.board_burst)
        if level < needed:
            yield self._late(
                f"'{board}' takes {self.board_rate:,g} {self.unit} a second, beyond a burst of {self.board_burst:,}, "
                "and what is left is for those who wrote less",
                f"board_{self.limit}",
                (needed - level) / self.board_rate,
            )

    def take(self, principal: str, board: str, amount: float, now: float) -> None:
        """Takes `amount` from both buckets; `refusals` must have yielded nothing before."""
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
        """Drops full buckets: a new bucket starts full, so nothing is lost."""
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
    """Rates and sizes that agents may write. Without `limits` nothing is bounded.

    Args:
        owner_of: returns the owner of an agent by its name; agents of one owner share a bucket.
        clock: returns seconds that never go back.
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
        self.shared = False
        """Whether other servers have to be told what is taken here."""
        self._asked = self._asked_before = self._clock()
        """When `taken` was called last, and the time before that."""
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
        """Returns how many principals, boards and uses of boards are remembered."""
        return len(self._items) + len(self._bytes)

    def check_text(self, characters: int) -> None:
        """Checks the length of an item's text.

        Raises:
            QuotaExceeded: the text is longer than this server takes.
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
        """Takes a write from the buckets of the agent's owner and of the board; takes nothing where one holds
        too little.

        `size` is in bytes.

        Raises:
            RateLimited: a bucket holds too little; `retry_after_seconds` tells when all of them will hold enough.
        """
        if self._unlimited:
            return
        principal, now = self._owner_of(agent), self._clock()
        wanted = [(meter, amount) for meter, amount in ((self._items, items), (self._bytes, size)) if amount]
        refused = [late for meter, amount in wanted for late in meter.refusals(principal, board, amount, now)]
        if refused:
            raise max(refused, key=lambda late: late.facts["retry_after_seconds"])
        for meter, amount in wanted:
            meter.take(principal, board, amount, now)
            if self.shared:
                key = principal, board
                meter.untold[key] = meter.untold.get(key, 0) + amount

    def taken(self) -> list[Taken]:
        """Returns and forgets what was taken here since the last call; needs `shared`."""
        self._asked_before, self._asked = self._asked, self._clock()
        told = []
        for meter in (self._items, self._bytes):
            told += [(meter.unit, who, board, amount) for (who, board), amount in meter.untold.items()]
            meter.untold.clear()
        return told

    def took_elsewhere(self, taken: Iterable[Taken]) -> None:
        """Takes from the buckets what other servers gave out; a level may fall below nothing.

        It counts as taken when this process asked `taken` the time before last: one that was paused hears of minutes at
        once, and its buckets filled meanwhile.
        """
        now = self._asked_before
        meters = {meter.unit: meter for meter in (self._items, self._bytes)}
        for unit, who, board, amount in taken:
            if not self._unlimited and unit in meters:
                meters[unit].take(who, board, amount, now)


def size_of(text: str | None, metadata: Mapping[str, Any] | None = None) -> int:
    """Returns the bytes of an item's text and metadata in UTF-8."""
    size = len((text or "").encode("utf-8", "replace"))
    if metadata:
        size += len(json.dumps(metadata, ensure_ascii=False).encode("utf-8", "replace"))
    return size
