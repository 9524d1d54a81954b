"""Calls of agents in debates: each does one thing in the debate about one item."""

from __future__ import annotations

from collections.abc import Sequence

from blackboard_mcp.protocols.answers import DebateView, Once
from blackboard_mcp.protocols.changes import ChangeKind
from blackboard_mcp.protocols.debates import DebateCall, DebateOp, DebateState, Duty, ObligationState, Outcome
from blackboard_mcp.protocols.errors import Conflict, Refused
from blackboard_mcp.protocols.events import EventType
from blackboard_mcp.protocols.items import TRANSITIONS, Item, ItemType, Status, Zone

from ...operation import Rows, Write
from ..items import questions
from ..ledger.idempotency import repeatable
from ..ledger.ledger import Ledger, load_any, load_visible, open_ledger, standing
from ..ledger.principals import agents_of
from ..ledger.rows import MAX_REASON, ItemRow, Steps, cut, numbers, sql
from ..messages.request_rows import find
from . import agreements, decisions
from .answers import too_early
from .debates import (
    DUE,
    TAKEN_BACK,
    Open,
    acts_for_author,
    close,
    debate_about,
    moved,
    open_debates,
    open_explicitly,
    owe,
    settle,
    settle_duty,
    waive,
    watch_debate,
    withdraw_critique,
)
from .views import kept_status, status_on
from .votes import cast, tally


@repeatable(
    lambda given: kept_status(given["board"], given["agent"], given["call"].number, given.get("look", 0))
)
def debate(
    write: Write, board: str, agent: str, call: DebateCall, *, once: Once | None = None, look: int = 0
) -> Steps[DebateView | Item]:
    """Makes one call in a debate, in a transaction of its own, and returns the debate as it is then.

    Raises:
        UnknownReference: the agent sees no such item.
        Conflict: the item is at another version than named, or the debate's state does not allow the call.
        Refused: this agent may not make the call.
    """
    ledger = yield from open_ledger(write, board, agent)
    yield from act(ledger, call, call.number)
    yield from ledger.close()
    return (yield from status_on(ledger.board, agent, call.number, look, ledger))


def act(ledger: Ledger, call: DebateCall, number: int) -> Steps[None]:
    """Makes the call about the item `number` within an open ledger, which the caller closes."""
    yield from ledger.was_here()  # a call in a debate counts as presence
    match call.op:
        case DebateOp.OPEN:
            yield from _open(ledger, number, call.watchers)
        case DebateOp.WATCH:
            yield from _watch(ledger, number)
        case DebateOp.UNWATCH:
            yield from _unwatch(ledger, number)
        case DebateOp.ACKNOWLEDGE:
            yield from _acknowledge(ledger, number, call)
        case DebateOp.VOTE:
            yield from _vote(ledger, number, call)
        case DebateOp.WITHDRAW:
            yield from _withdraw(ledger, number, call.reason)
        case DebateOp.CONCEDE | DebateOp.DECIDE | DebateOp.CONFIRM:
            yield from _end(ledger, number, call)


_KINDS = {
    DebateOp.OPEN: ChangeKind.OPEN,
    DebateOp.WATCH: ChangeKind.WATCH,
    DebateOp.UNWATCH: ChangeKind.WATCH,
    DebateOp.ACKNOWLEDGE: ChangeKind.ACKNOWLEDGE,
    DebateOp.VOTE: ChangeKind.VOTE,
    DebateOp.WITHDRAW: ChangeKind.WITHDRAW,
    DebateOp.CONCEDE: ChangeKind.CONCEDE,
    DebateOp.DECIDE: ChangeKind.DECIDE,
    DebateOp.CONFIRM: ChangeKind.CONFIRM,
}


def _item(ledger: Ledger, op: DebateOp, number: int, version: int | None = None) -> Steps[ItemRow]:
    """Returns the item that a call is about, and notes the change for access policies.

    Raises:
        UnknownReference: the agent sees no such item.
        Conflict: it is not at `version`, so the agent has not seen the present text.
    """
    found = yield from load_visible(ledger.no, [number], ledger.agent, ledger.board.id)
    item = found[number]
    if version is not None and version != item.version:
        raise Conflict(
            f"{item.id} is at version {item.version}, not {version}. Nothing was changed; "
            f'read(ids=["{item.id}"]) shows how it stands, and {item.id}@{item.version} means that.',
            item=item.id,
            current_version=item.version,
        )
    ledger.note(_KINDS[op], item)
    return item


