"""Debates inside a transaction: how they open, who then owes what, and what closes them.

A debate closes by the rule in `settle`, by a decision, by withdrawal or by expiry. The owner of the author under
criticism never counts. `answers` handles answers to critiques.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from blackboard_mcp.protocols.debates import FELL, DebateState, Duty, ObligationState, Outcome
from blackboard_mcp.protocols.errors import Conflict, Refused
from blackboard_mcp.protocols.events import SYSTEM, EventType
from blackboard_mcp.protocols.items import TRANSITIONS, EdgeKind, ItemType, Status, Zone

from ...operation import Many, Rows
from ..items import questions, retraction
from ..leaving import guard_index, pressure
from ..ledger.ledger import Ledger, load_any, standing
from ..ledger.principals import behind, owners_of, writer_of
from ..ledger.rows import MAX_REASON, ItemRow, Steps, cut, differences, numbers, sql
from .answers import ask_again, summon
from .standing_watches import watchers_of
from .votes import decisions_of, tally

_NAMED = 8
MAX_BY_TOPIC = 64
"""The most agents whom standing watches oblige in one debate: those who have watched longest."""
DUE = (ObligationState.OUTSTANDING, ObligationState.WATCHING)
"""States of duties that are owed now, or will be once every critique is answered."""
TAKEN_BACK = (Status.WITHDRAWN, Status.INVALIDATED)
"""Statuses of critiques that nobody needs to answer any more."""
AWAY = "away"
"""The reason why a duty is waived of an agent that made no call while others waited."""
_UNFINISHED = (Status.ACTIVE, Status.RESOLVED)


@dataclass(slots=True)
class Open:
    """An open debate inside a transaction.

    Attributes:
        id: the sequence of the event that opened it.
        root: the debated item.
        critiques: numbers of the critiques.
        waiting: numbers of those that the criticised side has not answered and that were not withdrawn.
        explicit: tells whether a call opened it, not a critique.
        opened_by: the agent that opened it.
    """

    id: int
    root: ItemRow
    critiques: list[int]
    waiting: list[int]
    explicit: bool
    opened_by: str


def _open_debates(no: int, item: ItemRow | None, ids: Collection[int] = ()) -> Steps[list[Open]]:
    """Returns the open debates in which an item, if any, is root or critique, and those of `ids`, oldest first."""
    rows = yield sql("debates_about"), (no, item.number if item else 0, numbers(ids))
    if not rows:
        return []
    critiques: dict[int, list[int]] = {}
    waiting: dict[int, list[int]] = {}
    for debate, critique, answer, left in (yield sql("critiques_of"), (no, numbers(row[0] for row in rows))):
        critiques.setdefault(debate, []).append(critique)
        if not answer and not left:
            waiting.setdefault(debate, []).append(critique)
    known = {item.number: item} if item else {}
    roots = known | (yield from load_any(no, {row[1] for row in rows} - known.keys()))
    return [
        Open(id_, roots[root], critiques.get(id_, []), waiting.get(id_, []), bool(told), by)
        for id_, root, by, told in rows
    ]


def open_debates(no: int, ids: Collection[int]) -> Steps[list[Open]]:
    """Returns those of the debates that are open, oldest first."""
    return (yield from _open_debates(no, None, ids)) if ids else []


def _debates_about(no: int, item: ItemRow) -> Steps[list[Open]]:
    """Returns the open debates about an item: first the one on the item, then those in which it is a critique."""
    listed = yield from _open_debates(no, item)
    return sorted(listed, key=lambda debate: debate.root.number != item.number)


def debate_about(no: int, item: ItemRow) -> Steps[Open | None]:
    """Returns the open debate on the item, else one in which it is a critique, or `None`."""
    listed = yield from _debates_about(no, item)
    return listed[0] if listed else None


def is_open(ledger: Ledger, item: ItemRow) -> Steps[bool]:
    """Tells whether an open debate is about the item, or has it as a critique."""
    return (yield from debate_about(ledger.no, item)) is not None


def moved(ledger: Ledger, debate: int) -> Steps[None]:
    """Restarts the time until the debate expires, because something happened in it."""
    yield sql("debate_moved"), (ledger.no, debate, ledger.now)


def owe(ledger: Ledger, agent: str, item: int, duty: Duty, debate: int) -> Steps[None]:
    """Makes the agent owe the item a duty in a debate; `debate` is 0 for none."""
    state = str(ObligationState.OUTSTANDING)
    yield sql("obligation_add"), (ledger.no, agent, item, str(duty), debate, ledger.now, state)


def settle_duty(ledger: Ledger, row: Sequence[object], state: ObligationState, reason: str) -> Steps[None]:
    """Sets the state of a duty, given by its row, with the reason."""
    agent, item, duty, _state, debate, _reason, _since = row
    yield sql("obligation_set"), (ledger.no, agent, item, duty, debate, str(state), reason)


def _begin(
    ledger: Ledger, root: ItemRow, watchers: Iterable[str], by: _Critique | None = None
) -> Steps[None]:
    """Opens a debate on `root`, by a critique or by a call.

    Agents who already watch the item or a topic of it watch the debate too. They are asked to judge, but for a critique
    once it is answered.
    """
    if root.zone == Zone.ARCHIVE:
        yield from ledger.restore(root, why="debate")
    obliged = dict.fromkeys(watchers)
    asked = False
    for row in (yield sql("obligations_of_item"), (ledger.no, root.number)):
        if row[2] == Duty.ACKNOWLEDGE and row[4] == 0 and row[3] != ObligationState.WAIVED:
            obliged[row[0]] = None
            asked = asked or row[3] == ObligationState.OUTSTANDING
    by_topic = yield from watchers_of(ledger, root)
    obliged.update(dict.fromkeys(name for name in by_topic[:MAX_BY_TOPIC] if name != root.author))
    former = {"status": root.status}
    if Status(root.status) in _UNFINISHED:
        root.status = str(Status.DEBATED)
    data: dict[str, object] = {"watchers": list(obliged)[:8], **differences(former, {"status": root.status})}
    if len(by_topic) > MAX_BY_TOPIC:
        data["not_obliged"] = len(by_topic) - MAX_BY_TOPIC
    if by is not None:
        data["critique"] = by.item.id
    ledger.holding.add(root.number)
    seq = yield from ledger.emit(
        EventType.DEBATE_OPENED,
        root,
        data=data,
        concerns=[root.author, *obliged],
        told=by is not None,
    )
    root.seq, root.updated_at = seq, ledger.now
    yield sql("item_status"), (ledger.no, root.number, root.status, seq, ledger.now, ledger.agent)
    yield sql("debate_add"), (ledger.no, seq, root.number, ledger.agent, int(by is None), ledger.now, "")
    # The walk from the root reaches the critique over its edge, so that no second one begins there.
    alone = by.item.number if by is not None and by.alone else None
    yield from guard_index.hold(ledger.no, seq, root.number, free=by is not None and by.free, alone=alone)
    judging = _judging(ledger, by)
    ack, duties = str(Duty.ACKNOWLEDGE), Many()
    for name in obliged:
        duties.append((ledger.no, name, root.number, ack, seq, ledger.now, str(judging)))
    if by is not None:
        yield sql("debate_critique_add"), (ledger.no, by.item.number, seq)
        if by.answers:
            due = (str(Duty.RESPOND), seq, ledger.now, str(ObligationState.OUTSTANDING))
            duties.append((ledger.no, by.answers, by.item.number, *due))
    if duties:
        yield sql("obligation_add"), duties
    if by is not None and (asked or judging is ObligationState.OUTSTANDING):
        yield from summon(ledger, seq, root.number, [by.item.number])


def _judging(ledger: Ledger, by: _Critique | None) -> ObligationState:
    """Returns the state of the watchers' duty to judge when a debate opens: a critique has no answer yet."""
    # Votes do not wait for answers that nobody owes.
    return (
        ObligationState.OUTSTANDING if by is None or ledger.board.config.quorum else ObligationState.WATCHING
    )


