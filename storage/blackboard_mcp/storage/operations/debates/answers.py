"""Answers to critiques: which ones count, and who is asked to judge once every critique has one."""

from __future__ import annotations

from collections.abc import Sequence

from blackboard_mcp.protocols.debates import DebateState, Duty, ObligationState
from blackboard_mcp.protocols.events import SYSTEM, EventType
from blackboard_mcp.protocols.items import TRANSITIONS, EdgeKind, ItemType, Status

from ...operation import Rows
from ..ledger.ledger import Ledger, load_any
from ..ledger.principals import owner_of, owners_of, writer_of
from ..ledger.rows import ItemRow, Steps, numbers, sql


def unanswered(no: int, debate: int) -> Steps[list[int]]:
    """Returns the critiques that the criticised side has not answered and that were not withdrawn."""
    rows = yield sql("critiques_of"), (no, numbers([debate]))
    return [critique for _, critique, answer, left in rows if not answer and not left]


def summon(ledger: Ledger, debate: int, root: int, waiting: Sequence[int] | None = None) -> Steps[list[str]]:
    """Asks the watchers of a debate for their judgement once every critique is answered; returns whom it asked.

    Where votes close debates, critiques that nobody owes an answer to any more do not count. `waiting` are the
    critiques without an answer, if the caller knows them.
    """
    if waiting is None:
        waiting = yield from unanswered(ledger.no, debate)
    if waiting and ledger.board.config.quorum:  # votes do not wait for answers that nobody owes any more
        rows: Rows = yield sql("obligations_of_debates"), (ledger.no, numbers([debate]))
        due = {row[1] for row in rows if row[2] == Duty.RESPOND and row[3] == ObligationState.OUTSTANDING}
        waiting = [critique for critique in waiting if critique in due]
    if waiting:
        yield sql("judges_put_off"), (ledger.no, debate, root)
        return []
    asked = yield sql("judges_asked"), (ledger.no, debate, root, ledger.now)
    return sorted({row[0] for row in asked})


def answer(ledger: Ledger, row: ItemRow, critique: ItemRow) -> Steps[None]:
    """Applies `row` as an answer by the ledger's agent to a critique in an open debate.

    It counts only from the criticised side: an agent that owes the answer, the writer of the criticised version, or
    another agent of the same owner. If the server wrote the criticised item, anybody but the critic may answer.
    """
    if critique.type != ItemType.CRITIQUE or critique.author == ledger.agent:
        return
    if not TRANSITIONS[Status(critique.status)]:
        return
    debates = yield sql("debates_of_critique"), (ledger.no, critique.number)
    going_on = {debate[0]: debate[1] for debate in debates if debate[2] == DebateState.OPEN}
    if not going_on:
        return
    rows: Rows = yield sql("obligations_of_item"), (ledger.no, critique.number)
    for debate, root in going_on.items():
        asked = [r for r in rows if r[2] == Duty.RESPOND and r[4] == debate]
        if (yield from _may_answer(ledger, critique, asked)):
            yield from _answered(ledger, row, critique, (debate, root), asked)


def may_answer(ledger: Ledger, critique: ItemRow) -> Steps[bool]:
    """Tells whether an answer by the ledger's agent to the critique of another would count in a debate."""
    rows: Rows = yield sql("obligations_of_item"), (ledger.no, critique.number)
    return (yield from _may_answer(ledger, critique, [row for row in rows if row[2] == Duty.RESPOND]))


def _may_answer(ledger: Ledger, critique: ItemRow, asked: Rows) -> Steps[bool]:
    """Tells whether an answer by the ledger's agent counts; `asked` are the duties to answer the critique."""
    own = ledger.side
    sides = {row[0] for row in asked}
    edges = yield sql("edges_touching"), (ledger.no, numbers([critique.number]))
    criticised = [t for source, kind, t in edges if (source, kind) == (critique.number, EdgeKind.CRITIQUES)]
    for target in (yield from load_any(ledger.no, criticised)).values():
        if target.author == SYSTEM:
            return own != (yield from owner_of(critique.author))
        writer = yield from writer_of(target)
        if writer != critique.author:
            sides.add(writer)
    return own in set((yield from owners_of(sides)).values())


