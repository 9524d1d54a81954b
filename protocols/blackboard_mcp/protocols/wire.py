"""Structured results as clients read them: the same facts as the text, in documented models.

A tool answers with one of these when the request's `_meta` has `"blackboard/structured": true`, and
always under `--structured always`. Instants are ISO 8601 in UTC. An error is `Failure`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, RootModel

from .answers import (
    Subscription,
)
from .asking import AgentRequest
from .debates import Debate, Tally
from .events import Event
from .items import MAX_CITED, Item
from .summaries import SummaryRequest
from .version_wire import WireVersions, status_of

T = TypeVar("T")


def _no_entries() -> list[Any]:
    """Returns what `list` returns. Pydantic reads a factory's signature, which takes 20 ms where it is a builtin's."""
    return []


class _Wire(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class OneOf(RootModel[T], Generic[T]):
    """An answer of one of several models."""

    model_config = ConfigDict(defer_build=True)


class WireRetraction(_Wire):
    """Something an item rests on that is no longer stood by."""

    id: str
    status: str = Field(description="WITHDRAWN, INVALIDATED, SUPERSEDED or DELETED")
    kind: str = Field(description="kind of edge by which the item rests on via")
    via: str = Field(description="the id itself, or the item in between that rests on it")
    by: str | None = Field(default=None, description="what superseded it")


class WireForgotten(_Wire):
    """When a content was removed for good, by whose decision and why."""

    at: datetime
    by: str
    why: str


class WireContest(_Wire):
    """What supersedes or refutes an item; of another author's it is a claim until that author or a debate agrees."""

    kind: str = Field(description="supersedes or refutes")
    by: str = Field(description="id of what says so")
    author: str
    agreed: bool


class WireAgreement(_Wire):
    """How agreement to an item fares that its author asked for."""

    agreed: list[str]
    waiting: list[str]
    away: list[str] = Field(description="asked, and let off for being away")
    enough: int = Field(description="how many owners suffice; 0: all who were asked")
    reached: bool


class WireItem(_Wire):
    """An item with the content of one version."""

    id: str = Field(description="letter of the type and board-wide number, say H-17")
    number: int
    key: str | None
    version: int
    type: str
    status: str = Field(
        description="DELETED where this version is a tombstone, FORGOTTEN where its content is gone"
    )
    zone: str = Field(description="core, working or archive")
    importance: int = Field(description="1 to 5")
    author: str
    text: str
    tags: list[str]
    edges: dict[str, list[str]] = Field(description="kind of edge to the ids it leads to")
    metadata: dict[str, Any]
    tokens: int
    created_at: datetime
    updated_at: datetime
    updated_by: str
    sha256: str = Field(description="of the text's UTF-8 bytes, hexadecimal")
    thread: str = Field(description="id of the item the conversation began with")
    debate: str | None = Field(description="state of the newest debate about it: OPEN, CONSENSUS, …")
    outcome: str = Field(default="", description="what that made of it: stands, falls, amended, open")
    gave_way_to: str = Field(default="", description="the item that took its place there")
    cited_by: dict[str, list[str]] = Field(
        description="kind of edge to the ids it comes from, the first 1,000 of them"
    )
    visibility: str
    expires_at: datetime | None
    seq: int = Field(description="event of its last change")
    supporters: list[str] = Field(
        default_factory=_no_entries,
        description="agents, one of each owner other than the author's; at most 32",
    )
    opponents: list[str] = Field(default_factory=_no_entries, description="counted alike; at most 32")
    support: int = Field(default=0, description="owners that support it")
    opposition: int = Field(default=0, description="owners that refute or criticise it")
    retracted: list[WireRetraction] = Field(
        default_factory=_no_entries, description="what it rests on that was retracted; at most 32"
    )
    deleted: bool = Field(default=False, description="it has no content: a tombstone, or forgotten")
    forgotten: WireForgotten | None = Field(
        default=None, description="how an operator had its content removed; the sha256 stays"
    )
    trust: str = Field(
        default="normal", description="low, normal or high; of a summary the lowest of its sources"
    )
    contested: list[WireContest] = Field(
        default_factory=_no_entries, description="what supersedes or refutes it, at most 32"
    )
    superseded_by: str | None = Field(default=None, description="the newest that is agreed to supersede it")
    former: int = Field(default=0, description="how many items of its author it replaced one after the other")
    fell: list[str] = Field(
        default_factory=_no_entries, description="what it cites that was withdrawn or invalidated"
    )
    agreement: WireAgreement | None = Field(default=None, description="where its author asked for it")
    undecided: bool = Field(default=False, description="a DECISION by no decider, where deciders are named")
    adopted_in: str | None = Field(default=None, description="the plan that took this reply over")


