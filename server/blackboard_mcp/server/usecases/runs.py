"""Runs: agents take turns on a problem in rounds, until one of them answers.

Every method takes the agent's authenticated name and a board id. Nothing here knows MCP, HTTP or SQL.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final

from blackboard_mcp.protocols.agenda import Task
from blackboard_mcp.protocols.answers import Attention, Notice, NoticeFor
from blackboard_mcp.protocols.board import Lifecycle
from blackboard_mcp.protocols.errors import InvalidInput, Refused, UnknownReference
from blackboard_mcp.protocols.events import SYSTEM
from blackboard_mcp.protocols.findings import had_by_one
from blackboard_mcp.protocols.grants import without
from blackboard_mcp.protocols.items import Ref, parse_ref
from blackboard_mcp.protocols.participants import Participant
from blackboard_mcp.protocols.rules import RuleBook
from blackboard_mcp.protocols.runs import (
    MAX_ALONE,
    Contributed,
    Decision,
    NewRun,
    Run,
    RunState,
    RunTurn,
    Usage,
)
from blackboard_mcp.protocols.runs import Final as Finalized
from blackboard_mcp.protocols.sightings import Way
from blackboard_mcp.protocols.strategies import COORDINATOR
from blackboard_mcp.protocols.tokens import CountedText, Tokenizer
from blackboard_mcp.protocols.values import dataclass
from cachetools import FIFOCache

from ..background import heeded
from ..input.idempotency import once_of
from ..input.posts import check_addressed, check_agent, check_text
from ..limits.rates import size_of
from ..strategies.built_in import ONE_BY_ONE, UNSEEING
from ..strategies.decisions import NotUnderstood, parse_decision
from .agenda import Tasks
from .blackboard import Blackboard
from .conducting import Conductor, waits_for_choice
from .following import Report
from .participants import Participants

_REPORT_EVERY: Final = 5.0
_LEAST: Final = 0.001
_SOON: Final = 1.0
"""Most seconds that a call waits for a first choice even if it does not want to wait."""
_KNOWN: Final = 10_000
_MOVED: Final = 100
_SAID: Final = 12
"""Contributions of others that an agent is shown at its turn."""
_OVER: Final = (RunState.STOPPED, RunState.FINISHED)
_NAMES: Final = "Name agents as the board knows them; without agents, whoever takes part has turns."


@dataclass(frozen=True, slots=True)
class Act:
    """What an agent does as it calls: contribute, decide, or volunteer. At most one of the three."""

    text: str | None = None
    decision: str | Mapping[str, Any] | None = None
    offer: float | None = None
    lease: int = 0
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """A run as one agent is told of it; `run` is `None` where the board has none.

    `turn` is the agent's own turn, `done` what its call did, `misses` how many calls in a row gave it no turn. `said`
    are contributions that it has not seen at an earlier turn, oldest first, and `texts` beginnings by item number.
    `alone` are lines of the last sealed round that only one agent had.
    `roster` is there for who decides, `final` for who answers and where the run is over. `lifecycle` is the state of
    a board without a run.
    """

    run: Run | None
    agent: str
    seq: int
    attention: Attention
    turn: RunTurn | None = None
    started: bool = False
    done: Contributed | None = None
    misses: int = 0
    takes_part: bool = True
    eligible: tuple[str, ...] = ()
    rules: RuleBook | None = None
    claims: tuple[Task, ...] = ()
    said: tuple[RunTurn, ...] = ()
    texts: Mapping[int, str] = field(default_factory=dict)
    alone: tuple[tuple[str, str], ...] = ()
    roster: tuple[Participant, ...] = ()
    final: Finalized | None = None
    lifecycle: Lifecycle = Lifecycle.OPEN


class Runs:
    """Use cases for the runs of a board."""

    def __init__(self, board: Blackboard, conductor: Conductor) -> None:
        self._board = board
        self._conductor = conductor
        self._participants = Participants(board)
        self._tasks = Tasks(board)
        self._misses: FIFOCache[tuple[str, str], int] = FIFOCache(_KNOWN)
        self._looks: FIFOCache[tuple[str, int], tuple[object, asyncio.Future[Run | None]]] = FIFOCache(_KNOWN)
        self._moved: FIFOCache[tuple[str, int], tuple[int | None, Run]] = FIFOCache(_MOVED)
        """Runs as an act of this process left them, with the store's stamp then."""

    async def start(
        self, agent: str, board: str | None, new: NewRun, *, seconds: float = 0.0, once_key: str | None = None
    ) -> Standing:
        """Starts a run. Errors are those of `BoardStore.start_run`."""
        check_agent(agent)
        for text in (new.problem.text, new.coordinate, new.decide):
            check_text(text)
        new = replace(
            new,
            agents=tuple(check_addressed(one, _NAMES) for one in new.agents),
            coordinator=new.coordinator and check_addressed(new.coordinator, _NAMES),
            decider=new.decider and check_addressed(new.decider, _NAMES),
        )
        self._conductor.strategies.check(new.strategy, "start.strategy")
        self._conductor.strategies.check(new.fallback, "start.fallback")
        if new.sealed and new.strategy in ONE_BY_ONE:
            raise InvalidInput(
                "start.sealed keeps what agents write in the same round unseen; with the strategy "
                f'"{new.strategy}" each round is one agent\'s, so nothing would be sealed. Nothing was changed; give '
                '"strategy": "choreography", where all have one turn in each round, or leave sealed out.'
            )
        name = await self._board.board_of(board, agent)
        text = new.problem.text
        self._board.quotas.check_text(len(text))
        self._board.quotas.charge(agent, name, size=size_of(text))
        once = once_of(once_key, "start_run", new=repr(new))

        async def write(tokenizer: Tokenizer) -> Run:
            return await self._board.store.start_run(
                name, agent, replace(new, problem=_counted(text, tokenizer)), once=once
            )

        run = await self._board.validation.counted(name, write)
        await self._board.prune_if_due(name)
        return await self._wait(agent, name, run.number, seconds, None, started=True)

    async def turn(
        self,
        agent: str,
        board: str | None,
        act: Act,
        *,
        number: int = 0,
        seconds: float = 0.0,
        report: Report | None = None,
        once_key: str | None = None,
    ) -> Standing:
        """Does what the agent says, then waits for its next turn. Errors are those of `BoardStore.end_turn`.

        A decision that was not accepted is answered at once: the turn to decide is still the agent's.
        """
        check_agent(agent)
        name = await self._board.board_of(board, agent, counts=False)
        done: Contributed | None = None
        if act.text is not None:
            done = await self._contribute(agent, name, number, act, act.text, seconds, once_key)
        elif act.decision is not None:
            done = await self._decide(agent, name, number, act, act.decision, once_key)
        elif act.offer is not None:
            self._board.quotas.charge(agent, name)
            await self._board.store.offer_turn(name, agent, number, act.offer)
        if done is not None:
            number = done.run.number
            if any(turn.state == "given" and turn.agent != agent for turn in done.run.turns):
                self._moved[name, number] = (self._board.stamp(), done.run)
            if done.problem and done.run.turn_of(agent) is not None:
                seconds = 0.0
        return await self._wait(agent, name, number, seconds, report, done=done)

    async def _contribute(
        self,
        agent: str,
        board: str,
        number: int,
        act: Act,
        text: str,
        seconds: float,
        once_key: str | None,
    ) -> Contributed:
        check_text(text)
        self._board.quotas.check_text(len(text))
        self._board.quotas.charge(agent, board, size=size_of(text))
        once = once_of(once_key, "end_turn", run=number, lease=act.lease, text=text, usage=repr(act.usage))

        look = self._board.looks.of(board, agent)

        def notice(run: Run) -> NoticeFor | None:
            """Says what to tell the agent beside, unless it goes on to wait."""
            is_answered = run.state in _OVER or run.turn_of(agent) is not None or not seconds
            return self._wanted(agent, run, look) if is_answered else None

        async def write(tokenizer: Tokenizer) -> Contributed:
            return await self._board.store.end_turn(
                board,
                agent,
                number,
                act.lease,
                _counted(text, tokenizer),
                usage=act.usage,
                at_once=UNSEEING,
                notice=notice,
                once=once,
            )

        return await self._board.validation.counted(board, write)

    async def _decide(
        self,
        agent: str,
        board: str,
        number: int,
        act: Act,
        given: str | Mapping[str, Any],
        once_key: str | None,
    ) -> Contributed:
        raw = given if isinstance(given, str) else repr(dict(given))
        self._board.quotas.charge(agent, board, size=size_of(raw))
        once = once_of(once_key, "decide_run", run=number, lease=act.lease, raw=raw, usage=repr(act.usage))
        decision: Decision | None = None
        problem = ""
        try:
            decision = parse_decision(given)
            check_text(decision.instruction)
            if decision.strategy:
                self._conductor.strategies.check(decision.strategy, "strategy")
        except (NotUnderstood, InvalidInput) as error:
            decision, problem = None, str(error).removesuffix(" Nothing was changed.")
        return await self._board.store.decide_run(
            board, agent, number, act.lease, decision, raw, problem, usage=act.usage, once=once
        )

    async def _wait(
        self,
        agent: str,
        board: str,
        number: int,
        seconds: float,
        report: Report | None,
        *,
        started: bool = False,
        done: Contributed | None = None,
    ) -> Standing:
        """Waits until the agent has a turn or the run is over.

        Raises:
            Refused: the call did nothing, and the board takes no posts, so that the run stands still.
        """
        loop = asyncio.get_running_loop()
        begun = loop.time()
        deadline = begun + seconds
        next_report = math.inf if report is None else begun + _REPORT_EVERY
        tails, store = self._board.following.tails, self._board.store
        self._board.activity.seen(board, agent)
        asked = waited = False
        known = None if done is None else done.run
        while True:
            seen = store.changes()
            looked = known is None
            run = known or (self._given(agent, board, number) if waited else None)
            run = run or await self._look(board, number)
            known = None
            if run is None or run.state in _OVER:
                break
            if run.lifecycle is not Lifecycle.OPEN and done is None and not started:
                raise _standing_still(board, run)
            if run.lifecycle is not Lifecycle.OPEN or run.turn_of(agent) is not None:
                break
            number = run.number
            if waits_for_choice(run):
                choosing = self._conductor.kick(board, run)
                if not asked:
                    asked = True
                    chosen, _ = await asyncio.wait([choosing], timeout=_SOON)
                    after = choosing.result() if chosen and not choosing.cancelled() else None
                    known = after if after is not None and after.number == number else None
                    if known is not None:
                        self._moved[board, number] = (self._board.stamp(), known)
                    continue
            now = loop.time()
            if now >= deadline or tails.released:
                break
            if not looked:  # it may have changed before `seen`
                continue
            if report is not None and now >= next_report:
                next_report = now + _REPORT_EVERY
                await report(round(now - begun, 1), seconds, f"waiting for a turn in {run.id}")
            patience = min(deadline, next_report) - now
            await tails.unless_released(store.wait_for_change(seen, max(_LEAST, patience)), seen)
            waited = True
        self._board.activity.seen(board, agent)
        if run is None and number:
            raise UnknownReference(f"There is no run-{number} on '{board}'; turn() finds the newest.")
        return await self._standing(agent, board, run, started=started, done=done)

    def _given(self, agent: str, board: str, number: int) -> Run | None:
        """Returns the run if an act gave the agent a turn and nothing was committed since: it need not be read again.

        It is for calls that waited as the act was made. Another process may have changed the run just before the stamp.
        """
        stamp, run = self._moved.get((board, number), (None, None))
        if run is None or stamp is None or stamp != self._board.stamp() or run.turn_of(agent) is None:
            return None
        return run

    async def _look(self, board: str, number: int) -> Run | None:
        """Returns the run as of now. All that wait share one look after each change."""
        # The counter hears of other processes late, the stamp at once, where the store gives one.
        moved = self._board.store.changes(), self._board.stamp()
        kept = self._looks.get((board, number))
        if kept is None or kept[0] != moved or (kept[1].done() and kept[1].exception() is not None):
            look = self._board.store.find_run(board, SYSTEM, number)
            looking: asyncio.Future[Run | None] = asyncio.create_task(look, context=without())
            looking.add_done_callback(heeded)
            kept = self._looks[board, number] = (moved, looking)
        return await asyncio.shield(kept[1])

    def _wanted(self, agent: str, run: Run | None, look: int) -> NoticeFor:
        """Returns what a notice for an agent is to hold beside a run."""
        return NoticeFor(
            look,
            rules=run is not None and run.turn_of(agent) is not None,
            claims=run is not None and self._board.claims,
            texts=_news(run, agent)[1],
        )

    async def _standing(
        self, agent: str, board: str, run: Run | None, *, started: bool, done: Contributed | None
    ) -> Standing:
        turn = None if run is None else run.turn_of(agent)
        said, shown = _news(run, agent)
        posted = [] if done is None else [item.number for item in done.items]
        given = [] if turn is None else [turn.lease]
        store = self._board.store
        notice = done.notice if done is not None and done.run is run else None
        asked: dict[str, Coroutine[Any, Any, Any]] = {}
        if notice is None:
            look = self._board.looks.of(board, agent)
            asked["notice"] = store.notice(board, agent, self._wanted(agent, run, look))
        if run is not None and run.state is RunState.OPEN and not run.agents:
            asked["eligible"] = store.eligible_agents(board, run.number)
        if run is not None and run.state is not RunState.OPEN and (turn is not None or run.state in _OVER):
            asked["final"] = store.preview_answer(board, agent, run.number)
        if run is not None and turn is not None and run.sealed:
            asked["alone"] = self._alone(board, agent, run)
        if run is None:
            asked["board"] = store.find_board(board)
        if turn is not None and turn.kind == "decide":
            asked["roster"] = self._participants.listed(board)
        # Asked at once, they are one turn of the store's thread.
        answers = await asyncio.gather(*asked.values()) if asked else ()
        found = dict(zip(asked, answers, strict=True))
        told: Notice = found["notice"] if notice is None else notice
        if told.rules is not None:
            await self._board.rules.saw(board, agent, told.rules.revision)
        if done is not None:
            self._board.prune_if(board, told)
        seq = told.seq
        attention = self._board.noticed(
            agent, board, told, events=given, items=[*shown, *posted], way=Way.TURN
        )
        if run is None:
            return Standing(None, agent, seq, attention, lifecycle=found["board"].lifecycle)
        key = (board, agent)
        eligible = run.rotation if run.state is RunState.OPEN else ()
        eligible = found.get("eligible", eligible)
        misses = 0
        if turn is None and run.state not in _OVER:
            self._misses[key] = misses = 0 if done or started else self._misses.get(key, 0) + 1
        else:
            self._misses.pop(key, None)
        return Standing(
            run,
            agent,
            seq,
            attention,
            turn=turn,
            started=started,
            done=done,
            misses=misses,
            takes_part=not eligible
            or agent in eligible
            or (
                agent not in run.agents  # of those it names only who left is not eligible
                and agent in (run.coordinator, run.decider or run.started_by, run.started_by)
            ),
            eligible=eligible,
            rules=told.rules,
            claims=told.claims,
            said=said,
            texts=told.texts,
            alone=found.get("alone", ()),
            roster=found.get("roster", ()),
            final=found.get("final"),
        )

    async def _alone(self, board: str, agent: str, run: Run) -> tuple[tuple[str, str], ...]:
        """Returns lines that only one agent had in the sealed round that opened last, with that agent."""
        opened = [one for one in (*run.turns, *run.last) if one.kind == "contribute" and one.item]
        last = max((one.round for one in opened), default=0)
        refs = [Ref(parse_ref(one.item).number) for one in opened if one.round == last]
        if not refs:
            return ()
        found = await self._board.store.read(board, agent, refs, [])
        return had_by_one([(item.author, item.text) for item in found.items], MAX_ALONE)

    async def finalize(
        self,
        agent: str,
        board: str | None,
        text: str | None,
        cites: Sequence[int] = (),
        *,
        number: int = 0,
        cited: Sequence[str] = (),
        once_key: str | None = None,
    ) -> tuple[Finalized, int, Attention]:
        """Posts the answer of a run; without a text it returns what the answer would be now.

        `cited` are the ids of `cites` as written.

        It is refused once if rules in the agent's scope changed since it was shown them.

        Errors are those of `BoardStore.finalize_run`.
        """
        check_agent(agent)
        name = await self._board.board_of(board, agent)
        if text is None:
            final = await self._board.store.preview_answer(name, agent, number)
        else:
            check_text(text)
            self._board.quotas.check_text(len(text))
            self._board.quotas.charge(agent, name, size=size_of(text))
            await self._board.check_named(agent, name, cited)
            once = once_of(once_key, "finalize_run", run=number, text=text, cites=list(cites))
            await self._board.check_rules(name, agent, once, "finalize(text=…)")
            words = text

            async def write(tokenizer: Tokenizer) -> Finalized:
                counted = _counted(words, tokenizer)
                return await self._board.store.finalize_run(name, agent, number, counted, cites, once=once)

            final = await self._board.validation.counted(name, write)
            await self._board.prune_if_due(name)
        shown = [] if final.item is None else [final.item.number]
        attention, seq = await self._board.attention(agent, name, items=shown)
        return final, seq, attention