def _answered(
    ledger: Ledger, row: ItemRow, critique: ItemRow, where: tuple[int, int], asked: Rows
) -> Steps[None]:
    """Records the answer, meets the duties, and asks the watchers to judge if it was the last one missing."""
    debate, root = where
    waiting = yield from unanswered(ledger.no, debate)
    yield sql("critique_answered"), (ledger.no, debate, critique.number, row.number)
    own = ledger.side
    owners = yield from owners_of(r[0] for r in asked)
    theirs = [r for r in asked if owners[r[0]] == own] or asked
    met = [r for r in theirs if r[3] != ObligationState.ACKNOWLEDGED]
    for agent, item, duty, state, *_ in met:
        ledger.answering = ledger.answering or state == ObligationState.OUTSTANDING
        reason = "answered" if agent == ledger.agent else f"answered by {ledger.agent}"
        values = (ledger.no, agent, item, duty, debate, str(ObligationState.ACKNOWLEDGED), reason)
        yield sql("obligation_set"), values
    if critique.number not in waiting and not met:
        return
    judges = yield from summon(
        ledger, debate, root, [number for number in waiting if number != critique.number]
    )
    yield from ledger.emit(
        EventType.OBLIGATION_MET,
        critique,
        data={"duty": str(Duty.RESPOND), "answer": row.id},
        concerns=[critique.author, *judges],
    )
    yield sql("debate_moved"), (ledger.no, debate, ledger.now)


def ask_again(ledger: Ledger, critique: ItemRow, debate: int, root: int) -> Steps[None]:
    """Requires a new answer and a new judgement by the critic, because the critique has a new version."""
    due = str(ObligationState.OUTSTANDING)
    yield sql("critique_answered"), (ledger.no, debate, critique.number, 0)
    for agent, item, duty, _state, of, *_ in (yield sql("obligations_of_item"), (ledger.no, critique.number)):
        if duty == Duty.RESPOND and of == debate:
            yield sql("obligation_add"), (ledger.no, agent, item, duty, debate, ledger.now, due)
    judge = (ledger.no, critique.author, root, str(Duty.ACKNOWLEDGE), debate, ledger.now, due)
    yield sql("obligation_add"), judge
    yield from summon(ledger, debate, root)


def too_early(ledger: Ledger, root: ItemRow, debate: int, waiting: Sequence[int]) -> Steps[str]:
    """Returns the message why nobody can agree yet, and what the ledger's agent can do meanwhile."""
    critiques = yield from load_any(ledger.no, waiting)
    rows: Rows = yield sql("obligations_of_debates"), (ledger.no, numbers([debate]))
    owing = [row for row in rows if row[2] == Duty.RESPOND and row[1] in critiques]
    names = ", ".join(critiques[n].id for n in waiting[:_NAMED]) + ("…" if len(waiting) > _NAMED else "")
    asked = list(dict.fromkeys(row[0] for row in owing if row[3] == ObligationState.OUTSTANDING))
    gone = list(dict.fromkeys(row[0] for row in owing if row[3] == ObligationState.WAIVED))
    who = f"; {', '.join(asked[:_NAMED])} owes the answer, which no other's reply is" if asked else ""
    if not asked and (others := [agent for agent in gone if agent != ledger.agent]):
        who = f"; {', '.join(others[:_NAMED])}, who owes the answer, is away"
    said = f"{names} has no answer yet{who}. Nobody can agree that {root.id} stands before that. Nothing was changed."
    first = critiques[waiting[0]]
    owed = [critiques[r[1]] for r in owing if r[0] == ledger.agent and r[3] != ObligationState.ACKNOWLEDGED]
    if owed:
        return (
            f'{said} You answer with post(type="REPLY", edges={{"replies_to": ["{owed[0].id}"]}}, text="…"); an '
            "acknowledgement is no answer."
        )
    mine = [row for row in critiques.values() if row.author == ledger.agent]
    if gone and not asked and root.author != ledger.agent:
        decide = (
            f'debate(op="decide", id="{root.id}", outcome="stands|falls|amended", reason="…") ends the debate'
        )
        critic = (
            f', a critic\'s decision once another owner confirms it; debate(op="withdraw", id="{mine[0].id}") takes '
            "your critique back"
            if mine
            else ""
        )
        return f"{said} Nobody is asked for it any more: {decide}{critic}."
    if mine:
        return (
            f"{said} You are asked to judge when the answer comes: wait() wakes you. Until then you can add "
            f'evidence (edges {{"supports": ["{mine[0].id}"]}}) or, if you were mistaken, '
            f'debate(op="withdraw", id="{mine[0].id}").'
        )
    return (
        f"{said} wait() wakes you when it comes. Until then you can add evidence for {first.id} (edges "
        f'{{"supports": ["{first.id}"]}}) or against it, or post a CRITIQUE of your own.'
    )


_NAMED = 3
