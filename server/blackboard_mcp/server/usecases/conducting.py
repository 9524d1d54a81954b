"""Conducting runs: asking strategies who has the next turns, in the background, and ending what has lapsed.

Whoever has a turn is kept by the store; nothing here lasts. Of several processes that choose at once, the store takes
the first choice.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from blackboard_mcp.protocols.agenda import Task
from blackboard_mcp.protocols.board import Lifecycle
from blackboard_mcp.protocols.errors import BlackboardError, InvalidInput, SummaryFailed
from blackboard_mcp.protocols.events import SYSTEM, Event
from blackboard_mcp.protocols.grants import without
from blackboard_mcp.protocols.items import parse_ref
from blackboard_mcp.protocols.metering import METER, Meter
from blackboard_mcp.protocols.participants import Participant
from blackboard_mcp.protocols.runs import Run, RunState, RunTurn
from blackboard_mcp.protocols.store import BoardStore
from blackboard_mcp.protocols.strategies import COORDINATOR, MODEL, STRATEGY_SECONDS, Situation
from cachetools import FIFOCache

from ..background import Attempts
from ..strategies.built_in import UNSEEING
from ..strategies.decisions import NotUnderstood, parse_decision
from ..strategies.model import ANSWER_TOKENS, messages
from ..strategies.strategies import Strategies

logger = logging.getLogger(__name__)

SWEEP_SECONDS: Final = 15.0
"""Most seconds between two looks for turns that have lapsed and runs that are idle."""
_LEAST: Final = 0.05
_RETRY_SECONDS: Final = 1.0
_NEWS: Final = 500
_HEARD: Final = 10
_KNOWN: Final = 1_000
"""Contributions that a model is told of before it decides."""

Ask = Callable[[Sequence[Mapping[str, str]], int], Awaitable[str]]


class _AskedElsewhere(Exception):
    """Another process asks a strategy, or died asking."""


class Conductor:
    """Chooses the next turns of runs: `kick` after each change of a run, `run` for what time brings.

    `ask` puts messages to the language model of the strategy `llm`; `None` without one.
    """

    def __init__(
        self,
        store: BoardStore,
        strategies: Strategies,
        holder: str,
        ask: Ask | None = None,
        seconds: float = 0.0,
    ) -> None:
        self._store = store
        self.strategies = strategies
        self._holder = holder
        self._ask = ask
        self._lease = max(seconds, STRATEGY_SECONDS) + 5
        self._wanted: dict[str, Run | None] = {}
        self._working: dict[str, asyncio.Task[Run | None]] = {}
        self._tried: FIFOCache[str, tuple[int, int]] = FIFOCache(_KNOWN)
        """Runs in which nobody could be chosen, by board: the run's stamp and the board's sequence as of then."""
        self._soon = asyncio.Event()

    def kick(self, board: str, run: Run | None = None) -> asyncio.Task[Run | None]:
        """Starts to choose for the board's run, if it waits for that, and returns the task.

        `run` is the run if the caller has just read it. The task's result is the run after the last choice, or `None`
        where none was made.
        """
        self._wanted[board] = run
        if board not in self._working:
            context = without()
            context.run(METER.set, Meter())
            work = self._work(board)
            self._working[board] = asyncio.create_task(work, name=f"conduct-{board}", context=context)
        return self._working[board]

    async def _work(self, board: str) -> Run | None:
        after: Run | None = None
        try:
            while board in self._wanted:
                known, after = self._wanted.pop(board), None
                try:
                    after = await self._advance(board, known)
                except _AskedElsewhere:
                    self._wanted[board] = None
                    await asyncio.sleep(_RETRY_SECONDS)
                except BlackboardError as error:
                    logger.warning("the run on %s does not go on: %s", board, error)
                    await asyncio.sleep(_RETRY_SECONDS)
                except Exception:
                    logger.exception("the run on %s does not go on", board)
                    await asyncio.sleep(_RETRY_SECONDS)
            return after
        finally:
            self._working.pop(board, None)
            if after is None or 0 < after.idle_seconds < SWEEP_SECONDS:
                self._soon.set()

    async def _advance(self, board: str, known: Run | None) -> Run | None:
        """Chooses until agents have turns or nobody can have one, and returns the run after that.

        Raises:
            _AskedElsewhere: another process asks a strategy.
        """
        while True:
            run = known or await self._store.find_run(board, SYSTEM)
            if run is None or not waits_for_choice(run) or self._tried.get(board) == (run.stamp, run.seq):
                return None
            slow = run.phase == "decide" or run.strategy == MODEL or self.strategies.is_own(run.strategy)
            if not slow:
                after = await self._choose(board, run)
            else:
                lease = f"run:{board}"
                if not await self._store.lease(lease, self._holder, self._lease):
                    raise _AskedElsewhere
                try:
                    turn = run.turn_of(SYSTEM)
                    after = await (
                        self._choose(board, run) if turn is None else self._decide(board, run, turn)
                    )
                finally:
                    await self._store.release(lease, self._holder)
            if not waits_for_choice(after):
                return after
            # It may have changed since, and then nothing was chosen.
            if known is not None or after.strategy != run.strategy:
                known = None
                continue
            if after.phase == "choose" == run.phase:
                self._tried[board] = after.stamp, after.seq
            if after.stamp == run.stamp or after.phase == "choose" == run.phase:
                return after

    async def _choose(self, board: str, run: Run) -> Run:
        if run.strategy in (COORDINATOR, MODEL):
            return await self._store.ask_coordinator(board, run.number, run.stamp, run.coordinate)
        chosen = await self.strategies.choose(board, run.strategy, await self._situation(board, run))
        try:
            return await self._store.choose_turns(board, run.number, run.stamp, chosen)
        except InvalidInput:  # somebody left since the strategy looked
            self._wanted[board] = None
            return run

    async def _situation(self, board: str, run: Run) -> Situation:
        store, viewer = self._store, run.started_by

        async def events(after: int, limit: int) -> Sequence[Event]:
            return (await store.log(board, viewer, max(0, after), max(1, min(limit, _NEWS)))).events

        listed: Sequence[Participant] = ()
        news: Sequence[Event] = ()
        if run.strategy not in UNSEEING:
            listed = await store.participants(board)
            news = await events(min((turn.lease for turn in run.turns), default=run.seq), _NEWS)
        tasks: Sequence[Task] = ()
        if self.strategies.is_own(run.strategy):
            agenda = await store.agenda(board, viewer)
            tasks = tuple(task for task in agenda.tasks if task.ready)
        return Situation(
            run=run,
            eligible=run.rotation or await store.eligible_agents(board, run.number),
            participants={one.agent: one for one in listed},
            news=news,
            events=events,
            tasks=tasks,
        )

    async def _decide(self, board: str, run: Run, turn: RunTurn) -> Run:
        """Asks the language model who is next, and puts down what it decided."""
        situation = await self._situation(board, run)
        decision, problem, raw = None, "", ""
        try:
            if self._ask is None:
                raise SummaryFailed("this server has no endpoint for it")
            raw = await self._ask(messages(situation, await self._said(board, run)), ANSWER_TOKENS)
            decision = parse_decision(raw)
        except (SummaryFailed, NotUnderstood) as error:
            problem = str(error)
        done = await self._store.decide_run(board, SYSTEM, run.number, turn.lease, decision, raw, problem)
        return done.run

    async def _said(self, board: str, run: Run) -> list[tuple[str, str]]:
        """Returns who contributed lately and the beginnings of what, the last one last."""
        ended = [one for one in (*reversed(run.turns), *run.last) if one.item and one.kind == "contribute"][
            :_HEARD
        ]
        numbers = {one.item: parse_ref(one.item).number for one in ended}
        texts = await self._store.beginnings(
            board, run.started_by, [(number, 1) for number in numbers.values()]
        )
        return [(one.agent, texts.get((numbers[one.item], 1), "")) for one in reversed(ended)]

    async def sweep(self) -> None:
        """Ends turns that have lapsed and settles runs that are idle; their runs go on."""
        for board in await self._store.sweep_runs():
            self.kick(board)

    async def _sweep(self) -> float | None:
        await self.sweep()
        return await self._store.next_run_due()

    async def run(self) -> None:
        """Sweeps whenever something is due, until cancelled."""
        attempts = Attempts(logger)
        while True:
            self._soon.clear()
            due = await attempts.attempt(self._sweep, "lapsed turns wait")
            nap = SWEEP_SECONDS if due is None else min(SWEEP_SECONDS, max(_LEAST, due))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(nap):
                    await self._soon.wait()

    async def close(self) -> None:
        """Cancels what runs; each step is one transaction."""
        tasks = list(self._working.values())
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task


def waits_for_choice(run: Run) -> bool:
    """Tells whether a run waits for a strategy, or for the server's own language model."""
    return (run.lifecycle, run.state) == (Lifecycle.OPEN, RunState.OPEN) and (
        run.phase == "choose" or (run.phase == "decide" and run.turn_of(SYSTEM) is not None)
    )
