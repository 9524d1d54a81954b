"""Structured results about debates, and about topics that an agent watches; see `wire`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from pydantic import Field

from .debates import Debate, Tally
from .items import Item
from .wire import OneOf, Wire, no_entries


class WireObligation(Wire):
    agent: str
    item: str
    duty: str = Field(description="acknowledge, respond or confirm")
    state: str = Field(
        description="outstanding (due now), watching (due once all critiques are answered), acknowledged or waived"
    )
    reason: str


class WireVote(Wire):
    owner: str = Field(description="who counts: the owner of the agent that voted")
    agent: str
    approve: bool
    version: int = Field(description="of the item; votes on former versions do not count")
    reason: str


class WireDecision(Wire):
    owner: str
    agent: str
    outcome: str
    gave_way_to: str | None
    reason: str


class DebateAnswer(Wire):
    """The newest debate about an item; `state` is `None` when there never was one.

    `quorum` to `closes` are those of the tool's answers, not of the list of a board's debates.
    """

    item: str
    state: str | None
    root: str | None = None
    critiques: list[str] = Field(default_factory=no_entries)
    answers: dict[str, str] = Field(default_factory=dict, description="the newest answer to each critique")
    unanswered: list[str] = Field(default_factory=no_entries, description="critiques that wait for an answer")
    opened_by: str | None = None
    opened_at: datetime | None = None
    closed_by: str | None = None
    closed_at: datetime | None = None
    reason: str = ""
    outcome: str = Field(
        default="",
        description="what became of the item: stands, falls, amended, or open (ended without an answer)",
    )
    gave_way_to: str | None = Field(default=None, description="the item that took its place")
    confirmed_by: str = Field(default="", description="who confirmed the decision of closed_by")
    decisions: list[WireDecision] = Field(
        default_factory=no_entries, description="decisions that wait until another owner confirms one"
    )
    obligations: list[WireObligation] = Field(default_factory=no_entries)
    outstanding: list[WireObligation] = Field(default_factory=no_entries)
    votes: list[WireVote] = Field(default_factory=no_entries)
    quorum: int | None = Field(default=None, description="votes on one side that close it; 0: votes do not")
    votes_for: list[str] = Field(default_factory=no_entries, description="owners whose votes count")
    votes_against: list[str] = Field(default_factory=no_entries)
    author_owner: str | None = Field(default=None, description="its vote does not count")
    closes: str = Field(default="", description="what would close it")
    last_seen: dict[str, datetime] = Field(
        default_factory=dict, description="of `status`: when those who are awaited made their last calls"
    )
    seen_by_author: dict[str, bool] = Field(
        default_factory=dict,
        description="of `status`: whether the author of the debated item was shown each open critique",
    )
    newer: list[str] = Field(
        default_factory=no_entries,
        description="of `agree`: the last revisions of files that the item names by a former one (`plan.md rev 7`)",
    )
    seq: int


class WatchesAnswer(Wire):
    """What the caller watches by topic, longest first."""

    watches: list[str]
    seq: int


class DebateResult(OneOf[DebateAnswer | WatchesAnswer]):
    """What `debate` answers: the debate about an item, or the topics that are watched."""


def wire_debate(
    item: str,
    debate: Debate,
    items: dict[int, Item],
    seq: int,
    *,
    tally: Tally | None = None,
    closes: str = "",
    last_seen: Mapping[str, datetime] | None = None,
    seen_by_author: Mapping[str, bool] | None = None,
    newer: Sequence[str] = (),
) -> DebateAnswer:
    """Returns a debate as structured results show it.

    `item` is the id of the item that was asked about. `items` maps numbers to those items of the debate that the
    reader may see. `closes` says what would close the debate.
    """

    def name(number: int) -> str:
        return items[number].id if number in items else str(number)

    owed = [
        WireObligation(
            agent=o.agent, item=name(o.item), duty=str(o.duty), state=str(o.state), reason=o.reason
        )
        for o in debate.obligations
    ]
    return DebateAnswer(
        item=item,
        state=str(debate.state),
        root=name(debate.root),
        critiques=[name(c) for c in debate.critiques],
        answers={name(critique): name(answer) for critique, answer in debate.answers},
        unanswered=[name(c) for c in debate.unanswered],
        opened_by=debate.opened_by,
        opened_at=debate.opened_at,
        closed_by=debate.closed_by,
        closed_at=debate.closed_at,
        reason=debate.reason,
        outcome=str(debate.outcome),
        gave_way_to=name(debate.gave_way_to) if debate.gave_way_to else None,
        confirmed_by=debate.confirmed_by,
        decisions=[
            WireDecision(
                owner=d.owner,
                agent=d.agent,
                outcome=str(d.outcome),
                gave_way_to=name(d.to) if d.to else None,
                reason=d.reason,
            )
            for d in debate.decisions
        ],
        obligations=owed,
        outstanding=[o for o in owed if o.state == "outstanding"],
        votes=[
            WireVote(owner=v.owner, agent=v.agent, approve=v.approve, version=v.version, reason=v.reason)
            for v in debate.votes
        ],
        quorum=None if tally is None else tally.quorum,
        votes_for=[] if tally is None else list(tally.approving),
        votes_against=[] if tally is None else list(tally.rejecting),
        author_owner=None if tally is None else tally.author,
        closes=closes,
        last_seen=dict(last_seen or {}),
        seen_by_author=dict(seen_by_author or {}),
        newer=list(newer),
        seq=seq,
    )
