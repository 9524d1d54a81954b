"""Debates: opening, joining, answering, acknowledging, withdrawing, deciding; and watching."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from blackboard_mcp.protocols.debates import Debate, DebateState, Duty, Obligation, ObligationState
from blackboard_mcp.protocols.errors import Conflict, Refused
from blackboard_mcp.protocols.events import EventType
from blackboard_mcp.protocols.items import TRANSITIONS, Item, ItemType, Status, Zone
from blackboard_mcp.protocols.store import DebateView

from ..operation import Rows
from . import guarding, retracting
from .ledger import Ledger, attention, get_board, load, load_any, load_visible, open_ledger
from .rows import ItemRow, Steps, instant, numbers, sql
from .showing import values

_UNFINISHED = (Status.ACTIVE, Status.RESOLVED)


@dataclass(slots=True)
class Open:
    """An open debate inside a transaction."""

    id: int
    root: ItemRow
    critiques: list[int]
    explicit: bool
    opened_by: str


def _open_debates(no: int) -> Steps[list[Open]]:
    rows = yield sql("debates_open"), (no,)
    if not rows:
        return []
    critiques: dict[int, list[int]] = {}
    for debate, critique in (yield sql("critiques_of"), (no, numbers(row[0] for row in rows))):
        critiques.setdefault(debate, []).append(critique)
    roots = yield from load_any(no, [row[1] for row in rows])
    return [Open(row[0], roots[row[1]], critiques.get(row[0], []), bool(row[4]), row[3]) for row in rows]


def _debates_about(no: int, item: ItemRow) -> Steps[list[Open]]:
    """The open debates that an item is the root or a critique of: a critique may be of several items."""
    listed = yield from _open_debates(no)
    return [d for d in listed if d.root.number == item.number or item.number in d.critiques]


def _debate_about(no: int, item: ItemRow) -> Steps[Open | None]:
    """The oldest of them."""
    listed = yield from _debates_about(no, item)
    return listed[0] if listed else None


def is_open(ledger: Ledger, item: ItemRow) -> Steps[bool]:
    """Whether an open debate is about the item."""
    return (yield from _debate_about(ledger.no, item)) is not None


def _owe(ledger: Ledger, agent: str, item: int, duty: Duty, debate: int) -> Steps[None]:
    yield sql("obligation_add"), (ledger.no, agent, item, str(duty), debate, ledger.now)


def _settle(ledger: Ledger, row: Sequence[object], state: ObligationState, reason: str) -> Steps[None]:
    agent, item, duty, _state, debate, _reason, _since = row
    yield sql("obligation_set"), (ledger.no, agent, item, duty, debate, str(state), reason)


def _begin(
    ledger: Ledger, root: ItemRow, critique: ItemRow | None, watchers: Iterable[str], *, explicit: bool
) -> Steps[Open]:
    """Opens a debate on `root`; whoever watched the item before watches the debate."""
    if root.zone == Zone.ARCHIVE:
        yield from ledger.restore(root, why="debate")
    obliged = dict.fromkeys(watchers)
    for row in (yield sql("obligations_of_item"), (ledger.no, root.number)):
        if row[2] == Duty.ACKNOWLEDGE and row[4] == 0:
            obliged[row[0]] = None
    if Status(root.status) in _UNFINISHED:
        root.status = str(Status.DEBATED)
    data: dict[str, object] = {"watchers": list(obliged)[:8]}
    if critique is not None:
        data["critique"] = critique.id
    seq = yield from ledger.emit(
        EventType.DEBATE_OPENED,
        root,
        data=data,
        concerns=[root.author, *obliged],
        told=critique is not None,
    )
    root.seq, root.updated_at = seq, ledger.now
    yield sql("item_status"), (ledger.no, root.number, root.status, seq, ledger.now, ledger.agent)
    yield sql("debate_add"), (ledger.no, seq, root.number, ledger.agent, int(explicit), ledger.now, "")
    yield from guarding.hold(ledger.no, seq, [root.number])
    for watcher in obliged:
        yield from _owe(ledger, watcher, root.number, Duty.ACKNOWLEDGE, seq)
    return Open(seq, root, [], explicit, ledger.agent)


def critique(ledger: Ledger, item: ItemRow, target: ItemRow) -> Steps[None]:
    """What a critique of somebody else's item does: opens a debate on it or joins the open one."""
    if item.type != ItemType.CRITIQUE or not TRANSITIONS[Status(item.status)]:
        return
    if target.zone == Zone.ARCHIVE:
        yield from ledger.restore(target, why=f"critique {item.id}")
    debate = yield from _debate_about(ledger.no, target)
    if debate is None:
        debate = yield from _begin(ledger, target, item, [ledger.agent], explicit=False)
    else:
        yield from _owe(ledger, ledger.agent, debate.root.number, Duty.ACKNOWLEDGE, debate.id)
        yield from ledger.emit(
            EventType.DEBATE_JOINED,
            debate.root,
            data={"critique": item.id},
            concerns=[target.author, debate.root.author],
            told=target.author == debate.root.author,
        )
    yield sql("debate_critique_add"), (ledger.no, item.number, debate.id)
    yield from guarding.hold(ledger.no, debate.id, [item.number])
    yield from _owe(ledger, target.author, item.number, Duty.RESPOND, debate.id)


