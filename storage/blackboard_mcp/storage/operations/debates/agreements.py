"""Agreement to items inside a transaction: who is asked, who agrees, and what ends the asking.

Each agent that is asked owes the item an answer (the duty `agree`), which keeps the item in working memory but
does not change it. An acknowledgement agrees, and so does a post of the agent with a `supports` edge to the item.
A new version asks all of them again. The end of the item, by whatever way, ends the asking.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from blackboard_mcp.protocols.agreements import MOST_ASKED, Agreement, Ask
from blackboard_mcp.protocols.board import BoardConfig
from blackboard_mcp.protocols.debates import Duty, ObligationState
from blackboard_mcp.protocols.errors import Conflict, InvalidInput, Refused
from blackboard_mcp.protocols.events import SYSTEM, EventType
from blackboard_mcp.protocols.items import ABOUT_PROBLEM, FINISHED, LETTERS, ItemType, Status, Zone

from ...operation import Rows
from ..ledger.ledger import Ledger, load_any
from ..ledger.principals import owner_of, owners_of
from ..ledger.rows import MAX_REASON, ItemRow, Steps, cut, numbers, sql

AWAY = "away"
_ENOUGH = "enough agreed"
_NEVER = frozenset({ItemType.QUESTION, ItemType.CRITIQUE, ItemType.REPLY, ItemType.LOG, ItemType.SUMMARY})
_TOLD = 8
_PROBLEM: Final = re.compile(rf"(?<![\w-]){LETTERS[ItemType.PROBLEM]}-([1-9][0-9]{{0,8}})(?![\w-])")
_HERE = 900
"""An agent counts as present for so many seconds after a call, on boards that set no `presence_seconds`."""


def ask(ledger: Ledger, row: ItemRow, wanted: Ask) -> Steps[None]:
    """Asks agents for agreement in the author's name, except those already asked or agreeing to this version.

    Raises:
        Refused: the item is another agent's, or nobody is present to be asked.
        InvalidInput: items of this kind or visibility need no agreement, or fewer agents are asked than must agree.
        Conflict: the item has a final status.
    """
    if row.author != ledger.agent:
        raise Refused(
            f"Only {row.author}, its author, may ask for agreement to {row.id}. Nothing was changed."
        )
    if row.type in _NEVER or not row.public:
        what = f"a {row.type}" if row.type in _NEVER else str(row.visibility)
        raise InvalidInput(
            f"{row.id} is {what}: agree goes with decisions, plans and findings that the board sees. "
            "Nothing was changed."
        )
    if row.status in FINISHED:
        raise Conflict(
            f"{row.id} is {row.status}: there is nothing left to agree to. Nothing was changed.",
            item=row.id,
            status=row.status,
        )
    names = yield from _asked(ledger, row, wanted)
    known = {r[1]: r for r in (yield sql("agreeing"), (ledger.no, numbers([row.number])))}
    everyone = list(dict.fromkeys([*known, *names]))
    owners = set((yield from owners_of(everyone)).values())
    if wanted.enough > len(owners):
        raise InvalidInput(
            f"{wanted.enough} are to agree, and those asked count as {len(owners)} ({', '.join(everyone[:_TOLD])}). "
            "Nothing was changed."
        )
    if row.zone == Zone.ARCHIVE:
        yield from ledger.restore(row, why="agreement asked")
    yield sql("agreement_put"), (ledger.no, row.number, ledger.agent, wanted.enough, ledger.now)
    ledger.holding.add(row.number)
    due = (ObligationState.OUTSTANDING, ObligationState.ACKNOWLEDGED)
    fresh = [name for name in names if name not in known or known[name][3] not in due]
    yield from _oblige(ledger, row, fresh, {"enough": wanted.enough} if wanted.enough else {})
    yield from _settle(ledger, row)


def _asked(ledger: Ledger, row: ItemRow, wanted: Ask) -> Steps[list[str]]:
    """Returns the agents to ask: those named, and for "all" those present too.

    Raises:
        InvalidInput: one of them acts for the author's owner, or is the server.
        Refused: there is nobody to ask.
    """
    own = yield from owner_of(row.author)
    owners = yield from owners_of(wanted.names)
    mine = [name for name in wanted.names if owners[name] == own or name == SYSTEM]
    if mine:
        raise InvalidInput(
            f"{mine[0]} cannot agree to {row.id}: agreement is another owner's to give. Nothing was changed; "
            "ask others."
        )
    names = list(dict.fromkeys(wanted.names))
    if wanted.everybody:
        since = ledger.now - (ledger.board.config.presence_seconds or _HERE) * 1_000_000
        here = yield sql("present"), (ledger.no, since, own, SYSTEM, MOST_ASKED)
        names += [name for (name,) in here if name not in names]
    if not names:
        raise Refused(
            "Nobody else is on the board now whom you could ask to agree. Nothing was changed; name agents instead of "
            '"all", or post without agree.'
        )
    return names


def _oblige(ledger: Ledger, row: ItemRow, names: Sequence[str], more: dict[str, Any]) -> Steps[None]:
    """Makes the agents owe agreement, with one event; `more` goes into its data."""
    if not names:
        return
    due = str(ObligationState.OUTSTANDING)
    for name in names:
        yield sql("obligation_add"), (ledger.no, name, row.number, str(Duty.AGREE), 0, ledger.now, due)
    data = {"agents": list(names[:_TOLD]), **more}
    if len(names) > _TOLD:
        data["more"] = len(names) - _TOLD
    yield from ledger.emit(EventType.AGREEMENT_ASKED, row, data=data, concerns=names)


def give(ledger: Ledger, item: ItemRow, reason: str = "") -> Steps[bool]:
    """Records that the ledger's agent agrees to the present version, and returns whether this was new.

    It is not new if the agent was not asked, or agreed already. An agent that was excused for being away may still
    agree when it is back.
    """
    if item.status in FINISHED:
        return False
    rows: Rows = yield sql("agreeing"), (ledger.no, numbers([item.number]))
    mine = [r for r in rows if r[1] == ledger.agent and r[3] != ObligationState.ACKNOWLEDGED]
    if not mine or (mine[0][3] == ObligationState.WAIVED and mine[0][5] != AWAY):
        return False
    yield from _set(ledger, mine[0], ObligationState.ACKNOWLEDGED, f"version {item.version}")
    data: dict[str, object] = {"version": item.version}
    if reason:
        data["reason"] = cut(reason, MAX_REASON)
    yield from ledger.emit(EventType.AGREEMENT_GIVEN, item, data=data, concerns=[item.author])
    yield from _settle(ledger, item)
    return True


def _set(ledger: Ledger, row: Sequence[Any], state: ObligationState, reason: str) -> Steps[None]:
    """Sets the state of a duty to agree, with the reason."""
    item, agent, duty, _state, debate, *_ = row
    yield sql("obligation_set"), (ledger.no, agent, item, duty, debate, str(state), reason)


def _settle(ledger: Ledger, item: ItemRow) -> Steps[None]:
    """Records that the item is agreed to once enough agents agreed, and excuses the others."""
    found = yield sql("agreements"), (ledger.no, numbers([item.number]))
    rows: Rows = yield sql("agreeing"), (ledger.no, numbers([item.number]))
    if not found or found[0][3]:
        return
    agreed = [r[1] for r in rows if r[3] == ObligationState.ACKNOWLEDGED]
    left = [r for r in rows if r[3] == ObligationState.OUTSTANDING]
    count = len(set((yield from owners_of(agreed)).values()))
    enough = found[0][2]
    if not count or (count < enough if enough else left):
        return
    yield sql("agreement_reached"), (ledger.no, item.number, 1)
    problems = yield from open_problems(ledger, item)
    data = {"agreed": agreed[:_TOLD], "problems": [problem.id for problem in problems]}
    yield from ledger.emit(
        EventType.AGREEMENT_REACHED,
        item,
        data={name: listed for name, listed in data.items() if listed},
        concerns=[item.author, *(problem.author for problem in problems), *(r[1] for r in rows)],
    )
    yield from _let_off(ledger, item, left, _ENOUGH)


def open_problems(ledger: Ledger, item: ItemRow) -> Steps[list[ItemRow]]:
    """Returns the open problems that everybody sees and that a decision is about, or that its text names.

    There are none for other items.
    """
    if item.type != ItemType.DECISION:
        return []
    touching = yield sql("edges_touching"), (ledger.no, numbers([item.number]))
    about = [row[2] for row in touching if row[0] == item.number and row[1] in ABOUT_PROBLEM]
    about += list(dict.fromkeys(map(int, _PROBLEM.findall(item.text))))[:_TOLD]
    rows = yield from load_any(ledger.no, about)
    open_ = (row for row in rows.values() if row.type == ItemType.PROBLEM and row.status == Status.ACTIVE)
    return [row for row in open_ if row.public][:_TOLD]


def _let_off(ledger: Ledger, item: ItemRow, rows: Rows, reason: str) -> Steps[None]:
    """Excuses agents from agreeing, each with an event."""
    for row in rows:
        yield from _set(ledger, row, ObligationState.WAIVED, reason)
        data = {"watcher": row[1], "duty": row[2], "reason": reason}
        yield from ledger.emit(EventType.OBLIGATION_WAIVED, item, data=data, concerns=[row[1], item.author])


def ask_again(ledger: Ledger, item: ItemRow) -> Steps[None]:
    """Asks all agents again, because the item has a new version."""
    rows: Rows = yield sql("agreeing"), (ledger.no, numbers([item.number]))
    if not rows:
        return
    yield sql("agreement_reached"), (ledger.no, item.number, 0)
    ledger.holding.add(item.number)
    yield from _oblige(ledger, item, [r[1] for r in rows], {"why": f"version {item.version}"})


def end(ledger: Ledger, item: ItemRow, why: str) -> Steps[None]:
    """Excuses all agents who have not agreed, because the item is over; who agreed stays recorded."""
    rows: Rows = yield sql("agreeing"), (ledger.no, numbers([item.number]))
    left = [r for r in rows if r[3] == ObligationState.OUTSTANDING]
    if left:
        yield from _let_off(ledger, item, left, f"{item.id} {why.lower()}")


def let_go(ledger: Ledger, since: int, most: int) -> Steps[None]:
    """Excuses agents who are away since `since` while the author is present, at most `most`; then settles the items."""
    rows: Rows = yield sql("agreeing_and_absent"), (ledger.no, since, most, ledger.now)
    items = yield from load_any(ledger.no, {r[1] for r in rows})
    for agent, number, *rest in rows:
        yield from _let_off(ledger, items[number], [(number, agent, *rest)], AWAY)
    for number in sorted(items):
        yield from _settle(ledger, items[number])


def excuse(ledger: Ledger, item: ItemRow, agent: str) -> Steps[None]:
    """Excuses an agent that leaves, if it was asked and has not agreed; then settles the item."""
    rows: Rows = yield sql("agreeing"), (ledger.no, numbers([item.number]))
    left = [r for r in rows if r[1] == agent and r[3] == ObligationState.OUTSTANDING]
    yield from _let_off(ledger, item, left, AWAY)
    yield from _settle(ledger, item)


def boards_due(now: int, closed: str, opened: int) -> Steps[list[str]]:
    """Returns the boards where an agent who was asked is away for too long.

    `closed` is the lifecycle to leave out, `opened` when the store was opened.
    """
    bound = now, BoardConfig().presence_seconds, closed, opened
    return [row[0] for row in (yield sql("agreements_lapsing"), bound)]


def standing(no: int, asked: Iterable[int]) -> Steps[dict[int, Agreement]]:
    """Returns the state of agreement, by item number, for those of the items with agents who were asked."""
    listed = numbers(asked)
    found = {row[0]: row for row in (yield sql("agreements"), (no, listed))}
    if not found:
        return {}
    sides: dict[int, dict[str, list[str]]] = {number: {} for number in found}
    for item, agent, _duty, state, _debate, reason, _since in (yield sql("agreeing"), (no, listed)):
        if state != ObligationState.WAIVED or reason == AWAY:
            sides.setdefault(item, {}).setdefault(state, []).append(agent)
    return {
        number: Agreement(
            agreed=tuple(sides[number].get(ObligationState.ACKNOWLEDGED, ())),
            waiting=tuple(sides[number].get(ObligationState.OUTSTANDING, ())),
            away=tuple(sides[number].get(ObligationState.WAIVED, ())),
            enough=row[2],
            reached=bool(row[3]),
        )
        for number, row in found.items()
    }
