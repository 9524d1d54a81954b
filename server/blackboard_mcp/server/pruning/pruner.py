"""The pruner: it runs passes in the background, one at a time for each board, over all processes if they are large.

Callers never wait for a pass.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from blackboard_mcp.protocols.answers import (
    NewSummary,
)
from blackboard_mcp.protocols.board import Board, BoardConfig, PassStep
from blackboard_mcp.protocols.errors import BlackboardError, StoreBusy
from blackboard_mcp.protocols.events import SYSTEM
from blackboard_mcp.protocols.grants import without
from blackboard_mcp.protocols.items import ItemType, Status
from blackboard_mcp.protocols.metering import METER, Meter
from blackboard_mcp.protocols.pruning import Candidate, Decide, Move, PassOutcome, Plan, Reach, Workspace
from blackboard_mcp.protocols.store import BoardStore
from blackboard_mcp.protocols.summaries import AGENT

from ..background import Attempts
from ..text.pressure import describe
from ..text.tokens import Tokenizers
from .policies import Policies, Ranking
from .selection import TOO_LARGE, decide, evictable
from .summaries.writing import SummaryWriter, Thread, WrittenSummary

logger = logging.getLogger(__name__)

_LEASE_SECONDS = 30.0
_SWEEP_SECONDS = 2.0
_LOOK_SECONDS = 30.0
"""Seconds between checks of all boards, which find passes that another process should have run."""
_IDLE_SECONDS = 300.0
"""The same where nothing has changed."""
_RETRY_SECONDS = 0.25
_GRACE = 0.05
"""Seconds to wait after an item's expiry, so that many items that expire one after another take few rounds."""
_AT_ONCE = 400
"""The most items that leave in a pass that takes no lease: as many as the store is asked for at once."""
_BEFORE_SUMMARIES = frozenset({PassStep.RESOLVED, PassStep.LOGS, PassStep.THREADS})
_AFTER_SUMMARIES = frozenset({PassStep.RESOLVED, PassStep.LOGS, PassStep.IMPORTANCE})


class _Elsewhere(Exception):
    """Another process runs a pass on the board."""


class _Deciding:
    """The decisions of one pass, made in the order of the board's policy."""

    def __init__(self, policies: Policies, prepared: Ranking | None) -> None:
        self._policies = policies
        self._prepared = prepared
        self.spared: dict[int, tuple[int, ...]] = {}
        """Numbers of threads that wait for an agent's summary, with the numbers of the items that stay until then."""

    def unsparing(self) -> _Deciding:
        """Returns the same decisions without waiting for any thread."""
        return _Deciding(self._policies, self._prepared)

    def spare(self, threads: Iterable[Thread]) -> None:
        """Keeps the items of these threads in working memory for now."""
        self.spared |= dict(threads)

    def seen(self, space: Workspace) -> Workspace:
        """Returns the workspace without the spared items, except expired ones. Its token count stays the
        same.
        """
        kept = {number for members in self.spared.values() for number in members}
        if not kept:
            return space
        return replace(
            space, candidates=tuple(c for c in space.candidates if c.number not in kept or c.expired)
        )

    def reach(self, config: BoardConfig) -> Reach:
        """Returns how much of working memory the decisions must see: all of it while threads are spared."""
        return Reach.ALL if self.spared else self._policies.reach(config.policy)

    def first(self, space: Workspace) -> Plan:
        """Returns the plan of the first part.

        It is the whole pass, unless a thread is to be summarised before items leave by importance.
        """
        plan = decide(self.seen(space), steps=_BEFORE_SUMMARIES)
        return plan if plan.threads else self.last(space)

    def last(self, space: Workspace) -> Plan:
        """Returns the plan of the part after summaries, which also takes items by importance."""
        space = self.seen(space)
        ranking = self._policies.ranking(space, self._prepared)
        return decide(space, steps=_AFTER_SUMMARIES, ranking=ranking)

    def down_to(self, space: Workspace, level: int) -> Plan:
        """Returns the plan that goes down to `level` tokens, what is too large first: a pass may take it alone."""
        space = self.seen(space)
        plan = decide(space, level=level, ranking=self._policies.ranking(space, self._prepared))
        return replace(plan, moves=tuple(sorted(plan.moves, key=lambda move: move.why != TOO_LARGE)))


