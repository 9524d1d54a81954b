"""Debates as callers read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from blackboard_mcp.protocols.answers import Attention, DebateView
from blackboard_mcp.protocols.debates import Debate, DebateState, Duty, Obligation, ObligationState, Tally
from blackboard_mcp.protocols.items import Item

from ...operation import Rows
from ..ledger.idempotency import Form, whole
from ..ledger.ledger import Ledger, attention, attention_after, get_board, load, load_visible
from ..ledger.rows import BoardRow, ItemRow, Steps, instant, numbers, sql
from ..reading.item_states import values
from .votes import decisions_of, tally, votes_of


def debate_status(board: str, agent: str, number: int, *, look: int = 0) -> Steps[DebateView | Item]:
    """Returns the newest debate about an item; the item alone if there never was one.

    Raises:
        UnknownReference: the board does not exist, or the agent sees no such item.
    """
    return (yield from status_on((yield from get_board(board)), agent, number, look))


def status_on(
    row: BoardRow, agent: str, number: int, look: int, after: Ledger | None = None
) -> Steps[DebateView | Item]:
    """Returns the same as `debate_status`, of a board that was read; `after` is the ledger of the agent's change."""
    found = yield sql("debates_on"), (row.no, numbers([number]))
    if not found:
        found = yield sql("debates_of_critique"), (row.no, number)
    if not found:
        item = (yield from load_visible(row.no, [number], agent, row.id))[number]
        return (yield from values(row, [item], agent))[0]
    (debate,) = yield from debates(row.no, found[-1:])
    seen = yield from load(row.no, {number, *_named(debate)}, agent)
    if number not in seen:
        yield from load_visible(row.no, [number], agent, row.id)
    root = seen[debate.root]
    count = yield from tally(row.no, debate.id, root, row.config.quorum, debate.votes)
    if after is None:
        waiting = yield from attention(row.no, agent, look)
    else:
        waiting = yield from attention_after(after, look, own_since=None if after.others else after.before)
    return (yield from _view(row, agent, debate, count, row.seq, seen, waiting))


def kept_status(board: str, agent: str, number: int, look: int) -> Form[DebateView | Item]:
    """Returns the form that stores a debate's state, duties and votes.

    When the call is repeated, the items of the debate are shown as they are now.
    """
    debate_form, tally_form = whole(Debate), whole(Tally)

    def keep(view: DebateView | Item) -> Any:
        if not isinstance(view, DebateView):
            return []
        return [debate_form.keep(view.debate), tally_form.keep(view.tally), view.seq]

    def again(kept: Any) -> Steps[DebateView | Item]:
        row = yield from get_board(board)
        if not kept:
            item = (yield from load_visible(row.no, [number], agent, board))[number]
            return (yield from values(row, [item], agent))[0]
        debate = yield from debate_form.again(kept[0])
        count = yield from tally_form.again(kept[1])
        seen = yield from load(row.no, _named(debate), agent)
        waiting = yield from attention(row.no, agent, look)
        return (yield from _view(row, agent, debate, count, kept[2], seen, waiting))

    return Form(keep, again)


def _named(debate: Debate) -> set[int]:
    """Returns the numbers of the items that a debate names."""
    named = {debate.root, *debate.critiques, *(o.item for o in debate.obligations)}
    named |= (
        {answer for _, answer in debate.answers} | {d.to for d in debate.decisions} | {debate.gave_way_to}
    )
    return named - {0}


def _view(
    row: BoardRow,
    agent: str,
    debate: Debate,
    count: Tally,
    seq: int,
    seen: Mapping[int, ItemRow],
    waiting: Attention,
) -> Steps[DebateView]:
    """Returns the view of a debate with those of its items that the agent may see, `seen`."""
    items = yield from values(row, list(seen.values()), agent)
    by_number = {i.number: i for i in items}
    due = row.config.pass_due(row.working_tokens, row.pressure)
    return DebateView(debate, by_number[debate.root], by_number, seq, waiting, count, due)


def debates(no: int, rows: Rows) -> Steps[list[Debate]]:
    """Returns debates with critiques, duties, votes and decisions, in the order of `rows`."""
    if not rows:
        return []
    ids = numbers(row[0] for row in rows)
    critiques: dict[int, list[int]] = {}
    answers: dict[int, list[tuple[int, int]]] = {}
    unanswered: dict[int, list[int]] = {}
    for debate, critique_, answer, left in (yield sql("critiques_of"), (no, ids)):
        critiques.setdefault(debate, []).append(critique_)
        if answer:
            answers.setdefault(debate, []).append((critique_, answer))
        elif not left:
            unanswered.setdefault(debate, []).append(critique_)
    owed: dict[int, list[Obligation]] = {}
    for agent, item, duty, state, debate, reason, since in (yield sql("obligations_of_debates"), (no, ids)):
        owed.setdefault(debate, []).append(
            Obligation(agent, item, Duty(duty), ObligationState(state), debate, reason, instant(since))
        )
    votes = yield from votes_of(no, [row[0] for row in rows])
    decisions = yield from decisions_of(no, [row[0] for row in rows if row[2] == DebateState.OPEN])
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
            votes=tuple(votes.get(row[0], ())),
            outcome=row[9],
            gave_way_to=row[10],
            confirmed_by=row[11],
            decisions=tuple(decisions.get(row[0], ())) if row[2] == DebateState.OPEN else (),
            answers=tuple(answers.get(row[0], ())),
            unanswered=tuple(unanswered.get(row[0], ())),
        )
        for row in rows
    ]
