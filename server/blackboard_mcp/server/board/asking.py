"""Requests from agent to agent: asked by name or by skill, and answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from blackboard_mcp.protocols.wire import RequestAnswer, RespondAnswer, WaitingAnswer

from .calls import Calls
from .durable import POLL_SECONDS

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
        """Asks an agent, or whoever has a skill (`skill:sql`), and waits until the request has ended.

        It ends answered, declined, cancelled or expired: `request.state` says which, and `answer` is the answer.
        Without `wait` it is told as it stands at first.

        Raises:
            InvalidInput: no text, or nobody who can be asked.
            Refused: too many are open.
        """
        given = {"to": to, "text": text, "deadline_seconds": deadline_seconds, "seconds": 0}
        stands = await self._call("request", given, RequestAnswer, once=idempotency_key)
        return await self.answer_to(stands.request.id) if wait else stands

    async def answer_to(self, id: str) -> RequestAnswer:
        """The request when it has ended, however long that takes.

        Raises:
            UnknownReference: there is no such request.
        """
        while True:
            stands = await self._call("request", {"id": id, "seconds": POLL_SECONDS}, RequestAnswer)
            if stands.request.state not in _LIVE:
                return stands

    async def cancel_request(
        self, id: str, *, reason: str = "", idempotency_key: str | None = None
    ) -> RequestAnswer:
        """Takes the agent's own request back.

        Raises:
            Conflict: it has ended.
            Refused: somebody else asked it.
        """
        given = {"id": id, "cancel": True, "text": reason or None}
        return await self._call("request", given, RequestAnswer, once=idempotency_key)

    async def requests(self) -> WaitingAnswer:
        """What waits for the agent, what it asked that is open, and the skills on offer."""
        return await self._call("request", {}, WaitingAnswer)

    async def next_request(
        self, *, skills: Sequence[str] | None = None, seconds: float = POLL_SECONDS
    ) -> RequestAnswer | None:
        """Takes the next request for the agent, under a lease; `None` when none came within `seconds` (0 to 50).

        `skills` (at most 16, of a-z 0-9 . _ / -) are offered from now on, in place of the former ones.

        Raises:
            InvalidInput: one that is no skill.
        """
        given = {"skills": None if skills is None else list(skills), "seconds": seconds}
        told: Any = await self._call("respond", given, RespondAnswer)
        found = told.root if isinstance(told, RespondAnswer) else told
        return found if isinstance(found, RequestAnswer) else None

    async def take_request(self, id: str, *, idempotency_key: str | None = None) -> RequestAnswer:
        """Takes one request, under a lease.

        Raises:
            Conflict: somebody else has it, or it has ended.
        """
        return await self._call("respond", {"id": id}, RequestAnswer, once=idempotency_key)

    async def respond(
        self,
        id: str,
        text: str,
        *,
        lease: int | None = None,
        partial: bool = False,
        idempotency_key: str | None = None,
    ) -> RequestAnswer:
        """Answers; with `partial` in part, and what follows is added. `lease` is the one the taking gave.

        Raises:
            Conflict: the lease is another's by now, or the request has ended.
        """
        given = {"id": id, "text": text, "lease": lease, "partial": partial or None}
        return await self._call("respond", given, RequestAnswer, once=idempotency_key)

    async def decline(
        self, id: str, reason: str, *, lease: int | None = None, idempotency_key: str | None = None
    ) -> RequestAnswer:
        """Does not answer, and says why; a request by skill goes on to others.

        Raises:
            InvalidInput: no reason.
            Conflict: somebody else has it, or it has ended.
            Refused: it is not this agent's to answer.
        """
        given = {"id": id, "text": reason, "lease": lease, "decline": True}
        return await self._call("respond", given, RequestAnswer, once=idempotency_key)