def respond(ledger: Ledger, target: ItemRow) -> Steps[None]:
    """An answer to `target`: what the answering agent owed to it as a response is met."""
    for row in (yield sql("obligations_of_item"), (ledger.no, target.number)):
        if row[0] == ledger.agent and row[2] == Duty.RESPOND and row[3] == ObligationState.OUTSTANDING:
            yield from _settle(ledger, row, ObligationState.ACKNOWLEDGED, "answered")
            yield from ledger.emit(
                EventType.OBLIGATION_MET, target, data={"duty": "respond"}, concerns=[target.author]
            )


def open_explicitly(ledger: Ledger, root: ItemRow, watchers: Sequence[str]) -> Steps[None]:
    """Opens a debate by request, or adds the watchers to the open one."""
    if root.owner:
        raise Refused(f"{root.id} is private; a debate needs an item others can see. Nothing was changed.")
    debate = yield from _debate_about(ledger.no, root)
    if debate is None:
        if Status(root.status) in (Status.WITHDRAWN, Status.INVALIDATED):
            raise Conflict(
                f"{root.id} is {root.status}, which is final: there is nothing left to debate. Nothing was "
                "changed.",
                item=root.id,
                status=root.status,
            )
        everyone = list(watchers) if ledger.agent == root.author else [ledger.agent, *watchers]
        yield from _begin(ledger, root, None, everyone, explicit=True)
        return
    for watcher in dict.fromkeys([ledger.agent, *watchers]):
        yield from _watch_debate(ledger, debate, watcher)


def _watch_debate(ledger: Ledger, debate: Open, watcher: str) -> Steps[None]:
    rows = yield sql("obligations_of_debates"), (ledger.no, numbers([debate.id]))
    if any(r[0] == watcher and r[2] == Duty.ACKNOWLEDGE and r[3] == "outstanding" for r in rows):
        return
    yield from _owe(ledger, watcher, debate.root.number, Duty.ACKNOWLEDGE, debate.id)
    yield from ledger.emit(
        EventType.OBLIGATION_ADDED, debate.root, data={"watcher": watcher}, concerns=[watcher]
    )


