"""Debates in a store over an engine."""

from __future__ import annotations

from collections.abc import Sequence

from blackboard_mcp.protocols.answers import (
    DebateView,
    Once,
)
from blackboard_mcp.protocols.debates import DebateCall, DebateOp, Outcome, StandingWatch
from blackboard_mcp.protocols.items import Item
from blackboard_mcp.protocols.topics import Topic

from .calls import StoreCalls
from .operations.debates import calls as debate_calls
from .operations.debates import standing_watches, views
from .operations.leaving import lapses
from .operations.ledger import idempotency
from .operations.ledger.rows import Steps


class DebateCalls(StoreCalls):
    """The part of the store that is about debates and standing watches."""

    async def debate_open(
        self,
        board: str,
        agent: str,
        number: int,
        watchers: Sequence[str],
        *,
        once: Once | None = None,
        look: int = 0,
    ) -> DebateView | Item:
        call = DebateCall(DebateOp.OPEN, number, watchers=tuple(watchers))
        return await self._debate(board, agent, call, once, look)

    async def debate_watch(
        self, board: str, agent: str, number: int, *, once: Once | None = None, look: int = 0
    ) -> DebateView | Item:
        return await self._debate(board, agent, DebateCall(DebateOp.WATCH, number), once, look)

    async def debate_unwatch(
        self, board: str, agent: str, number: int, *, once: Once | None = None, look: int = 0
    ) -> DebateView | Item:
        return await self._debate(board, agent, DebateCall(DebateOp.UNWATCH, number), once, look)

    async def debate_acknowledge(
        self,
        board: str,
        agent: str,
        number: int,
        *,
        reason: str = "",
        version: int | None = None,
        once: Once | None = None,
        look: int = 0,
    ) -> DebateView | Item:
        call = DebateCall(DebateOp.ACKNOWLEDGE, number, version, reason)
        return await self._debate(board, agent, call, once, look)

    async def debate_withdraw(
        self,
        board: str,
        agent: str,
        number: int,
        reason: str,
        *,
        once: Once | None = None,
        look: int = 0,
    ) -> DebateView | Item:
        call = DebateCall(DebateOp.WITHDRAW, number, reason=reason)
        return await self._debate(board, agent, call, once, look)

    async def debate_concede(
        self,
        board: str,
        agent: str,
        number: int,
        reason: str,
        *,
        to: int | None = None,
        once: Once | None = None,
        look: int = 0,
    ) -> DebateView | Item:
        call = DebateCall(DebateOp.CONCEDE, number, reason=reason, to=to)
        return await self._debate(board, agent, call, once, look)

    async def debate_decide(
        self,
        board: str,
        agent: str,
        number: int,
        reason: str,
        deciders: Sequence[str],
        *,
        outcome: Outcome | None,
        to: int | None = None,
        version: int | None = None,
        once: Once | None = None,
        look: int = 0,
    ) -> DebateView | Item:
        named = tuple(deciders)
        call = DebateCall(DebateOp.DECIDE, number, version, reason, deciders=named, outcome=outcome, to=to)
        return await self._debate(board, agent, call, once, look)

    async def debate_confirm(
        self,
        board: str,
        agent: str,
        number: int,
        deciders: Sequence[str],
        *,
        outcome: Outcome | None = None,
        version: int | None = None,
        once: Once | None = None,
        look: int = 0,
    ) -> DebateView | Item:
        call = DebateCall(DebateOp.CONFIRM, number, version, deciders=tuple(deciders), outcome=outcome)
        return await self._debate(board, agent, call, once, look)

    async def debate_vote(
        self,
        board: str,
        agent: str,
        number: int,
        *,
        approve: bool,
        reason: str = "",
        version: int | None = None,
        once: Once | None = None,
        look: int = 0,
    ) -> DebateView | Item:
        call = DebateCall(DebateOp.VOTE, number, version, reason, approve=approve)
        return await self._debate(board, agent, call, once, look)

    async def _debate(
        self, board: str, agent: str, call: DebateCall, once: Once | None, look: int
    ) -> DebateView | Item:
        def work(now: int) -> Steps[DebateView | Item]:
            yield from debate_calls.debate(board, agent, call, now)
            return (yield from views.debate_status(board, agent, call.number, look))

        form = views.kept_status(board, agent, call.number, look)
        return await self._apply(board, agent, once, work, form)

    async def debate_status(self, board: str, agent: str, number: int, *, look: int = 0) -> DebateView | Item:
        return await self.engine.read(lambda: views.debate_status(board, agent, number, look))

    async def sweep_debates(self) -> list[str]:
        now = self._now()
        due = await self.engine.read(lambda: lapses.due(now))
        return [board for board in due if await self._lapse(board, now)]

    async def _lapse(self, board: str, now: int) -> bool:
        return await self._write(lambda: lapses.lapse(board, now))

    # Standing watches

    async def watch_topic(
        self, board: str, agent: str, topic: Topic, *, once: Once | None = None
    ) -> list[StandingWatch]:
        def work(now: int) -> Steps[list[StandingWatch]]:
            yield from standing_watches.watch_topic(board, agent, topic, now)
            return (yield from standing_watches.watches(board, agent))

        return await self._apply(board, agent, once, work, idempotency.whole(list[StandingWatch]))

    async def unwatch_topic(
        self, board: str, agent: str, topic: Topic, *, once: Once | None = None
    ) -> list[StandingWatch]:
        def work(now: int) -> Steps[list[StandingWatch]]:
            yield from standing_watches.unwatch_topic(board, agent, topic, now)
            return (yield from standing_watches.watches(board, agent))

        return await self._apply(board, agent, once, work, idempotency.whole(list[StandingWatch]))

    async def watches(self, board: str, agent: str) -> list[StandingWatch]:
        return await self.engine.read(lambda: standing_watches.watches(board, agent))
