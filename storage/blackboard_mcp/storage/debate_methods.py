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
        """Opens a debate on the item, or adds the agent and `watchers` to the open one."""
        call = DebateCall(DebateOp.OPEN, number, watchers=tuple(watchers))
        return await self._debate(board, agent, call, once=once, look=look)

    async def debate_watch(
        self, board: str, agent: str, number: int, *, once: Once | None = None, look: int = 0
    ) -> DebateView | Item:
        """Makes the agent owe an acknowledgement, which keeps the item in working memory until it is given."""
        return await self._debate(board, agent, DebateCall(DebateOp.WATCH, number), once=once, look=look)

    async def debate_unwatch(
        self, board: str, agent: str, number: int, *, once: Once | None = None, look: int = 0
    ) -> DebateView | Item:
        """Waives the acknowledgements that the agent still owes to the item or in its debate."""
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
        """Records that for the agent the answers settle the debate and the item stands."""
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
        """Withdraws a critique of the agent or of its owner."""
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
        """Gives up the debated item for the criticised side; item `to` may replace it."""
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
        """Closes the debate, or records a decision that another owner has to confirm; `to` may replace the item."""
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
        """Closes the debate with a decision by another owner's agent, which needed a confirmation."""
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
        """Records the vote of the agent's owner on the present version, in place of its former vote."""
        call = DebateCall(DebateOp.VOTE, number, version, reason, approve=approve)
        return await self._debate(board, agent, call, once=once, look=look)
