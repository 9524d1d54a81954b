"""Turns: contributions, decisions of the coordinator, offers, and turns that lapse."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from blackboard_mcp.protocols.access import Trust
from blackboard_mcp.protocols.answers import NoticeFor, Once
from blackboard_mcp.protocols.board import Lifecycle
from blackboard_mcp.protocols.changes import ChangeKind
from blackboard_mcp.protocols.errors import Conflict, InvalidInput, Refused
from blackboard_mcp.protocols.events import SYSTEM, EventType
from blackboard_mcp.protocols.findings import had_by_one
from blackboard_mcp.protocols.items import Draft, Item, ItemType, Visibility, item_id
from blackboard_mcp.protocols.runs import (
    MAX_ALONE,
    MAX_MALFORMED,
    MAX_RESETS,
    MAX_STALLS,
    NOTHING_AT_ONCE,
    AtOnce,
    Budget,
    Contributed,
    Decision,
    Run,
    RunState,
    Usage,
)
from blackboard_mcp.protocols.strategies import COORDINATOR, ROUND_ROBIN
from blackboard_mcp.protocols.tokens import CountedText

from ...operation import Write
from ..access import read_rules
from ..agenda.rows import MICROS
from ..leaving import pressure
from ..ledger import serving
from ..ledger.idempotency import Form, repeatable
from ..ledger.ledger import Ledger, get_board, load_any
from ..ledger.principals import owner_of
from ..ledger.rows import Steps, dumps, sql
from ..participants import joining
from ..reading.item_states import values
from ..reading.rules import notice_on
from . import rows
from .rows import RunRow, TurnRow
from .starting import apply, begin, block, eligible, end, give_round, post, raw_of, settle, spent_on, stop

_IMPORTANCE: Final = 3
_INSTRUCTION: Final = 300
_BATCH: Final = 50
_MAX_COST: Final = 1e12


def _again(given: Mapping[str, Any]) -> Form[Contributed]:
    """Returns the form by which a turn is repeated: the run as it is now, and what the first call posted."""
    now, name, agent = given["write"].now, given["board"], given["agent"]

    def again(kept: list[Any]) -> Steps[Contributed]:
        number, items, alone, verdict, problem = kept
        board = yield from get_board(name)
        run = yield from rows.value(board, (yield from rows.get(board, number)), now)
        found = yield from load_any(board.no, items)
        posted = yield from values(board, [found[n] for n in items if n in found], agent)
        return Contributed(run, tuple(posted), tuple((a, b) for a, b in alone), verdict, problem)

    def keep(done: Contributed) -> list[Any]:
        items = [item.number for item in done.items]
        return [done.run.number, items, [list(pair) for pair in done.alone], done.verdict, done.problem]

    return Form(keep, again)


@repeatable(_again)
def contribute(
    write: Write,
    board: str,
    agent: str,
    run: int,
    lease: int,
    text: CountedText,
    *,
    usage: Usage | None = None,
    at_once: Mapping[str, AtOnce] = NOTHING_AT_ONCE,
    notice: Callable[[Run], NoticeFor | None] | None = None,
    once: Once | None = None,
) -> Steps[Contributed]:
    """Ends an agent's turn with its contribution; reports `turn.ended`.

    In a sealed round texts are kept unseen until all turns of the round are over, then posted together. If it was the
    last turn of its round, and the run's strategy is among those of `at_once`, the next round is chosen, too. `notice`
    says what to tell the agent beside.

    Raises:
        Conflict: the agent has no turn under this lease; names the turn's holder, lease and end.
        Refused: the run is over.
    """
    if not text.text.strip():
        raise InvalidInput("A contribution has a text. Nothing was changed; say what you found or did.")
    ledger = yield from begin(write, board, agent, posts=True)
    row = yield from rows.get(ledger.board, run)
    turn = yield from _turn(ledger, row, agent, lease)
    if turn.kind != "contribute":
        call = (
            "finalize(text=…, cites=[…])"
            if turn.kind == "answer"
            else 'turn(decision={"terminate": false, …})'
        )
        raise Refused(f"Your turn in {row.id} is to {turn.kind}: {call}. Nothing was changed.")
    ledger.note(ChangeKind.RUN, name=row.id)
    _spend(row, usage)
    turn.state, turn.at = "ended", ledger.now
    items: list[int] = []
    if row.sealed:
        yield from _check_post(ledger, row)
        yield from ledger.was_here()
        turn.text = dumps({"text": text.text, "tokens": text.tokens, "by": text.counted_by})
    else:
        turn.item = yield from _post(ledger, row, text)
        items.append(turn.item)
    yield from rows.put_turn(turn)
    data: dict[str, Any] = {"run": row.id, "round": row.round, "lease": turn.lease}
    if turn.item:
        data["item"] = item_id(ItemType.LOG, turn.item)
    if usage is not None:
        data |= {"tokens": usage.tokens, "cost": usage.cost}
    yield from ledger.emit(EventType.TURN_ENDED, data=data)
    opened, alone = yield from _end_round(ledger, row)
    strategy = at_once.get(row.strategy) if row.phase == "choose" else None
    if strategy is not None:
        run_now = yield from rows.value(ledger.board, row, ledger.now)
        yield from apply(ledger, row, strategy(run_now, (yield from eligible(ledger, row))))
    made = yield from end(ledger, row)
    posted = yield from _items(ledger, [*items, *opened])
    wanted = None if notice is None else notice(made)
    if wanted is None:
        return Contributed(made, posted, alone)
    told = yield from notice_on(ledger.board, agent, wanted, write.now, known={row.problem: row.text})
    return Contributed(made, posted, alone, notice=told)


def _check_post(ledger: Ledger, row: RunRow) -> Steps[None]:
    """Checks that the agent may post a contribution now, which is kept unseen until its round is over.

    Raises:
        Refused: a read rule would keep it, or the board is under pressure.
    """
    draft = Draft(None, ItemType.LOG, tags=(row.id,), visibility=Visibility.BOARD)
    yield from read_rules.kept(ledger, draft, None)
    yield from pressure.admit(ledger, ItemType.LOG, _IMPORTANCE, ())


def _post(ledger: Ledger, row: RunRow, text: CountedText) -> Steps[int]:
    metadata = {"run": row.id, "round": row.round}
    return (yield from post(ledger, ItemType.LOG, text, metadata, importance=_IMPORTANCE, tags=(row.id,)))


def _items(ledger: Ledger, wanted: Sequence[int]) -> Steps[tuple[Item, ...]]:
    fresh = [row for row in (ledger.fresh.get(number) for number in wanted) if row is not None]
    if (
        len(fresh) == len(wanted)
        and ledger.trusted is Trust.NORMAL
        and {row.author for row in fresh} <= {ledger.agent}
    ):
        return tuple(row.value(ledger.board.id, (), (), None, row.id) for row in fresh)
    found = yield from load_any(ledger.no, wanted)
    return tuple((yield from values(ledger.board, [found[n] for n in wanted], ledger.agent)))


def _spend(row: RunRow, usage: Usage | None) -> None:
    """Adds a step and what its agent reports to what the run spent.

    Raises:
        InvalidInput: a figure is not allowed.
    """
    tokens, cost = (0, 0.0) if usage is None else (usage.tokens, usage.cost)
    if tokens < 0 or not 0 <= cost <= _MAX_COST or tokens > _MAX_COST:
        raise InvalidInput(
            'usage is {"tokens": a number from 0, "cost": a number from 0}. Nothing was changed.'
        )
    used = row.used()
    row.spent = rows.budget_json(Budget(used.steps + 1, used.tokens + tokens, used.cost + cost))


def _turn(ledger: Ledger, row: RunRow, agent: str, lease: int) -> Steps[TurnRow]:
    """Returns the turn that the agent has now.

    Raises:
        Refused: the run is over.
        Conflict: it has no turn, or another one.
    """
    if row.state in (RunState.STOPPED, RunState.FINISHED):
        raise Refused(
            f"{row.id} is {row.state}{f': {row.reason}' if row.reason else ''}. It takes no more turns. Nothing was "
            "changed; what you found can be posted: post(text=…).",
            state=row.state,
        )
    listed = yield from rows.turns(row)
    given = [turn for turn in reversed(listed) if turn.state == "given"]
    mine = [turn for turn in given if turn.agent == agent]
    if mine and lease in (0, mine[0].lease):
        return mine[0]
    facts: dict[str, Any] = {"lease": lease}
    if mine:
        raise Conflict(
            f"Lease {lease} is an old turn of yours in {row.id}; you have lease {mine[0].lease} now. Nothing was "
            "changed; look what is asked now: turn().",
            **{**facts, "lease": mine[0].lease, "holder": agent},
        )
    whose = ", ".join(f"{turn.agent} (lease {turn.lease})" for turn in given[:5])
    known = yield from eligible(ledger, row)
    if row.state == RunState.SETTLED:
        now = f"The rounds of {row.id} are over{f', {whose} answers' if whose else ''}"
        more = "post(text=…) tells what you know, turn() waits for the answer"
    elif agent in known or agent == row.coordinator:
        now = f"It is not your turn in {row.id}{f': {whose} has it' if whose else ''}"
        more = "turn() waits for yours, post(text=…) is always possible"
    else:
        named = ", ".join(known[:5])
        now = f"You are no agent of {row.id}{f' ({named})' if named else ''}"
        more = "post(text=…) tells them what you know"
        more += '; join(role="…") takes part' if not row.named() or agent in row.named() else ""
    raise Conflict(
        f"{now}. Nothing was changed; {more}.",
        **{**facts, "holder": given[0].agent if given else None, "lease": given[0].lease if given else 0},
    )


def _end_round(ledger: Ledger, row: RunRow) -> Steps[tuple[list[int], tuple[tuple[str, str], ...]]]:
    """Ends a round whose turns are all over: opens it if it is sealed, and looks whether anything moves."""
    turns = yield from rows.turns_of_round(row)
    which = spent_on(row, ledger.now)
    if not which and any(turn.state == "given" for turn in turns):
        return [], ()
    opened: list[int] = []
    alone: tuple[tuple[str, str], ...] = ()
    if row.sealed:
        opened, alone = yield from open_round(ledger, row, turns)
    row.phase = "choose"
    if which:
        yield from block(ledger, row, which)
    else:
        yield from _watch(ledger, row, turns)
    return opened, alone


def open_round(
    ledger: Ledger, row: RunRow, turns: Sequence[TurnRow]
) -> Steps[tuple[list[int], tuple[tuple[str, str], ...]]]:
    """Posts all contributions of a sealed round, each by its agent, and lists lines that only one had."""
    actor = ledger.agent, ledger.owner, ledger.trusted, ledger.changes
    stands = ledger.board.read_rules, ledger.board.pressure
    ledger.changes = None  # the agents' own turns were judged as they contributed
    ledger.board.read_rules, ledger.board.pressure = "", 0  # and so were the texts, by what was in force then
    texts: list[tuple[str, str]] = []
    opened = []
    for turn in turns:
        if turn.state != "ended" or not turn.text:
            continue
        kept = json.loads(turn.text)
        ledger.agent, ledger.trusted = turn.agent, None
        ledger.owner = yield from owner_of(turn.agent)
        text = CountedText(kept["text"], kept["tokens"], ledger.board.config.tokenizer)
        turn.item, turn.text = (yield from _post(ledger, row, text)), ""
        opened.append(turn.item)
        yield from rows.put_turn(turn)
        texts.append((turn.agent, kept["text"]))
    ledger.agent, ledger.owner, ledger.trusted, ledger.changes = actor
    ledger.board.read_rules, ledger.board.pressure = stands
    alone = had_by_one(texts, MAX_ALONE)
    ids = [item_id(ItemType.LOG, number) for number in opened]
    data = {"run": row.id, "round": row.round, "items": ids, "alone": len(alone)}
    yield from ledger.emit(EventType.RUN_OPENED, agent=SYSTEM, data=data)
    return opened, alone


def _watch(ledger: Ledger, row: RunRow, turns: Sequence[TurnRow]) -> Steps[None]:
    """Counts rounds that changed nothing: three are a stall, which the fallback strategy gets twice to mend."""
    since = min((turn.lease for turn in turns), default=ledger.board.seq)
    posted, repeated = (yield sql("turns_repeat"), (ledger.no, row.number, row.round))[0]
    new = posted > repeated
    if new and all(turn.instruction for turn in turns):
        new = not (yield sql("turns_same"), (ledger.no, row.number, row.round))[0][0]
    if new or (yield sql("run_moved"), (ledger.no, since, row.number))[0][0]:
        row.stalls = 0
        return
    row.stalls += 1
    if row.stalls < MAX_STALLS:
        return
    row.stalls, row.resets = 0, row.resets + 1
    over = row.resets > MAX_RESETS
    data = {"run": row.id, "stalls": MAX_STALLS, "resets": row.resets}
    if not over:
        yield from _fall_back(ledger, row)
    data["then"] = "stopped" if over else row.strategy
    yield from ledger.emit(EventType.RUN_STALLED, agent=SYSTEM, data=data, concerns=[row.started_by])
    if over:
        yield from stop(ledger, row, f"nothing moved in {MAX_STALLS} rounds, {row.resets} times over")


def _fall_back(ledger: Ledger, row: RunRow) -> Steps[None]:
    """Lets the fallback choose from now on; `round-robin` in place of a coordinator that failed or has left."""
    is_lost = row.fallback == COORDINATOR and (
        row.strategy == COORDINATOR
        or (yield from joining.has_left(ledger.board, row.coordinator, ledger.now))
    )
    row.malformed, row.strategy = 0, ROUND_ROBIN if is_lost else row.fallback


@repeatable(_again)
def decide(
    write: Write,
    board: str,
    agent: str,
    run: int,
    lease: int,
    decision: Decision | None,
    raw: str,
    problem: str = "",
    *,
    usage: Usage | None = None,
    once: Once | None = None,
) -> Steps[Contributed]:
    """Takes the coordinator's decision; reports `decision.made` with the beginning of `raw`.

    `decision` is `None` for one that was not understood; `problem` says why. Malformed decisions and ones that
    name an agent that is not eligible take no round; after `MAX_MALFORMED` of them in a row `fallback` chooses.

    Raises:
        Conflict: the agent has no turn under this lease; names the turn's holder, lease and end.
        Refused: the run is over.
    """
    ledger = yield from begin(write, board, agent)
    row = yield from rows.get(ledger.board, run)
    turn = yield from _turn(ledger, row, agent, lease)
    if turn.kind != "decide":
        raise Refused(
            f"Your turn in {row.id} is to {turn.kind}, not to decide. Nothing was changed; "
            f"{'turn(text=…)' if turn.kind == 'contribute' else 'finalize(text=…)'}."
        )
    ledger.note(ChangeKind.RUN, name=row.id)
    _spend(row, usage)
    known = yield from eligible(ledger, row)
    data: dict[str, Any] = {"run": row.id, "round": row.round + 1, "raw": raw_of(raw)}
    verdict: Any = "accepted"
    if decision is None:
        verdict = "malformed"
    elif not decision.terminate and decision.next_agent not in known:
        verdict = "unknown agent"
        problem = f"{decision.next_agent or 'nobody'} is no agent of {row.id}; its agents are {', '.join(known[:20])}"
        told = {"run": row.id, "agent": decision.next_agent, "eligible": list(known[:20])}
        yield from ledger.emit(EventType.RUN_UNKNOWN_AGENT, data=told)
    if decision is not None and verdict == "accepted":
        data |= {"terminate": decision.terminate, "next_agent": decision.next_agent}
        data["instruction"] = decision.instruction[:_INSTRUCTION]
    else:
        row.malformed += 1
        data["problem"] = problem
        if row.malformed >= MAX_MALFORMED:
            verdict = "fallback"
    data["verdict"] = verdict
    yield from ledger.emit(EventType.DECISION_MADE, data=data, concerns=[row.started_by])
    which = spent_on(row, ledger.now)
    if verdict in ("accepted", "fallback") or which:
        turn.state, turn.at = "ended", ledger.now
        yield from rows.put_turn(turn)
    if verdict == "accepted" and decision is not None:
        row.malformed = 0
        if decision.strategy:
            row.strategy = decision.strategy
        if decision.terminate:
            yield from settle(ledger, row, decision.instruction or f"{agent} ended the rounds")
        elif which:
            yield from block(ledger, row, which)
        elif row.round >= row.max_rounds:
            yield from settle(ledger, row, f"all {row.max_rounds} rounds are used")
        else:
            yield from give_round(ledger, row, {decision.next_agent: decision.instruction}, agent)
    elif verdict == "fallback":
        row.phase = "choose"
        yield from _fall_back(ledger, row)
    elif which:
        yield from block(ledger, row, which)
    made = yield from end(ledger, row)
    return Contributed(made, verdict=verdict, problem=problem)


def offer(write: Write, board: str, agent: str, run: int, value: float) -> Steps[Run]:
    """Notes that the agent volunteers for the next round with a value from 0 to 1.

    Raises:
        InvalidInput: the value is not allowed.
        Refused: the run is not open, or the agent has no part in it.
    """
    if not 0 <= value <= 1:
        raise InvalidInput("offer is a number from 0 to 1. Nothing was changed.")
    ledger = yield from begin(write, board, agent)
    row = yield from rows.get(ledger.board, run)
    if row.state != RunState.OPEN:
        raise Refused(
            f"{row.id} is {row.state}, and has no more rounds. Nothing was changed.", state=row.state
        )
    known = yield from eligible(ledger, row)
    if agent not in known:
        raise Refused(
            f"You are no agent of {row.id}, whose agents are {', '.join(known[:20]) or 'nobody yet'}. Nothing was "
            + (
                'changed; join(role="…") takes part.'
                if not row.named() or agent in row.named()
                else "changed; who starts a run names them."
            )
        )
    ledger.note(ChangeKind.RUN, name=row.id)
    yield sql("offer_put"), (ledger.no, row.number, agent, round(value * 1_000))
    yield from ledger.emit(EventType.TURN_OFFERED, data={"run": row.id, "offer": value})
    row.reason, row.offers = "", None
    return (yield from end(ledger, row))


def _lapse(ledger: Ledger, row: RunRow, turn: TurnRow) -> Steps[None]:
    """Takes a turn from an agent that was not heard of or left, and ends the round if it was the last."""
    turn.state, turn.at = "lapsed", ledger.now
    yield from rows.put_turn(turn)
    data = {"run": row.id, "round": turn.round, "lease": turn.lease, "agent": turn.agent}
    yield from ledger.emit(EventType.TURN_LAPSED, agent=SYSTEM, data=data, concerns=[turn.agent])
    if turn.kind == "contribute":
        yield from _end_round(ledger, row)
    elif turn.kind == "decide":
        row.malformed += 1
        row.phase = "choose"
        if row.malformed >= MAX_MALFORMED:
            yield from _fall_back(ledger, row)


def let_go(ledger: Ledger, agent: str = "") -> Steps[None]:
    """Lets the turn of an agent that has left lapse, and the fallback choose in a coordinator's place; without `agent`
    for all that have left. On a board that takes no posts runs stand still.
    """
    if ledger.board.lifecycle is not Lifecycle.OPEN:
        return
    for number, _ in (yield sql("run_live"), (ledger.no,)):
        row = yield from rows.get(ledger.board, number)
        for turn in (yield from rows.turns(row)):
            if turn.state == "given" and (yield from _is_gone(ledger, turn.agent, agent)):
                yield from _lapse(ledger, row, turn)
                yield from rows.put(ledger, row)
        if row.strategy == COORDINATOR and (yield from _is_gone(ledger, row.coordinator, agent)):
            yield from _fall_back(ledger, row)
            yield from rows.put(ledger, row)


def _is_gone(ledger: Ledger, agent: str, leaving: str) -> Steps[bool]:
    """Tells whether an agent is the one that leaves; where none does, whether it has left the board."""
    if leaving:
        return agent == leaving
    return (yield from joining.has_left(ledger.board, agent, ledger.now))


def sweep(write: Write) -> Steps[list[str]]:
    """Ends turns that have lapsed and settles runs that are idle, on open boards; returns the boards that changed.

    A turn lasts as if its agent had been there when the store was started: before, it could make no call.
    """
    changed = []
    lapsing = yield sql("turns_lapsing"), (write.now, _BATCH, str(Lifecycle.OPEN))
    began = (yield from serving.since(write.opened, write.now)) if lapsing else 0
    for no, number, lease, board, _agent, until, seen in lapsing:
        row = yield from rows.find(no, number)
        if row is None:
            continue
        ends = max(until, max(seen, began) + round(300 * MICROS))
        turns = {turn.lease: turn for turn in (yield from rows.turns(row))}
        turn = turns.get(lease)
        if turn is None:
            continue
        if ends > write.now:
            turn.until = ends
            yield from rows.put_turn(turn)
            continue
        ledger = yield from begin(write, board, SYSTEM)
        yield from _lapse(ledger, row, turn)
        yield from end(ledger, row)
        changed.append(board)
    for board, number, idle, last in (yield sql("runs_idle"), (str(Lifecycle.OPEN),)):
        if last is None or write.now - last < idle:
            continue
        ledger = yield from begin(write, board, SYSTEM)
        row = yield from rows.get(ledger.board, number)
        if any(turn.state == "given" for turn in (yield from rows.turns(row))):
            continue
        yield from settle(ledger, row, f"nothing happened for {idle / MICROS:g} s")
        yield from end(ledger, row)
        changed.append(board)
    return list(dict.fromkeys(changed))


def next_due(now: int) -> Steps[float | None]:
    """Returns the seconds until the next turn may lapse or run may settle on an open board, or `None` if there is
    none.
    """
    due = [at for (at,) in (yield sql("turn_next"), (str(Lifecycle.OPEN),))]
    idle_runs = yield sql("runs_idle"), (str(Lifecycle.OPEN),)
    due += [last + idle for _, _, idle, last in idle_runs if last is not None]
    return max(0.0, (min(due) - now) / MICROS) if due else None