def _close(ledger: Ledger, debate: Open, state: DebateState, reason: str) -> Steps[None]:
    """A final state: the item goes on, and what was still owed is waived, visibly."""
    root = (yield from load_any(ledger.no, [debate.root.number]))[debate.root.number]
    rows: Rows = yield sql("obligations_of_debates"), (ledger.no, numbers([debate.id]))
    left = [row for row in rows if row[3] == ObligationState.OUTSTANDING]
    if root.status == Status.DEBATED:
        root.status = str(Status.ACTIVE)
    seq = yield from ledger.emit(
        EventType.DEBATE_CLOSED,
        root,
        data={"state": str(state), "reason": reason[:100]},
        concerns=[root.author, *(row[0] for row in rows)],
    )
    root.seq, root.updated_at = seq, ledger.now
    yield sql("item_status"), (ledger.no, root.number, root.status, seq, ledger.now, ledger.agent)
    yield sql("debate_close"), (ledger.no, debate.id, str(state), ledger.agent, ledger.now, reason)
    yield sql("item_debated"), (ledger.no, root.number)
    yield from guarding.release(ledger.no, debate.id)
    items = yield from load_any(ledger.no, [row[1] for row in left])
    for row in left:
        why = f"debate {state}"
        yield from _settle(ledger, row, ObligationState.WAIVED, why)
        yield from ledger.emit(
            EventType.OBLIGATION_WAIVED,
            items[row[1]],
            data={"watcher": row[0], "duty": row[2], "reason": why},
            concerns=[row[0]],
        )


def _settle_if_agreed(ledger: Ledger, debate: Open) -> Steps[bool]:
    """CONSENSUS when every watcher acknowledged, and one of them is not the author under criticism."""
    rows = yield sql("obligations_of_debates"), (ledger.no, numbers([debate.id]))
    watching = [row for row in rows if row[2] == Duty.ACKNOWLEDGE]
    if any(row[3] == ObligationState.OUTSTANDING for row in watching):
        return False
    if not any(row[3] == ObligationState.ACKNOWLEDGED and row[0] != debate.root.author for row in watching):
        return False
    yield from _close(ledger, debate, DebateState.CONSENSUS, "all watchers acknowledged")
    return True


def withdraw_critique(ledger: Ledger, item: ItemRow, reason: str = "") -> Steps[None]:
    """The critique's own author takes it back; a debate with no critique left is WITHDRAWN.

    Raises:
        Conflict: its status is final.
    """
    if not TRANSITIONS[Status(item.status)]:
        raise Conflict(
            f"{item.id} is {item.status}, which is final. Nothing was changed.",
            item=item.id,
            status=item.status,
        )
    data: dict[str, object] = {"status": [item.status, "WITHDRAWN"]}
    if reason:
        data["reason"] = reason[:100]
    seq = yield from ledger.emit(EventType.ITEM_CHANGED, item, data=data, concerns=[item.author])
    item.status, item.seq = str(Status.WITHDRAWN), seq
    yield sql("item_status"), (ledger.no, item.number, item.status, seq, ledger.now, ledger.agent)
    if item.zone == Zone.ARCHIVE:
        yield sql("outbox_add"), (ledger.no, item.number)
    yield from retracting.retract(ledger, item, item.status)
    for debate in (yield from _debates_about(ledger.no, item)):
        if item.number in debate.critiques:
            yield from _leave(ledger, debate, item, reason)


def _leave(ledger: Ledger, debate: Open, item: ItemRow, reason: str) -> Steps[None]:
    """What a debate makes of a critique that was withdrawn."""
    critics = yield from load_any(ledger.no, debate.critiques)
    if all(row.status == Status.WITHDRAWN for row in critics.values()) and not debate.explicit:
        why = f"{item.id} withdrawn" + (f": {reason}" if reason else "")
        yield from _close(ledger, debate, DebateState.WITHDRAWN, why)
        return
    rows = yield sql("obligations_of_debates"), (ledger.no, numbers([debate.id]))
    still_critic = any(
        row.author == ledger.agent and row.status != Status.WITHDRAWN for row in critics.values()
    )
    for row in rows:
        if row[3] != ObligationState.OUTSTANDING:
            continue
        answered_for = row[1] == item.number and row[2] == Duty.RESPOND
        own_watch = row[0] == ledger.agent and row[2] == Duty.ACKNOWLEDGE and not still_critic
        if answered_for or own_watch:
            yield from _settle(ledger, row, ObligationState.WAIVED, f"{item.id} withdrawn")
            yield from ledger.emit(
                EventType.OBLIGATION_WAIVED,
                item if answered_for else debate.root,
                data={"watcher": row[0], "duty": row[2], "reason": f"{item.id} withdrawn"},
                concerns=[row[0]],
            )
    yield from _settle_if_agreed(ledger, debate)