def _told(board: str, outcomes: list[PassOutcome]) -> list[PassOutcome]:
    if outcomes and outcomes[-1].warning:
        logger.warning("pruning pass on %s: %s", board, outcomes[-1].warning)
    return outcomes


class _Rehearsal:
    """Decision for a whole pass as if its summaries were already applied.

    `added` are the tokens of the summaries that would stay. Where threads are spared, the summaries are of
    those threads, and are applied after the moves that try to spare them.
    """

    def __init__(self, summaries: Sequence[NewSummary], deciding: _Deciding) -> None:
        self._summaries = summaries
        self._deciding = deciding
        self.added = 0

    def decide(self, space: Workspace) -> Plan:
        """Returns the plan of the whole pass, and sets `added`."""
        sparing = bool(self._deciding.spared)
        plan = self._deciding.last(space) if sparing else decide(space, steps=_BEFORE_SUMMARIES)
        moves = list(plan.moves)
        left = {c.number: c for c in space.candidates}
        for move in moves:
            del left[move.number]
        posted: list[Candidate] = []
        number = max(left, default=0)
        newest = max((max(c.updated_at, c.last_read or c.updated_at) for c in left.values()), default=None)
        for summary in self._summaries:
            sources = [left[n] for n, seq in summary.seen.items() if n in left and left[n].seq == seq]
            if len(sources) < len(summary.seen) or any(c.number in space.protected for c in sources):
                continue
            number += 1
            first = sources[0]
            posted.append(
                replace(
                    first,
                    number=number,
                    type=ItemType.SUMMARY,
                    status=Status.ACTIVE,
                    importance=summary.importance,
                    tokens=summary.tokens,
                    author=summary.author or SYSTEM,
                    owner=summary.author or SYSTEM,
                    updated_at=newest or first.updated_at,
                    reads=0,
                    last_read=None,
                    seq=first.seq + (1 << 40) + number,
                    expired=False,
                    superseded=False,
                    analysed=False,
                    fresh=space.config.fresh_seconds > 0,
                    open_work=False,
                    bears=(),
                )
            )
            for source in sources:
                moves.append(Move(source.number, PassStep.THREADS.number, "summarised"))
                del left[source.number]
        gone = {c.number: c.tokens for c in space.candidates if c.number not in left}
        tokens = space.tokens - sum(gone.values()) + sum(c.tokens for c in posted)
        kept = [replace(c, bears=tuple(n for n in c.bears if n not in gone)) for c in left.values()]
        after = self._deciding.unsparing().last(replace(space, candidates=(*kept, *posted), tokens=tokens))
        taken = {move.number for move in after.moves}
        self.added = sum(c.tokens for c in posted if c.number not in taken)
        return replace(after, moves=(*moves, *(move for move in after.moves if move.number in left)))