@dataclass(frozen=True, slots=True)
class _Critique:
    """A critique that opens a debate.

    Attributes:
        item: the critique.
        answers: who owes it an answer; empty for nobody.
        free: tells whether no debate protects what it criticises.
        alone: tells whether it has one edge and is reached by no other.
    """

    item: ItemRow
    answers: str
    free: bool
    alone: bool


def critique(
    ledger: Ledger, item: ItemRow, target: ItemRow, *, free: bool = False, alone: bool = False
) -> Steps[None]:
    """Applies a critique of another agent's item: opens a debate on it, or joins the open one.

    A critique of an item that already fell, or of a critique that was withdrawn, has no effect. `free` tells whether no
    debate protects the target, so that none is about it; `alone`, whether the critique has one edge, and is reached
    by no other.

    Raises:
        Conflict: the item was deleted or forgotten.
    """
    if item.type != ItemType.CRITIQUE or not TRANSITIONS[Status(item.status)]:
        return
    if ledger.agent == target.author == (yield from writer_of(target)):
        return
    standing(target)
    if not TRANSITIONS[Status(target.status)]:
        return  # it fell already, so a debate could not change anything
    debate = None if free else (yield from debate_about(ledger.no, target))
    if target.zone == Zone.ARCHIVE:
        yield from ledger.restore(target, why=f"critique {item.id}")
    answers = target.author
    if answers == ledger.agent:  # the author criticises what another agent wrote into its entry
        answers = yield from writer_of(target)
    if answers in (SYSTEM, ledger.agent):  # the server never answers
        answers = ""
    ledger.debating.add(item.number)
    if debate is None:
        yield from _begin(ledger, target, [ledger.agent], _Critique(item, answers, free, alone))
        return
    yield from guard_index.hold(ledger.no, debate.id, item.number)
    yield from owe(ledger, ledger.agent, debate.root.number, Duty.ACKNOWLEDGE, debate.id)
    yield from ledger.emit(
        EventType.DEBATE_JOINED,
        debate.root,
        data={"critique": item.id},
        concerns=[target.author, debate.root.author],
        told=target.author == debate.root.author,
    )
    yield from moved(ledger, debate.id)
    rows: Rows = yield sql("obligations_of_debates"), (ledger.no, numbers([debate.id]))
    for row in rows:  # with a new critique, an agent has answered the request to confirm a decision
        if row[0] == ledger.agent and row[2] == Duty.CONFIRM and row[3] == ObligationState.OUTSTANDING:
            yield from settle_duty(ledger, row, ObligationState.ACKNOWLEDGED, "criticised instead")
    yield sql("debate_critique_add"), (ledger.no, item.number, debate.id)
    if answers:
        yield from owe(ledger, answers, item.number, Duty.RESPOND, debate.id)
    yield from summon(ledger, debate.id, debate.root.number, [*debate.waiting, item.number])


