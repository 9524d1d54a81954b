"""Runs: rounds in which agents take turns on a problem until somebody decides on the answer.

A run belongs to agents, not to connections: a turn is given to an agent under a lease, and waits for it. The store
keeps what was given, done, decided and spent; strategies, which choose who goes next, run outside of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Literal, Protocol

from .answers import Notice, NoticeFor, Once
from .board import Lifecycle
from .items import Item
from .tokens import CountedText
from .values import dataclass

MAX_RUN_AGENTS = 100
MAX_ROUNDS = 1_000
ROUNDS = 10
"""Rounds of a run that names no number."""
MAX_PROBLEM = 20_000
MAX_INSTRUCTION = 4_000
MAX_RAW = 300
"""Characters of a decision's raw text that its event keeps."""
MAX_MALFORMED = 3
"""Malformed decisions in a row after which the fallback strategy chooses."""
TURN_SECONDS = 300.0
"""Seconds for which an agent has its turn after its last call; then the turn lapses."""
MAX_ALONE = 50
"""Lines of a sealed round that only one agent had and that are listed."""
MAX_STALLS = 3
"""Rounds in a row that changed nothing, after which the run is stalled."""
MAX_RESETS = 2
"""Stalls after which the fallback strategy goes on; the next one stops the run."""


class RunState(StrEnum):
    """The state of a run. It is OPEN while there are rounds; SETTLED waits for its answer; the others are over."""

    OPEN = "open"
    SETTLED = "settled"
    """No more rounds: the strategy ended them, they are used up, or nothing moves any more. The decider answers."""
    STOPPED = "stopped"
    """Ended without an answer: a spent budget, a stall, or by hand. What there is stays as a partial answer."""
    FINISHED = "finished"


RUN_MOVES: dict[RunState, frozenset[RunState]] = {
    RunState.OPEN: frozenset({RunState.SETTLED, RunState.STOPPED, RunState.FINISHED}),
    RunState.SETTLED: frozenset({RunState.STOPPED, RunState.FINISHED}),
    RunState.STOPPED: frozenset({RunState.FINISHED}),
    RunState.FINISHED: frozenset(),
}


@dataclass(frozen=True, slots=True)
class Budget:
    """Bounds of a run; 0 is none. `steps` counts contributions and decisions, `cost` is in the users' own unit."""

    steps: int = 0
    tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0

    @property
    def bounded(self) -> bool:
        """Tells whether any bound is set."""
        return bool(self.steps or self.tokens or self.cost or self.seconds)