_LISTED = 32


def wire_item(item: Item) -> WireItem:
    """Returns an item as structured results show it."""
    cites: dict[str, list[str]] = {}
    for kind, id_ in item.cites:
        cites.setdefault(str(kind), []).append(id_)
    cited_by: dict[str, list[str]] = {}
    for kind, id_ in item.cited_by[:MAX_CITED]:
        cited_by.setdefault(str(kind), []).append(id_)
    return WireItem(
        id=item.id,
        number=item.number,
        key=item.key,
        version=item.version,
        type=str(item.type),
        status=status_of(item.status, deleted=item.deleted, forgotten=item.forgotten is not None),
        zone=str(item.zone),
        importance=item.importance,
        author=item.author,
        text=item.text,
        tags=list(item.tags),
        edges=cites,
        metadata=item.metadata,
        tokens=item.tokens,
        created_at=item.created_at,
        updated_at=item.updated_at,
        updated_by=item.updated_by,
        sha256=item.sha256,
        thread=item.thread_id,
        debate=item.debate,
        outcome=item.outcome,
        gave_way_to=item.gave_way_to,
        cited_by=cited_by,
        visibility=str(item.visibility),
        expires_at=item.expires_at,
        seq=item.seq,
        supporters=list(item.supporters[:_LISTED]),
        opponents=list(item.opponents[:_LISTED]),
        support=len(item.supporters),
        opposition=len(item.opponents),
        retracted=[
            WireRetraction(id=r.id, status=r.status, kind=str(r.kind), via=r.via, by=r.by)
            for r in item.retracted[:_LISTED]
        ],
        deleted=item.deleted,
        forgotten=None
        if item.forgotten is None
        else WireForgotten(at=item.forgotten.at, by=item.forgotten.by, why=item.forgotten.why),
        trust=str(item.trust),
        contested=[
            WireContest(kind=str(c.kind), by=c.by, author=c.author, agreed=c.agreed)
            for c in item.contested[:_LISTED]
        ],
        superseded_by=item.replaced_by,
        former=item.former,
        fell=list(item.fell),
        agreement=None
        if item.agreement is None
        else WireAgreement(
            agreed=list(item.agreement.agreed),
            waiting=list(item.agreement.waiting),
            away=list(item.agreement.away),
            enough=item.agreement.enough,
            reached=item.agreement.reached,
        ),
        undecided=item.undecided,
        adopted_in=item.adopted_in,
    )


class WireEvent(_Wire):
    """One line of the board's log."""

    seq: int
    event: str
    item: str | None
    key: str | None
    version: int | None
    agent: str
    tags: list[str]
    at: datetime
    data: dict[str, Any] = Field(
        description="a few words on the change, never a body; `was` and `now` have the values that changed"
    )
    type: str | None = Field(default=None, description="the item's type")
    metadata: dict[str, Any] = Field(
        default_factory=dict,
        description="the item's, as the event left it; of more than 500 characters of JSON their number "
        "(`characters`) and the `sha256`",
    )


def wire_event(event: Event) -> WireEvent:
    """Returns an event as structured results show it."""
    data = event.data
    if isinstance(status := data.get("status"), list) and len(status) == 2:
        was, now = (
            {**data.get(name, {}), "status": one} for name, one in zip(("was", "now"), status, strict=True)
        )
        data = {**data, "was": was, "now": now}
    return WireEvent(
        seq=event.seq,
        event=str(event.event),
        item=event.item,
        key=event.key,
        version=event.version,
        agent=event.agent,
        tags=list(event.tags),
        at=event.at,
        data=data,
        type=None if event.type is None else str(event.type),
        metadata=event.metadata,
    )


class WireRemark(_Wire):
    """What the board remarks on a post; nothing is refused for it."""

    id: str = Field(description="what was posted")
    kind: str = Field(
        description="same (posted before by the caller, not stored again), criticised (open critiques of what it "
        "criticises), over (what it criticises or replies to fell before), fallen (says the same and was withdrawn or "
        "invalidated), close (says about the same and was withdrawn or invalidated), numbers (says the same but for "
        "numbers), claim (supersedes or refutes what others wrote), "
        "near (posts of the call that nearly repeat it), asks (a question that waits for the agents in `fields`), "
        "unasked (a question that begins with the name in `fields` and does not ask that agent), "
        "answers (the question or critique that it replies to, and for whom that waits still), solves (open "
        "problems that the decision is about), unseen (others "
        "wrote them on the same matter, and the caller was not shown them)"
    )
    about: list[str] = Field(description="ids, oldest first")
    more: int = Field(default=0, description="how many are not listed")
    fields: list[str] = Field(
        default_factory=_no_entries,
        description="fields of a repeated post that differ and were left as they are; of asks and answers the agents",
    )