def open_explicitly(ledger: Ledger, root: ItemRow, watchers: Sequence[str]) -> Steps[None]:
    """Opens a debate by request, or adds the watchers to the open one.

    Raises:
        Refused: not everybody may see the item.
        Conflict: the item fell already.
    """
    if not root.public:
        raise Refused(
            f"{root.id} is {root.visibility}: a debate, which another owner than its author's closes, needs an item "
            "that the board sees. Nothing was changed."
        )
    debate = yield from debate_about(ledger.no, root)
    if debate is None:
        if Status(root.status) in (Status.WITHDRAWN, Status.INVALIDATED):
            raise Conflict(
                f"{root.id} is {root.status}, which is final: there is nothing left to debate. Nothing was "
                "changed.",
                item=root.id,
                status=root.status,
            )
        everyone = list(watchers) if ledger.agent == root.author else [ledger.agent, *watchers]
        yield from _begin(ledger, root, everyone)
        return
    for watcher in dict.fromkeys([ledger.agent, *watchers]):
        yield from watch_debate(ledger, debate, watcher)


def watch_debate(ledger: Ledger, debate: Open, watcher: str) -> Steps[None]:
    """Makes an agent owe an acknowledgement in the debate, unless it owes one already."""
    rows = yield sql("obligations_of_debates"), (ledger.no, numbers([debate.id]))
    if any(r[0] == watcher and r[2] == Duty.ACKNOWLEDGE and r[3] in DUE for r in rows):
        return
    yield from owe(ledger, watcher, debate.root.number, Duty.ACKNOWLEDGE, debate.id)
    yield from summon(ledger, debate.id, debate.root.number)
    yield from ledger.emit(
        EventType.OBLIGATION_ADDED, debate.root, data={"watcher": watcher}, concerns=[watcher]
    )
    yield from moved(ledger, debate.id)


