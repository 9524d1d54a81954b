"""Debates and obligations: what keeps an argument on the board until it is settled.

A debate is a thread with obligations. The author under criticism owes each critique a **response**. Once every
critique has its answer, the **watchers**, critics among them, owe an **acknowledgement**: that the answers
settle it and the item stands. Both kinds protect the items they name. Only watchers count for consensus, or
on a board with a **quorum** the votes of owners; the author under criticism never closes a debate in its own
favour, alone or by another agent of the same owner.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from blackboard_mcp.protocols.values import dataclass


class DebateState(StrEnum):
    """OPEN, or one of the final states."""

    OPEN = "OPEN"
    CONSENSUS = "CONSENSUS"
    DECIDED = "DECIDED"
    WITHDRAWN = "WITHDRAWN"
    EXPIRED = "EXPIRED"


class Outcome(StrEnum):
    """What became of the item debated, where a debate ended; what FALLS or is AMENDED is INVALIDATED.

    OPEN is a debate that ended without an answer. AMENDED goes with the item that takes the place of the other, and
    FALLS may. Who concedes amends only to an item of the same side; to another author's, the item falls.
    """

    STANDS = "stands"
    FALLS = "falls"
    AMENDED = "amended"
    OPEN = "open"


FELL = (Outcome.FALLS, Outcome.AMENDED)


class Duty(StrEnum):
    """Why an agent is obliged: it watches something, its item was criticised, a party's decision needs its word, or
    a request waits for it.

    Requests are kept apart from other obligations (`protocols.asking`): nothing but their end meets them.
    """

    ACKNOWLEDGE = "acknowledge"
    RESPOND = "respond"
    CONFIRM = "confirm"
    ANSWER = "answer"
    AGREE = "agree"
    """The author of an item asked for agreement to it (`protocols.agreements`)."""


class ObligationState(StrEnum):
    """OUTSTANDING is what is due now; WATCHING is an acknowledgement that falls due once all critiques are answered."""

    OUTSTANDING = "outstanding"
    WATCHING = "watching"
    ACKNOWLEDGED = "acknowledged"
    WAIVED = "waived"


class DebateOp(StrEnum):
    """What an agent can do in the debate about an item."""

    OPEN = "open"
    ACKNOWLEDGE = "acknowledge"
    VOTE = "vote"
    WITHDRAW = "withdraw"
    CONCEDE = "concede"
    DECIDE = "decide"
    CONFIRM = "confirm"
    WATCH = "watch"
    UNWATCH = "unwatch"


@dataclass(frozen=True, slots=True)
class DebateCall:
    """One thing to do in the debate about item `number`; below zero that is a place among the drafts that the
    same transaction writes, counted from -1.

    `version` is the one that the agent means (acknowledge, vote, decide, confirm), `None` the present one.
    `watchers` go with OPEN, `approve` with VOTE, `outcome` with DECIDE and CONFIRM, `to` (a number or a place, as
    `number`) with CONCEDE and DECIDE: what takes the item's place. `deciders` are those who DECIDE, none named:
    whoever is no party.
    """

    op: DebateOp
    number: int
    version: int | None = None
    reason: str = ""
    watchers: tuple[str, ...] = ()
    approve: bool = True
    deciders: tuple[str, ...] = ()
    outcome: Outcome | None = None
    to: int | None = None


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
class Vote:
    """What `agent` said for `owner` of one version of the item debated; a later vote takes its place."""

    owner: str
    agent: str
    version: int
    approve: bool
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Tally:
    """The votes that count: one an owner, on the present `version`, without `author`'s and `writers`'.

    `author` owns the author under criticism, `writers` whoever else wrote the present version; `quorum` owners
    on one side close the debate, 0: none do.
    Owners are in the order in which they voted.
    """

    quorum: int
    version: int
    author: str
    approving: tuple[str, ...] = ()
    rejecting: tuple[str, ...] = ()
    writers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """What an agent decided for its owner of one version of the item, and could not alone; a later one replaces it.

    It counts once another owner, not the author's, confirms it or decides the same. `to` takes the
    item's place, 0: nothing does.
    """

    owner: str
    agent: str
    version: int
    outcome: Outcome
    to: int
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True)
class StandingWatch:
    """What an agent watches by topic: debates on matching items that open from now on oblige it."""

    topic: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Debate:
    """A debate: `id` is the sequence of the event that opened it, `root` the number of the item debated.

    `outcome` is empty while it is open, `gave_way_to` the number of the item that took its place, or 0. `closed_by`
    made the decision that `confirmed_by`, where there is one, confirmed; `decisions` are those that wait for that.
    `votes` are all that stand, also those on former versions, by owner. `answers` pairs each critique that the
    criticised side answered with the newest answer; `unanswered` are those that were neither answered nor taken
    back, without which watchers have nothing to judge.
    """

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
    votes: tuple[Vote, ...] = ()
    outcome: str = ""
    answers: tuple[tuple[int, int], ...] = ()
    unanswered: tuple[int, ...] = ()
    gave_way_to: int = 0
    confirmed_by: str = ""
    decisions: tuple[Decision, ...] = ()

    @property
    def outstanding(self) -> tuple[Obligation, ...]:
        return tuple(o for o in self.obligations if o.state is ObligationState.OUTSTANDING)