class PostAnswer(_Wire):
    items: list[WireItem]
    seq: int
    repeated: bool = Field(default=False, description="the idempotency key had been used")
    endorsed: list[str] = Field(
        default_factory=_no_entries, description="ids that were there already and got this post as support"
    )
    remarks: list[WireRemark] = Field(default_factory=_no_entries)
    cut: bool = Field(
        default=False,
        description="texts and metadata are left out, for the answer would have more than 1 MiB; read has them",
    )


class WireDebated(_Wire):
    """What became of the debate about an item."""

    id: str
    state: str | None = Field(description="OPEN, CONSENSUS, …; null where there never was a debate")


class TransactionAnswer(_Wire):
    """What a transaction did. A conflict has `moved`: each name that moved, with its version (0: absent) or the
    sequence of its last change, and `seq`, the board's sequence."""

    items: list[WireItem] = Field(description="of the writes, in order, as they stand after it")
    debates: list[WireDebated] = Field(description="in the order asked")
    acknowledged: list[str] = Field(
        default_factory=_no_entries, description="handles of events, as `consume` gave them"
    )
    seq: int = Field(description="its place in the order of the board's transactions")
    repeated: bool = Field(default=False, description="the idempotency key had been used")
    endorsed: list[str] = Field(
        default_factory=_no_entries, description="ids that were there already and got a write as support"
    )
    remarks: list[WireRemark] = Field(default_factory=_no_entries)
    cut: bool = Field(
        default=False,
        description="texts and metadata are left out, for the answer would have more than 1 MiB; read has them",
    )


class ViewAnswer(_Wire):
    view: str
    tokens: int
    seq: int
    shown: list[str] = Field(description="ids shown with text")
    stubs: list[str] = Field(description="ids shown as one-line stubs")
    hidden: int = Field(description="items of working memory left out")


class ItemsAnswer(_Wire):
    """A page of items. `cursor` continues a query; `None` at its end."""

    items: list[WireItem]
    cursor: str | None = None
    seq: int
    missing: list[str] = Field(
        default_factory=_no_entries, description="ids and keys that name nothing visible"
    )
    versions: list[WireVersions] = Field(
        default_factory=_no_entries, description="for what was read with `@*`"
    )


class WireNeighbour(_Wire):
    """An item beside a hit in its thread, itself not among the hits."""

    of: str = Field(description="id of the hit")
    place: str = Field(description="before or after")
    item: WireItem


class SearchAnswer(ItemsAnswer):
    """Items found in the archive, best first."""

    mode: str = Field(
        description="what answered: hybrid, lexical, listing or exact; or repeated, when its idempotency key was"
    )
    notice: str = ""
    left: dict[str, str] = Field(default_factory=dict, description="id to why it left working memory")
    excerpts: dict[str, str] = Field(
        default_factory=dict, description="id to the part of a long text that answers the query"
    )
    neighbours: list[WireNeighbour] = Field(
        default_factory=_no_entries, description="what stands around the hits in their threads"
    )
    held: dict[str, list[int]] = Field(
        default_factory=dict, description="id to how many of the words it holds, of how many"
    )
    live: list[WireItem] = Field(
        default_factory=_no_entries,
        description="items on the board that hold half of the words, the best few",
    )
    cut: bool = Field(
        default=False,
        description="texts and metadata are left out, for the answer would have more than 1 MiB; read has them",
    )


class EventsAnswer(_Wire):
    """Events in order; `cursor` is where to go on, as `since`."""

    events: list[WireEvent]
    cursor: int
    seq: int
    subscription: str | None = None


class SubscriptionAnswer(_Wire):
    id: str
    subscription: str = Field(description="the same id")
    name: str
    filter: dict[str, Any]
    cursor: int
    seq: int


def wire_subscription(held: Subscription, seq: int) -> SubscriptionAnswer:
    """Returns a subscription and the board's sequence as structured results show them."""
    return SubscriptionAnswer(
        id=held.id, subscription=held.id, name=held.name, filter=held.filter, cursor=held.cursor, seq=seq
    )


