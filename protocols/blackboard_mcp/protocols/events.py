"""Events: one log per board, numbered 1, 2, 3 … without gaps, written in the transaction of the change.

Only a board that was restored from a copy has a gap: `board.restored` names in `after` the number before it.

Events are small: they name what changed, with the values before and after, but hold no texts.
"""

from __future__ import annotations

from dataclasses import field
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any

from .items import ItemType
from .names import SYSTEM as SYSTEM
from .values import dataclass
from .visibility import Viewer


class EventType(StrEnum):
    """The type of an event."""

    __hash__ = str.__hash__

    BOARD_CREATED = "board.created"
    BOARD_CHANGED = "board.changed"
    BOARD_RESTORED = "board.restored"
    CORE_CHANGED = "core.changed"
    MEMBER_CHANGED = "member.changed"
    ITEM_POSTED = "item.posted"
    ITEM_VERSIONED = "item.versioned"
    ITEM_CHANGED = "item.changed"
    ITEM_DELETED = "item.deleted"
    ITEM_SUPERSEDED = "item.superseded"
    ITEM_ARCHIVED = "item.archived"
    ITEM_EXPIRED = "item.expired"
    ITEM_RESTORED = "item.restored"
    ITEM_FORGOTTEN = "item.forgotten"
    ITEM_ENDORSED = "item.endorsed"
    ITEM_DOUBTED = "item.doubted"
    CLAIM_AGREED = "claim.agreed"
    AGREEMENT_ASKED = "agreement.asked"
    AGREEMENT_REACHED = "agreement.reached"
    DEBATE_OPENED = "debate.opened"
    DEBATE_JOINED = "debate.joined"
    DEBATE_CLOSED = "debate.closed"
    DEBATE_VOTED = "debate.voted"
    DEBATE_PENDING = "debate.pending"
    OBLIGATION_ADDED = "obligation.added"
    OBLIGATION_MET = "obligation.met"
    AGREEMENT_GIVEN = "agreement.given"
    OBLIGATION_WAIVED = "obligation.waived"
    SUMMARY_REQUESTED = "summary.requested"
    SUMMARY_TAKEN = "summary.taken"
    SUMMARY_CLOSED = "summary.closed"
    REQUEST_OPENED = "request.opened"
    REQUEST_TAKEN = "request.taken"
    REQUEST_RELEASED = "request.released"
    REQUEST_ANSWERED = "request.answered"
    REQUEST_DECLINED = "request.declined"
    REQUEST_CANCELLED = "request.cancelled"
    REQUEST_EXPIRED = "request.expired"
    SKILL_OFFERED = "skill.offered"
    SKILL_ENDED = "skill.ended"
    WATCH_BEGAN = "watch.began"
    WATCH_ENDED = "watch.ended"
    PASS_ENDED = "prune.ended"
    PRESSURE = "board.pressure"
    GROUP_CREATED = "group.created"
    GROUP_CHANGED = "group.changed"
    GROUP_ENDED = "group.ended"
    DELIVERY_DEAD = "delivery.dead"
    DELIVERY_RETRIED = "delivery.retried"
    DELIVERY_DROPPED = "delivery.dropped"
    AGENT_JOINED = "agent.joined"
    AGENT_CHANGED = "agent.changed"
    AGENT_LEFT = "agent.left"
    PLAN_ADDED = "plan.added"
    PLAN_CHANGED = "plan.changed"
    PLAN_CANCELLED = "plan.cancelled"
    PLAN_TRIGGERED = "plan.triggered"
    PLAN_BUDGET = "plan.budget"
    STAGE_DEFINED = "stage.defined"
    STAGE_MOVED = "stage.moved"
    CLAIM_TAKEN = "claim.taken"
    CLAIM_EXTENDED = "claim.extended"
    CLAIM_WAITING = "claim.waiting"
    CLAIM_RESUMED = "claim.resumed"
    CLAIM_RELEASED = "claim.released"
    CLAIM_LAPSED = "claim.lapsed"
    CLAIM_DONE = "claim.done"
    CLAIM_FAILED = "claim.failed"
    CLAIM_VERIFIED = "claim.verified"
    CLAIM_REJECTED = "claim.rejected"
    RUN_STARTED = "run.started"
    TURN_GIVEN = "turn.given"
    TURN_ENDED = "turn.ended"
    TURN_LAPSED = "turn.lapsed"
    TURN_OFFERED = "turn.offered"
    DECISION_MADE = "decision.made"
    RUN_NO_CONTRIBUTOR = "run.no_contributor"
    RUN_UNKNOWN_AGENT = "run.unknown_agent"
    RUN_OPENED = "run.opened"
    RUN_STALLED = "run.stalled"
    BUDGET_BLOCKED = "budget.blocked"
    RUN_SETTLED = "run.settled"
    RUN_STOPPED = "run.stopped"
    RUN_FINISHED = "run.finished"
    ARTIFACT_WRITTEN = "artifact.written"


OF_CONTROL = frozenset(
    event
    for event in EventType
    if event.startswith(("agent.", "plan.", "stage.", "claim.", "run.", "turn.", "decision.", "budget."))
    and event is not EventType.CLAIM_AGREED
)
"""Types of events about who takes part, tasks and runs. Their data names task or run by id."""