@dataclass(frozen=True, slots=True)
class Usage:
    """What a turn cost, as its agent reports it; a step is counted by the store."""

    tokens: int = 0
    cost: float = 0.0


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run to start. `problem` is posted as a PROBLEM item. Empty `agents` means who takes part when rounds begin.

    `strategy` names who chooses: `round-robin`, `interest`, `volunteer`, `coordinator`, `llm`, `choreography`, or one
    that the operator named at launch. `fallback` goes on after malformed decisions or a stall. `coordinate` and
    `decide` are instructions for the coordinator and the decider.
    """

    problem: CountedText
    agents: tuple[str, ...] = ()
    strategy: str = "round-robin"
    max_rounds: int = ROUNDS
    budget: Budget = Budget()
    coordinator: str = ""
    decider: str = ""
    sealed: bool = False
    fallback: str = "round-robin"
    coordinate: str = ""
    decide: str = ""
    idle_seconds: float = 0.0
    """Seconds without an event on the board, with nothing outstanding, after which the run settles; 0: never."""


TurnKind = Literal["contribute", "decide", "answer"]
"""`decide` is the coordinator's turn, which takes no round; `answer` the decider's, once the run is settled."""
TurnState = Literal["given", "ended", "lapsed", "skipped"]


@dataclass(frozen=True, slots=True)
class RunTurn:
    """A turn of an agent. `item` is the id of what it posted; empty for none, and for a sealed one until it opens."""

    agent: str
    kind: TurnKind
    round: int
    lease: int
    until: datetime
    instruction: str
    state: TurnState
    item: str = ""
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """A coordinator's decision that was understood; `terminate` needs no `next_agent`."""

    terminate: bool
    next_agent: str = ""
    instruction: str = ""
    strategy: str = ""
    """Another strategy for the rounds that follow; empty leaves it."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a strategy chose for the next round: agents with an instruction each, or the end of the rounds.

    `by` is the strategy's or coordinator's name. `end` settles the run; `reason` says why. No agents without `end`
    means that nobody can contribute now (`run.no_contributor`). With agents, `reason` is the rationale that their turns
    carry.
    """

    agents: Mapping[str, str]
    by: str
    end: bool = False
    reason: str = ""
    state: Mapping[str, Any] | None = None
    """The strategy's own state from now on; `None` leaves it."""
    delegate: str = ""
    """The strategy that chooses this round in its place, for the reason in `reason`; then `agents` is empty."""
    focus: Mapping[str, str] = field(default_factory=dict)
    """A map from chosen agents to the task, such as `T-4`, that each is to take first. A task that is not ready for its
    agent when the turn is given is left out."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run as of one moment. Its id is `run-1`.

    `phase` says what an open run waits for: `choose` (a strategy has to choose), `decide` (the coordinator's decision),
    or `turns` (contributions of `turns`). `stamp` grows with each change of the run: who chooses on a run that has
    changed meanwhile is refused. `spent` counts all turns. `malformed` counts malformed decisions in a row.
    """

    number: int
    problem: str
    """The id of its PROBLEM item."""
    text: str
    state: RunState
    phase: Literal["choose", "decide", "turns", "answer", "over"]
    strategy: str
    fallback: str
    agents: tuple[str, ...]
    round: int
    max_rounds: int
    budget: Budget
    spent: Budget
    coordinator: str
    decider: str
    sealed: bool
    coordinate: str
    decide: str
    idle_seconds: float
    started_by: str
    started_at: datetime
    moved_at: datetime
    stamp: int
    seq: int
    turns: tuple[RunTurn, ...] = ()
    """Turns of the present round, and of a decision or answer that is due."""
    last: tuple[RunTurn, ...] = ()
    """Ended turns of earlier rounds, newest first, at most 100."""
    offers: Mapping[str, float] = field(default_factory=dict)
    """What agents offered for the next round, from 0 to 1."""
    malformed: int = 0
    stalls: int = 0
    resets: int = 0
    reason: str = ""
    answer: str | None = None
    """The id of its ANSWER item."""
    strategy_state: Mapping[str, Any] = field(default_factory=dict)
    lifecycle: Lifecycle = Lifecycle.OPEN
    """The state of its board: while that takes no posts, the run stands still."""
    rotation: tuple[str, ...] = ()
    """Those of `agents` that may have a turn: all but those that left the board, or all where all left."""

    @property
    def id(self) -> str:
        """The id, as agents see it."""
        return f"run-{self.number}"

    def turn_of(self, agent: str) -> RunTurn | None:
        """Returns the turn that the agent has now, or `None`."""
        return next((turn for turn in self.turns if turn.agent == agent and turn.state == "given"), None)


AtOnce = Callable[[Run, tuple[str, ...]], Chosen]
"""A strategy that chooses by the run and its eligible agents alone, and without waiting. It has no effects."""
NOTHING_AT_ONCE: Mapping[str, AtOnce] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Contributed:
    """A run after a turn ended. `items` is what was posted: one contribution, or all of a sealed round as it opens.

    `alone` are lines of a sealed round that only one agent had, with that agent.
    """

    run: Run
    items: tuple[Item, ...] = ()
    alone: tuple[tuple[str, str], ...] = ()
    verdict: Literal["accepted", "malformed", "unknown agent", "fallback"] = "accepted"
    """What became of a decision. After `fallback` the run's fallback strategy chooses."""
    problem: str = ""
    """What was wrong with a decision that was not accepted, for its coordinator."""
    notice: Notice | None = None
    """The notice that was asked for; `None` without one, and for a call that repeats an earlier one."""


@dataclass(frozen=True, slots=True)
class Final:
    """The answer of a run: posted, or (`posted` false) what it would be now and from where.

    `source` is `decider`, `answer` (the last ANSWER item), `contribution` (the last one), or `empty`. `unresolved` are
    ids of open critiques of what it cites and of its members, `dissent` ids of what speaks against it.
    """

    run: Run
    text: str
    cites: tuple[str, ...]
    source: Literal["decider", "answer", "contribution", "empty"]
    posted: bool
    item: Item | None = None
    unresolved: tuple[str, ...] = ()
    dissent: tuple[str, ...] = ()