def new_version(ledger: Ledger, root: ItemRow) -> Steps[None]:
    """Asks for acknowledgements again, because a debated entry or a critique has a new version."""
    for debate in (yield from _debates_about(ledger.no, root)):
        if debate.root.number != root.number:
            yield from ask_again(ledger, root, debate.id, debate.root.number)
            yield from moved(ledger, debate.id)
            continue
        for row in (yield sql("obligations_of_debates"), (ledger.no, numbers([debate.id]))):
            if row[2] == Duty.ACKNOWLEDGE and row[3] == ObligationState.ACKNOWLEDGED:
                yield from owe(ledger, row[0], root.number, Duty.ACKNOWLEDGE, debate.id)
                yield from ledger.emit(
                    EventType.OBLIGATION_ADDED,
                    root,
                    data={"watcher": row[0], "why": f"version {root.version}"},
                    concerns=[row[0]],
                )
        yield from summon(ledger, debate.id, root.number)
        yield from _call_off(
            ledger, debate.id, (yield sql("decisions_drop"), (ledger.no, debate.id, root.version))
        )
        yield from moved(ledger, debate.id)


def _call_off(ledger: Ledger, debate: int, dropped: Rows) -> Steps[None]:
    """Waives the duties to confirm if no decision is left; `dropped` are the deleted decisions."""
    if not dropped or (yield from decisions_of(ledger.no, [debate])):
        return
    rows: Rows = yield sql("obligations_of_debates"), (ledger.no, numbers([debate]))
    asked = [row for row in rows if row[2] == Duty.CONFIRM and row[3] == ObligationState.OUTSTANDING]
    yield from waive(ledger, asked, "the decision was taken back")


def close(
    ledger: Ledger,
    debate: Open,
    state: DebateState,
    reason: str,
    outcome: Outcome,
    *,
    to: ItemRow | None = None,
    by: str = "",
    rows: Rows | None = None,
) -> Steps[None]:
    """Closes a debate: sets its final state and the item's status, and waives duties that are still owed.

    `to` replaces an item that fell or is amended. `by` is the agent who decided, if the ledger's agent only
    confirmed. `rows` are the debate's obligations, if the caller has just read them, and the root is as it was read.
    """
    root = debate.root
    if rows is None:
        root = (yield from load_any(ledger.no, [root.number]))[root.number]
        rows = yield sql("obligations_of_debates"), (ledger.no, numbers([debate.id]))
    left = [row for row in rows if row[3] in DUE]
    former = {"status": root.status}
    if outcome in FELL and Status.INVALIDATED in TRANSITIONS[Status(root.status)]:
        root.status = str(Status.INVALIDATED)
    elif root.status == Status.DEBATED:
        root.status = str(Status.ACTIVE)
    data: dict[str, object] = {
        "state": str(state),
        "outcome": str(outcome),
        "reason": cut(reason, MAX_REASON),
        **differences(former, {"status": root.status}),
    }
    if to is not None:
        data["gave_way_to"] = to.id
    if by:
        data["decided_by"] = by
    seq = yield from ledger.emit(
        EventType.DEBATE_CLOSED, root, data=data, concerns=[root.author, *(row[0] for row in rows)]
    )
    root.seq, root.updated_at = seq, ledger.now
    yield sql("item_debated"), (ledger.no, root.number, root.status, seq, ledger.now, ledger.agent)
    yield (
        sql("debate_close"),
        (
            *(ledger.no, debate.id, str(state), by or ledger.agent, ledger.now, reason, str(outcome)),
            *(0 if to is None else to.number, ledger.agent if by else ""),
        ),
    )
    yield sql("watches_go_on"), (ledger.no, root.number)
    yield from guard_index.release(ledger.no, debate.id)
    yield from waive(ledger, left, f"debate {state}")
    yield from pressure.resolve_if_over(ledger, root)
    if outcome in FELL:
        yield from questions.over(ledger, root, f"{root.id} fell")
        yield from retraction.retract(ledger, root, root.status, None if to is None else to.number)
        yield from _leave_all(ledger, root, f"{root.id} fell")


