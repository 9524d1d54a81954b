"""Starting a run, choosing who has the next turns, and the ends that follow from rounds and budget."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from blackboard_mcp.protocols.agenda import MAX_LISTED, parse_task
from blackboard_mcp.protocols.answers import Once
from blackboard_mcp.protocols.board import Lifecycle
from blackboard_mcp.protocols.changes import ChangeKind
from blackboard_mcp.protocols.errors import InvalidInput, Refused
from blackboard_mcp.protocols.events import SYSTEM, EventType
from blackboard_mcp.protocols.items import Draft, EdgeKind, ItemType, Visibility, content_hash, item_id
from blackboard_mcp.protocols.runs import (
    MAX_INSTRUCTION,
    MAX_PROBLEM,
    MAX_RAW,
    MAX_ROUNDS,
    MAX_RUN_AGENTS,
    TURN_SECONDS,
    Budget,
    Chosen,
    NewRun,
    Run,
    RunState,
)
from blackboard_mcp.protocols.strategies import COORDINATOR, MODEL, ROUND_ROBIN
from blackboard_mcp.protocols.tokens import CountedText

from ...operation import Write
from ..agenda import rows as tasks
from ..agenda import taking
from ..agenda.rows import MICROS, TaskRow
from ..items import posting
from ..ledger.idempotency import Form, repeatable
from ..ledger.ledger import Ledger, get_board, open_ledger
from ..ledger.rows import Steps, dumps, sql
from ..participants import joining
from . import rows
from .rows import RunRow, TurnRow

_REASON: Final = 300
_LENGTH: Final = round(TURN_SECONDS * MICROS)
NO_FOCUS: Final[Mapping[str, TaskRow]] = MappingProxyType({})


def run_form(given: Mapping[str, Any]) -> Form[Run]:
    """Returns the form by which calls that answer with a run are repeated: the run as it is now."""
    now, name = given["write"].now, given["board"]

    def again(kept: Any) -> Steps[Run]:
        board = yield from get_board(name)
        return (yield from rows.value(board, (yield from rows.get(board, kept)), now))

    return Form(lambda run: run.number, again)


@repeatable(run_form)
def start(write: Write, board: str, agent: str, new: NewRun, *, once: Once | None = None) -> Steps[Run]:
    """Starts a run and posts its problem; reports `run.started`.

    Raises:
        InvalidInput: a value is not allowed.
        Refused: the board has a run that is not over, or is closed.
    """
    _check(new)
    ledger = yield from begin(write, board, agent)
    live = yield sql("run_live"), (ledger.no,)
    if live:
        raise Refused(
            f"run-{live[0][0]} is {live[0][1]} on '{board}', and a board has one run at a time. Nothing was changed; "
            "turn() takes part in it.",
            run=f"run-{live[0][0]}",
        )
    ledger.note(ChangeKind.RUN)
    strategy = new.strategy
    if strategy == COORDINATOR and (yield from joining.has_left(ledger.board, new.coordinator, write.now)):
        strategy = ROUND_ROBIN if new.fallback == COORDINATOR else new.fallback
    problem = yield from post(ledger, ItemType.PROBLEM, new.problem, {}, importance=4)
    number = (yield sql("run_last"), (ledger.no,))[0][0] + 1
    row = RunRow(
        board=ledger.no,
        number=number,
        problem=problem,
        state=str(RunState.OPEN),
        phase="choose",
        strategy=strategy,
        fallback=new.fallback,
        agents=dumps(list(dict.fromkeys(new.agents))),
        round=0,
        max_rounds=new.max_rounds,
        budget=rows.budget_json(new.budget),
        spent=rows.budget_json(Budget()),
        coordinator=new.coordinator,
        decider=new.decider,
        sealed=int(new.sealed),
        coordinate=new.coordinate,
        decide=new.decide,
        idle=round(new.idle_seconds * MICROS),
        started_by=agent,
        started_at=write.now,
        moved_at=write.now,
        stamp=0,
    )
    row.text, row.offers = new.problem.text, {}
    named = [*new.agents, *(name for name in (new.coordinator, new.decider) if name)]
    data = {
        "run": row.id,
        "problem": item_id(ItemType.PROBLEM, problem),
        "strategy": strategy,
        "agents": list(new.agents),
        "max_rounds": new.max_rounds,
    }
    row.stamp = yield from ledger.emit(EventType.RUN_STARTED, data=data, concerns=named)
    yield sql("run_add"), rows.RUN_VALUES(row)
    yield from ledger.close()
    return (yield from rows.value(ledger.board, row, write.now))


def begin(write: Write, board: str, agent: str, *, posts: bool = False) -> Steps[Ledger]:
    """Returns a ledger for work on the runs of an open board, and notes that the agent was there.

    A post notes that, too; `posts` says that one follows.

    Raises:
        UnknownReference: there is no such board.
        Refused: the board takes no posts.
    """
    ledger = yield from open_ledger(write, board, agent)
    if ledger.board.lifecycle is not Lifecycle.OPEN:
        raise Refused(f"Board '{board}' is {ledger.board.lifecycle} and takes no posts. Nothing was changed.")
    if agent != SYSTEM and not posts:
        yield from ledger.was_here()
    return ledger


def _check(new: NewRun) -> None:
    """Checks the values of a new run.

    Raises:
        InvalidInput: one is not allowed.
    """
    if not new.problem.text.strip() or len(new.problem.text) > MAX_PROBLEM:
        raise InvalidInput(
            f"start.problem is a text of 1 to {MAX_PROBLEM:,} characters. Nothing was changed."
        )
    if len(new.agents) > MAX_RUN_AGENTS:
        raise InvalidInput(f"start.agents takes at most {MAX_RUN_AGENTS} names. Nothing was changed.")
    if not 1 <= new.max_rounds <= MAX_ROUNDS:
        raise InvalidInput(f"start.max_rounds is 1 to {MAX_ROUNDS:,}. Nothing was changed.")
    if max(len(new.coordinate), len(new.decide)) > MAX_INSTRUCTION:
        raise InvalidInput(f"An instruction has at most {MAX_INSTRUCTION:,} characters. Nothing was changed.")
    budget = new.budget
    if min(budget.steps, budget.tokens, budget.cost, budget.seconds, new.idle_seconds) < 0:
        raise InvalidInput("start.budget has numbers from 0; 0 is no bound. Nothing was changed.")
    if COORDINATOR in (new.strategy, new.fallback) and not new.coordinator:
        raise InvalidInput(
            'The strategy "coordinator" needs start.coordinator, the agent that decides. Nothing was changed.'
        )


def post(
    ledger: Ledger,
    kind: ItemType,
    text: CountedText,
    metadata: dict[str, Any],
    *,
    importance: int,
    tags: tuple[str, ...] = (),
    edges: tuple[tuple[EdgeKind, int], ...] = (),
) -> Steps[int]:
    """Posts an item of a run as the ledger's agent, and returns its number."""
    draft = Draft(
        text=text.text,
        type=kind,
        importance=importance,
        tags=tags or None,
        edges=edges,
        visibility=Visibility.BOARD,
        metadata=metadata or None,
        tokens=text.tokens,
        sha256=content_hash(text.text),
        counted_by=text.counted_by,
        checked=ledger.board.config.validation,  # rules for what agents post do not apply to turns
    )
    return (yield from posting.apply(ledger, [draft])).placed[0]