# The tool's operations: each takes the item's number and answers with the debate's state.


def _item(ledger: Ledger, number: int) -> Steps[ItemRow]:
    found = yield from load_visible(ledger.no, [number], ledger.agent, ledger.board.id)
    return found[number]


def debate_open(board: str, agent: str, number: int, watchers: Sequence[str], now: int) -> Steps[None]:
    ledger = yield from open_ledger(board, agent, now)
    item = yield from _item(ledger, number)
    yield from open_explicitly(ledger, item, watchers)
    yield from ledger.close()


def debate_watch(board: str, agent: str, number: int, now: int) -> Steps[None]:
    """The agent owes an acknowledgement of the item; it stays on the board until that is given."""
    ledger = yield from open_ledger(board, agent, now)
    item = yield from _item(ledger, number)
    debate = yield from _debate_about(ledger.no, item)
    if debate is not None:
        yield from _watch_debate(ledger, debate, agent)
    else:
        if item.zone == Zone.ARCHIVE:
            yield from ledger.restore(item, why=f"watched by {agent}")
        rows = yield sql("obligations_of_item"), (ledger.no, item.number)
        if not any(r[0] == agent and r[2] == Duty.ACKNOWLEDGE and r[3] == "outstanding" for r in rows):
            yield from _owe(ledger, agent, item.number, Duty.ACKNOWLEDGE, 0)
            yield from ledger.emit(EventType.OBLIGATION_ADDED, item, data={"watcher": agent})
    yield from ledger.close()


def debate_acknowledge(board: str, agent: str, number: int, now: int) -> Steps[None]:
    """Meets what the agent owes to the item, or to all of the debate it is the root of."""
    ledger = yield from open_ledger(board, agent, now)
    item = yield from _item(ledger, number)
    debate = yield from _debate_about(ledger.no, item)
    met = 0
    rows = list((yield sql("obligations_of_item"), (ledger.no, item.number)))
    if debate is not None:
        more = yield sql("obligations_of_debates"), (ledger.no, numbers([debate.id]))
        whole = [row for row in more if debate.root.number == item.number or row[2] == Duty.ACKNOWLEDGE]
        rows += [row for row in whole if row[1] != item.number]
    names = yield from load_any(ledger.no, [row[1] for row in rows])
    for row in rows:
        if row[0] == agent and row[3] == ObligationState.OUTSTANDING:
            met += 1
            yield from _settle(ledger, row, ObligationState.ACKNOWLEDGED, "")
            yield from ledger.emit(
                EventType.OBLIGATION_MET, names[row[1]], data={"duty": row[2]}, concerns=[item.author]
            )
    asked = debate is not None and any(
        row[0] == agent
        and row[2] == Duty.ACKNOWLEDGE
        and row[4] == debate.id
        and row[3] != ObligationState.WAIVED
        for row in rows
    )
    if debate is not None and not met and not asked:
        # Agreement that nobody asked for counts as well: it is recorded as a watcher's.
        yield from _owe(ledger, agent, debate.root.number, Duty.ACKNOWLEDGE, debate.id)
        row = (agent, debate.root.number, str(Duty.ACKNOWLEDGE), "", debate.id, "", 0)
        yield from _settle(ledger, row, ObligationState.ACKNOWLEDGED, "")
        yield from ledger.emit(EventType.OBLIGATION_MET, debate.root, data={"duty": "acknowledge"})
        met += 1
    if debate is None and not met:
        raise Conflict(
            f"You owe nothing to {item.id}, and no debate is open on it. Nothing was changed.", item=item.id
        )
    if debate is not None:
        yield from _settle_if_agreed(ledger, debate)
    yield from ledger.close()


