"""Boards as values: configuration, core, lifecycle and the figures a reader wants."""

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
    """open → settled → closed; a settled board may be opened again, a closed one takes nothing any more."""

    OPEN = "open"
    SETTLED = "settled"
    CLOSED = "closed"


class PassStep(StrEnum):
    """A step of a pruning pass, in the order of a pass, by the name that a board's configuration has for it."""

    RESOLVED = "resolved"
    LOGS = "logs"
    THREADS = "threads"
    IMPORTANCE = "importance"

    @property
    def number(self) -> int:
        """1 to 4, as events and results name it."""
        return STEPS.index(self) + 1


STEPS = tuple(PassStep)
"""The steps of a pass, in their order."""
DEFAULT_POLICY = "token-importance"


RESERVE_BYTES = 1_000_000
"""So many bytes beyond `owner_bytes` and `board_bytes` are for answers that are owed."""


@dataclass(frozen=True, slots=True)
class BoardConfig:
    """How a board behaves. Fractions are of `target_tokens`; importance ceilings are inclusive.

    A pass starts above `high_water` and ends at `low_water`. Of its steps those in `steps` run. The fourth
    takes unprotected items of importance up to `ceiling`, in the order of `policy`; if the board is then
    still above `high_water`, up to `hard_ceiling`. A finished thread of more than `summarise_over` items
    becomes a summary.
    """

    target_tokens: int = 6_000
    high_water: float = 0.8
    low_water: float = 0.6
    owner_share: float = 0.5
    """Part of the low-water mark that one owner's items may take while there are others'; 1: all of it. What goes
    beyond leaves first; of importance 5, which does not leave, no more than that is taken."""
    ceiling: int = 2
    hard_ceiling: int = 4
    summarise_over: int = 4
    owner_held: float = 0.75
    """Part of the target that may be kept from leaving on one owner's account while others are there; 1: all."""
    owner_bytes: int = 5_000_000_000
    """Most bytes that the agents of one owner may have written that are kept for good; 0: no such bound.

    Texts, tags and metadata of every version count, in UTF-8, and 1,000 for each version besides."""
    board_bytes: int = 20_000_000_000
    """The same of all together."""
    tokenizer: str = DEFAULT_TOKENIZER
    """What counts the tokens of every text of the board, by its name at launch."""
    core_tokens: int = 1_000
    """Most tokens that the core may have."""
    summariser: str = AS_LAUNCHED
    """Who summarises finished threads: one of `SUMMARISERS`, or the one the server was launched with."""
    summary_wait_seconds: int = 300
    """How long a finished thread waits for an agent to summarise it."""
    quorum: int = 0
    """How many owners must vote one way to close a debate; 0: all watchers acknowledge instead."""
    watch_lease_seconds: int = 86_400
    """How long a watcher may be away before debates go on without it; 0: for ever."""
    presence_seconds: int = 900
    """How long somebody on whom others wait in a debate may be away before it goes on without them; 0: for ever."""
    debate_expiry_seconds: int = 0
    """How long a debate may stand still before it expires; 0: for ever."""
    question_expiry_seconds: int = 604_800
    """How long a question is owed an answer by those whom it asks; 0: for ever."""
    fresh_seconds: int = 600
    """What was posted, changed, read or cited in so many seconds leaves after the rest of its step; 0: no such rule."""
    restored_seconds: int = 3_600
    """How long no pass takes what came back from the archive or what a settled debate rested on; 0: not at all."""
    restored_events: int = 50
    """And after how many events of agents it ends, if that comes first; 0: time alone counts."""
    subscription_lease_seconds: int = 2_592_000
    """How long a subscription may go unused before it expires; 0: for ever."""
    idempotency_seconds: int = 604_800
    """How long a call that is repeated with its idempotency key is answered as the first time."""
    request_lease_seconds: int = 300
    """How long an agent has a request that it took, counted from its last part."""
    skill_lease_seconds: int = 3_600
    """How long an agent may be away before it offers its skills no more; 0: for ever."""
    validation: str = ""
    """What may be written: rules as JSON in the one form that `board_settings` gives them; empty for none."""
    steps: tuple[str, ...] = STEPS
    policy: str = DEFAULT_POLICY
    access: tuple[str, ...] = ()
    """Access policies that every change must pass, by their names at launch; beside those that hold on every board."""

    def clash(self) -> str | None:
        """Which settings do not go together, as a sentence; `None` when all do."""
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
        return int(self.target_tokens * self.high_water)

    @property
    def low_tokens(self) -> int:
        return int(self.target_tokens * self.low_water)


@dataclass(frozen=True, slots=True)
class Core:
    """The part of a board that is never pruned: objective, constraints in order, flags."""

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
    """What to change of a board; `None` leaves a thing as it is. `settings` are fields of its configuration.

    `members` are agents with the role that the board gives them from now on, `None` for none of its own.
    """

    title: str | None = None
    parent: str | None = None
    lifecycle: Lifecycle | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    members: dict[str, Role | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Board:
    """A board as it stands. `working_tokens` and `working_items` count its working memory."""

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
    """The hot issue that tells of pressure, while the board is under it."""

    @property
    def pass_due(self) -> bool:
        """Whether a pass has something to do: to prune, or to look whether pressure ended."""
        return self.working_tokens > self.config.high_tokens or self.pressure is not None


@dataclass(frozen=True, slots=True)
class AgentInfo:
    """An agent seen on a board: how many items it posted and when it last did anything there."""

    name: str
    posts: int
    first_seen: datetime
    last_seen: datetime