def eligible(ledger: Ledger, row: RunRow) -> Steps[tuple[str, ...]]:
    """Returns the agents that may have a turn: those of the run's rotation; where it names nobody, those that take
    part and are present.
    """
    named = row.rotation()
    if named:
        return named
    listed = yield from joining.participants(ledger.now, ledger.board.id)
    apart = {row.coordinator} if row.coordinator else set()
    present = [one.agent for one in listed if one.present and one.agent not in apart]
    return tuple(present or [one.agent for one in listed if one.agent not in apart])


def find(now: int, board: str, agent: str, run: int = 0) -> Steps[Run | None]:
    """Returns a run as of one moment. `None` if there is none."""
    row = yield from get_board(board)
    found = yield from rows.find(row.no, run)
    return None if found is None else (yield from rows.value(row, found, now))


def eligible_for(now: int, board: str, run: int) -> Steps[tuple[str, ...]]:
    """Returns the agents that may have a turn in a run."""
    row = yield from get_board(board)
    found = yield from rows.get(row, run)
    return (yield from eligible(Ledger(row, SYSTEM, Write(now)), found))


def choose(write: Write, board: str, run: int, stamp: int, chosen: Chosen) -> Steps[Run]:
    """Gives the turns of the next round, or settles the run.

    Budget and number of rounds are checked first: a spent budget stops the run (`budget.blocked`), used-up rounds
    settle it. Reports `turn.given` for each turn (it concerns that agent). If the run has changed since `stamp`,
    nothing is done and the run is returned as it is.

    Raises:
        InvalidInput: an agent was chosen that is not eligible.
    """
    ledger = yield from begin(write, board, SYSTEM)
    row = yield from rows.get(ledger.board, run)
    if row.state != RunState.OPEN or row.phase != "choose" or row.stamp != stamp:
        return (yield from rows.value(ledger.board, row, write.now))
    if not (yield from apply(ledger, row, chosen)):
        return (yield from rows.value(ledger.board, row, write.now))
    return (yield from end(ledger, row))