def debate_withdraw(board: str, agent: str, number: int, reason: str, now: int) -> Steps[None]:
    """Withdraws one's own critique, or a debate one opened by request that has no critique left."""
    ledger = yield from open_ledger(board, agent, now)
    item = yield from _item(ledger, number)
    debate = yield from _debate_about(ledger.no, item)
    if item.type == ItemType.CRITIQUE and item.author == agent:
        yield from withdraw_critique(ledger, item, reason)
    elif debate is None:
        raise Conflict(f"No debate is open on {item.id}. Nothing was changed.", item=item.id)
    else:
        critics = yield from load_any(ledger.no, debate.critiques)
        own = [row for row in critics.values() if row.author == agent and TRANSITIONS[Status(row.status)]]
        argued = any(row.status != Status.WITHDRAWN for row in critics.values())
        if own:
            for row in own:
                yield from withdraw_critique(ledger, row, reason)
        elif debate.explicit and debate.opened_by == agent and not argued and agent != debate.root.author:
            yield from _close(ledger, debate, DebateState.WITHDRAWN, reason or "withdrawn by its opener")
        else:
            raise Refused(
                f"You have no critique in the debate on {debate.root.id}; only a critic withdraws. Nothing was "
                f'changed; use op="acknowledge" to agree.'
            )
    yield from ledger.close()


def debate_decide(
    board: str, agent: str, number: int, reason: str, deciders: Sequence[str], now: int
) -> Steps[None]:
    """A decider closes the debate with a reason; without named deciders, any agent that is not a party."""
    ledger = yield from open_ledger(board, agent, now)
    item = yield from _item(ledger, number)
    debate = yield from _debate_about(ledger.no, item)
    if debate is None:
        raise Conflict(f"No debate is open on {item.id}. Nothing was changed.", item=item.id)
    critics = yield from load_any(ledger.no, debate.critiques)
    parties = {debate.root.author, *(row.author for row in critics.values())}
    if agent == debate.root.author or (deciders and agent not in deciders):
        who = ", ".join(deciders) or "any agent that is neither author nor critic"
        raise Refused(
            f"You cannot decide the debate on {debate.root.id}. Allowed: {who}. Nothing was changed."
        )
    if not deciders and agent in parties:
        raise Refused(
            f"You are a party to the debate on {debate.root.id}; an agent that is neither author nor critic "
            "may decide. Nothing was changed."
        )
    yield from _close(ledger, debate, DebateState.DECIDED, reason)
    yield from ledger.close()


def debate_status(board: str, agent: str, number: int, look: int) -> Steps[DebateView | Item]:
    """The newest debate about an item; the item alone when there never was one."""
    row = yield from get_board(board)
    item = (yield from load_visible(row.no, [number], agent, board))[number]
    found = yield sql("debates_on"), (row.no, numbers([number]))
    if not found:
        found = yield sql("debates_of_critique"), (row.no, number)
    if not found:
        return (yield from values(row, [item], agent))[0]
    listed = yield from debates(row.no, found[-1:])
    debate = listed[0]
    wanted = {debate.root, *debate.critiques, *(o.item for o in debate.obligations)}
    seen = yield from load(row.no, wanted, agent)
    items = yield from values(row, list(seen.values()), agent)
    by_number = {i.number: i for i in items}
    waiting = yield from attention(row.no, agent, look)
    return DebateView(debate, by_number[debate.root], by_number, row.seq, waiting)


def debates(no: int, rows: Rows) -> Steps[list[Debate]]:
    """Debates with their critiques and obligations, in the order of `rows`."""
    if not rows:
        return []
    ids = numbers(row[0] for row in rows)
    critiques: dict[int, list[int]] = {}
    for debate, critique_ in (yield sql("critiques_of"), (no, ids)):
        critiques.setdefault(debate, []).append(critique_)
    owed: dict[int, list[Obligation]] = {}
    for agent, item, duty, state, debate, reason, since in (yield sql("obligations_of_debates"), (no, ids)):
        owed.setdefault(debate, []).append(
            Obligation(agent, item, Duty(duty), ObligationState(state), debate, reason, instant(since))
        )
    return [
        Debate(
            id=row[0],
            root=row[1],
            state=DebateState(row[2]),
            opened_by=row[3],
            opened_at=instant(row[5]),
            closed_by=row[6],
            closed_at=None if row[7] is None else instant(row[7]),
            reason=row[8],
            critiques=tuple(critiques.get(row[0], ())),
            obligations=tuple(owed.get(row[0], ())),
        )
        for row in rows
    ]
