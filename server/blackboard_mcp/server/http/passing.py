"""Requests of sessions, passed on to the worker that keeps them, and answered there as if they had come to it.

Sessions of the older protocol generation live in one process. A worker passes on a request before it looks at more
than its headers: the worker with the sessions checks host and origin, identifies the client and counts it by the
client's own address, as it does for requests of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
import struct
from collections.abc import Callable
from typing import Any, Final

from blackboard_mcp.server.http.gate import MCP_PATH, SESSION_LOST, STOPPED, ErrorAnswer
from blackboard_mcp.server.http.identified import SESSION_HEADER
from starlette.types import ASGIApp, Message, Receive, Scope, Send

logger = logging.getLogger(__name__)

_SIZES: Final = struct.Struct(">II")
_PIECE: Final = 65_536
_VERSION_HEADER: Final = b"mcp-protocol-version"
_TOLD: Final = (
    *("type", "asgi", "http_version", "method", "scheme", "path", "root_path"),
    *("raw_path", "query_string", "headers", "client", "server"),
)
_TAKEN: Final = "taken"
"""The first message back: from then on the request may have been done, whatever becomes of the worker."""
_AWAY: Final = ErrorAnswer(
    503,
    "starting",
    "the worker that keeps sessions starts anew; send this again in a second. Nothing was changed.",
    headers={"Retry-After": "1"},
    retry_after_seconds=1.0,
)


class SessionsElsewhere:
    """Passes requests of sessions on, and answers all others here.

    Args:
        opens_session: tells whether a request of this protocol version opens a session.
        pass_on: gives one end of a request to the worker with the sessions.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        opens_session: Callable[[str | None], bool],
        pass_on: Callable[[socket.socket], None],
    ) -> None:
        self._app = app
        self._opens_session = opens_session
        self._pass_on = pass_on

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != MCP_PATH or not self._of_session(scope["headers"]):
            await self._app(scope, receive, send)
            return
        ours, theirs = socket.socketpair()
        with theirs:
            self._pass_on(theirs)
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        sending = asyncio.create_task(_send_request(scope, receive, writer))
        taken = begun = over = False
        try:
            while not over and (message := await _read(reader)) is not None:
                if message["type"] == _TAKEN:
                    taken = True
                    continue
                await send(message)
                begun = True
                over = message["type"] == "http.response.body" and not message.get("more_body", False)
        except asyncio.CancelledError:
            # The server stops and has waited for its calls as long as it waits.
            if begun:
                raise
            await STOPPED(scope, send)
            return
        finally:
            sending.cancel()
            writer.close()
        if not begun:
            in_session = any(name == SESSION_HEADER for name, _ in scope["headers"])
            await (STOPPED if taken else SESSION_LOST if in_session else _AWAY)(scope, send)
        elif not over:
            # An answer with a declared length may still lack bytes: sending then fails and the connection ends.
            with contextlib.suppress(Exception):
                await send({"type": "http.response.body", "body": b""})

    def _of_session(self, headers: list[tuple[bytes, bytes]]) -> bool:
        version = None
        for name, value in headers:
            if name == SESSION_HEADER:
                return True
            if name == _VERSION_HEADER and version is None:
                version = value.decode("latin-1")
        return self._opens_session(version)


async def _send_request(scope: Scope, receive: Receive, writer: asyncio.StreamWriter) -> None:
    """Sends a request as it comes, until the client is gone."""
    message: Message = {name: scope[name] for name in _TOLD}
    with contextlib.suppress(ConnectionError):
        while not writer.is_closing():
            writer.write(_packed(message))
            await writer.drain()
            message = await receive()
            if message["type"] != "http.request":
                writer.close()


async def answer_passed(request: socket.socket, app: ASGIApp, state: dict[str, Any]) -> None:
    """Answers a request that another worker passed on, by the whole application."""
    reader, writer = await asyncio.open_unix_connection(sock=request)
    try:
        scope = await _read(reader)
        if scope is None:
            return
        writer.write(_packed({"type": _TAKEN}))
        for name in ("raw_path", "query_string"):
            scope[name] = scope[name].encode("latin-1")
        for name in ("client", "server"):
            scope[name] = scope[name] and tuple(scope[name])
        scope["state"] = state.copy()

        async def receive() -> Message:
            return await _read(reader) or {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            with contextlib.suppress(ConnectionError):  # whoever asked is gone, and `receive` says so
                if not writer.is_closing():
                    writer.write(_packed(message))
                    await writer.drain()

        await app(scope, receive, send)
        with contextlib.suppress(OSError):
            # Closing while a part of the request is unread would reset the pair, and lose the answer on its way.
            if not writer.is_closing():
                writer.write_eof()
            while await reader.read(_PIECE):
                pass
    except Exception:
        logger.exception("a request that another worker passed on could not be answered")
    finally:
        writer.close()


def _packed(message: Message) -> bytes:
    body: bytes = message.get("body", b"")
    told = {name: value for name, value in message.items() if name != "body"}
    head = json.dumps(told, default=lambda value: bytes(value).decode("latin-1")).encode()
    return _SIZES.pack(len(head), len(body)) + head + body


async def _read(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """Reads the next message; `None` when the other side is gone."""
    try:
        head_size, body_size = _SIZES.unpack(await reader.readexactly(_SIZES.size))
        message: dict[str, Any] = json.loads(await reader.readexactly(head_size))
        message["body"] = await reader.readexactly(body_size)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    if "headers" in message:
        message["headers"] = [(k.encode("latin-1"), v.encode("latin-1")) for k, v in message["headers"]]
    return message
