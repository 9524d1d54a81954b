"""The checks that every HTTP request passes first, and errors in JSON.

Hosts and origins are compared exactly. That stops DNS rebinding, where another site points its own name at
this machine: its pages send their own host.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import re
from collections.abc import Collection, Mapping
from http import HTTPStatus
from itertools import chain
from typing import Any, Final

from blackboard_mcp.server.limits.limits import Limits
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MCP_PATH: Final = "/mcp"
LINGER_BYTES: Final = 8 * 1024 * 1024
LINGER_SECONDS: Final = 5.0
_INVALID_REQUEST: Final = -32600
_MAX_ERROR_BYTES: Final = 4_096
_NO_SNIFFING: Final = (b"x-content-type-options", b"nosniff")


class Gate:
    """Lets a request through if its host, origin and headers are in order.

    Args:
        allowed_hosts: exact `Host` values, lower case, with the port unless it is the scheme's own.
        allowed_origins: exact `Origin` values; a request without one does not come from a page.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        allowed_hosts: Collection[str],
        allowed_origins: Collection[str],
        limits: Limits,
    ) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in allowed_hosts)
        self._origins = frozenset(origin.lower() for origin in allowed_origins)
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        told = _Told(send)
        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, told)
            return
        try:
            await self._app(scope, receive, JsonErrors(scope, told))
        except asyncio.CancelledError:
            # The server stops and has waited for its calls as long as it waits.
            if told.begun:
                raise
            await STOPPED(scope, told)

    def _refusal(self, scope: Scope) -> ErrorAnswer | None:
        if scope["path"].endswith("\n"):
            # The router would take it for the path without the line break, and what bounds requests by path would not.
            return ErrorAnswer(404, _CODES[404], _REASONS[404])
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        most = self._limits.headers
        if len(headers) > most:
            return ErrorAnswer(
                431,
                "too_many_headers",
                f"a request has at most {most} headers, not {len(headers)} (limit headers); send fewer. Nothing was "
                "changed.",
                limit="headers",
                most=most,
            )
        # The parser bounds only heads that arrive in pieces: one that arrives at once may be longer.
        size = len(scope["raw_path"]) + len(scope["query_string"]) + 4 * len(headers)
        size += sum(map(len, chain.from_iterable(headers)))
        if size > self._limits.head_bytes:
            return head_too_large(self._limits.head_bytes)
        hosts = [value for name, value in headers if name == b"host"]
        if len(hosts) != 1 or hosts[0].decode("latin-1").lower() not in self._hosts:
            return ErrorAnswer(
                421,
                "host",
                "this server does not answer to that host name; use one of: "
                + ", ".join(sorted(self._hosts)),
            )
        origins = [value for name, value in headers if name == b"origin"]
        if len(origins) > 1 or any(o.decode("latin-1").lower() not in self._origins for o in origins):
            return ErrorAnswer(
                403,
                "origin",
                "pages of that origin may not use this server. Nothing was changed; whoever runs it can allow the "
                "origin with --allowed-origins.",
            )
        return None


class _Told:
    """A `send` that forbids browsers to guess the type of an answer, and knows whether one has begun.

    Without the former, a browser could take the texts of agents for a page.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self.begun = False

    async def __call__(self, message: Message) -> None:
        self.begun = True
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), _NO_SNIFFING]}
        await self._send(message)


class ErrorAnswer:
    """A refusal in JSON, after which the connection closes.

    It closes because the rest of a refused body may still arrive. Given `receive`, it first discards data for
    a while: closing while the client still sends would lose the answer unread.
    """

    def __init__(
        self, status: int, code: str, message: str, *, headers: Mapping[str, str] | None = None, **facts: Any
    ) -> None:
        self.status = status
        self.code = code
        self.message = message
        self.facts = facts
        self.headers = headers or {}

    async def __call__(self, scope: Scope, send: Send, receive: Receive | None = None) -> None:
        body = error_body(scope, self.code, self.message, self.facts)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
            *((name.lower().encode(), value.encode()) for name, value in self.headers.items()),
        ]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": receive is not None})
        if receive is not None:
            await _discard(receive)
            await send({"type": "http.response.body", "body": b""})


STOPPED: Final = ErrorAnswer(
    503,
    "stopping",
    "the server stopped while this was under way, and does not know whether it was done; when it is back, look, or "
    "make the same call again with the idempotency_key that it had",
    headers={"Retry-After": "5"},
    retry_after_seconds=5.0,
)
"""The answer to a call that a stop cut off."""

SESSION_LOST: Final = ErrorAnswer(
    404,
    "session",
    "Session not found: the server was started anew, or the session was not used for long. Nothing was changed; "
    "initialize again.",
)
"""The answer to a request of a session that does not exist, or is somebody else's."""


