"""Debates and standing watches, as calls for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from blackboard_mcp.protocols.wire import DebateAnswer, WatchesAnswer

from .calls import Calls


class Debates(Calls):
    """Calls to hold debates on items. Each returns the debate as it is after the call."""

    async def open_debate(
        self, id: str, *, watchers: Sequence[str] = (), idempotency_key: str | None = None
    ) -> DebateAnswer:
        """Opens a debate on the item, or adds the agent and `watchers` to the open one."""
        return await self._debate("open", id, idempotency_key, watchers=list(watchers) or None)

    async def acknowledge(
        self, id: str, *, reason: str = "", idempotency_key: str | None = None
    ) -> DebateAnswer:
        """Agrees that the answers settle the debate and the item stands; or that one has seen what one watches.

        `H-17@2`: only if that is the present version.

        Raises:
            Conflict: nothing is owed, or the item has another version.
            Refused: a critique in the debate has no answer yet.
        """
        return await self._debate("acknowledge", id, idempotency_key, reason=reason or None)

    async def vote(
        self, id: str, *, approve: bool = True, reason: str = "", idempotency_key: str | None = None
    ) -> DebateAnswer:
        """Votes for or against the present version; on a board with a quorum votes close debates.

        Raises:
            Conflict: no debate is open, or the item has another version than the id names.
        """
        return await self._debate("vote", id, idempotency_key, approve=approve, reason=reason or None)

    async def withdraw(
        self, id: str, *, reason: str = "", idempotency_key: str | None = None
    ) -> DebateAnswer:
        """Takes the agent's own critique back.

        Raises:
            Refused: it is not the agent's own.
        """
        return await self._debate("withdraw", id, idempotency_key, reason=reason or None)

    async def concede(
        self, id: str, *, reason: str = "", to: str | None = None, idempotency_key: str | None = None
    ) -> DebateAnswer:
        """Gives up the agent's own item in a debate, or gives it up for the item `to`; it is INVALIDATED for good.

        Raises:
            Refused: it is another side's.
        """
        return await self._debate("concede", id, idempotency_key, reason=reason or None, to=to)

    async def decide(
        self, id: str, reason: str, *, outcome: str, to: str | None = None, idempotency_key: str | None = None
    ) -> DebateAnswer:
        """Decides that the item `stands`, `falls`, or is `amended` to the item `to`.

        What a critic decides waits until another owner confirms it.

        Raises:
            Refused: not this agent's to decide.
        """
        more = {"reason": reason, "outcome": outcome, "to": to}
        return await self._debate("decide", id, idempotency_key, **more)

    async def confirm(
        self, id: str, *, outcome: str | None = None, idempotency_key: str | None = None
    ) -> DebateAnswer:
        """Confirms what another owner decided, with `outcome` only if that was it.

        Raises:
            Conflict: nobody decided so, or several decided differently.
            Refused: not this agent's to confirm.
        """
        return await self._debate("confirm", id, idempotency_key, outcome=outcome)

    async def debate(self, id: str) -> DebateAnswer:
        """The newest debate about the item; `state` is `None` when there never was one."""
        return await self._debate("status", id, None)

    async def watch(self, id: str, *, idempotency_key: str | None = None) -> DebateAnswer:
        """The agent owes an acknowledgement; the item stays in working memory until it is given."""
        return await self._debate("watch", id, idempotency_key)

    async def unwatch(self, id: str, *, idempotency_key: str | None = None) -> DebateAnswer:
        """Waives what the agent has yet to acknowledge of the item."""
        return await self._debate("unwatch", id, idempotency_key)

    async def watch_topic(self, topic: str, *, idempotency_key: str | None = None) -> list[str]:
        """Debates that open on a topic oblige the agent from now on; the topics it watches.

        A topic is `key:plan:**`, `tag:db`, `type:DECISION` or `thread:H-3`.
        """
        return await self._topic("watch", topic, idempotency_key)

    async def unwatch_topic(self, topic: str, *, idempotency_key: str | None = None) -> list[str]:
        """Ends a standing watch; the topics that are left.

        Raises:
            Conflict: the agent does not watch it.
        """
        return await self._topic("unwatch", topic, idempotency_key)

    async def _debate(self, op: str, id_: str, once: str | None, **more: Any) -> DebateAnswer:
        return await self._call("debate", {"op": op, "id": id_, **more}, DebateAnswer, once=once)

    async def _topic(self, op: str, topic: str, once: str | None) -> list[str]:
        answer = await self._call("debate", {"op": op, "id": topic}, WatchesAnswer, once=once)
        return answer.watches
