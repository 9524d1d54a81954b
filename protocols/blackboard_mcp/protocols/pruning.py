"""What a pruning pass is told and what it answers; how it decides is a policy's business."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from .board import DEFAULT_POLICY, BoardConfig
from .guard import Protection
from .items import ItemType, Status


@dataclass(frozen=True, slots=True)
class Candidate:
    """An item of working memory as a pass sees it. `analysed`: an `analyzed_by` edge touches it."""

    number: int
    type: ItemType
    status: Status
    importance: int
    tokens: int
    author: str
    thread: int
    private: bool
    updated_at: datetime
    seq: int
    expired: bool
    superseded: bool
    analysed: bool
    debated_before: bool
    """A debate on it was opened and closed."""
    reads: int = 0
    """How often it was read by id, key or query; counted some seconds late."""
    last_read: datetime | None = None
    owner: str = ""
    """Whom its author acts for; the author where nobody else is known."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """Working memory at the moment of the decision, oldest change first, and what the guard holds."""

    config: BoardConfig
    candidates: tuple[Candidate, ...]
    protected: Mapping[int, Protection]
    tokens: int


@dataclass(frozen=True, slots=True)
class Move:
    """An item to archive, the step of the pass that takes it (1 to 4) and why, in a few words."""

    number: int
    step: int
    why: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What a pass moves, in order; and finished threads worth a summary, as (thread, members)."""

    moves: tuple[Move, ...] = ()
    threads: tuple[tuple[int, tuple[int, ...]], ...] = ()
    policy: str = DEFAULT_POLICY
    """Which policy ordered the fourth step."""
    warning: str = ""
    """Why it is not the one the board wants, if it is not."""


Decide = Callable[[Workspace], Plan]
"""A pass's decision. Runs inside the write transaction: pure, quick, no I/O."""


@dataclass(frozen=True, slots=True)
class PassOutcome:
    """What a pass did. `moved` are ids with step and reason; tokens count working memory before and after."""

    moved: tuple[tuple[str, int, str], ...]
    tokens_before: int
    tokens_after: int
    protected_items: int
    protected_tokens: int
    threads: tuple[tuple[int, tuple[int, ...]], ...]
    seq: int
    policy: str = DEFAULT_POLICY
    warning: str = ""