class RunStore(Protocol):
    """A store of runs. The guarantees of `store` apply.

    A board has at most one run that is open or settled. `run` 0 means the newest one.
    """

    async def start_run(self, board: str, agent: str, new: NewRun, *, once: Once | None = None) -> Run:
        """Starts a run and posts its problem; reports `run.started`.

        Raises:
            InvalidInput: a value is not allowed.
            Refused: the board has a run that is not over, or is closed.
        """
        ...

    async def find_run(self, board: str, agent: str, run: int = 0) -> Run | None:
        """Returns a run as of one moment, with 0 the newest; `None` if there is none.

        A turn whose lease has ended is in it until a sweep lets it lapse.
        """
        ...

    async def eligible_agents(self, board: str, run: int) -> tuple[str, ...]:
        """Returns the agents that may have a turn: those of the run's rotation; where it names nobody, those that
        take part and are present.
        """
        ...

    async def choose_turns(self, board: str, run: int, stamp: int, chosen: Chosen) -> Run:
        """Gives the turns of the next round, or the coordinator its turn to decide, or settles the run.

        Budget and number of rounds are checked first: a spent budget stops the run (`budget.blocked`), used-up rounds
        settle it. Reports `turn.given` for each turn (it concerns that agent). If the run has changed since `stamp`,
        nothing is done and the run is returned as it is.

        Raises:
            InvalidInput: an agent was chosen that is not eligible.
        """
        ...

    async def ask_coordinator(self, board: str, run: int, stamp: int, instruction: str) -> Run:
        """Gives the coordinator its turn to decide; with the strategy `llm` the server has it (agent `system`).

        Otherwise as `choose_turns`.
        """
        ...

    async def end_turn(
        self,
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
    ) -> Contributed:
        """Ends an agent's turn with its contribution; reports `turn.ended`.

        In a sealed round texts are kept unseen until all turns of the round are over, then posted together. If it was
        the last turn of its round, and the run's strategy is among those of `at_once`, the next round is chosen in the
        same transaction, as by `choose_turns`. `notice` says, by the run as it is then, what to tell the agent beside;
        it has no effects.

        Raises:
            Conflict: the agent has no turn under this lease; names the turn's holder, lease and end.
            Refused: the run is over.
        """
        ...

    async def decide_run(
        self,
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
    ) -> Contributed:
        """Takes the coordinator's decision; reports `decision.made` with at most `MAX_RAW` characters of `raw`.

        `decision` is `None` for one that was not understood; `problem` says why. Malformed decisions and ones that
        name an agent that is not eligible take no round; after `MAX_MALFORMED` of them in a row `fallback` chooses.

        Raises: as `end_turn`.
        """
        ...

    async def offer_turn(self, board: str, agent: str, run: int, offer: float) -> Run:
        """Notes that the agent volunteers for the next round with a value from 0 to 1."""
        ...

    async def finalize_run(
        self,
        board: str,
        agent: str,
        run: int,
        text: CountedText,
        cites: Sequence[int],
        *,
        once: Once | None = None,
    ) -> Final:
        """Posts the answer and finishes the run; reports `run.finished`.

        Raises:
            UnknownReference: a cited item does not exist.
            Refused: the agent is not the run's decider (or, if it names none, its starter), nor a steward of the board;
                or the run is finished. Once the decider let its turn lapse, stewards of all boards may answer too.
        """
        ...

    async def preview_answer(self, board: str, agent: str, run: int = 0) -> Final:
        """Returns the answer of a finished run, or what it would be now and from where."""
        ...

    async def stop_run(
        self, board: str, agent: str, run: int, reason: str, *, stamp: int = 0, once: Once | None = None
    ) -> Run:
        """Stops a run that is not over, with a reason; with `stamp` only if it has not changed since."""
        ...

    async def sweep_runs(self) -> list[str]:
        """Ends turns that have lapsed and settles runs that are idle, on open boards; returns the boards that
        changed.

        No turn lapses for the time in which the store was closed: its agent counts as there when the store was opened.
        Time in which one process soon follows another, or runs beside it, is no such time.
        """
        ...

    async def next_run_due(self) -> float | None:
        """Returns the seconds until the next turn may lapse or run may settle on an open board, or `None` if there is
        none.
        """
        ...
