"""Structured results as clients read them: the same facts as the text, in documented models.

A tool answers with one of these when the request's `_meta` has `"blackboard/structured": true`, and
always under `--structured always`. Instants are ISO 8601 in UTC. An error is `Failure`. Results of tools that fewer
programs call are in `debate_wire`, `request_wire`, `summary_wire`, `board_wire` and the like.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, RootModel

from .answers import Subscription
from .events import Event
from .items import MAX_CITED, Item
from .version_wire import WireVersions, status_of

T = TypeVar("T")


def no_entries() -> list[Any]:
    """Returns what `list` returns. Pydantic reads a factory's signature, which takes 20 ms where it is a builtin's."""
    return []


class Wire(BaseModel):
    """A structured result, or a part of one."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class OneOf(RootModel[T], Generic[T]):
    """An answer of one of several models."""

    model_config = ConfigDict(defer_build=True)


class WireRetraction(Wire):
    """Something an item rests on that is no longer stood by."""

    id: str
    status: str = Field(description="WITHDRAWN, INVALIDATED, SUPERSEDED or DELETED")
    kind: str = Field(description="kind of edge by which the item rests on via")
    via: str = Field(description="the id itself, or the item in between that rests on it")
    by: str | None = Field(default=None, description="what superseded it")


class WireForgotten(Wire):
    """When a content was removed for good, by whose decision and why."""

    at: datetime
    by: str
    why: str


class WireContest(Wire):
    """What supersedes or refutes an item; of another author's it is a claim until that author or a debate agrees."""

    kind: str = Field(description="supersedes or refutes")
    by: str = Field(description="id of what says so")
    author: str
    agreed: bool


class WireAgreement(Wire):
    """How agreement to an item fares that its author asked for."""

    agreed: list[str]
    waiting: list[str]
    away: list[str] = Field(description="asked, and let off for being away")
    enough: int = Field(description="how many owners suffice; 0: all who were asked")
    reached: bool


class WireItem(Wire):
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
        default_factory=no_entries,
        description="agents, one of each owner other than the author's; at most 32",
    )
    opponents: list[str] = Field(default_factory=no_entries, description="counted alike; at most 32")
    support: int = Field(default=0, description="owners that support it")
    opposition: int = Field(default=0, description="owners that refute or criticise it")
    retracted: list[WireRetraction] = Field(
        default_factory=no_entries, description="what it rests on that was retracted; at most 32"
    )
    deleted: bool = Field(default=False, description="it has no content: a tombstone, or forgotten")
    forgotten: WireForgotten | None = Field(
        default=None, description="how an operator had its content removed; the sha256 stays"
    )
    trust: str = Field(
        default="normal", description="low, normal or high; of a summary the lowest of its sources"
    )
    contested: list[WireContest] = Field(
        default_factory=no_entries, description="what supersedes or refutes it, at most 32"
    )
    superseded_by: str | None = Field(default=None, description="the newest that is agreed to supersede it")
    former: int = Field(default=0, description="how many items of its author it replaced one after the other")
    fell: list[str] = Field(
        default_factory=no_entries, description="what it cites that was withdrawn or invalidated"
    )
    newer: list[str] = Field(
        default_factory=no_entries, description="versions of entries it cites that were written after it"
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
        newer=list(item.newer),
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


class WireEvent(Wire):
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


def _own(value: Any) -> Any:
    """Returns a copy of a JSON value that shares no list or object with it."""
    if isinstance(value, dict):
        return {name: _own(inner) for name, inner in value.items()}
    return [_own(inner) for inner in value] if isinstance(value, list) else value


def wire_event(event: Event) -> WireEvent:
    """Returns an event as structured results show it: whoever changes it changes nothing that others get."""
    data = _own(event.data)
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
        metadata=_own(event.metadata),
    )


class WireRemark(Wire):
    """What the board remarks on a post; nothing is refused for it."""

    id: str = Field(description="what was posted")
    kind: str = Field(
        description="same (posted before by the caller, not stored again), criticised (open critiques of what it "
        "criticises), joined (the item whose debate it joins, by criticising a critique), over (what it criticises or "
        "replies to fell before), fallen (says the same and was withdrawn or invalidated), "
        "close (says about the same and was withdrawn or invalidated), numbers (says the same but for "
        "numbers), claim (supersedes or refutes what others wrote), "
        "reads (asks the agents in `fields`, who may only read), unknown (asks the first name in `fields`, which was "
        "never on the board; the second, if any, is there), "
        "undebated (what it criticises without being a CRITIQUE, so that no debate opens), "
        "near (posts of the call that nearly repeat it), asks (a question that waits for the agents in `fields`), "
        "unasked (a question that begins with the name in `fields` and does not ask that agent), "
        "answers (the question or critique that it replies to, and for whom that waits still), solves (open "
        "problems that the decision is about, and open questions that it rests on), unseen (others "
        "wrote them on the same matter, and the caller was not shown them)"
    )
    about: list[str] = Field(description="ids, oldest first")
    more: int = Field(default=0, description="how many are not listed")
    fields: list[str] = Field(
        default_factory=no_entries,
        description="fields of a repeated post that differ and were left as they are; of asks and answers the agents",
    )


