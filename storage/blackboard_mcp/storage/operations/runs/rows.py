"""Rows of runs and turns, and the values that callers get of them."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, cast

from blackboard_mcp.protocols.errors import UnknownReference
from blackboard_mcp.protocols.items import ItemType, item_id
from blackboard_mcp.protocols.participants import MAX_PARTICIPANTS
from blackboard_mcp.protocols.runs import Budget, Run, RunState, RunTurn
from blackboard_mcp.protocols.values import unfrozen

from ..agenda.rows import MICROS
from ..ledger.ledger import Ledger
from ..ledger.rows import BoardRow, Steps, dumps, instant, parsed, sql

_KEPT: Final = 200
"""Most turns of a run that one look returns, unless its present round has more."""
_WHOLE: Final = MAX_PARTICIPANTS + _KEPT
"""More turns than a round has."""
_FEWEST: Final = 20
_EACH: Final = 4


@dataclass(slots=True)
class RunRow:
    """A row of `run`: its fields are the columns, but for the last five. Times are in microseconds since 1970."""

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
    listed: list[TurnRow] | None = field(default=None, init=False)
    """Its last turns as they are now, newest first, once they were read."""
    text: str = field(default="", init=False)
    """The text of its problem, which everybody may see."""
    offers: dict[str, float] | None = field(default=None, init=False)
    """The offers of agents for the next round, the highest first; `None` until they are read."""
    gone: tuple[str, ...] = field(default=(), init=False)
    """Those of its agents that have left the board."""

    @property
    def id(self) -> str:
        """The id, as agents see it."""
        return f"run-{self.number}"

    def named(self) -> tuple[str, ...]:
        """Returns the agents that the run names; none means whoever takes part."""
        return _names(self.agents)

    def rotation(self) -> tuple[str, ...]:
        """Returns the agents of those it names that may have a turn: who left has none, unless all left."""
        named = self.named()
        return tuple(agent for agent in named if agent not in self.gone) or named

    def bounds(self) -> Budget:
        """Returns the run's budget."""
        return _budget(self.budget)

    def used(self) -> Budget:
        """Returns what was spent, without seconds."""
        return _budget(self.spent)


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
    made: RunTurn | None = field(default=None, init=False)
    """The turn as callers get it, once it was made; changes of the row are stored by `put_turn`, which forgets it."""


RUN_VALUES: Final = attrgetter(*(column.name for column in fields(RunRow) if column.init))
TURN_VALUES: Final = attrgetter(*(column.name for column in fields(TurnRow) if column.init))
_MADE_OF: Final = attrgetter(*[column.name for column in fields(TurnRow) if column.init][2:])


def find(no: int, number: int) -> Steps[RunRow | None]:
    """Returns a run, with 0 the newest; `None` if there is none."""
    found = yield sql("run_get"), (no, number)
    if not found:
        return None
    *columns, text, has_offers, gone = found[0]
    row = RunRow(*columns)
    row.text = text or ""
    row.offers = None if has_offers else {}
    row.gone = _names(gone)
    return row


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
    turn.made = None
    yield sql("turn_put"), TURN_VALUES(turn)


def add_turn(row: RunRow, turn: TurnRow) -> Steps[None]:
    """Stores a new turn."""
    yield sql("turn_add"), TURN_VALUES(turn)
    if row.listed is not None:
        row.listed.insert(0, turn)
        if len(row.listed) > _most(row) and row.listed[-1].round < row.round:
            row.listed.pop()


def drop_offers(row: RunRow) -> Steps[None]:
    """Forgets what agents offered, since that was for one round."""
    if row.offers is None or row.offers:
        yield sql("offers_drop"), (row.board, row.number)
    row.offers = {}


def turns_of_round(row: RunRow) -> Steps[list[TurnRow]]:
    """Returns the contributors' turns of the present round, in the order in which they were given."""
    listed = yield from turns(row)
    return [turn for turn in reversed(listed) if turn.round == row.round and turn.kind == "contribute"]


def turns(row: RunRow) -> Steps[list[TurnRow]]:
    """Returns the last turns of a run, newest first, with all of the present round; they are read once."""
    if row.listed is None:
        most = _most(row)
        found = [TurnRow(*raw) for raw in (yield sql("turns_of"), (row.board, row.number, most))]
        if len(found) == most and found[-1].round == row.round:
            found = [TurnRow(*raw) for raw in (yield sql("turns_of"), (row.board, row.number, _WHOLE))]
        row.listed = found
    return row.listed


def _most(row: RunRow) -> int:
    named = row.named()
    return min(_KEPT, _FEWEST + _EACH * len(named)) if named else _KEPT


def value(board: BoardRow, row: RunRow, now: int) -> Steps[Run]:
    """Returns a run as callers get it. Texts of a sealed round that is not open yet are not in it."""
    listed = yield from turns(row)
    if row.offers is None:
        offers = yield sql("offers_of"), (board.no, row.number)
        row.offers = {agent: offer / 1_000 for agent, offer in offers}
    present: list[RunTurn] = []
    over: list[RunTurn] = []
    for turn in listed:
        is_present = turn.state == "given" or (turn.round == row.round and turn.kind == "contribute")
        if turn.made is None:
            turn.made = _made(*_MADE_OF(turn))
        (present if is_present else over).append(turn.made)
    used = row.used()
    made: Run = unfrozen(Run)(
        number=row.number,
        problem=item_id(ItemType.PROBLEM, row.problem),
        text=row.text,
        state=RunState(row.state),
        phase=cast(Any, row.phase),
        strategy=row.strategy,
        fallback=row.fallback,
        agents=row.named(),
        rotation=row.rotation(),
        round=row.round,
        max_rounds=row.max_rounds,
        budget=row.bounds(),
        spent=Budget(used.steps, used.tokens, used.cost, max(0.0, (now - row.started_at) / MICROS)),
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
        turns=tuple(reversed(present)),
        last=tuple(over[:100]),
        offers=row.offers,
        malformed=row.malformed,
        stalls=row.stalls,
        resets=row.resets,
        reason=row.reason,
        answer=item_id(ItemType.ANSWER, row.answer) if row.answer else None,
        lifecycle=board.lifecycle,
        strategy_state={} if row.strategy_state == "{}" else parsed(row.strategy_state),
    )
    made.__class__ = Run
    return made


@lru_cache(maxsize=1_024)
def _made(
    lease: int,
    round_: int,
    agent: str,
    kind: str,
    until: int,
    instruction: str,
    state: str,
    text: str,
    item: int,
    at: int,
) -> RunTurn:
    """Returns a turn as callers get it; `text`, of a sealed round, is not in it. Turns that are over do not change."""
    return RunTurn(
        agent=agent,
        kind=cast(Any, kind),
        round=round_,
        lease=lease,
        until=instant(until),
        instruction=instruction,
        state=cast(Any, state),
        item=item_id(ItemType.ANSWER if kind == "answer" else ItemType.LOG, item) if item else "",
        at=instant(at) if at else None,
    )


@lru_cache(maxsize=256)
def _names(listed: str) -> tuple[str, ...]:
    return tuple(parsed(listed))


@lru_cache(maxsize=1_024)
def _budget(kept: str) -> Budget:
    return Budget(**parsed(kept))


def budget_json(budget: Budget) -> str:
    """Returns the JSON that is stored for a budget."""
    return dumps(
        {"steps": budget.steps, "tokens": budget.tokens, "cost": budget.cost, "seconds": budget.seconds}
    )
