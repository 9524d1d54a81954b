"""The MCP endpoint behind an identity: every request is somebody's, every session one agent's.

Knows the legacy generation's session header and the adapter's two scope keys. Refuses to know how
names are proved: `identify` says, for each request anew.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from blackboard_mcp.protocols.errors import BlackboardError, InvalidInput, Refused
from blackboard_mcp.server.http.gate import ErrorAnswer
from starlette.types import ASGIApp, Message, Receive, Scope, Send

logger = logging.getLogger(__name__)

MAX_SESSIONS_PER_AGENT: Final = 200
_SESSION_HEADER: Final = b"mcp-session-id"
_IDENTIFYING: Final = (b"authorization", b"x-blackboard-agent", b"x-blackboard-owner", _SESSION_HEADER)


@dataclass
class _Session:
    agent: str
    requests: int = 0


class IdentifiedEndpoint:
    """The MCP endpoint for requests whose caller is known.

    Args:
        identify: the agent behind a request's headers (lower-case names).
        end_session: ends a legacy session by its id; unknown ids are fine.
        is_live: whether a legacy session still exists.
    """

    def __init__(
        self,
        endpoint: ASGIApp,
        *,
        identify: Callable[[Mapping[str, str]], str],
        end_session: Callable[[str], Awaitable[None]],
        is_live: Callable[[str], bool],
        agent_scope_key: str,
        gone_scope_key: str,
    ) -> None:
        self._endpoint = endpoint
        self._identify = identify
        self._end_session = end_session
        self._is_live = is_live
        self._agent_key = agent_scope_key
        self._gone_key = gone_scope_key
        # Least recently used first.
        self._sessions: dict[str, _Session] = {}
        self._sweep_at = 1_000

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]}
        twice = [n for n in _IDENTIFYING if sum(name == n for name, _ in scope["headers"]) > 1]
        if twice:
            await ErrorAnswer(400, "invalid", f"the header {twice[0].decode()} was sent more than once")(
                scope, send
            )
            return
        try:
            agent = self._identify(headers)
        except BlackboardError as exc:
            await _refusal(exc)(scope, send)
            return
        except Exception:
            reference = secrets.token_hex(3)
            logger.exception("internal error %s while identifying a caller", reference)
            await ErrorAnswer(500, "internal", f"Internal error (reference {reference})")(scope, send)
            return
        scope[self._agent_key] = agent
        gone = scope[self._gone_key] = asyncio.Event()
        session_id = headers.get(_SESSION_HEADER.decode())
        session = self._sessions.pop(session_id, None) if session_id is not None else None
        if session_id is not None and session is not None:
            self._sessions[session_id] = session
            if session.agent != agent:
                # The same answer as for a session that does not exist.
                await ErrorAnswer(404, "session", "Session not found")(scope, send)
                return
            session.requests += 1
        elif session_id is None:
            await self._make_room(agent)

        async def watch(message: Message) -> None:
            if session is None and message["type"] == "http.response.start" and message["status"] < 400:
                for name, value in message.get("headers", ()):
                    if name.lower() == _SESSION_HEADER:
                        self._sessions.setdefault(value.decode("latin-1"), _Session(agent))
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


def _refusal(exc: BlackboardError) -> ErrorAnswer:
    """The table of errors and statuses for a caller who could not be identified."""
    if isinstance(exc, InvalidInput):
        status = 400
    elif isinstance(exc, Refused):
        status = 401 if exc.facts.get("unauthenticated") else 403
    else:
        status = 503
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return ErrorAnswer(status, exc.code, exc.message, headers=headers, **exc.facts)
