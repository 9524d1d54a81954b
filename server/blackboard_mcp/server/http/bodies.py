"""Reading of request bodies: whole, within bounds of time and size, before the application sees them.

The application would wait for ever for the rest of a half-sent body. Only bodies of identified callers are
read, and of each principal a part of what all may hold: others could otherwise fill the memory that all share.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Final

from blackboard_mcp.server.access.identity import PRINCIPAL_SCOPE_KEY
from blackboard_mcp.server.http.gate import MCP_PATH, ErrorAnswer, later
from blackboard_mcp.server.limits.concurrency import counted_as
from blackboard_mcp.server.limits.json_size import TOO_MUCH, holds_too_much
from blackboard_mcp.server.limits.limits import Limits
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import RequestResponseCycle

TOO_LARGE: Final = 413


class Bodies:
    """Reads a request's body and passes it on in one piece, or answers with an error."""

    def __init__(self, app: ASGIApp, *, limits: Limits) -> None:
        self._app = app
        self._limits = limits
        self._held = 0
        self._held_by: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if PRINCIPAL_SCOPE_KEY not in scope:
            # Paths that everybody may ask for take no body.
            await self._app(scope, receive, send)
            return
        body = bytearray()
        who = counted_as(scope[PRINCIPAL_SCOPE_KEY])
        try:
            if any(int(told) > self._limits.body_bytes for told in _lengths(scope)):
                raise _Refusal(self._too_large())
            if await self._read(receive, body, who):
                if scope["path"] == MCP_PATH and holds_too_much(body):
                    raise _Refusal(ErrorAnswer(TOO_LARGE, "too_large", TOO_MUCH))
                await self._app(scope, _replayed(bytes(body), receive), send)
        except _Refusal as exc:
            await exc.answer(scope, send, receive if exc.answer.status == TOO_LARGE else None)
        finally:
            self._held -= len(body)
            self._held_by[who] -= len(body)
            if not self._held_by[who]:
                del self._held_by[who]

    def _too_large(self) -> ErrorAnswer:
        most = self._limits.body_bytes
        return ErrorAnswer(
            TOO_LARGE,
            "too_large",
            f"a request's body has at most {most} bytes (limit body_bytes); send it in several calls. Nothing was "
            "changed.",
            limit="body_bytes",
            most=most,
        )

    async def _read(self, receive: Receive, body: bytearray, who: str) -> bool:
        """Reads the whole body of a principal into `body`, and tells whether the client stayed until its end."""
        if _has_come(receive):
            return await self._take(receive, body, who)
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                return await self._take(receive, body, who)
        except TimeoutError:
            seconds = self._limits.body_seconds
            late = f"the request's body did not arrive within {seconds:g} seconds (limit body_seconds); send it again. "
            late += "Nothing was changed."
            raise _Refusal(ErrorAnswer(408, "timeout", late, limit="body_seconds", most=seconds)) from None

    async def _take(self, receive: Receive, body: bytearray, who: str) -> bool:
        """Does what `_read` says, however long it takes."""
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return False
            chunk = message.get("body", b"")
            body += chunk
            self._held += len(chunk)
            self._held_by[who] += len(chunk)
            if len(body) > self._limits.body_bytes:
                raise _Refusal(self._too_large())
            if self._held > self._limits.bodies_bytes:
                raise _Refusal(_too_many(503, "bodies", "bodies_bytes"))
            if self._held_by[who] > self._limits.bodies_bytes_per_principal:
                raise _Refusal(_too_many(429, f"bodies of {who}", "bodies_bytes_per_principal"))
            if not message.get("more_body", False):
                return True


class _Refusal(Exception):
    def __init__(self, answer: ErrorAnswer) -> None:
        super().__init__(answer.status)
        self.answer = answer


def _too_many(status: int, what: str, limit: str) -> ErrorAnswer:
    told = (
        f"too many {what} are under way together (limit {limit}); try again in a second. Nothing was changed."
    )
    return later(status, "busy", told, limit)


def _has_come(receive: Receive) -> bool:
    """Tells whether uvicorn has the rest of the body, so that nothing is waited for: a timer costs more than that."""
    cycle = getattr(receive, "__self__", None)
    return isinstance(cycle, RequestResponseCycle) and not cycle.more_body


def _lengths(scope: Scope) -> list[bytes]:
    return [value[:20] for name, value in scope["headers"] if name == b"content-length" and value.isdigit()]


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Returns a `receive` that delivers the body once and then waits for the client to leave."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if not given:
            given = True
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return replay
