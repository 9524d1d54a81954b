"""A store's methods for debates: each makes one `DebateCall` from its arguments."""

from __future__ import annotations

from collections.abc import Sequence

from blackboard_mcp.protocols.answers import DebateView, Once
from blackboard_mcp.protocols.debates import DebateCall, DebateOp, Outcome
from blackboard_mcp.protocols.items import Item

from .calls import StoreCalls, writes
from .operations.debates import calls


class DebateMethods(StoreCalls):
    """The methods of a store for debates; `protocols.debate_store` says what they do."""

    _debate = writes(calls.debate)

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
        return await self._debate(board, agent, call, once=once, look=look)

    async def debate_watch(
        self, board: str, agent: str, number: int, *, once: Once | None = None, look: int = 0
    ) -> DebateView | Item:
        return await self._debate(board, agent, DebateCall(DebateOp.WATCH, number), once=once, look=look)

    async def debate_unwatch(
        self, board: str, agent: str, number: int, *, once: Once | None = None, look: int = 0
    ) -> DebateView | Item:
        return await self._debate(board, agent, DebateCall(DebateOp.UNWATCH, number), once=once, look=look)

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
        return await self._debate(board, agent, call, once=once, look=look)

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
        return await self._debate(board, agent, call, once=once, look=look)

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
        return await self._debate(board, agent, call, once=once, look=look)

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
        return await self._debate(board, agent, call, once=once, look=look)

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
        return await self._debate(board, agent, call, once=once, look=look)

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
        return await self._debate(board, agent, call, once=once, look=look)
