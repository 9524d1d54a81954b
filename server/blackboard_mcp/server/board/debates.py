"""Debates and standing watches, as calls for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from blackboard_mcp.protocols.debates import Outcome
from blackboard_mcp.protocols.late_models import debate_wire
from blackboard_mcp.protocols.literals import OutcomeName

from .calls import Calls, listed

if TYPE_CHECKING:
    from blackboard_mcp.protocols.debate_wire import DebateAnswer


class Debates(Calls):
    """Calls to hold debates on items. Each returns the debate as it is after the call."""

    async def open_debate(
        self, id: str, *, watchers: Sequence[str] = (), idempotency_key: str | None = None
    ) -> DebateAnswer:
        """Opens a debate on the item, or adds the agent and `watchers` to the open one."""
        return await self._debate("open", id, idempotency_key, watchers=listed(watchers) or None)

    async def acknowledge(
        self, id: str, *, reason: str = "", idempotency_key: str | None = None
    ) -> DebateAnswer:
        """Agrees that the answers settle the debate and the item stands; outside debates, that the agent has seen it.

        The id `H-17@2` makes the call depend on version 2 being the present one.

        Raises:
            Conflict: the agent owes nothing, or the item has another version.
            Refused: a critique in the debate has no answer yet.
        """
        return await self._debate("acknowledge", id, idempotency_key, reason=reason or None)

    async def vote(
        self, id: str, *, approve: bool = True, reason: str = "", idempotency_key: str | None = None
    ) -> DebateAnswer:
        """Votes for or against the present version; on a board with a quorum, votes close debates.

        Raises:
            Conflict: no debate is open, or the item has another version than the id names.
        """
        return await self._debate("vote", id, idempotency_key, approve=approve, reason=reason or None)

    async def withdraw(
        self, id: str, *, reason: str = "", idempotency_key: str | None = None
    ) -> DebateAnswer:
        """Withdraws the agent's own critique.

        Raises:
            Refused: it is another agent's.
        """
        return await self._debate("withdraw", id, idempotency_key, reason=reason or None)

    async def concede(
        self, id: str, *, reason: str = "", to: str | None = None, idempotency_key: str | None = None
    ) -> DebateAnswer:
        """Gives up the agent's own item in a debate, which makes it INVALIDATED for good; the item `to` may replace it.

        Raises:
            Refused: it is another side's item.
        """
        return await self._debate("concede", id, idempotency_key, reason=reason or None, to=to)

    async def decide(
        self,
        id: str,
        reason: str,
        *,
        outcome: OutcomeName | Outcome,
        to: str | None = None,
        idempotency_key: str | None = None,
    ) -> DebateAnswer:
        """Decides that the item `stands`, `falls`, or is `amended`; the item `to` replaces it in the last two cases.

        A critic's decision waits until another owner confirms it.

        Raises:
            Refused: this agent may not decide.
        """
        more = {"reason": reason, "outcome": outcome, "to": to}
        return await self._debate("decide", id, idempotency_key, **more)

    async def confirm(
        self, id: str, *, outcome: OutcomeName | Outcome | None = None, idempotency_key: str | None = None
    ) -> DebateAnswer:
        """Confirms another owner's decision; with `outcome` only if the decision had this outcome.

        Raises:
            Conflict: nobody decided so, or several decided differently.
            Refused: this agent may not confirm.
        """
        return await self._debate("confirm", id, idempotency_key, outcome=outcome)

    async def debate(self, id: str) -> DebateAnswer:
        """Returns the newest debate about the item; its `state` is `None` if there never was one."""
        return await self._debate("status", id, None)

    async def watch(self, id: str, *, idempotency_key: str | None = None) -> DebateAnswer:
        """Makes the agent owe an acknowledgement; the item stays in working memory until it is given."""
        return await self._debate("watch", id, idempotency_key)

    async def unwatch(self, id: str, *, idempotency_key: str | None = None) -> DebateAnswer:
        """Waives the acknowledgements that the agent still owes to the item."""
        return await self._debate("unwatch", id, idempotency_key)

    async def watch_topic(self, topic: str, *, idempotency_key: str | None = None) -> list[str]:
        """Makes the agent watch a topic: debates that open on it oblige the agent. Returns all topics that it watches.

        A topic is `key:plan:**`, `tag:db`, `type:DECISION` or `thread:H-3`.
        """
        return await self._topic("watch", topic, idempotency_key)

    async def unwatch_topic(self, topic: str, *, idempotency_key: str | None = None) -> list[str]:
        """Ends a standing watch, and returns the remaining topics.

        Raises:
            Conflict: the agent does not watch the topic.
        """
        return await self._topic("unwatch", topic, idempotency_key)

    async def _debate(self, op: str, id_: str, once: str | None, **more: Any) -> DebateAnswer:
        return await self._call("debate", {"op": op, "id": id_, **more}, debate_wire.DebateAnswer, once=once)

    async def _topic(self, op: str, topic: str, once: str | None) -> list[str]:
        answer = await self._call("debate", {"op": op, "id": topic}, debate_wire.WatchesAnswer, once=once)
        return answer.watches