class SubscriptionsAnswer(_Wire):
    subscriptions: list[SubscriptionAnswer]
    seq: int
    ended: str | None = None
    expired: list[SubscriptionAnswer] = Field(
        default=[], description="unused for too long; wait(since=cursor) goes on from where one stood"
    )


def wire_subscriptions(
    held: Sequence[Subscription], seq: int, ended: str | None = None
) -> SubscriptionsAnswer:
    """Returns an agent's subscriptions as structured results show them; `ended` is the one that was just ended."""
    return SubscriptionsAnswer(
        subscriptions=[wire_subscription(s, seq) for s in held if s.expired_at is None],
        seq=seq,
        ended=ended,
        expired=[wire_subscription(s, seq) for s in held if s.expired_at is not None],
    )


class WireChainLink(_Wire):
    source: str
    kind: str
    target: str


class WireWait(_Wire):
    agent: str
    duty: str = Field(description="acknowledge or answer")


class WireLeft(_Wire):
    """How an item left working memory."""

    seq: int
    at: datetime
    event: str
    of_pass: int | None = Field(description="the pass: its first sequence; `None` when no pass took it")
    step: int | None
    why: str


class WireSighting(_Wire):
    """The first and the last time that an agent was shown an item, and in which kind of answer."""

    agent: str
    first_at: datetime
    first_way: str
    last_at: datetime
    last_way: str


class WireExplanation(_Wire):
    """What protects an item, or what would take it and when, or why it left."""

    id: str
    zone: str
    protected: bool
    reason: str | None
    chain: list[WireChainLink] = Field(description="edges from what is debated to the item, in order")
    omitted: int = Field(description="edges of the chain that are not listed, before the first")
    debate: str | None = Field(description="the item whose open debate holds it")
    waits_for: list[WireWait]
    step: int | None = Field(description="step of a pass that would take it, 1 to 4")
    takes: str | None = Field(description="expired, resolved, logs, threads or importance")
    items_before: int | None = Field(
        description="visible items that go before it, as far as they were counted"
    )
    tokens_before: int | None
    next_pass: bool | None = Field(description="whether the next pass gets as far as this")
    expires_at: datetime | None
    left: WireLeft | None
    restore: str | None = Field(description="the call that brings an archived item back")
    says: list[str] = Field(description="the same in words")
    seen: list[WireSighting] = Field(
        default_factory=_no_entries, description="who else was shown it, the last first"
    )
    never_seen_by: list[str] = Field(
        default_factory=_no_entries, description="agents of the board that were never shown it"
    )


class ExplainAnswer(_Wire):
    """Explanations in the order asked; token figures are of what the caller may see."""

    explanations: list[WireExplanation]
    missing: list[str]
    working_tokens: int
    high_tokens: int
    low_tokens: int
    tokens_to_go: int = Field(description="until a pass comes by itself; 0 when one is due")
    seq: int


class ReadAnswer(OneOf[ViewAnswer | ItemsAnswer | EventsAnswer | ExplainAnswer]):
    """What `read` answers: the view, items, changes since a sequence, or explanations."""


class SubscribeAnswer(OneOf[SubscriptionAnswer | SubscriptionsAnswer]):
    """What `subscribe` answers: the new subscription, or those held."""


class WireObligation(_Wire):
    agent: str
    item: str
    duty: str = Field(description="acknowledge, respond or confirm")
    state: str = Field(
        description="outstanding (due now), watching (due once all critiques are answered), acknowledged or waived"
    )
    reason: str


class WireVote(_Wire):
    owner: str = Field(description="who counts: the owner of the agent that voted")
    agent: str
    approve: bool
    version: int = Field(description="of the item; votes on former versions do not count")
    reason: str


class WireDecision(_Wire):
    owner: str
    agent: str
    outcome: str
    gave_way_to: str | None
    reason: str