class PostAnswer(Wire):
    items: list[WireItem]
    seq: int
    repeated: bool = Field(default=False, description="the idempotency key had been used")
    endorsed: list[str] = Field(
        default_factory=no_entries, description="ids that were there already and got this post as support"
    )
    remarks: list[WireRemark] = Field(default_factory=no_entries)
    cut: bool = Field(
        default=False,
        description="texts and metadata are left out, for the answer would have more than 1 MiB; read has them",
    )


class WireDebated(Wire):
    """What became of the debate about an item."""

    id: str
    state: str | None = Field(description="OPEN, CONSENSUS, …; null where there never was a debate")
    outcome: str = Field(
        default="", description="what its end made of the item: stands, falls, amended, open"
    )


class TransactionAnswer(Wire):
    """What a transaction did. A conflict has `moved`: each name that moved, with its version (0: absent) or the
    sequence of its last change, and `seq`, the board's sequence."""

    items: list[WireItem] = Field(description="of the writes, in order, as they stand after it")
    debates: list[WireDebated] = Field(description="in the order asked")
    acknowledged: list[str] = Field(
        default_factory=no_entries, description="handles of events, as `consume` gave them"
    )
    seq: int = Field(description="its place in the order of the board's transactions")
    repeated: bool = Field(default=False, description="the idempotency key had been used")
    endorsed: list[str] = Field(
        default_factory=no_entries, description="ids that were there already and got a write as support"
    )
    remarks: list[WireRemark] = Field(default_factory=no_entries)
    cut: bool = Field(
        default=False,
        description="texts and metadata are left out, for the answer would have more than 1 MiB; read has them",
    )


class ViewAnswer(Wire):
    view: str
    tokens: int
    seq: int
    shown: list[str] = Field(description="ids shown with text")
    stubs: list[str] = Field(description="ids shown as one-line stubs")
    hidden: int = Field(description="items of working memory left out")


class ItemsAnswer(Wire):
    """A page of items. `cursor` continues a query; `None` at its end."""

    items: list[WireItem]
    cursor: str | None = None
    seq: int
    missing: list[str] = Field(
        default_factory=no_entries, description="ids and keys that name nothing visible"
    )
    versions: list[WireVersions] = Field(
        default_factory=no_entries, description="for what was read with `@*`"
    )


class WireNeighbour(Wire):
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
        default_factory=no_entries, description="what stands around the hits in their threads"
    )
    held: dict[str, list[int]] = Field(
        default_factory=dict, description="id to how many of the words it holds, of how many"
    )
    live: list[WireItem] = Field(
        default_factory=no_entries,
        description="items on the board that hold half of the words, the best few",
    )
    cut: bool = Field(
        default=False,
        description="texts and metadata are left out, for the answer would have more than 1 MiB; read has them",
    )


class EventsAnswer(Wire):
    """Events in order; `cursor` is where to go on, as `since`."""

    events: list[WireEvent]
    cursor: int
    seq: int
    subscription: str | None = None


class SubscriptionAnswer(Wire):
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


class SubscriptionsAnswer(Wire):
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


class WireChainLink(Wire):
    source: str
    kind: str
    target: str


class WireWait(Wire):
    agent: str
    duty: str = Field(description="acknowledge or answer")


class WireLeft(Wire):
    """How an item left working memory."""

    seq: int
    at: datetime
    event: str
    of_pass: int | None = Field(description="the pass: its first sequence; `None` when no pass took it")
    step: int | None
    why: str


class WireSighting(Wire):
    """The first and the last time that an agent was shown an item, and in which kind of answer."""

    agent: str
    first_at: datetime
    first_way: str
    last_at: datetime
    last_way: str


class WireExplanation(Wire):
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
        default_factory=no_entries, description="who else was shown it, the last first"
    )
    never_seen_by: list[str] = Field(
        default_factory=no_entries, description="agents of the board that were never shown it"
    )


class ExplainAnswer(Wire):
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


class Failure(BaseModel):
    """Any error. `error` is a stable code; further fields depend on it (a conflict has `current_version`)."""

    model_config = ConfigDict(extra="allow")

    error: str
    message: str