def apply(ledger: Ledger, row: RunRow, chosen: Chosen) -> Steps[bool]:
    """Gives the turns that a strategy chose, or settles the run; returns false if nothing came of it that is new."""
    if chosen.state is not None:
        row.strategy_state = dumps(dict(chosen.state))
    if (yield from _over(ledger, row)):
        return True
    if chosen.end:
        yield from settle(ledger, row, chosen.reason or f"{chosen.by} ended the rounds")
    elif not chosen.agents:
        if row.reason == chosen.reason != "":
            return False
        row.reason = (chosen.reason or "nobody can contribute now")[:_REASON]
        data = {"run": row.id, "round": row.round + 1, "reason": row.reason}
        yield from ledger.emit(
            EventType.RUN_NO_CONTRIBUTOR, agent=SYSTEM, data=data, concerns=[row.started_by]
        )
    else:
        yield from check_eligible(ledger, row, chosen.agents)
        focus = yield from _in_focus(ledger, chosen)
        yield from give_round(ledger, row, chosen.agents, chosen.by, chosen.reason, focus)
    return True


def check_eligible(ledger: Ledger, row: RunRow, chosen: Mapping[str, str]) -> Steps[None]:
    """Checks that all chosen agents may have a turn.

    Raises:
        InvalidInput: one may not.
    """
    known = yield from eligible(ledger, row)
    wrong = [name for name in chosen if name not in known]
    if wrong:
        raise InvalidInput(
            f"{', '.join(wrong[:5])}: no agent of {row.id}, whose agents are {', '.join(known[:20])}. Nothing was "
            "changed.",
            eligible=list(known),
        )


def _in_focus(ledger: Ledger, chosen: Chosen) -> Steps[dict[str, TaskRow]]:
    """Returns the task that each chosen agent is to take first, of those that are ready for it now."""
    found: dict[str, TaskRow] = {}
    for agent, named in chosen.focus.items():
        able = yield from taking.skills_of(ledger.no, agent, None)
        number = parse_task(named)
        if agent in chosen.agents and number in (
            yield from taking.candidates(ledger.no, agent, able, MAX_LISTED)
        ):
            found[agent] = yield from tasks.get_task(ledger.board, number)
    return found


def give_round(
    ledger: Ledger,
    row: RunRow,
    chosen: Mapping[str, str],
    by: str,
    why: str = "",
    focus: Mapping[str, TaskRow] = NO_FOCUS,
) -> Steps[None]:
    """Begins the next round with a turn for each chosen agent; `why` is the rationale of the choice.

    `focus` maps agents to the task that each is to take first.
    """
    row.round += 1
    row.phase, row.reason = "turns", ""
    yield from rows.drop_offers(row)
    for agent, instruction in chosen.items():
        yield from give(ledger, row, agent, "contribute", instruction, by, why, focus.get(agent))


def give(
    ledger: Ledger,
    row: RunRow,
    agent: str,
    kind: str,
    instruction: str,
    by: str,
    why: str = "",
    task: TaskRow | None = None,
) -> Steps[None]:
    """Gives an agent a turn; the sequence of this event becomes its lease. `task` is what it is to take first."""
    data = {"run": row.id, "round": row.round, "agent": agent, "kind": kind, "by": by}
    if task is not None:
        data["task"] = task.id
        first = f'claim(id="{task.id}") first, "{task.title}"'
        instruction = f"{first}: {instruction}" if instruction else first
    if why:
        data["why"] = why[:_REASON]
    lease = yield from ledger.emit(EventType.TURN_GIVEN, agent=SYSTEM, data=data, concerns=[agent])
    turn = TurnRow(
        ledger.no,
        row.number,
        lease,
        row.round,
        agent,
        kind,
        ledger.now + _LENGTH,
        instruction[:MAX_INSTRUCTION],
    )
    yield from rows.add_turn(row, turn)