class DebateAnswer(_Wire):
    """The newest debate about an item; `state` is `None` when there never was one.

    `quorum` to `closes` are those of the tool's answers, not of the list of a board's debates.
    """

    item: str
    state: str | None
    root: str | None = None
    critiques: list[str] = Field(default_factory=_no_entries)
    answers: dict[str, str] = Field(default_factory=dict, description="the newest answer to each critique")
    unanswered: list[str] = Field(
        default_factory=_no_entries, description="critiques that wait for an answer"
    )
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
        default_factory=_no_entries, description="decisions that wait until another owner confirms one"
    )
    obligations: list[WireObligation] = Field(default_factory=_no_entries)
    outstanding: list[WireObligation] = Field(default_factory=_no_entries)
    votes: list[WireVote] = Field(default_factory=_no_entries)
    quorum: int | None = Field(default=None, description="votes on one side that close it; 0: votes do not")
    votes_for: list[str] = Field(default_factory=_no_entries, description="owners whose votes count")
    votes_against: list[str] = Field(default_factory=_no_entries)
    author_owner: str | None = Field(default=None, description="its vote does not count")
    closes: str = Field(default="", description="what would close it")
    last_seen: dict[str, datetime] = Field(
        default_factory=dict, description="of `status`: when those who are awaited made their last calls"
    )
    seen_by_author: dict[str, bool] = Field(
        default_factory=dict,
        description="of `status`: whether the author of the debated item was shown each open critique",
    )
    seq: int


class WatchesAnswer(_Wire):
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
        seq=seq,
    )


class WireSummaryRequest(_Wire):
    """A finished thread that an agent is asked to summarise."""

    thread: str
    sources: list[str]
    tokens: int = Field(description="of the sources")
    opened_at: datetime
    due_at: datetime = Field(description="then the server writes it without a model")
    holder: str | None
    held_until: datetime | None


def wire_summary_request(request: SummaryRequest) -> WireSummaryRequest:
    """Returns a request for a summary as structured results show it."""
    return WireSummaryRequest(
        thread=request.name,
        sources=list(request.sources),
        tokens=request.tokens,
        opened_at=request.opened_at,
        due_at=request.due_at,
        holder=request.holder,
        held_until=request.held_until,
    )


class WireSource(_Wire):
    id: str
    type: str
    author: str
    text: str
    whole: bool = Field(description="false: the start and the end; read has it all")


class SummaryRequestsAnswer(_Wire):
    requests: list[WireSummaryRequest]
    seq: int


class SummaryTakenAnswer(_Wire):
    """A request that is the caller's until `held_until`."""

    request: WireSummaryRequest
    lease: int
    rules: list[str]
    limit_tokens: int
    sources: list[WireSource]
    seq: int


class SummaryWrittenAnswer(_Wire):
    item: WireItem
    seq: int


class SummaryOnRequestAnswer(_Wire):
    """A summary for the caller alone; `summary` is null when there is too little for one."""

    summary: str | None
    covered: list[str]
    debated: list[str] = Field(description="left out: a debate about them is open")
    seq: int


class SummarizeAnswer(
    OneOf[SummaryRequestsAnswer | SummaryTakenAnswer | SummaryWrittenAnswer | SummaryOnRequestAnswer]
):
    """What `summarize` answers: what is asked for, taken or written, or a summary on request."""


class WireRequest(_Wire):
    """A request from agent to agent."""

    id: str = Field(description="of its QUESTION")
    asker: str
    to: str | None = Field(description="the agent it is to, unless it is by skill")
    skill: str | None
    state: str = Field(description="OPEN, TAKEN, ANSWERED, DECLINED, CANCELLED or EXPIRED")
    opened_at: datetime
    deadline: datetime
    holder: str | None
    held_until: datetime | None
    lease: int = Field(description="of the last taking; 0: never taken")
    parts: int = Field(description="of the answer so far")
    partial: str | None = Field(description="id of what there is of the answer")
    answer: str | None = Field(description="id of the ANSWER")
    reason: str
    ended_by: str | None
    ended_at: datetime | None
    declined: list[str]
    offering: int = Field(description="others who offer the skill now; by name 1 if it was ever there")


def wire_request(request: AgentRequest) -> WireRequest:
    """Returns a request from agent to agent as structured results show it."""
    return WireRequest(
        id=request.id,
        asker=request.asker,
        to=request.to or None,
        skill=request.skill or None,
        state=str(request.state),
        opened_at=request.opened_at,
        deadline=request.deadline,
        holder=request.holder,
        held_until=request.held_until,
        lease=request.lease,
        parts=request.parts,
        partial=request.partial,
        answer=request.answer,
        reason=request.reason,
        ended_by=request.ended_by,
        ended_at=request.ended_at,
        declined=list(request.declined),
        offering=request.offering,
    )


class RequestAnswer(_Wire):
    """How a request stands. `answer` is what there is of the answer, whole once the state says so."""

    request: WireRequest
    question: WireItem
    answer: WireItem | None
    seq: int


class WaitingAnswer(_Wire):
    """What waits for the caller's answer, what it asked that is open, and skills by name with who offers them."""

    waiting: list[WireRequest]
    asked: list[WireRequest]
    skills: dict[str, list[str]]
    seq: int