def waive(ledger: Ledger, rows: Rows, reason: str, told: Iterable[str] = ()) -> Steps[None]:
    """Waives duties, each with an event, of which the agents in `told` are told too."""
    items = yield from load_any(ledger.no, [row[1] for row in rows])
    for row in rows:
        yield from settle_duty(ledger, row, ObligationState.WAIVED, reason)
        yield from ledger.emit(
            EventType.OBLIGATION_WAIVED,
            items[row[1]],
            data={"watcher": row[0], "duty": row[2], "reason": reason},
            concerns=[row[0], *told],
        )


def settle(ledger: Ledger, debate: Open, rows: Rows | None = None) -> Steps[bool]:
    """Closes the debate if the board's rule is met: all watchers acknowledged, or a quorum voted; tells whether.

    `rows` as for `close`.
    """
    if ledger.board.config.quorum == 0:
        return (yield from _settle_if_agreed(ledger, debate, rows))
    return (yield from _settle_if_voted(ledger, debate))


def _settle_if_agreed(ledger: Ledger, debate: Open, rows: Rows | None) -> Steps[bool]:
    """Closes the debate as CONSENSUS if every critique is answered and every watcher acknowledged; tells whether.

    One of them at least must act neither for the author's owner nor for the owner of the version's writer.
    """
    if debate.waiting:
        return False
    if rows is None:
        rows = yield sql("obligations_of_debates"), (ledger.no, numbers([debate.id]))
    watching = [row for row in rows if row[2] == Duty.ACKNOWLEDGE]
    if any(row[3] == ObligationState.OUTSTANDING for row in watching):
        return False
    agreed = [row[0] for row in watching if row[3] == ObligationState.ACKNOWLEDGED]
    sides = {debate.root.author, (yield from writer_of(debate.root))}
    owners = yield from owners_of(sides.union(agreed))
    agreeing = {owners[agent] for agent in agreed}
    if any(agreeing <= {owners[side]} for side in sides):
        return False
    names = ", ".join(agreed[:_NAMED]) + (f" +{len(agreed) - _NAMED}" if len(agreed) > _NAMED else "")
    why = f"{'every critique was answered; ' if debate.critiques else ''}agreed: {names}"
    yield from close(ledger, debate, DebateState.CONSENSUS, why, Outcome.STANDS, rows=rows)
    return True


def _settle_if_voted(ledger: Ledger, debate: Open) -> Steps[bool]:
    """Closes the debate as CONSENSUS if a quorum of owners and the majority voted one way; tells whether."""
    quorum = ledger.board.config.quorum
    count = yield from tally(ledger.no, debate.id, debate.root, quorum)
    in_favour, against = len(count.approving), len(count.rejecting)
    if max(in_favour, against) < quorum or in_favour == against:
        return False
    outcome = Outcome.STANDS if in_favour > against else Outcome.FALLS
    why = f"{outcome} by vote: {in_favour} in favour, {against} against"
    yield from close(ledger, debate, DebateState.CONSENSUS, why, outcome)
    return True


