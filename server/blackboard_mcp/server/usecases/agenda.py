"""The agenda: agents plan tasks, take those that are ready, and say what came of them.

Every method takes the agent's authenticated name and a board id. Nothing here knows MCP, HTTP or SQL.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final
from weakref import WeakValueDictionary

from blackboard_mcp.protocols.access import Action, Principal
from blackboard_mcp.protocols.agenda import (
    LEASE_SECONDS,
    Agenda,
    Attempt,
    NewTask,
    Planned,
    Prospect,
    Reservation,
    Settle,
    Settled,
    Taken,
    Task,
    TaskState,
)
from blackboard_mcp.protocols.answers import Attention, DebateView, Notice, NoticeFor, Once
from blackboard_mcp.protocols.board import Lifecycle
from blackboard_mcp.protocols.changes import Change, ChangeKind
from blackboard_mcp.protocols.debates import DebateState
from blackboard_mcp.protocols.errors import BlackboardError, RulesUnseen, UnknownReference
from blackboard_mcp.protocols.items import ItemType, Visibility, parse_ref
from blackboard_mcp.protocols.rules import RuleBook
from blackboard_mcp.protocols.runs import Budget
from blackboard_mcp.protocols.stages import NewStage, StageOp, Stages
from blackboard_mcp.protocols.sub_boards import COPIED, SubBoard
from blackboard_mcp.protocols.tokens import CountedText, Tokenizer
from blackboard_mcp.protocols.values import dataclass

from ..input.idempotency import once_of
from ..input.posts import check_addressed, check_agent, check_text
from ..limits.rates import size_of
from .blackboard import Blackboard
from .following import Report
from .requests import check_skills
from .waiting_line import WaitingLine

_REPORT_EVERY: Final = 5.0
_AFTER: Final = 0.005
"""Seconds to wait after the end of a lease, so that it has surely ended."""
_LEAST: Final = 0.001
_INSTEAD: Final = "worker is one agent by name; leave it out for whoever is free, or give a skill."
UNDELIVERED: Final = "the call that took it was cancelled"


@dataclass(frozen=True, slots=True)
class Claimed:
    """What a claim took, or nothing; with the board's rules, and what the agent should know where it got nothing.

    `waits` are tasks that are not over, at most a few, and `total` counts all of them. `mine` are those that the agent
    holds; `review` and `kept` are as in `Agenda`.
    """

    taken: Taken | None
    rules: RuleBook
    seq: int
    attention: Attention
    waits: tuple[Task, ...] = ()
    total: int = 0
    mine: tuple[Task, ...] = ()
    review: tuple[Task, ...] = ()
    kept: Mapping[int, Reservation] = field(default_factory=dict)


class Tasks:
    """Use cases for the tasks of a board."""

    def __init__(self, board: Blackboard, poke: Callable[[], None] | None = None) -> None:
        """`poke` is called when a task for a board below was planned."""
        self._board = board
        self._poke = poke
        self._returning: set[asyncio.Task[None]] = set()
        self._lines: WeakValueDictionary[str, WaitingLine] = WeakValueDictionary()
        self._places = itertools.count()

    # Planning

    async def plan(
        self,
        agent: str,
        board: str | None,
        items: Sequence[NewTask | NewStage],
        *,
        cancel: Sequence[int] = (),
        why: str = "",
        budget: Budget | None = None,
        once_key: str | None = None,
    ) -> tuple[Planned, Attention]:
        """Plans, changes and cancels tasks, defines stages, and sets the agenda's budget.

        Errors are those of `BoardStore.plan`.
        """
        check_agent(agent)
        tasks = [item for item in items if isinstance(item, NewTask)]
        stages = [item for item in items if isinstance(item, NewStage)]
        said = [text for task in tasks for text in (task.title, task.text, task.trigger) if text]
        said += _texts_of(stages)
        for text in (why, *said):
            check_text(text)
        for task in tasks:
            if task.skill:
                check_skills([task.skill])
            if task.worker:
                check_addressed(task.worker, _INSTEAD)
        name = await self._board.board_of(board, agent)
        self._board.quotas.charge(agent, name, max(1, len(items)), size_of("".join(said)))
        asked = {"tasks": [repr(item) for item in items], "cancel": list(cancel), "why": why}
        if budget is not None:
            asked["budget"] = repr(budget)
        planned = await self._board.store.plan(
            name, agent, items, cancel=cancel, why=why, budget=budget, once=once_of(once_key, "plan", **asked)
        )
        if self._poke is not None and any(task.sub is not None for task in tasks):
            self._poke()
        attention, seq = await self._board.attention(agent, name)
        own = {task.id for task in planned.tasks if task.created_by == agent}
        alike = tuple(line for line in planned.alike if line.partition(" ")[0] in own)
        return replace(planned, seq=seq, alike=alike), attention

    async def agenda(self, agent: str, board: str | None) -> tuple[Agenda, Attention]:
        """Returns the agenda."""
        check_agent(agent)
        name = await self._board.board_of(board, agent)
        found = await self._board.store.agenda(name, agent)
        attention, seq = await self._board.attention(agent, name)
        return replace(found, seq=seq), attention

    async def explain(
        self, agent: str, board: str | None, number: int
    ) -> tuple[Task | None, tuple[Attempt, ...], Lifecycle, int, Attention]:
        """Returns one task with its ended attempts, and the board's state and sequence; no task if there is none."""
        check_agent(agent)
        name = await self._board.board_of(board, agent)
        found = await self._board.store.tasks(name, agent, [number])
        attempts = await self._board.store.attempts(name, agent, number) if found else ()
        stands = await self._board.store.find_board(name)
        lifecycle = Lifecycle.OPEN if stands is None else stands.lifecycle
        attention, seq = await self._board.attention(agent, name)
        return (found[0] if found else None), attempts, lifecycle, seq, attention

    async def boards_below(
        self, agent: str, board: str | None, items: Sequence[NewTask | NewStage]
    ) -> list[SubBoard]:
        """Returns the boards that are to do planned tasks, and those that are told other words by a changed one."""
        tasks = [item for item in items if isinstance(item, NewTask)]
        reworded = [task.number for task in tasks if task.number and (task.title, task.text) != (None, None)]
        below = [task.sub for task in tasks]
        if reworded:
            name = await self._board.board_of(board, agent)
            below += [task.sub for task in await self._board.store.tasks(name, agent, reworded)]
        return [sub for sub in below if sub is not None]

    async def check_below(self, principal: Principal, sub: SubBoard) -> None:
        """Checks that the caller may post a problem and the inputs on a board that is to do a task. It need not exist.

        Raises:
            InvalidInput: it is no valid board id.
            UnknownReference, Forbidden: the caller may not post there, or a policy denies one of these.
        """
        await self._board.rights.enter(principal, {Action.POST}, sub.board)
        found = await self._board.store.find_board(sub.board)
        access = (self._board.config if found is None else found.config).access
        written: list[tuple[ItemType, str | None]] = [(ItemType.PROBLEM, None)]
        written += [(kind, key) for key in sub.input for kind in COPIED]
        for kind, key in written:
            change = Change(
                sub.board,
                ChangeKind.POST,
                kind,
                key,
                author=principal.agent,
                visibility=Visibility.BOARD,
            )
            await self._board.access.ask(self._board.store, principal.agent, access, change)

    # Stages

    async def stages(self, agent: str, board: str | None) -> tuple[Stages, Attention]:
        """Returns the stages and milestones."""
        check_agent(agent)
        name = await self._board.board_of(board, agent)
        return await self._staged(agent, name, await self._board.store.stages(name, agent))

    async def define_stages(
        self, agent: str, board: str | None, stages: Sequence[NewStage], *, once_key: str | None = None
    ) -> tuple[Stages, Attention]:
        """Defines stages and milestones. Errors are those of `BoardStore.define_stages`."""
        check_agent(agent)
        texts = _texts_of(stages)
        for text in texts:
            check_text(text)
        name = await self._board.board_of(board, agent)
        self._board.quotas.charge(agent, name, max(1, len(stages)), size_of("".join(texts)))
        once = once_of(once_key, "stage", define=[repr(stage) for stage in stages])
        made = await self._board.store.define_stages(name, agent, stages, once=once)
        return await self._staged(agent, name, made)

    async def move_stage(
        self,
        agent: str,
        board: str | None,
        number: int,
        op: StageOp,
        why: str = "",
        *,
        once_key: str | None = None,
    ) -> tuple[Stages, Attention]:
        """Moves a stage. Errors are those of `BoardStore.move_stage`."""
        check_agent(agent)
        check_text(why)
        name = await self._board.board_of(board, agent)
        self._board.quotas.charge(agent, name, size=size_of(why))
        once = once_of(once_key, "stage", id=number, op=op, why=why)
        moved = await self._board.store.move_stage(name, agent, number, op, why, once=once)
        return await self._staged(agent, name, moved)

    async def _staged(self, agent: str, board: str, found: Stages) -> tuple[Stages, Attention]:
        attention, seq = await self._board.attention(agent, board)
        return replace(found, seq=seq), attention

    # Claiming

    async def take(
        self,
        agent: str,
        board: str | None,
        *,
        number: int | None = None,
        skills: Sequence[str] | None = None,
        paths: Sequence[str] = (),
        lease_seconds: float = LEASE_SECONDS,
        seconds: float = 0.0,
        report: Report | None = None,
        once_key: str | None = None,
    ) -> Claimed:
        """Takes a task, waiting for one up to `seconds`. Errors are those of `BoardStore.take_task`.

        A task taken by a call that is cancelled is given back, unless the call has an idempotency key.
        """
        check_agent(agent)
        wanted = None if skills is None else check_skills(skills)
        name = await self._board.board_of(board, agent, counts=False)
        self._board.quotas.charge(agent, name)
        once = once_of(
            once_key, "claim", id=number, skills=skills, paths=list(paths), lease_seconds=lease_seconds
        )
        loop = asyncio.get_running_loop()
        started = loop.time()
        deadline = started + seconds
        next_report = math.inf if report is None else started + _REPORT_EVERY
        tails = self._board.following.tails
        store = self._board.store
        seen = store.changes()
        taken = await self._take(name, agent, number, wanted, paths, lease_seconds, once)
        tried = -1
        line = self._lines.setdefault(name, WaitingLine())
        place = next(self._places)
        while taken is None and (now := loop.time()) < deadline:
            async with line.turn(place):
                # Whoever waits longest looks first; the others see what it left.
                prospect = await store.prospect(name, agent, wanted)
                # A ready task whose paths others reserve cannot be taken before something changes. On a board that was
                # settled or closed meanwhile the call is refused as one that begins there is.
                is_over = prospect.lifecycle is not Lifecycle.OPEN
                if (prospect.ready and prospect.seq != tried) or self._is_due(prospect) or is_over:
                    taken = await self._take(name, agent, number, wanted, paths, lease_seconds, once)
                    tried = prospect.seq
                    if taken is not None:
                        continue
            if report is not None and now >= next_report:
                next_report = now + _REPORT_EVERY
                await report(round(now - started, 1), seconds, "waiting for a task")
            patience = min(deadline, next_report) - now
            if prospect.next_due is not None:
                until = (prospect.next_due - self._board.activity.clock.now()).total_seconds()
                patience = min(patience, max(until, _LEAST) + _AFTER)
            if tails.released:
                break
            seen = await tails.unless_released(store.wait_for_change(seen, max(_LEAST, patience)), seen)
        self._board.activity.seen(name, agent)
        notice, agenda = None if taken is None else taken.notice, None
        try:
            if taken is None:
                # Asked at once, they are one turn of the store's thread.
                notice, agenda = await asyncio.gather(
                    store.notice(name, agent, self._wanted(name, agent)),
                    store.agenda(name, agent, limit=10),
                )
            rules, attention, seq = await self._noticed(name, agent, notice)
        except (asyncio.CancelledError, BlackboardError):
            if once is None and taken is not None:
                self._later(self._give_back(name, agent, taken))
            raise
        if agenda is None:
            return Claimed(taken, rules, seq, attention)
        return Claimed(
            taken,
            rules,
            seq,
            attention,
            agenda.tasks,
            agenda.total,
            agenda.mine,
            agenda.review,
            agenda.kept,
        )

    def _wanted(self, board: str, agent: str) -> NoticeFor:
        return NoticeFor(self._board.looks.of(board, agent), rules=True)

    async def _noticed(
        self, board: str, agent: str, notice: Notice | None, items: Sequence[int] = ()
    ) -> tuple[RuleBook, Attention, int]:
        """Records that the agent is told a notice, by default one as of now, and returns what it says; `items` count as
        shown.
        """
        if notice is None:
            notice = await self._board.store.notice(board, agent, self._wanted(board, agent))
        rules = notice.rules
        assert rules is not None, "they were asked for"
        await self._board.rules.saw(board, agent, rules.revision)
        if items:
            self._board.prune_if(board, notice)
        return rules, self._board.noticed(agent, board, notice, items=items), notice.seq

    def _is_due(self, prospect: Prospect) -> bool:
        return prospect.next_due is not None and self._board.activity.clock.now() >= prospect.next_due

    async def _take(
        self,
        board: str,
        agent: str,
        number: int | None,
        skills: Sequence[str] | None,
        paths: Sequence[str],
        lease_seconds: float,
        once: Once | None,
    ) -> Taken | None:
        taking = asyncio.ensure_future(
            self._board.store.take_task(
                board,
                agent,
                number=number,
                skills=skills,
                paths=paths,
                seconds=lease_seconds,
                notice=self._wanted(board, agent),
                once=once,
            )
        )
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            # The write cannot be stopped: undo it afterwards, unless a repeated call may ask for its result.
            self._later(self._undo(taking, board, agent, keyed=once is not None))
            raise

    async def _undo(
        self, taking: asyncio.Future[Taken | None], board: str, agent: str, *, keyed: bool
    ) -> None:
        with contextlib.suppress(BlackboardError):
            taken = await taking
            if taken is not None and not keyed:
                await self._give_back(board, agent, taken)

    async def _give_back(self, board: str, agent: str, taken: Taken) -> None:
        number = 0 if taken.task is None else taken.task.number
        act = Settle("release", number, taken.lease, CountedText(UNDELIVERED))
        with contextlib.suppress(BlackboardError):  # its lease ends anyway
            await self._board.store.settle_task(board, agent, act)

    def _later(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._returning.add(task)
        task.add_done_callback(self._returning.discard)

    async def settled(self) -> None:
        """Returns when the tasks that cancelled calls had taken are given back."""
        while self._returning:
            await asyncio.wait(list(self._returning))

    async def settle(
        self,
        agent: str,
        board: str | None,
        act: Settle,
        *,
        cited: Sequence[str] = (),
        once_key: str | None = None,
    ) -> tuple[Settled, RuleBook, Attention, DebateView | None, Agenda | None]:
        """Does what `act` says, and returns it with the board's rules. `cited` are ids of `act.cites` as written.

        The last values are the open debate on a result that the agent confirms, and the agenda if nothing is ready for
        the agent now; that is looked up where others confirm results, as often nothing is before they have.

        `done` is refused once if rules in the agent's scope changed since it was shown them.

        Errors are those of `BoardStore.settle_task`.
        """
        check_agent(agent)
        text = act.text.text
        check_text(text)
        name = await self._board.board_of(board, agent, counts=False)
        self._board.quotas.check_text(len(text))
        self._board.quotas.charge(agent, name, size=size_of(text))
        await self._board.check_named(agent, name, cited)
        once = once_of(once_key, "settle", **{**_fields(act), "text": text})

        async def write(tokenizer: Tokenizer) -> Settled:
            counted = CountedText(text, tokenizer.count(text), tokenizer.name)
            return await self._board.store.settle_task(
                name,
                agent,
                replace(act, text=counted),
                heeding=act.op == "done",
                notice=self._wanted(name, agent),
                once=once,
            )

        try:
            done = await self._board.validation.counted(name, write)
        except RulesUnseen as error:
            book = error.book or RuleBook()
            await self._board.rules.refuse(name, agent, book, 'claim(op="done", …)')
        shown = [] if done.item is None else [done.item.number]
        rules, attention, seq = await self._noticed(name, agent, done.notice, shown)
        debate = None
        if act.op == "verify" and act.ok and done.task is not None and done.task.result is not None:
            debate = await self._debate_on(name, agent, done.task.result)
        left = None
        in_review = done.task is not None and done.task.state is TaskState.REVIEW
        if (act.op == "verify" or in_review) and not (await self._board.store.prospect(name, agent)).ready:
            left = await self._board.store.agenda(name, agent, limit=10)
        return replace(done, seq=seq), rules, attention, debate, left

    async def _debate_on(self, board: str, agent: str, item: str) -> DebateView | None:
        """Returns the open debate on an item; `None` without one, and of an item that the agent may not see."""
        try:
            found = await self._board.store.debate_status(board, agent, parse_ref(item).number)
        except UnknownReference:
            return None
        return found if isinstance(found, DebateView) and found.debate.state is DebateState.OPEN else None


def _texts_of(stages: Sequence[NewStage]) -> list[str]:
    return [text for one in stages for text in (one.title, one.entry, one.exit, one.required)]


def _fields(act: Settle) -> dict[str, Any]:
    return {
        "op": act.op,
        "id": act.number,
        "lease": act.lease,
        "ok": act.ok,
        "cites": list(act.cites),
        "paths": list(act.paths),
        "seconds": act.seconds,
        **({} if act.usage is None else {"usage": repr(act.usage)}),
    }
