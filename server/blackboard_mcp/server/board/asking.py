"""Requests between agents, as calls for programs: asking by name or by skill, and answering."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from blackboard_mcp.protocols.late_models import request_wire

from .calls import Calls, listed, needed
from .durable import POLL_SECONDS

if TYPE_CHECKING:
    from blackboard_mcp.protocols.request_wire import RequestAnswer, WaitingAnswer

_LIVE = frozenset({"OPEN", "TAKEN"})


class Asks(Calls):
    """Calls to ask other agents and to answer them. A server needs `--tools core,messages` for them."""

    async def ask(
        self,
        to: str,
        text: str,
        *,
        deadline_seconds: float | None = None,
        wait: bool = True,
        idempotency_key: str | None = None,
    ) -> RequestAnswer:
        """Asks an agent, or any agent with a skill (`skill:sql`), and waits until the request has ended.

        `request.state` of the result says how it ended: answered, declined, cancelled or expired; `answer` is
        the answer. Without `wait` the result is the request as it is at once. The request expires after
        `deadline_seconds`.

        Raises:
            InvalidInput: there is no text, or nobody who can be asked.
            Refused: too many requests are open.
        """
        given = {
            "to": needed(to, "to"),
            "text": needed(text, "text"),
            "deadline_seconds": deadline_seconds,
            "seconds": 0,
        }
        stands = await self._call("request", given, request_wire.RequestAnswer, once=idempotency_key)
        return await self.answer_to(stands.request.id) if wait else stands

    async def answer_to(self, id: str) -> RequestAnswer:
        """Waits until the request has ended, however long that takes, and returns it with its answer.

        Raises:
            UnknownReference: there is no such request.
        """
        while True:
            stands = await self._call(
                "request", {"id": needed(id, "id"), "seconds": POLL_SECONDS}, request_wire.RequestAnswer
            )
            if stands.request.state not in _LIVE:
                return stands

    async def cancel_request(
        self, id: str, *, reason: str = "", idempotency_key: str | None = None
    ) -> RequestAnswer:
        """Cancels the agent's own request, and returns it.

        Raises:
            Conflict: it has ended.
            Refused: another agent made it.
        """
        given = {"id": needed(id, "id"), "cancel": True, "text": reason or None}
        return await self._call("request", given, request_wire.RequestAnswer, once=idempotency_key)

    async def requests(self) -> WaitingAnswer:
        """Returns requests that wait for the agent, open requests that it made, and the skills on offer."""
        return await self._call("request", {}, request_wire.WaitingAnswer)

    async def next_request(
        self, *, skills: Sequence[str] | None = None, seconds: float = POLL_SECONDS
    ) -> RequestAnswer | None:
        """Takes the next request for the agent, under a lease; returns `None` if none came within `seconds` (0 to 50).

        From now on the agent offers `skills` (at most 16, of a-z 0-9 . _ / -), in place of those it offered
        before.

        Raises:
            InvalidInput: one of them is no valid skill.
        """
        given = {"skills": listed(skills), "seconds": seconds}
        told: Any = await self._call("respond", given, request_wire.RespondAnswer)
        found = told.root if isinstance(told, request_wire.RespondAnswer) else told
        return found if isinstance(found, request_wire.RequestAnswer) else None

    async def take_request(self, id: str, *, idempotency_key: str | None = None) -> RequestAnswer:
        """Takes one request, under a lease, and returns it.

        Raises:
            Conflict: another agent holds it, or it has ended.
        """
        return await self._call(
            "respond", {"id": needed(id, "id")}, request_wire.RequestAnswer, once=idempotency_key
        )

    async def respond(
        self,
        id: str,
        text: str,
        *,
        lease: int | None = None,
        partial: bool = False,
        idempotency_key: str | None = None,
    ) -> RequestAnswer:
        """Answers a request, or with `partial` adds a part of the answer, and returns the request.

        `lease` is the number that the call that took the request returned.

        Raises:
            Conflict: the lease is not valid any more, or the request has ended.
        """
        given = {
            "id": needed(id, "id"),
            "text": needed(text, "text"),
            "lease": lease,
            "partial": partial or None,
        }
        return await self._call("respond", given, request_wire.RequestAnswer, once=idempotency_key)

    async def decline(
        self, id: str, reason: str, *, lease: int | None = None, idempotency_key: str | None = None
    ) -> RequestAnswer:
        """Declines a request with a reason, and returns it; a request by skill goes on to other agents.

        Raises:
            InvalidInput: there is no reason.
            Conflict: another agent holds it, or it has ended.
            Refused: it is not addressed to this agent.
        """
        given = {"id": needed(id, "id"), "text": reason, "lease": lease, "decline": True}
        return await self._call("respond", given, request_wire.RequestAnswer, once=idempotency_key)