WITHOUT_ITEM = frozenset(
    {
        EventType.BOARD_CREATED,
        EventType.BOARD_CHANGED,
        EventType.BOARD_RESTORED,
        EventType.CORE_CHANGED,
        EventType.MEMBER_CHANGED,
        EventType.PASS_ENDED,
        EventType.WATCH_BEGAN,
        EventType.WATCH_ENDED,
        EventType.GROUP_CREATED,
        EventType.GROUP_CHANGED,
        EventType.GROUP_ENDED,
        EventType.DELIVERY_RETRIED,
        EventType.DELIVERY_DROPPED,
        EventType.ARTIFACT_WRITTEN,
        *OF_CONTROL,
    }
)
"""Types of events that are about no item."""

OF_GROUPS = frozenset(event for event in EventType if event.startswith(("group.", "delivery.")))
"""Types of events about consumer groups. A group never gets its own events; it gets other groups' if its filter asks.
"""

QUIET = frozenset(
    {
        EventType.BOARD_CREATED,
        EventType.ITEM_FORGOTTEN,
        EventType.OBLIGATION_ADDED,
        EventType.OBLIGATION_MET,
        EventType.PASS_ENDED,
        EventType.PRESSURE,
        EventType.SKILL_OFFERED,
        EventType.SKILL_ENDED,
        EventType.SUMMARY_REQUESTED,
        EventType.SUMMARY_TAKEN,
        EventType.SUMMARY_CLOSED,
        EventType.WATCH_BEGAN,
        EventType.WATCH_ENDED,
        *(OF_GROUPS - {EventType.DELIVERY_DEAD}),
        EventType.AGENT_CHANGED,
        EventType.CLAIM_EXTENDED,
        EventType.TURN_OFFERED,
    }
)
"""Types of events that are bookkeeping, and news to nobody."""

APART = frozenset(
    {
        EventType.AGREEMENT_GIVEN,
        EventType.DELIVERY_DEAD,
        EventType.ITEM_ARCHIVED,
        EventType.ITEM_EXPIRED,
        EventType.MEMBER_CHANGED,
        EventType.OBLIGATION_WAIVED,
        EventType.PLAN_CHANGED,
        EventType.CLAIM_TAKEN,
        EventType.CLAIM_WAITING,
        EventType.CLAIM_RESUMED,
        EventType.CLAIM_RELEASED,
        EventType.CLAIM_LAPSED,
        EventType.CLAIM_VERIFIED,
        EventType.TURN_GIVEN,
        EventType.TURN_ENDED,
        EventType.TURN_LAPSED,
        EventType.DECISION_MADE,
        EventType.RUN_NO_CONTRIBUTOR,
        EventType.RUN_UNKNOWN_AGENT,
        *(event for event in EventType if event.startswith("request.")),
    }
)
"""Types of events that are news only to the agents they concern, like posts made to somebody by a request."""

BEGUN = frozenset({EventType.ITEM_POSTED, EventType.ITEM_VERSIONED, EventType.REQUEST_OPENED})
"""Events that are shown with the beginning of the version that they are about."""
LEFT = frozenset({EventType.ITEM_ARCHIVED, EventType.ITEM_EXPIRED, EventType.ITEM_SUPERSEDED})
"""Types of events by which items leave working memory without anybody's request."""


@dataclass(frozen=True, slots=True)
class Event:
    """One change of a board. `agent` caused it (`system` for the server); `data` holds a few facts about it.

    `owner` is the mark of the item it is about (see `visibility`); `None` means that everybody may see the event.
    `type`, `tags` and `metadata` are those of the item as the event left it. Of metadata whose JSON has more than 500
    characters, the event has only their number (`characters`) and the `sha256`.
    """

    seq: int
    event: EventType
    item: str | None
    key: str | None
    version: int | None
    agent: str
    tags: tuple[str, ...]
    at: datetime
    data: dict[str, Any] = field(default_factory=dict)
    owner: str | None = None
    type: ItemType | None = None
    thread: int | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    concerns: tuple[str, ...] = ()
    """Agents that it concerns: those named with @, authors of items that got an answer, and those who owe something.
    """

    @property
    def number(self) -> int | None:
        """The number of the item that it is about."""
        return None if self.item is None else _number_of(self.item)

    def visible_to(self, viewer: Viewer) -> bool:
        """Tells whether the viewer may see the event; every reader of a whole log must ask this."""
        return self.owner is None or viewer.sees(self.owner)

    def is_news_to(self, agent: str) -> bool:
        """Tells whether the agent has to be shown the event, if it may see it.

        Its own acts, bookkeeping, and events that concern only other agents are not news to it. SQL statements on the
        log use the same rule.
        """
        if self.agent == agent or self.event in QUIET:
            return False
        return (self.event not in APART and "to" not in self.data) or agent in self.concerns


@lru_cache(maxsize=8_192)
def _number_of(item: str) -> int:
    """Returns the number in an id; an answer asks for those of each of its events several times."""
    return int(item.rpartition("-")[2])