class Pruner:
    """Keeps boards within their budgets: `kick` starts a pass after a post, `run` archives expired items."""

    def __init__(
        self,
        store: BoardStore,
        tokenizers: Tokenizers,
        holder: str,
        writer: SummaryWriter | None = None,
        policies: Policies | None = None,
        deciders: Sequence[str] = (),
    ) -> None:
        self._describe = describe(tokenizers, deciders)
        self._tokenizers = tokenizers
        self.policies = Policies() if policies is None else policies
        self._store = store
        self.writer = SummaryWriter(store, tokenizers) if writer is None else writer
        self._holder = holder
        self._wanted: set[str] = set()
        self._passes: dict[str, asyncio.Task[None]] = {}
        self._due = math.inf
        """The time on the loop's clock at which the next known item expires."""
        self._soon = asyncio.Event()
        self._looked = -math.inf
        """The time on the loop's clock at which all boards were last looked at."""
        self._seen = -1
        """The store's changes at that time."""
        self._attempts = Attempts(logger)

    def kick(self, board: str) -> None:
        """Starts a pass on the board in the background; where one is running, another follows it."""
        self._wanted.add(board)
        if board not in self._passes:
            context = without()
            context.run(METER.set, Meter(dear=True, steady=True))
            self._passes[board] = asyncio.create_task(
                self._work(board), name=f"prune-{board}", context=context
            )

    def expect(self, seconds: float) -> None:
        """Tells the pruner that something expires in this many seconds, so that it looks then and not only at
        the next round.
        """
        at = asyncio.get_running_loop().time() + seconds
        if at < self._due:
            self._due = at
            self._soon.set()

    def _nap(self) -> float:
        """Returns the seconds until the next check for expired items."""
        return min(_SWEEP_SECONDS, max(_GRACE, self._due + _GRACE - asyncio.get_running_loop().time()))

    async def _sweep(self) -> None:
        """Archives and ends what is over, and starts passes: on the boards that changed, now and then on all."""
        await self._expire()
        for changed in await self._store.sweep_debates():
            self.kick(changed)
        for changed in await self._store.sweep_requests():
            self.kick(changed)
        for changed in await self._store.sweep_tasks():
            self.kick(changed)
        now, seen = asyncio.get_running_loop().time(), self._store.changes()
        if now >= self._looked + (_IDLE_SECONDS if seen == self._seen else _LOOK_SECONDS):
            self._looked, self._seen = now, seen
            for board in await self._store.boards():
                if board.pass_due:
                    self.kick(board.id)

    async def _expire(self) -> None:
        """Archives expired items and looks up when the next one expires."""
        # Reset first: items posted after this line are found below or reported by `expect`.
        self._due = math.inf
        for changed in await self._store.expire():
            self.kick(changed)
        if (seconds := await self._store.next_expiry()) is not None:
            self.expect(seconds)

    async def _work(self, board: str) -> None:
        try:
            while board in self._wanted:
                self._wanted.discard(board)
                try:
                    await self._pass_if_due(board)
                except StoreBusy as error:
                    # Try again now: the board is too full, and the next post may be far off.
                    logger.warning("pruning pass on %s waits: %s", board, error)
                    self._wanted.add(board)
                    await asyncio.sleep(_RETRY_SECONDS)
                except BlackboardError as error:
                    logger.warning("pruning pass on %s did not end: %s", board, error)
                except Exception:
                    logger.exception("pruning pass on %s failed", board)
        finally:
            # No await between the last check of `_wanted` and this line, so a kick is never lost.
            self._passes.pop(board, None)

    async def _pass_if_due(self, board: str) -> None:
        found = await self._store.find_board(board)
        if found is None or not found.pass_due:
            return
        outcomes = await self.run_pass(board, found)
        if not outcomes or (outcomes[-1].overtaken and outcomes[-1].moved):
            # Another process runs the pass, or died in it, and may not have seen what made this pass due.
            self._wanted.add(board)
            await asyncio.sleep(_RETRY_SECONDS)

    async def run_pass(self, board: str, found: Board | None = None) -> list[PassOutcome]:
        """Runs one whole pass and returns its outcomes, part by part; an empty list when another process runs
        one. The last one was overtaken, and moved something, when another process began one before the end. `found` is
        the board as the caller has just found it.

        Where a thread is worth a summary, the first part takes only finished, analysed or expired items. Then
        summaries are written outside any transaction, and the last part takes the rest. Each part decides on a
        snapshot and moves in short transactions. A board at or under its low-water mark loses only expired items.
        """
        lease = f"prune:{board}"
        try:
            deciding = await self._deciding(board, unless=(lease, self._holder))
        except _Elsewhere:
            return []
        if found is None:
            found = await self._store.find_board(board)
        config = BoardConfig() if found is None else found.config
        done: list[PassOutcome] = []
        if self.writer.chosen(config) != AGENT:
            done, is_over = await self._at_once(board, deciding, lease)
            if is_over:
                if done and done[-1].asked:
                    await self.writer.waiting(board, config)  # the board's summariser is another now
                await self._judge(board, config, done)
                return _told(board, done)
        if not await self._store.lease(lease, self._holder, _LEASE_SECONDS + self.writer.seconds):
            return done
        try:
            deciding.spare(await self.writer.waiting(board, config))
            outcomes = done + await self._move(board, deciding.first, deciding)
            if proposed := outcomes[-1].threads:
                asked = await self.writer.ask(board, config, proposed)
                deciding.spare(asked)
                threads = [thread for thread in proposed if thread[0] not in dict(asked)]
                outcomes += await self._apply(
                    board, await self.writer.write(board, config, threads), deciding
                )
            if deciding.spared and outcomes[-1].tokens_after > config.high_tokens:
                # The board is too full to wait for an agent.
                pressing = list(deciding.spared.items())
                deciding.spared.clear()
                outcomes += await self._apply(board, await self.writer.extracts(board, pressing), deciding)
            await self._judge(board, config, outcomes)
            return _told(board, outcomes)
        finally:
            await self._store.release(lease, self._holder)

    async def _at_once(self, board: str, deciding: _Deciding, lease: str) -> tuple[list[PassOutcome], bool]:
        """Runs a pass that needs neither summaries nor many transactions, unless another process has the lease.

        It takes no lease: each transaction checks what it moves. Returns the outcomes, and whether the pass is over.
        """
        outcomes: list[PassOutcome] = []
        is_larger = False

        def decide_at_once(space: Workspace) -> Plan:
            nonlocal is_larger
            plan = deciding.first(space)
            is_larger = bool(plan.threads) or len(plan.moves) > _AT_ONCE
            return Plan() if is_larger else plan

        unless = (lease, self._holder)
        while True:
            outcome = await self._store.prune(board, decide_at_once, reaching=deciding.reach, unless=unless)
            if outcome.elsewhere or is_larger:
                return outcomes, not is_larger
            outcomes.append(outcome)
            if not (outcome.overtaken and outcome.moved):
                return outcomes, True

    async def _move(self, board: str, decide: Decide, deciding: _Deciding) -> list[PassOutcome]:
        """Applies a decision and returns the outcomes; decides anew while something overtook it."""
        outcomes: list[PassOutcome] = []
        while True:
            outcomes.append(await self._store.prune(board, decide, reaching=deciding.reach))
            if not (outcomes[-1].overtaken and outcomes[-1].moved):
                return outcomes

    async def _apply(
        self, board: str, written: Sequence[WrittenSummary], deciding: _Deciding
    ) -> list[PassOutcome]:
        """Replaces sources by their summaries, then takes the rest, and returns the outcomes."""
        before = await self._store.find_board(board)
        moved: list[tuple[str, int, str]] = []
        for summary in written:
            id_ = await self._store.apply_summary(board, summary.new)
            if id_ is not None:
                moved += [
                    (source, PassStep.THREADS.number, f"summarised in {id_}") for source in summary.sources
                ]
        after = await self._move(board, deciding.last, deciding)
        first = after[0]
        tokens = first.tokens_before if before is None else before.working_tokens
        between = replace(first, moved=tuple(moved), tokens_before=tokens, tokens_after=first.tokens_before)
        return [between, *after]

    async def _deciding(self, board: str, unless: tuple[str, str] | None = None) -> _Deciding:
        """Returns the decisions of a pass, after asking the operator's policy for its order if the board has
        one.

        The policy is asked outside any transaction. `unless` is as for `BoardStore.prune`.

        Raises:
            _Elsewhere: another holder has the lease, and the policy was not asked.
        """
        found = await self._store.find_board(board) if self.policies.own else None
        if found is None or not self.policies.foreign(found.config.policy):
            return _Deciding(self.policies, None)
        spaces: list[Workspace] = []

        def look(space: Workspace) -> Plan:
            spaces.append(space)
            return Plan()

        if (await self._store.prune(board, look, apply=False, unless=unless)).elsewhere:
            raise _Elsewhere
        space = spaces[-1]
        prepared = await self.policies.prepare(space.config.policy, *evictable(space))
        return _Deciding(self.policies, prepared)

    async def _judge(self, board: str, config: BoardConfig, outcomes: Sequence[PassOutcome]) -> None:
        """Reports pressure that a pass could not relieve, and ends pressure that it relieved."""
        if not outcomes:
            return
        if not outcomes[-1].under_pressure and outcomes[-1].tokens_after <= config.target_tokens:
            return
        if self._tokenizers.find(config.tokenizer) is None:
            return  # a server with that tokenizer reports the pressure
        state = await self._store.judge_pressure(board, self._describe)
        if state is not None:
            logger.info("pressure on %s %s", board, state)

    async def preview(self, board: str) -> PassOutcome:
        """Returns what a pass would move now, summaries included, without changing anything.

        No agent or endpoint is asked: every summary is assumed to be as long as an extractive one.
        """
        deciding = await self._deciding(board)
        found = await self._store.find_board(board)
        config = BoardConfig() if found is None else found.config
        asking = self.writer.chosen(config) == AGENT
        requests, _ = await self._store.summary_requests(board)
        waiting = [(r.thread, tuple(r.seen)) for r in requests] if asking else []
        deciding.spare(waiting)
        first = await self._store.prune(board, deciding.first, apply=False, reaching=deciding.reach)
        if asking:
            # A pass would ask agents for these summaries and wait, unless the board is too full to wait.
            waiting += first.threads
            deciding.spare(first.threads)
            outcome = await self._store.prune(board, deciding.last, apply=False, reaching=deciding.reach)
            if outcome.tokens_after <= config.high_tokens:
                return outcome
            first = replace(first, threads=tuple(waiting))
        if not first.threads:
            return first
        written = await self.writer.extracts(board, first.threads)
        rehearsal = _Rehearsal([summary.new for summary in written], deciding)
        outcome = await self._store.prune(board, rehearsal.decide, apply=False, reaching=deciding.reach)
        return replace(outcome, tokens_after=outcome.tokens_after + rehearsal.added)

    async def upcoming(self, board: str) -> PassOutcome:
        """Returns the items that would leave first, in order, down to an empty working memory. Nothing is
        changed.
        """
        deciding = await self._deciding(board)

        def look(space: Workspace) -> Plan:
            return deciding.down_to(space, 0)

        return await self._store.prune(board, look, apply=False, reaching=lambda config: Reach.ALL)

    async def run(self) -> None:
        """Runs housekeeping until cancelled: archives expired items, and starts due passes that other
        processes left.
        """
        attempt = self._attempts.attempt
        while True:
            await attempt(self._sweep, "housekeeping did not run")
            await attempt(self.writer.meet_due, "summaries that are due wait")
            await attempt(self._store.sweep_once, "old idempotency keys wait")
            await attempt(self._store.spread_retractions, "retraction notices wait")
            await attempt(self._store.expire_subscriptions, "unused subscriptions wait")
            await attempt(self._store.sweep_groups, "unused groups wait")
            self._soon.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._nap()):
                    await self._soon.wait()

    async def settle(self) -> None:
        """Returns when no pass is running or wanted in this process."""
        while self._passes:
            await asyncio.wait(list(self._passes.values()))

    async def close(self) -> None:
        """Cancels running passes; each ends between two of its transactions."""
        tasks = list(self._passes.values())
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