def ask_coordinator(write: Write, board: str, run: int, stamp: int, instruction: str) -> Steps[Run]:
    """Gives the coordinator its turn to decide; for a language model the server has it. Otherwise as
    `choose_turns`.
    """
    ledger = yield from begin(write, board, SYSTEM)
    row = yield from rows.get(ledger.board, run)
    if row.state != RunState.OPEN or row.phase != "choose" or row.stamp != stamp:
        return (yield from rows.value(ledger.board, row, write.now))
    if not (yield from _over(ledger, row)):
        row.phase = "decide"
        coordinator = SYSTEM if row.strategy == MODEL else row.coordinator
        yield from give(ledger, row, coordinator, "decide", instruction, row.strategy)
    return (yield from end(ledger, row))


def _over(ledger: Ledger, row: RunRow) -> Steps[bool]:
    """Stops a run whose budget is spent, and settles one whose rounds are used up; tells whether it did."""
    which = spent_on(row, ledger.now)
    if which:
        yield from block(ledger, row, which)
        return True
    if row.round >= row.max_rounds:
        yield from settle(ledger, row, f"all {row.max_rounds} rounds are used")
        return True
    return False


def spent_on(row: RunRow, now: int) -> str:
    """Returns which bound of a run's budget is spent; an empty string if none is."""
    budget = row.bounds()
    if not budget.bounded:
        return ""
    used = row.used()
    seconds = (now - row.started_at) / MICROS
    for name, bound, has in (
        ("steps", budget.steps, used.steps),
        ("tokens", budget.tokens, used.tokens),
        ("cost", budget.cost, used.cost),
        ("seconds", budget.seconds, seconds),
    ):
        if bound and has >= bound:
            return f"{name} ({has:g} of {bound:g})"
    return ""


def block(ledger: Ledger, row: RunRow, which: str) -> Steps[None]:
    """Stops a run because its budget is spent."""
    data = {"run": row.id, "which": which.partition(" ")[0], "spent": which}
    yield from ledger.emit(EventType.BUDGET_BLOCKED, agent=SYSTEM, data=data, concerns=[row.started_by])
    yield from stop(ledger, row, f"its budget is spent: {which}")


def stop(ledger: Ledger, row: RunRow, reason: str, *, agent: str = SYSTEM) -> Steps[None]:
    """Ends a run without an answer; what there is stays as a partial answer."""
    yield from _skip_turns(row)
    row.state, row.phase, row.reason = str(RunState.STOPPED), "over", reason[:_REASON]
    last = yield sql("contribution_last"), (ledger.no, row.number)
    data: dict[str, Any] = {"run": row.id, "reason": row.reason}
    if last:
        data["partial"] = item_id(ItemType.LOG, last[0][0])
    concerns = [row.started_by, row.decider, row.coordinator, *row.named()]
    yield from ledger.emit(EventType.RUN_STOPPED, agent=agent, data=data, concerns=[n for n in concerns if n])


def settle(ledger: Ledger, row: RunRow, reason: str) -> Steps[None]:
    """Ends the rounds of a run; its decider has the turn to answer."""
    yield from _skip_turns(row)
    row.state, row.phase, row.reason = str(RunState.SETTLED), "answer", reason[:_REASON]
    decider = row.decider or row.started_by
    data = {"run": row.id, "reason": row.reason, "decider": decider}
    yield from ledger.emit(EventType.RUN_SETTLED, agent=SYSTEM, data=data, concerns=[decider])
    yield from give(ledger, row, decider, "answer", row.decide, row.strategy)


def _skip_turns(row: RunRow) -> Steps[None]:
    for turn in (yield from rows.turns(row)):
        if turn.state == "given":
            turn.state = "skipped"
            yield from rows.put_turn(turn)


def end(ledger: Ledger, row: RunRow) -> Steps[Run]:
    """Stores the run, closes the ledger, and returns the run."""
    yield from rows.put(ledger, row)
    yield from ledger.close()
    return (yield from rows.value(ledger.board, row, ledger.now))


def raw_of(text: str) -> str:
    """Returns the part of a decision's raw text that its event keeps."""
    return text[:MAX_RAW]