def withdraw_critique(
    ledger: Ledger, item: ItemRow, reason: str = "", status: Status = Status.WITHDRAWN
) -> Steps[None]:
    """Withdraws a critique, or sets another final `status`; an implicit debate without critiques becomes WITHDRAWN.

    Raises:
        Conflict: its status is final already.
    """
    if not TRANSITIONS[Status(item.status)]:
        raise Conflict(
            f"{item.id} is {item.status}, which is final. Nothing was changed.",
            item=item.id,
            status=item.status,
        )
    data: dict[str, object] = {"status": [item.status, str(status)]}
    if reason:
        data["reason"] = cut(reason, MAX_REASON)
    seq = yield from ledger.emit(EventType.ITEM_CHANGED, item, data=data, concerns=[item.author])
    item.status, item.seq = str(status), seq
    yield sql("item_status"), (ledger.no, item.number, item.status, seq, ledger.now, ledger.agent)
    if item.zone == Zone.ARCHIVE:
        yield sql("outbox_add"), (ledger.no, item.number)
    yield from retraction.retract(ledger, item, item.status)
    yield from _leave_all(ledger, item, reason)


def _leave_all(ledger: Ledger, item: ItemRow, reason: str) -> Steps[None]:
    """Removes a withdrawn critique from all open debates."""
    for debate in (yield from _debates_about(ledger.no, item)):
        if item.number in debate.critiques:
            yield from _leave(ledger, debate, item, reason)


def _leave(ledger: Ledger, debate: Open, item: ItemRow, reason: str) -> Steps[None]:
    """Removes a withdrawn critique from a debate.

    Critiques that criticise only withdrawn critiques got what they asked for: that answers them. A debate opened by
    critiques closes when no other is left; otherwise the duties that the critique caused are waived.
    """
    critics = yield from load_any(ledger.no, debate.critiques)
    moot = yield from _moot(ledger, debate, critics)
    if (
        all(row.status in TAKEN_BACK or row.number in moot for row in critics.values())
        and not debate.explicit
    ):
        why = f"{item.id} withdrawn" + (f": {reason}" if reason else "")
        yield from close(ledger, debate, DebateState.WITHDRAWN, why, Outcome.STANDS)
        return
    rows = yield sql("obligations_of_debates"), (ledger.no, numbers([debate.id]))
    still_critic = any(row.author == item.author and row.status not in TAKEN_BACK for row in critics.values())
    for row in rows:
        if row[3] not in DUE:
            continue
        answered_for = row[1] in (item.number, *moot) and row[2] == Duty.RESPOND
        own_watch = row[0] == item.author and row[2] == Duty.ACKNOWLEDGE and not still_critic
        if answered_for or own_watch:
            yield from waive(ledger, [row], f"{item.id} withdrawn")
    for number in sorted(moot.intersection(debate.waiting)):
        yield sql("critique_answered"), (ledger.no, debate.id, number, item.number)
    if not still_critic:
        dropped = yield sql("decision_drop"), (ledger.no, debate.id, item.author)
        yield from _call_off(ledger, debate.id, dropped)
    yield from summon(ledger, debate.id, debate.root.number)
    yield from moved(ledger, debate.id)
    yield from settle(ledger, debate)


def _moot(ledger: Ledger, debate: Open, critics: Mapping[int, ItemRow]) -> Steps[set[int]]:
    """Returns standing critiques that criticise, of the debate's items, only critiques that were withdrawn or are moot.

    `critics` are the debate's critiques by number.
    """
    members = {debate.root.number, *critics}
    targets: dict[int, set[int]] = {}
    for source, kind, target in (yield sql("edges_touching"), (ledger.no, numbers(critics))):
        if kind == EdgeKind.CRITIQUES and source in critics and target in members:
            targets.setdefault(source, set()).add(target)
    gone = {number for number, row in critics.items() if row.status in TAKEN_BACK}
    moot: set[int] = set()
    while more := {n for n, about in targets.items() if n not in gone | moot and about <= gone | moot}:
        moot |= more
    return moot


def acts_for_author(ledger: Ledger, debate: Open) -> Steps[bool]:
    """Tells whether the ledger's agent acts for the author's owner, or for that of the version's writer."""
    return ledger.side in (yield from behind(debate.root))
