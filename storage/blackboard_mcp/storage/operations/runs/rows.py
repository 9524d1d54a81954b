"""Rows of runs and turns, and the values that callers get of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from operator import attrgetter
from typing import Any, Final, cast

from blackboard_mcp.protocols.errors import UnknownReference
from blackboard_mcp.protocols.items import item_id
from blackboard_mcp.protocols.runs import Budget, Run, RunState, RunTurn

from ..agenda.rows import MICROS
from ..ledger.ledger import Ledger
from ..ledger.rows import BoardRow, Steps, dumps, instant, numbers, sql

_KEPT: Final = 200
"""Most turns of a run that one look returns: enough for the last turn of each agent."""
_FEWEST: Final = 20
_EACH: Final = 4


@dataclass(slots=True)
class RunRow:
    """A row of `run`: its fields are the columns. Times are in microseconds since 1970."""

    board: int
    number: int
    problem: int
    state: str
    phase: str
    strategy: str
    fallback: str
    agents: str
    round: int
    max_rounds: int
    budget: str
    spent: str
    coordinator: str
    decider: str
    sealed: int
    coordinate: str
    decide: str
    idle: int
    started_by: str
    started_at: int
    moved_at: int
    stamp: int
    malformed: int = 0
    stalls: int = 0
    resets: int = 0
    reason: str = ""
    answer: int = 0
    strategy_state: str = "{}"

    @property
    def id(self) -> str:
        """The id, as agents see it."""
        return f"run-{self.number}"

    def named(self) -> tuple[str, ...]:
        """Returns the agents that the run names; none means whoever takes part."""
        return tuple(json.loads(self.agents))

    def bounds(self) -> Budget:
        """Returns the run's budget."""
        return Budget(**json.loads(self.budget))

    def used(self) -> Budget:
        """Returns what was spent, without seconds."""
        return Budget(**json.loads(self.spent))


@dataclass(slots=True)
class TurnRow:
    """A row of `run_turn`: its fields are the columns."""

    board: int
    run: int
    lease: int
    round: int
    agent: str
    kind: str
    until: int
    instruction: str
    state: str = "given"
    text: str = ""
    item: int = 0
    at: int = 0


RUN_VALUES: Final = attrgetter(*(field.name for field in fields(RunRow)))
TURN_VALUES: Final = attrgetter(*(field.name for field in fields(TurnRow)))


def find(no: int, number: int) -> Steps[RunRow | None]:
    """Returns a run, with 0 the newest; `None` if there is none."""
    if not number:
        number = (yield sql("run_last"), (no,))[0][0]
    found = yield sql("run_get"), (no, number)
    return RunRow(*found[0]) if found else None


def live(board: BoardRow) -> Steps[Run | None]:
    """Returns the run of a board that is not over, as of its last change; `None` if there is none."""
    found = yield sql("run_live"), (board.no,)
    row = (yield from find(board.no, found[0][0])) if found else None
    return None if row is None else (yield from value(board, row, row.moved_at))


def get(board: BoardRow, number: int) -> Steps[RunRow]:
    """Returns a run, with 0 the newest.

    Raises:
        UnknownReference: there is none.
    """
    row = yield from find(board.no, number)
    if row is None:
        what = f"run-{number}" if number else "run"
        raise UnknownReference(
            f"There is no {what} on '{board.id}'. Nothing was changed; "
            'turn(start={"problem": "…", "agents": ["…"]}) starts one.'
        )
    return row


def put(ledger: Ledger, row: RunRow) -> Steps[None]:
    """Stores a changed run; its stamp is the board's sequence."""
    row.moved_at, row.stamp = ledger.now, ledger.board.seq
    yield sql("run_put"), RUN_VALUES(row)


def put_turn(turn: TurnRow) -> Steps[None]:
    """Stores a changed turn."""
    yield sql("turn_put"), TURN_VALUES(turn)


def turns_of_round(row: RunRow) -> Steps[list[TurnRow]]:
    """Returns the contributors' turns of the present round."""
    return [TurnRow(*raw) for raw in (yield sql("turns_of_round"), (row.board, row.number, row.round))]


def turns(row: RunRow) -> Steps[list[TurnRow]]:
    """Returns the last turns of a run, newest first."""
    named = row.named()
    kept = min(_KEPT, _FEWEST + _EACH * len(named)) if named else _KEPT
    return [TurnRow(*raw) for raw in (yield sql("turns_of"), (row.board, row.number, kept))]


def value(board: BoardRow, row: RunRow, now: int, listed: Sequence[TurnRow] | None = None) -> Steps[Run]:
    """Returns a run as callers get it. Texts of a sealed round that is not open yet are not in it.

    `listed` are its last turns as they are now, if the caller has them.
    """
    if listed is None:
        listed = yield from turns(row)
    wanted = {row.problem, row.answer, *(turn.item for turn in listed)} - {0}
    types: dict[int, str] = dict((yield sql("item_types"), (board.no, numbers(wanted))))
    text = yield sql("run_problem"), (board.no, row.problem)

    def made(turn: TurnRow) -> RunTurn:
        return RunTurn(
            agent=turn.agent,
            kind=cast(Any, turn.kind),
            round=turn.round,
            lease=turn.lease,
            until=instant(turn.until),
            instruction=turn.instruction,
            state=cast(Any, turn.state),
            item=item_id(types[turn.item], turn.item) if turn.item in types else "",
            at=instant(turn.at) if turn.at else None,
        )

    present = [t for t in listed if t.state == "given" or (t.round == row.round and t.kind == "contribute")]
    over = [turn for turn in listed if turn.state != "given" and turn not in present]
    spent = asdict(row.used())
    spent["seconds"] = max(0.0, (now - row.started_at) / MICROS)
    offers: Sequence[Any] = yield sql("offers_of"), (board.no, row.number)
    return Run(
        number=row.number,
        problem=item_id(types[row.problem], row.problem),
        text=text[0][0] if text else "",
        state=RunState(row.state),
        phase=cast(Any, row.phase),
        strategy=row.strategy,
        fallback=row.fallback,
        agents=row.named(),
        round=row.round,
        max_rounds=row.max_rounds,
        budget=row.bounds(),
        spent=Budget(**spent),
        coordinator=row.coordinator,
        decider=row.decider,
        sealed=bool(row.sealed),
        coordinate=row.coordinate,
        decide=row.decide,
        idle_seconds=row.idle / MICROS,
        started_by=row.started_by,
        started_at=instant(row.started_at),
        moved_at=instant(row.moved_at),
        stamp=row.stamp,
        seq=board.seq,
        turns=tuple(made(turn) for turn in reversed(present)),
        last=tuple(made(turn) for turn in over[:100]),
        offers={agent: offer / 1_000 for agent, offer in offers},
        malformed=row.malformed,
        stalls=row.stalls,
        resets=row.resets,
        reason=row.reason,
        answer=item_id(types[row.answer], row.answer) if row.answer in types else None,
        strategy_state=json.loads(row.strategy_state),
    )


def budget_json(budget: Budget) -> str:
    """Returns the JSON that is stored for a budget."""
    return dumps(asdict(budget))
