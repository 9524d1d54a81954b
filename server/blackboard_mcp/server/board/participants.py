"""Taking part, as calls for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from blackboard_mcp.protocols.late_models import run_wire

from .calls import Calls, listed, maps

if TYPE_CHECKING:
    from blackboard_mcp.protocols.run_wire import JoinAnswer


class Participates(Calls):
    """Calls to take part on a board and to leave it. A server needs `--tools core,run` for them."""

    async def join(
        self,
        role: str | None = None,
        *,
        skills: Sequence[str] | None = None,
        interests: Sequence[Mapping[str, Any]] | None = None,
        protocols: Sequence[str] | None = None,
        idempotency_key: str | None = None,
    ) -> JoinAnswer:
        """Makes the agent take part in that role, or changes what it said about itself; returns who takes part.

        `role` is one line, empty for none. `skills` are those that requests and tasks go by, `interests`
        filters of events, `protocols` names of protocols that the agent speaks; `None` leaves each as it is. Without
        any of them it is `participants`.

        Raises:
            InvalidInput: a value is not allowed.
            QuotaExceeded: too many agents take part.
            Refused: the board is closed, or too many skills are offered on it.
        """
        given = {
            "role": role,
            "skills": listed(skills),
            "interests": None if interests is None else maps(interests),
            "protocols": listed(protocols),
        }
        return await self._call("join", given, run_wire.JoinAnswer, once=idempotency_key)

    async def leave(self, note: str = "", *, idempotency_key: str | None = None) -> JoinAnswer:
        """Ends the agent's part; the answer says what it gave up.

        Raises:
            Refused: it takes no part.
        """
        return await self._call("join", {"leave": note or True}, run_wire.JoinAnswer, once=idempotency_key)

    async def participants(self) -> JoinAnswer:
        """Returns who takes part, those present first."""
        return await self._call("join", {}, run_wire.JoinAnswer)
