"""Boards as values: configuration, core, lifecycle, and the figures that readers see."""

from __future__ import annotations

from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Any

from .access import Role
from .summaries import AS_LAUNCHED
from .tokens import DEFAULT_TOKENIZER
from .values import dataclass


class Lifecycle(StrEnum):
    """The state of a board: open, settled or closed.

    A settled board may be opened again. A closed board accepts no more changes. `NEXT` has the allowed moves.
    """

    OPEN = "open"
    SETTLED = "settled"
    CLOSED = "closed"


class PassStep(StrEnum):
    """A step of a pruning pass, in the order in which a pass takes them. Values are names in a board's settings."""

    RESOLVED = "resolved"
    LOGS = "logs"
    THREADS = "threads"
    IMPORTANCE = "importance"

    @property
    def number(self) -> int:
        """The place of the step in a pass, 1 to 4, as events and results show it."""
        return STEPS.index(self) + 1


STEPS = tuple(PassStep)
"""All steps of a pass, in order."""
DEFAULT_POLICY = "token-importance"


RESERVE_BYTES = 1_000_000
"""The bytes by which answers that an agent owes may exceed `owner_bytes` and `board_bytes`."""


@dataclass(frozen=True, slots=True)
class BoardConfig:
    """The settings of a board. Fractions are of `target_tokens`; importance ceilings are inclusive.

    A pass starts above `high_water` and ends at `low_water`. Only the steps in `steps` run. The fourth step takes
    unprotected items of importance up to `ceiling`, in the order of `policy`; if the board is then still above
    `high_water`, it takes items up to `hard_ceiling`. A summary replaces a finished thread of more than
    `summarise_over` items.
    """

    target_tokens: int = 6_000
    high_water: float = 0.8
    low_water: float = 0.6
    owner_share: float = 0.5
    """The part of the low-water mark that one owner's items may take while other owners have items; 1: all.

    What exceeds it leaves first. Items of importance 5 do not leave, so posts of that importance beyond it are
    refused.
    """
    ceiling: int = 2
    hard_ceiling: int = 4
    summarise_over: int = 4
    owner_held: float = 0.75
    """The part of the target that one owner may keep from leaving while others have items, too; 1: all of it."""
    owner_bytes: int = 5_000_000_000
    """Most bytes that the agents of one owner may have stored on the board; 0: no bound.

    Every version counts: its text, tags and metadata in UTF-8, and 1,000 bytes in addition.
    """
    board_bytes: int = 20_000_000_000
    """Most bytes that all agents together may have stored on the board, counted like `owner_bytes`; 0: no bound."""
    tokenizer: str = DEFAULT_TOKENIZER
    """The tokenizer that counts every text of the board, by its name at launch."""
    core_tokens: int = 1_000
    """Most tokens that the core may have."""
    summariser: str = AS_LAUNCHED
    """The summariser of finished threads: one of `SUMMARISERS`, or `AS_LAUNCHED` for the server's own choice."""
    summary_wait_seconds: int = 300
    """Seconds that a finished thread waits for an agent to summarise it."""
    quorum: int = 0
    """The number of owners that must vote the same way to close a debate; 0: all watchers acknowledge instead."""
    watch_lease_seconds: int = 86_400
    """Seconds that a watcher may be away before debates go on without it; 0: for ever."""
    presence_seconds: int = 900
    """Seconds that an agent may be away before a debate in which others are there goes on without it; 0: for ever.
    """
    debate_expiry_seconds: int = 0
    """Seconds that a debate may go without a change before it expires; 0: for ever."""
    question_expiry_seconds: int = 604_800
    """Seconds for which the agents that a question asks owe it an answer; 0: for ever."""
    fresh_seconds: int = 600
    """Items posted, changed, read or cited within so many seconds leave after the rest of their step; 0: no such rule.
    """
    restored_seconds: int = 3_600
    """Seconds for which no pass takes restored items and items that a settled debate cited; 0: not at all."""
    restored_events: int = 50
    """The number of agents' events that ends this protection before `restored_seconds` do; 0: only time ends it."""
    subscription_lease_seconds: int = 2_592_000
    """Seconds that a subscription may go unused before it expires; 0: for ever."""
    idempotency_seconds: int = 604_800
    """Seconds for which a call repeated with its idempotency key gets the answer of the first call."""
    request_lease_seconds: int = 300
    """Seconds for which an agent holds a request that it took, counted anew from each part of the answer."""
    skill_lease_seconds: int = 3_600
    """Seconds that an agent may be away before its skills are no longer offered; 0: for ever."""
    validation: str = ""
    """Rules for what may be written, as JSON in the canonical form that `board_settings` returns; empty: none."""
    panels: str = ""
    """The panels beside `working`, as JSON in the form that `panels_json` writes; empty: none."""
    steps: tuple[str, ...] = STEPS
    policy: str = DEFAULT_POLICY
    access: tuple[str, ...] = ()
    """Access policies that every change must pass, by their names at launch, in addition to those of all boards."""

    def clash(self) -> str | None:
        """Returns a sentence on settings that contradict each other, or `None` when none do."""
        if not self.low_water < self.high_water:
            return f"low_water ({self.low_water:g}) must be below high_water ({self.high_water:g})."
        if self.ceiling > self.hard_ceiling:
            return f"ceiling ({self.ceiling}) must not be above hard_ceiling ({self.hard_ceiling})."
        if 0 < self.subscription_lease_seconds < 60:
            return (
                f"subscription_lease_seconds ({self.subscription_lease_seconds}) must be 0 or at least 60: one call "
                "of wait may take as long."
            )
        return None

    @property
    def high_tokens(self) -> int:
        """The tokens of working memory above which a pass starts."""
        return int(self.target_tokens * self.high_water)

    def pass_due(self, tokens: int, pressure: int | None) -> bool:
        """Tells whether a pass has work at these tokens of working memory, with this item that reports pressure."""
        return tokens > self.high_tokens or bool(pressure)

    @property
    def low_tokens(self) -> int:
        """The tokens of working memory at which a pass ends."""
        return int(self.target_tokens * self.low_water)


