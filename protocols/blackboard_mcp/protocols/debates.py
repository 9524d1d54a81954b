"""Debates and obligations, which keep an argument on the board until it is settled.

A debate is a thread with obligations. The author under criticism owes each critique a **response**. Once every
critique has its response, the **watchers**, critics among them, owe an **acknowledgement**: they agree that the
responses settle the critiques and that the item stands. Both kinds of obligation protect the items that they name.
Consensus counts only watchers, or on a board with a **quorum** the votes of owners. The author under criticism never
closes a debate in its own favour, neither itself nor through another agent of its owner.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from blackboard_mcp.protocols.values import dataclass


class DebateState(StrEnum):
    """The state of a debate: OPEN, or one of the final states."""

    OPEN = "OPEN"
    CONSENSUS = "CONSENSUS"
    DECIDED = "DECIDED"
    WITHDRAWN = "WITHDRAWN"
    EXPIRED = "EXPIRED"


class Outcome(StrEnum):
    """The result of a debate for the item debated. An item that FALLS or is AMENDED becomes INVALIDATED.

    OPEN marks a debate that ended without an answer. AMENDED always names the item that replaces the debated one,
    FALLS may name one. An agent that concedes can amend only to an item of its own side; if it names another author's
    item, the debated one FALLS.
    """

    STANDS = "stands"
    FALLS = "falls"
    AMENDED = "amended"
    OPEN = "open"


FELL = (Outcome.FALLS, Outcome.AMENDED)
CONCEDED = "conceded"
"""The first word of a debate's reason if the criticised side conceded."""


class Duty(StrEnum):
    """The kind of an obligation.

    An agent may have to acknowledge what it watches, respond to criticism, confirm a party's decision, or answer a
    request. Requests are kept apart from other obligations (`protocols.asking`) and end only with the request itself.
    """

    ACKNOWLEDGE = "acknowledge"
    RESPOND = "respond"
    CONFIRM = "confirm"
    ANSWER = "answer"
    AGREE = "agree"
    """Owed when the author of an item asked the agent to agree to it (`protocols.agreements`)."""


class ObligationState(StrEnum):
    """The state of an obligation.

    OUTSTANDING is due now. WATCHING is an acknowledgement that becomes due once all critiques are answered.
    """

    OUTSTANDING = "outstanding"
    WATCHING = "watching"
    ACKNOWLEDGED = "acknowledged"
    WAIVED = "waived"


class DebateOp(StrEnum):
    """An operation of an agent in the debate about an item."""

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
    """One operation in the debate about item `number`.

    In a transaction a negative `number` is a place among its drafts, -1 for the first. `version` is the version that
    the agent means (acknowledge, vote, decide, confirm); `None` is the present one. `watchers` belong to OPEN,
    `approve` to VOTE, `outcome` to DECIDE and CONFIRM. `to` belongs to CONCEDE and DECIDE: the number or place of the
    item that replaces the debated one. `deciders` are the agents that may DECIDE; if none are named, every agent that
    is no party may.
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
    """The obligation of `agent` on item number `item`; `debate` is the debate in which it arose, if any."""

    agent: str
    item: int
    duty: Duty
    state: ObligationState
    debate: int | None
    reason: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Vote:
    """A vote that `agent` gave for `owner` on one version of the debated item; a later vote replaces it."""

    owner: str
    agent: str
    version: int
    approve: bool
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Tally:
    """The votes that count: one for each owner, on the present `version`, without those of `author` and `writers`.

    `author` is the owner of the author under criticism, `writers` are owners of others who wrote the present version.
    `quorum` owners on one side close the debate; 0: votes close none. Owners are in the order in which they voted.
    """

    quorum: int
    version: int
    author: str
    approving: tuple[str, ...] = ()
    rejecting: tuple[str, ...] = ()
    writers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision that the agent could not make alone; a later decision of its owner replaces it.

    It is about one version of the item. It takes effect once another owner, not the author's, confirms it or decides
    the same. `to` is the number of the item that replaces the debated one; 0: none does.
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
    """A topic that an agent watches: debates that later open on matching items oblige it."""

    topic: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Debate:
    """A debate: `id` is the sequence of the event that opened it, `root` the number of the item debated.

    `outcome` is empty while it is open. `gave_way_to` is the number of the item that replaced the root, or 0.
    `closed_by` made the final decision, and `confirmed_by` confirmed it, if anyone did; `decisions` still wait for
    confirmation. `votes` are all that stand, by owner, those on former versions included. `answers` pairs each
    answered critique with the newest answer of the criticised side. `unanswered` are critiques neither answered nor
    withdrawn; without any of these, the watchers can judge.
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
    def conceded(self) -> bool:
        """True if the criticised side conceded."""
        return self.state is DebateState.CONSENSUS and self.reason.startswith(CONCEDED)

    @property
    def grounds(self) -> str:
        """The reason that an agent gave; empty if it gave none."""
        return self.reason.removeprefix(CONCEDED).removeprefix(": ") if self.conceded else self.reason

    @property
    def outstanding(self) -> tuple[Obligation, ...]:
        """The obligations that are due now."""
        return tuple(o for o in self.obligations if o.state is ObligationState.OUTSTANDING)