def head_too_large(most: int) -> ErrorAnswer:
    """Returns the refusal of a request whose line and headers have more than `most` bytes."""
    return ErrorAnswer(
        431,
        "too_large",
        f"a request's line and headers have at most {most} bytes (limit head_bytes); send less in them. Nothing "
        "was changed.",
        limit="head_bytes",
        most=most,
    )


def later(
    status: int, code: str, message: str, limit: str, *, seconds: float = 1.0, **facts: Any
) -> ErrorAnswer:
    """Returns a refusal of a request that may succeed after `seconds`.

    The time is given in the header `Retry-After`, in whole seconds, and in the fact `retry_after_seconds`.
    """
    return ErrorAnswer(
        status,
        code,
        message,
        headers={"Retry-After": str(max(1, math.ceil(seconds)))},
        limit=limit,
        retry_after_seconds=seconds,
        **facts,
    )


async def _discard(receive: Receive) -> None:
    """Reads data that a client still sends and drops it, up to `LINGER_BYTES` and `LINGER_SECONDS`."""
    left = LINGER_BYTES
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LINGER_SECONDS):
            while left > 0:
                message = await receive()
                left -= len(message.get("body", b""))
                if message["type"] != "http.request" or not message.get("more_body", False):
                    return


def error_body(scope: Scope, code: str, message: str, facts: Mapping[str, Any]) -> bytes:
    """Returns `{"error": code, "message": …}`, or a JSON-RPC error for MCP clients, which show nothing else."""
    if scope["path"] != MCP_PATH:
        return json.dumps({**facts, "error": code, "message": message}).encode()
    error = {"code": _INVALID_REQUEST, "message": message, "data": {**facts, "error": code}}
    return json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()


class JsonErrors:
    """A `send` that turns plain-text errors into JSON, and rewords the SDK's errors about malformed bodies."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope = scope
        self._send = send
        self._start: Message | None = None
        self._plain = True
        self._text = bytearray()

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] >= 400:
            kind = next((v for k, v in message.get("headers", ()) if k.lower() == b"content-type"), b"")
            plain = kind == b"" or kind.startswith(b"text/plain")
            if plain or (message["status"] == 400 and self._scope["path"] == MCP_PATH):
                self._start, self._plain = message, plain
                return
        if self._start is None:
            await self._send(message)
            return
        if not self._plain or len(self._text) < _MAX_ERROR_BYTES:
            self._text += message.get("body", b"")
        if message.get("more_body", False):
            return
        start, self._start = self._start, None
        status = start["status"]
        if not self._plain:
            body = _NO_MESSAGE if _INTERNALS.match(self._text) else bytes(self._text)
        else:
            text = self._text[:_MAX_ERROR_BYTES].decode("utf-8", "replace")
            if text in ("", HTTPStatus(status).phrase):
                text = _REASONS.get(status, text or "refused")
            body = error_body(self._scope, _CODES.get(status, "http"), text, {})
        dropped = (b"content-type", b"content-length")
        headers = [(k, v) for k, v in start.get("headers", ()) if k.lower() not in dropped]
        headers += [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await self._send({**start, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})


# The SDK's legacy transport answers a body that is no message with pydantic's own error text.
_INTERNALS: Final = re.compile(
    rb'\{"jsonrpc":"2\.0","id":null,"error":\{"code":-?\d+,"message":"Validation error: '
)
_NO_MESSAGE: Final = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": None,
        "error": {
            "code": _INVALID_REQUEST,
            "message": "the body is not a JSON-RPC 2.0 message: an object with jsonrpc, id, method and params",
        },
    }
).encode()
_CODES: Final = {404: "not_found", 405: "method", 406: "accept", 413: "too_large", 500: "internal"}
_REASONS: Final = {
    404: f"there is nothing at this path; MCP is served at {MCP_PATH}",
    405: "that method is not served here",
    406: "send the header 'Accept: application/json, text/event-stream'",
}
