"""Debates and obligations: what keeps an argument on the board until it is settled.

A debate is a thread with obligations. Its **watchers** must acknowledge it; the author under criticism
owes a **response** to each critique. Both kinds protect the items they name. Only watchers count for
consensus, and the author under criticism alone never closes a debate.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class DebateState(StrEnum):
    """OPEN, or one of the final states."""

    OPEN = "OPEN"
    CONSENSUS = "CONSENSUS"
    DECIDED = "DECIDED"
    WITHDRAWN = "WITHDRAWN"
    EXPIRED = "EXPIRED"


class Duty(StrEnum):
    """Why an agent is obliged: to acknowledge what it watches, or to answer a critique of its item."""

    ACKNOWLEDGE = "acknowledge"
    RESPOND = "respond"


class ObligationState(StrEnum):
    OUTSTANDING = "outstanding"
    ACKNOWLEDGED = "acknowledged"
    WAIVED = "waived"


@dataclass(frozen=True, slots=True)
class Obligation:
    """What `agent` owes to item number `item`; `debate` is the debate it arose in, if any."""

    agent: str
    item: int
    duty: Duty
    state: ObligationState
    debate: int | None
    reason: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Debate:
    """A debate: `id` is the sequence of the event that opened it, `root` the number of the item debated."""

    id: int
    root: int
    state: DebateState
    opened_by: str
    opened_at: datetime
    closed_by: str | None
    closed_at: datetime | None
    reason: str
    critiques: tuple[int, ...]
    obligations: tuple[Obligation, ...]

    @property
    def outstanding(self) -> tuple[Obligation, ...]:
        return tuple(o for o in self.obligations if o.state is ObligationState.OUTSTANDING)
