"""The MCP endpoint's sessions: each belongs to one principal, and looks absent to everybody else.

Knows the legacy generation's session header and our scope keys. Takes the principal from the request's scope.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Final

from blackboard_mcp.protocols.access import EVERY_BOARD, POWERS, Action, Principal
from blackboard_mcp.server.access.identity import PRINCIPAL_SCOPE_KEY
from blackboard_mcp.server.http.gate import SESSION_LOST, ErrorAnswer, later
from blackboard_mcp.server.http.identified import SESSION_HEADER
from blackboard_mcp.server.limits.concurrency import Counted, counted_as
from blackboard_mcp.server.limits.limits import Limits
from blackboard_mcp.server.mcp.server import HttpSessions
from starlette.types import Message, Receive, Scope, Send

FRESH_SECONDS: Final = 60.0
"""A session used within this many seconds is not ended to make room for another principal's."""
_RETRY_SECONDS: Final = 5.0
_LAST_EVENT_HEADER: Final = b"last-event-id"
_VERSION_HEADER: Final = b"mcp-protocol-version"


@dataclass
class _Session:
    """The principal that opened a session, when it was last used, and how many of its requests are open."""

    principal: Principal
    used: float
    requests: int = 0

    @property
    def agent(self) -> str:
        return self.principal.agent

    def serves(self, principal: Principal) -> bool:
        """Tells whether a principal may use the session: the same agent, identified the same way, with equal rights.

        A principal with fewer rights would receive what the session was allowed to hear; one with more would
        leave such news behind for less powerful ones.
        """
        mine = self.principal
        if (mine.agent, mine.via) != (principal.agent, principal.via):
            return False
        return mine.credential == principal.credential or (
            mine.owner == principal.owner and _equally_powerful(principal, mine)
        )


def _equally_powerful(one: Principal, other: Principal) -> bool:
    """Tells whether two principals may do the same on every board."""
    boards = {EVERY_BOARD, *one.roles, *other.roles}
    return one.scopes == other.scopes and all(
        _powers(one, board) == _powers(other, board) for board in boards
    )


def _powers(principal: Principal, board: str) -> frozenset[Action]:
    role = principal.role_on(board)
    return frozenset() if role is None else POWERS[role]


class IdentifiedEndpoint:
    """The MCP endpoint for requests whose principal is known.

    A principal with too many sessions loses its least recently used idle one, since most were just abandoned.
    If all are in use, or all sessions of a full server are, the request is refused.
    """

    def __init__(
        self,
        sessions: HttpSessions,
        limits: Limits,
    ) -> None:
        self._endpoint = sessions.endpoint
        self._end_session = sessions.end
        self._is_live = sessions.is_live
        self._opens_session = sessions.opened_by
        self._gone_key = sessions.gone_key
        # Least recently used first.
        self._sessions: dict[str, _Session] = {}
        self._counted = Counted(limits.sessions, limits.sessions_per_principal)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        principal: Principal = scope[PRINCIPAL_SCOPE_KEY]
        gone = scope[self._gone_key] = asyncio.Event()
        try:
            session_id = _header(scope, SESSION_HEADER)
            if session_id is not None:
                await self._serve_in(session_id, principal, scope, receive, send)
            elif self._opens_session(_header(scope, _VERSION_HEADER)):
                await self._open(principal, scope, receive, send)
            else:
                await self._endpoint(scope, receive, send)
        finally:
            gone.set()

    async def _serve_in(
        self, session_id: str, principal: Principal, scope: Scope, receive: Receive, send: Send
    ) -> None:
        session = self._sessions.pop(session_id, None)
        if session is None:
            # Only the older generation has sessions; in the newer one the header says nothing.
            lost = self._opens_session(_header(scope, _VERSION_HEADER))
        else:
            self._sessions[session_id] = session
            lost = not session.serves(principal)
        if lost:  # one answer for the session of somebody else and for none
            await SESSION_LOST(scope, send)
            return
        if session is not None:
            session.used = time.monotonic()
            session.requests += 1
        if _header(scope, _LAST_EVENT_HEADER) is not None:
            # Streams cannot be resumed; to a request with this header the SDK would send an empty answer.
            scope["headers"] = [(k, v) for k, v in scope["headers"] if k != _LAST_EVENT_HEADER]
        try:
            await self._endpoint(scope, receive, send)
        finally:
            if session is not None:
                session.requests -= 1
                session.used = time.monotonic()
                if not self._is_live(session_id):
                    self._forget(session_id)

    async def _open(self, principal: Principal, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = await self._make_room(principal)
        if refusal is not None:
            await refusal(scope, send)
            return
        opened = False

        async def watch(message: Message) -> None:
            nonlocal opened
            if message["type"] == "http.response.start" and message["status"] < 400:
                named = next((v for k, v in message.get("headers", ()) if k.lower() == SESSION_HEADER), None)
                if named is not None:
                    opened = True
                    self._sessions[named.decode("latin-1")] = _Session(principal, time.monotonic())
            await send(message)

        try:
            await self._endpoint(scope, receive, watch)
        finally:
            if not opened:
                self._counted.leave(counted_as(principal))

    async def _make_room(self, principal: Principal) -> ErrorAnswer | None:
        """Counts one more session, if need be in place of an idle one; returns the refusal if there is no room."""
        who = counted_as(principal)
        if self._counted.enter(who) is None:
            return None
        for session_id in [key for key in self._sessions if not self._is_live(key)]:
            self._forget(session_id)
        full = self._counted.enter(who)
        if full is not None:
            idle = self._idle(who, everybody=full == "all")
            if idle is None:
                return self._no_room(who, full)
            self._forget(idle)
            self._counted.enter(who)
            await self._end_session(idle)
        return None

    def _idle(self, who: str, *, everybody: bool) -> str | None:
        """Returns the id of the session to end, or `None`.

        That is the account's own least recently used idle one; with `everybody`, also any not used for
        `FRESH_SECONDS`.
        """
        since = time.monotonic() - FRESH_SECONDS
        for session_id, session in self._sessions.items():
            own = counted_as(session.principal) == who
            if session.requests == 0 and (own or (everybody and session.used < since)):
                return session_id
        return None

    def _no_room(self, who: str, full: str) -> ErrorAnswer:
        most = self._counted.most_each if full == "each" else self._counted.most
        limit = "sessions_per_principal" if full == "each" else "sessions"
        whose = who if full == "each" else "the server"
        message = f"{whose} has {most} sessions, all in use (limit {limit}); end one with DELETE, or try again later"
        return later(
            429 if full == "each" else 503, "rate_limited", message, limit, seconds=_RETRY_SECONDS, most=most
        )

    def _forget(self, session_id: str) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._counted.leave(counted_as(session.principal))


def _header(scope: Scope, name: bytes) -> str | None:
    for key, value in scope["headers"]:
        if key == name:
            return str(value, "latin-1")
    return None
