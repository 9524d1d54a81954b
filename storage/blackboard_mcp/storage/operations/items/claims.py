"""Claims: that an item supersedes or refutes another author's counts once that author agrees, or a debate says so.

Until then the claim is shown on the item and changes nothing. The author agrees by posting an item with a
`supports` edge to the claiming item. An item that its author agrees is superseded leaves as if the author had
superseded it. An item that its author agrees is refuted becomes INVALIDATED, unless a debate about it is open.
"""

from __future__ import annotations

from blackboard_mcp.protocols.events import EventType
from blackboard_mcp.protocols.items import TRANSITIONS, Contest, EdgeKind, ItemType, Status, item_id

from ..debates import debates
from ..ledger.ledger import Ledger, load_any
from ..ledger.principals import owner_of
from ..ledger.rows import ItemRow, Steps, sql
from . import retraction

Replaced = tuple[ItemRow, ItemRow, bool]
"""A superseded item, the item that supersedes it, and whether the first was retracted before."""


def agree(ledger: Ledger, row: ItemRow, cited: ItemRow) -> Steps[list[Replaced]]:
    """Applies the author's agreement: `row` supports `cited`, which claims something about the agent's own items.

    Refuted items are invalidated at once. Superseded items are returned, to leave at the end of the post.
    """
    if row.type == ItemType.CRITIQUE or not cited.public:
        return []
    own = ledger.side
    if own == (yield from owner_of(cited.author)):
        return []
    replaced: list[Replaced] = []
    claims = yield sql("claims_of"), (ledger.no, cited.number, cited.author)
    targets = yield from load_any(ledger.no, [target for _, target in claims])
    for kind, number in claims:
        target = targets[number]
        if (yield from owner_of(target.author)) == own:
            replaced += yield from _hold(ledger, cited, EdgeKind(kind), target)
    return replaced


def _hold(ledger: Ledger, source: ItemRow, kind: EdgeKind, target: ItemRow) -> Steps[list[Replaced]]:
    """Records that the author agrees to a claim, with an event; returns the target if it is superseded."""
    fallen = yield from retraction.fallen(ledger, [target])
    asked = (ledger.no, source.number, str(kind), target.number, ledger.agent, ledger.now)
    yield sql("claim_agree"), asked
    yield from ledger.emit(
        EventType.CLAIM_AGREED,
        target,
        data={"claim": str(kind), "by": source.id},
        concerns=[target.author, source.author],
    )
    if kind is EdgeKind.SUPERSEDES:
        yield sql("claim_supersedes"), (ledger.no, target.number)
        return [(target, source, target.number in fallen)]
    if Status.INVALIDATED in TRANSITIONS[Status(target.status)] and not (
        yield from debates.is_open(ledger, target)
    ):
        yield from _fall(ledger, source, target)
    return []


def _fall(ledger: Ledger, source: ItemRow, target: ItemRow) -> Steps[None]:
    """Invalidates the target of an agreed refutation, and notifies what rests on it."""
    data = {"status": [target.status, str(Status.INVALIDATED)], "refuted_by": source.id}
    seq = yield from ledger.emit(EventType.ITEM_CHANGED, target, data=data, concerns=[target.author])
    target.status, target.seq = str(Status.INVALIDATED), seq
    yield sql("item_status"), (ledger.no, target.number, target.status, seq, ledger.now, ledger.agent)
    if target.zone == "archive":
        yield sql("outbox_add"), (ledger.no, target.number)
    yield from retraction.retract(ledger, target, target.status)


def contests(no: int, asked: str, agent: str) -> Steps[dict[int, tuple[Contest, ...]]]:
    """Returns the items that supersede or refute the given ones, by number, as far as the agent may see them.

    `asked` is a JSON list of numbers.
    """
    found: dict[int, list[Contest]] = {}
    for target, kind, type_, number, author, agreed in (yield sql("contests"), (no, asked, agent)):
        contest = Contest(EdgeKind(kind), item_id(type_, number), author, bool(agreed))
        found.setdefault(target, []).append(contest)
    return {target: tuple(listed) for target, listed in found.items()}


def former(no: int, asked: str, agent: str) -> Steps[dict[int, int]]:
    """Returns how many items of the same author each item replaced, by number; `asked` is a JSON list of numbers."""
    return dict((yield sql("former"), (no, asked, agent)))


def sign(ledger: Ledger, row: ItemRow, *, undecided: bool) -> Steps[None]:
    """Records whether a DECISION was written by an agent who is not a decider."""
    if row.type == ItemType.DECISION:
        yield sql("undecided_put" if undecided else "undecided_drop"), (ledger.no, row.number)


def undecided(no: int, asked: str) -> Steps[set[int]]:
    """Returns those of the items that are decisions by an agent who was no decider."""
    return {row[0] for row in (yield sql("undecided_among"), (no, asked))}


def adopted(no: int, asked: str, agent: str) -> Steps[dict[int, str]]:
    """Returns the id of the item that adopted each reply, by the reply's number; others are left out."""
    return {
        reply: item_id(type_, number) for reply, type_, number in (yield sql("adopted"), (no, asked, agent))
    }