def _open(ledger: Ledger, number: int, watchers: Sequence[str]) -> Steps[None]:
    """Opens a debate on the item, or adds watchers to the open one."""
    item = standing((yield from _item(ledger, DebateOp.OPEN, number)))
    yield from open_explicitly(ledger, item, watchers)


def _watch(ledger: Ledger, number: int) -> Steps[None]:
    """Makes the agent owe an acknowledgement, which keeps the item in working memory until it is given."""
    item = standing((yield from _item(ledger, DebateOp.WATCH, number)))
    debate = yield from debate_about(ledger.no, item)
    if debate is not None:
        yield from watch_debate(ledger, debate, ledger.agent)
    else:
        if item.zone == Zone.ARCHIVE:
            yield from ledger.restore(item, why=f"watched by {ledger.agent}")
        rows = yield sql("obligations_of_item"), (ledger.no, item.number)
        if not any(r[0] == ledger.agent and r[2] == Duty.ACKNOWLEDGE and r[3] in DUE for r in rows):
            ledger.holding.add(item.number)
            yield from owe(ledger, ledger.agent, item.number, Duty.ACKNOWLEDGE, 0)
            yield from ledger.emit(EventType.OBLIGATION_ADDED, item, data={"watcher": ledger.agent})


def _acknowledge(ledger: Ledger, number: int, call: DebateCall) -> Steps[None]:
    """Records that for the agent the answers settle the debate and the item stands.

    Raises:
        Refused: a critique in the debate has no answer yet.
        Conflict: the agent owes nothing, or owes an answer instead.
    """
    item = yield from _item(ledger, DebateOp.ACKNOWLEDGE, number, call.version)
    rows = list((yield sql("obligations_of_item"), (ledger.no, item.number)))
    questions.want_words(ledger, item, rows)
    why = {"reason": cut(call.reason, MAX_REASON)} if call.reason else {}
    debate = yield from debate_about(ledger.no, item)
    met: set[int] = set()
    waiting = [] if debate is None else debate.waiting
    asked_to_agree = any(row[2] == Duty.AGREE for row in rows)
    of_debate: Rows = []
    if debate is not None:
        of_debate = yield sql("obligations_of_debates"), (ledger.no, numbers([debate.id]))
        rows += [row for row in of_debate if row[1] != item.number]
    rows = [row for row in rows if row[2] == Duty.ACKNOWLEDGE]
    agreed = asked_to_agree and (yield from agreements.give(ledger, item, call.reason))
    if agreed and not any(_owes(ledger.agent, row) for row in rows):
        return  # its acknowledgement in the debate has to wait for the answers
    if debate is not None and waiting and not any(_owes(ledger.agent, row) for row in rows):
        raise Refused((yield from too_early(ledger, debate.root, debate.id, waiting)))
    names = {item.number: item}
    names |= yield from load_any(ledger.no, {row[1] for row in rows} - names.keys())
    for row in rows:
        if _owes(ledger.agent, row):
            met.add(row[4])
            yield from settle_duty(ledger, row, ObligationState.ACKNOWLEDGED, call.reason)
            yield from ledger.emit(
                EventType.OBLIGATION_MET, names[row[1]], data={"duty": row[2]} | why, concerns=[item.author]
            )
    asked = debate is not None and any(
        row[0] == ledger.agent and row[4] == debate.id and row[3] != ObligationState.WAIVED for row in rows
    )
    if debate is not None and not met and not asked:
        # An acknowledgement that nobody asked for counts as well, as a watcher's.
        yield from owe(ledger, ledger.agent, debate.root.number, Duty.ACKNOWLEDGE, debate.id)
        row = (ledger.agent, debate.root.number, str(Duty.ACKNOWLEDGE), "", debate.id, "", 0)
        yield from settle_duty(ledger, row, ObligationState.ACKNOWLEDGED, call.reason)
        yield from ledger.emit(EventType.OBLIGATION_MET, debate.root, data={"duty": "acknowledge"} | why)
        met.add(debate.id)
    if debate is None and not met:
        if (request := (yield from find(ledger.no, item.number))) is not None and request.live:
            raise Conflict(
                f"{item.id} is an open request, which an answer ends and no acknowledgement. Nothing was changed; "
                f'respond(id="{item.id}", text="…") answers it, as does an ANSWER with edges '
                f'{{"replies_to": ["{item.id}"]}}.',
                item=item.id,
            )
        standing = (yield from agreements.standing(ledger.no, [item.number])).get(item.number)
        if standing is not None and ledger.agent in standing.agreed:
            raise Conflict(
                f"You have agreed to {item.id} before, as it stands. Nothing was changed.", item=item.id
            )
        if standing is not None and ledger.agent == item.author:
            raise Conflict(
                f"{item.id} is yours: its author counts as agreeing. Nothing was changed.", item=item.id
            )
        if any(row[0] == ledger.agent and row[3] == ObligationState.WAIVED and row[4] for row in rows):
            raise Conflict(
                f"You owe nothing to {item.id} any more: its debate is over. Nothing was changed; "
                f'debate(op="status", id="{item.id}") says how it ended.',
                item=item.id,
            )
        raise Conflict(
            f"You owe nothing to {item.id}, and no debate is open on it. Nothing was changed.", item=item.id
        )
    if debate is not None and not agreed and met <= {debate.id}:
        done = str(ObligationState.ACKNOWLEDGED), debate.id, call.reason
        listed = [
            (*row[:3], *done, row[6]) if row[2] == Duty.ACKNOWLEDGE and _owes(ledger.agent, row) else row
            for row in of_debate
        ]
        yield from _advance(ledger, debate, met, listed if asked else None)
    else:
        yield from _advance_each(ledger, met if debate is None else {*met, debate.id}, met)