class ProtocolsAnswer(_Wire):
    """Protocols: name, version, purpose, keys (with writer, and for each field whether it is needed), states."""

    protocols: list[dict[str, Any]]
    seq: int


class RespondAnswer(OneOf[RequestAnswer | WaitingAnswer | ProtocolsAnswer]):
    """What `request` and `respond` answer: how a request stands, what waits, or which protocols there are."""


class CoreAnswer(_Wire):
    objective: str
    constraints: list[str]
    flags: dict[str, bool]
    version: int
    seq: int


class BoardAnswer(_Wire):
    """A board's figures and settings; fractions are of `target_tokens`. `settings` holds all of them by name."""

    board: str
    title: str
    parent: str | None
    lifecycle: str
    objective: str
    target_tokens: int
    high_water: float
    low_water: float
    ceiling: int
    hard_ceiling: int
    summarise_over: int
    settings: dict[str, Any]
    access: list[str] = Field(
        default_factory=_no_entries,
        description="access policies that hold: those of the launch, then the board's own, as they are asked",
    )
    pressure: str | None = Field(
        description="the hot issue that tells of it, while the board is under pressure"
    )
    working_items: int
    working_tokens: int
    archived_items: int
    members: dict[str, str] = Field(description="agents with the role that the board itself gives them")
    seq: int


class ZoneFigures(_Wire):
    items: int
    tokens: int


class ListedBoard(_Wire):
    id: str
    title: str
    lifecycle: str | None = Field(description="open, settled or closed; null where nothing was posted yet")
    default: bool = Field(description="the board of calls that name none")


class BoardsAnswer(_Wire):
    """The boards that the reader may read, the default first: `boards://all.json`."""

    boards: list[ListedBoard]


class WirePanel(_Wire):
    """A panel of a board, as one agent sees it."""

    name: str
    about: str
    writers: list[str] = Field(description="besides stewards; * is everybody")
    live: int = Field(description="items in working memory")
    version: int = Field(description="the sequence of its last change; 0 before the first")


class WireGrowth(_Wire):
    """The growth of a data folder by what was written in the last week, and the day when posts stop at this rate."""

    bytes_a_day: int = Field(description="with two digits that count")
    free_bytes: int = Field(description="may still be written before posts are refused")
    days_left: int | None = Field(description="until then; null where that is a hundred years away")
    stops_on: date | None


class StatisticsAnswer(_Wire):
    """Figures of a board, of what the reader may see: `board://{board}/stats.json`."""

    board: str
    title: str
    lifecycle: str
    seq: int
    created_at: datetime
    working_items: int
    working_tokens: int
    archived_items: int
    target_tokens: int
    high_water_tokens: int = Field(description="a pass starts above it")
    low_water_tokens: int = Field(description="and ends at it")
    protected_items: int
    protected_tokens: int
    open_debates: int
    waiting_for_index: int
    visible: dict[str, ZoneFigures] = Field(description="zone to what the reader sees of it")
    working_by_type: dict[str, int]
    tokenizer: str
    stored_bytes: int = Field(description="what the reader wrote that is kept, as owner_bytes counts")
    owner_bytes: int = Field(description="most of it for the agents of one owner; 0: no bound")
    board_bytes: int = Field(description="and for all; 0: no bound")
    growth: WireGrowth | None = Field(
        default=None,
        description="of the data folder, at most an hour old, for admins of every board; the first who asks has it "
        "measured",
    )


class MovedItem(_Wire):
    id: str
    step: int = Field(description="step of the pass, 1 to 4")
    why: str


MAX_MOVED = 4_000
"""Most lines of a pass that one answer has."""


class PruneAnswer(_Wire):
    """What a pass moved, or would; figures are `None` when another process is at it."""

    dry_run: bool
    moved: list[MovedItem] = Field(description="the first 4,000 of them")
    more: int = Field(default=0, description="how many there are after those")
    tokens_before: int | None
    tokens_after: int | None
    protected_items: int | None
    protected_tokens: int | None
    seq: int | None
    policy: str | None = Field(default=None, description="the policy that ordered step 4")
    warning: str = Field(default="", description="why it is not the board's own")
    held: dict[str, str] = Field(default={}, description="of what was chosen: ids that stay, with the reason")


class Failure(BaseModel):
    """Any error. `error` is a stable code; further fields depend on it (a conflict has `current_version`)."""

    model_config = ConfigDict(extra="allow")

    error: str
    message: str