@dataclass(frozen=True, slots=True)
class Core:
    """The part of a board that is never pruned: the objective, constraints in order, and flags."""

    objective: str = ""
    constraints: tuple[str, ...] = ()
    flags: dict[str, bool] = field(default_factory=dict)
    version: int = 0


NEXT: dict[Lifecycle, frozenset[Lifecycle]] = {
    Lifecycle.OPEN: frozenset({Lifecycle.SETTLED, Lifecycle.CLOSED}),
    Lifecycle.SETTLED: frozenset({Lifecycle.OPEN, Lifecycle.CLOSED}),
    Lifecycle.CLOSED: frozenset(),
}


@dataclass(frozen=True, slots=True)
class BoardChange:
    """A change of a board; `None` leaves a field as it is.

    `settings` maps fields of `BoardConfig` to new values. `members` maps agents to the role that the board gives them
    from now on; `None` takes their role away. `expected_settings` maps fields of `BoardConfig` to values without which
    nothing is changed.
    """

    title: str | None = None
    parent: str | None = None
    lifecycle: Lifecycle | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    members: dict[str, Role | None] = field(default_factory=dict)
    expected_settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Board:
    """The present state of a board. `working_tokens` and `working_items` count its working memory."""

    id: str
    title: str
    parent: str | None
    lifecycle: Lifecycle
    config: BoardConfig
    core: Core
    seq: int
    created_at: datetime
    working_items: int
    working_tokens: int
    archived_items: int
    pressure: int | None = None
    """The number of the hot issue that reports pressure; `None` while the board is not under pressure."""

    @property
    def pass_due(self) -> bool:
        """Tells whether a pass has work: items to prune, or pressure that may have ended."""
        return self.config.pass_due(self.working_tokens, self.pressure)


@dataclass(frozen=True, slots=True)
class AgentInfo:
    """An agent seen on a board: how many items it posted, and when it was first and last active there."""

    name: str
    posts: int
    first_seen: datetime
    last_seen: datetime