def _owes(agent: str, row: Sequence[object]) -> bool:
    """Tells whether the duty is this agent's and outstanding."""
    return row[0] == agent and row[3] == ObligationState.OUTSTANDING


def _advance_each(ledger: Ledger, debates: set[int], changed: set[int]) -> Steps[None]:
    """Closes those of the debates whose rule is met; in debates of `changed`, the time until expiry starts anew."""
    for debate in (yield from open_debates(ledger.no, debates)):
        yield from _advance(ledger, debate, changed)


def _advance(ledger: Ledger, debate: Open, changed: set[int], rows: Rows | None = None) -> Steps[None]:
    """Closes one debate if its rule is met; if it is among `changed`, its time until expiry starts anew.

    `rows` are its obligations, if the caller knows them.
    """
    if debate.id in changed:
        yield from moved(ledger, debate.id)
    yield from settle(ledger, debate, rows)


def _withdraw(ledger: Ledger, number: int, reason: str) -> Steps[None]:
    """Withdraws the agent's critiques, or the debate that it opened by request if no critique is left.

    Raises:
        Conflict: no debate is open.
        Refused: the agent has no critique in it.
    """
    item = yield from _item(ledger, DebateOp.WITHDRAW, number)
    debate = yield from debate_about(ledger.no, item)
    mine = {ledger.agent, *(yield from agents_of(ledger.side))}
    if item.type == ItemType.CRITIQUE and item.author in (mine if debate is not None else {ledger.agent}):
        yield from withdraw_critique(ledger, item, reason)
    elif debate is None:
        raise Conflict(f"No debate is open on {item.id}. Nothing was changed.", item=item.id)
    else:
        critics = yield from load_any(ledger.no, debate.critiques)
        left = [row for row in critics.values() if TRANSITIONS[Status(row.status)]]
        own = [row for row in left if row.author == ledger.agent] or [
            row for row in left if row.author in mine
        ]
        own_item = yield from acts_for_author(ledger, debate)
        argued = any(row.status not in TAKEN_BACK for row in critics.values())
        if own:
            for row in own:
                yield from withdraw_critique(ledger, row, reason)
        elif debate.explicit and debate.opened_by == ledger.agent and not argued and not own_item:
            why = reason or "withdrawn by its opener"
            yield from close(ledger, debate, DebateState.WITHDRAWN, why, Outcome.OPEN)
        else:
            how = (
                f'debate(op="concede", id="{debate.root.id}", reason="…") gives {debate.root.id} up'
                if own_item
                else f'debate(op="status", id="{debate.root.id}") says what closes it'
            )
            raise Refused(
                f"You have no critique in the debate on {debate.root.id}; only a critic withdraws. Nothing was "
                f"changed; {how}."
            )