def default_strategy(coordinator: str) -> str:
    """Returns the strategy of a run that names none: its coordinator, if it has one, else agents in turn."""
    return COORDINATOR if coordinator else "round-robin"


def _standing_still(board: str, run: Run) -> Refused:
    """Returns the error for who waits for a turn on a board that takes no posts."""
    more = (
        "it is for good, so stop here."
        if run.lifecycle is Lifecycle.CLOSED
        else f'a steward can open it again: board(lifecycle="open", board="{board}").'
    )
    return Refused(
        f"Board '{board}' is {run.lifecycle} and takes no posts, so {run.id} stands still. Nothing was changed; {more}",
        lifecycle=str(run.lifecycle),
    )


def _counted(text: str, tokenizer: Tokenizer) -> CountedText:
    return CountedText(text, tokenizer.count(text), tokenizer.name)


def _news(run: Run | None, agent: str) -> tuple[tuple[RunTurn, ...], tuple[int, ...]]:
    """Returns the contributions that an agent is shown at its turn, and the numbers of the items whose texts it is
    shown; none without a turn.
    """
    turn = None if run is None else run.turn_of(agent)
    if run is None or turn is None:
        return (), ()
    said = _unseen(run, agent, turn)
    return said, tuple(parse_ref(id_).number for id_ in (run.problem, *(one.item for one in said)) if id_)


def _unseen(run: Run, agent: str, turn: RunTurn) -> tuple[RunTurn, ...]:
    """Returns contributions since the agent's last turn, oldest first; for an answer, the last of the run."""
    given = [one for one in (*reversed(run.turns), *run.last) if one.item]
    if turn.kind != "answer":
        before = next((one.round for one in run.last if one.agent == agent and one.kind == turn.kind), 0)
        first = before + 1 if turn.kind == "decide" else before
        given = [one for one in given if one.agent != agent and one.round >= first]
    return tuple(reversed(given[:_SAID]))
