"""The MCP endpoint's sessions: each is one principal's, and looks absent to everybody else.

Knows the legacy generation's session header and the adapter's scope keys. Refuses to know who somebody is:
the request's scope says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from blackboard_mcp.protocols.access import EVERY_BOARD, POWERS, Action, Principal
from blackboard_mcp.server.http.gate import ErrorAnswer
from blackboard_mcp.server.http.identified import SESSION_HEADER
from blackboard_mcp.server.http.identity import PRINCIPAL_SCOPE_KEY
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_SESSIONS_PER_AGENT: Final = 200


@dataclass
class _Session:
    """Whose it is, and the power it was opened with."""

    principal: Principal
    requests: int = 0

    @property
    def agent(self) -> str:
        return self.principal.agent

    def serves(self, principal: Principal) -> bool:
        """Whether it is this principal's too: the same agent, known in the same way, with no less power."""
        mine = self.principal
        if (mine.agent, mine.via) != (principal.agent, principal.via):
            return False
        return mine.credential == principal.credential or (
            mine.owner == principal.owner and _as_powerful(principal, mine)
        )


def _as_powerful(one: Principal, other: Principal) -> bool:
    """Whether `one` may do everything, on every board, that `other` may."""
    boards = {EVERY_BOARD, *one.roles, *other.roles}
    return one.scopes >= other.scopes and all(
        _powers(one, board) >= _powers(other, board) for board in boards
    )


def _powers(principal: Principal, board: str) -> frozenset[Action]:
    role = principal.role_on(board)
    return frozenset() if role is None else POWERS[role]


class IdentifiedEndpoint:
    """The MCP endpoint for requests whose principal is known.

    Args:
        end_session: ends a legacy session by its id; unknown ids are fine.
        is_live: whether a legacy session still exists.
    """

    def __init__(
        self,
        endpoint: ASGIApp,
        *,
        end_session: Callable[[str], Awaitable[None]],
        is_live: Callable[[str], bool],
        gone_scope_key: str,
    ) -> None:
        self._endpoint = endpoint
        self._end_session = end_session
        self._is_live = is_live
        self._gone_key = gone_scope_key
        # Least recently used first.
        self._sessions: dict[str, _Session] = {}
        self._sweep_at = 1_000

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        principal: Principal = scope[PRINCIPAL_SCOPE_KEY]
        named = next((value for name, value in scope["headers"] if name == SESSION_HEADER), None)
        session_id = None if named is None else named.decode("latin-1")
        gone = scope[self._gone_key] = asyncio.Event()
        session = self._sessions.pop(session_id, None) if session_id is not None else None
        if session_id is not None and session is not None:
            self._sessions[session_id] = session
            if not session.serves(principal):
                # The same answer as for a session that does not exist.
                await ErrorAnswer(404, "session", "Session not found")(scope, send)
                return
            session.requests += 1
        elif session_id is None:
            await self._make_room(principal.agent)

        async def watch(message: Message) -> None:
            if session is None and message["type"] == "http.response.start" and message["status"] < 400:
                for name, value in message.get("headers", ()):
                    if name.lower() == SESSION_HEADER:
                        self._sessions.setdefault(value.decode("latin-1"), _Session(principal))
            await send(message)

        try:
            await self._endpoint(scope, receive, watch)
        finally:
            gone.set()
            if session_id is not None and session is not None:
                session.requests -= 1
                if not self._is_live(session_id):
                    self._sessions.pop(session_id, None)

    async def _make_room(self, agent: str) -> None:
        """End the agent's least recently used session when it has too many; most were just left behind."""
        mine = [key for key, session in self._sessions.items() if session.agent == agent]
        if len(mine) < MAX_SESSIONS_PER_AGENT and len(self._sessions) < self._sweep_at:
            return
        for key in [key for key in self._sessions if not self._is_live(key)]:
            del self._sessions[key]
        self._sweep_at = max(1_000, 2 * len(self._sessions))
        mine = [key for key in mine if key in self._sessions]
        idle = [key for key in mine if self._sessions[key].requests == 0]
        for key in idle[: max(0, len(mine) - MAX_SESSIONS_PER_AGENT + 1)]:
            self._sessions.pop(key, None)
            await self._end_session(key)