def _end(ledger: Ledger, number: int, call: DebateCall) -> Steps[None]:
    """Ends the debate by one agent's word: the author's side concedes, others decide or confirm a decision.

    Raises:
        Conflict: no debate is open, or the item is not at the named version.
    """
    item = yield from _item(ledger, call.op, number, call.version)
    debate = yield from debate_about(ledger.no, item)
    own = item.author == ledger.agent and bool(TRANSITIONS[Status(item.status)])
    if debate is None and call.op is DebateOp.CONCEDE and own:
        # An author who concedes without a critique gets a debate too, so that its reason is stored.
        yield from open_explicitly(ledger, item, ())
        debate = yield from debate_about(ledger.no, item)
    if debate is None:
        whose, how = "", f'debate(op="status", id="{item.id}") says how the last one ended'
        if call.op is DebateOp.CONCEDE and item.author != ledger.agent and TRANSITIONS[Status(item.status)]:
            whose = f", and without one only {item.author}, its author, gives it up"
            how = f'you object with post(type="CRITIQUE", edges={{"critiques": ["{item.id}"]}}, text="…")'
        how = (yield from _how_to_agree(ledger, item)) or how
        raise Conflict(f"No debate is open on {item.id}{whose}. Nothing was changed; {how}.", item=item.id)
    match call.op:
        case DebateOp.CONCEDE:
            yield from decisions.concede(ledger, debate, call)
        case DebateOp.DECIDE:
            yield from decisions.decide(ledger, debate, call)
        case _:
            yield from decisions.confirm(ledger, debate, call)


def _how_to_agree(ledger: Ledger, item: ItemRow) -> Steps[str]:
    """Returns the call for an agent that is asked to agree to the item; an empty text for others."""
    rows = yield sql("agreeing"), (ledger.no, numbers([item.number]))
    asked = any(row[1] == ledger.agent and row[3] == ObligationState.OUTSTANDING for row in rows)
    return f'you are asked to agree to it: debate(op="agree", id="{item.id}")' if asked else ""


def _vote(ledger: Ledger, number: int, call: DebateCall) -> Steps[None]:
    """Records the vote of the agent's owner on the present version, and closes the debate if the quorum is reached.

    Raises:
        Conflict: no debate is open, or the item is not at the named version.
    """
    item = yield from _item(ledger, DebateOp.VOTE, number, call.version)
    debate = yield from debate_about(ledger.no, item)
    if debate is None:
        how = (yield from _how_to_agree(ledger, item)) or (f'debate(op="open", id="{item.id}") opens one')
        raise Conflict(
            f"No debate is open on {item.id}, so there is nothing to vote on. Nothing was changed; {how}.",
            item=item.id,
        )
    root, quorum = debate.root, ledger.board.config.quorum
    owner = yield from cast(ledger, debate.id, root.version, approve=call.approve, reason=call.reason)
    count = yield from tally(ledger.no, debate.id, root, quorum)
    data: dict[str, object] = {"approve": call.approve, "owner": owner, "version": root.version}
    data |= {"for": len(count.approving), "against": len(count.rejecting)}
    if call.reason:
        data["reason"] = cut(call.reason, 100)
    yield from ledger.emit(EventType.DEBATE_VOTED, root, data=data, concerns=[root.author])
    yield from moved(ledger, debate.id)
    if quorum:
        for row in (yield sql("obligations_of_debates"), (ledger.no, numbers([debate.id]))):
            due = row[3] in DUE
            if row[0] == ledger.agent and row[2] == Duty.ACKNOWLEDGE and due:
                yield from settle_duty(ledger, row, ObligationState.ACKNOWLEDGED, "voted")
                yield from ledger.emit(EventType.OBLIGATION_MET, root, data={"duty": "acknowledge"})
        yield from settle(ledger, debate)


def _unwatch(ledger: Ledger, number: int) -> Steps[None]:
    """Waives the acknowledgements that the agent still owes to the item or in its debate.

    Raises:
        Conflict: it owes none.
    """
    item = yield from _item(ledger, DebateOp.UNWATCH, number)
    debate = yield from debate_about(ledger.no, item)
    rows = list((yield sql("obligations_of_item"), (ledger.no, item.number)))
    if debate is not None:
        rows += yield sql("obligations_of_debates"), (ledger.no, numbers([debate.id]))
    mine = [row for row in rows if row[0] == ledger.agent and row[2] in (Duty.ACKNOWLEDGE, Duty.CONFIRM)]
    left = list({row[:5]: row for row in mine if row[3] in DUE}.values())
    if not left:
        raise Conflict(
            f"You have nothing to acknowledge on {item.id}. Nothing was changed; what you watch by topic ends "
            "with its topic as the id.",
            item=item.id,
        )
    yield from waive(ledger, left, "unwatched")
    among = {row[4] for row in left}
    yield from _advance_each(ledger, among, among)
