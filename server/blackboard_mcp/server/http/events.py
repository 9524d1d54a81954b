"""Server-Sent Events: a board's log as a stream, for people's pages and for programs.

`GET /boards/{board}/events?after=N` sends the events after a sequence and then each new one; without
`after`, or a `Last-Event-ID`, it begins with the next. The id of a message is the sequence, so a client
that reconnects misses nothing and gets nothing twice.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

from blackboard_mcp.protocols.errors import BlackboardError, InvalidInput
from blackboard_mcp.protocols.wire import wire_event
from blackboard_mcp.server.blackboard import Blackboard
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

_PAGE: Final = 500
KEEP_ALIVE_SECONDS: Final = 15.0
MAX_STREAMS: Final = 256
MAX_STREAMS_PER_AGENT: Final = 32

Identify = Callable[[Mapping[str, str]], str]


class EventStreams:
    """The streams that are open; `close` ends them so that a server can stop.

    A stream without news sends a comment every `keep_alive` seconds.
    """

    def __init__(
        self, board: Blackboard, identify: Identify, *, keep_alive: float = KEEP_ALIVE_SECONDS
    ) -> None:
        self._board = board
        self._identify = identify
        self._keep_alive = keep_alive
        self._open: dict[str, int] = {}
        self._closing = asyncio.Event()

    def route(self) -> Route:
        return Route("/boards/{board}/events", self.stream, methods=["GET"])

    def close(self) -> None:
        """End every stream at its next message, at once when it waits."""
        self._closing.set()

    async def stream(self, request: Request) -> Response:
        try:
            agent = self._identify({k.lower(): v for k, v in request.headers.items()})
            board = await self._board.board_of(request.path_params["board"], agent)
            place = await self._place(request, agent, board)
        except BlackboardError as error:
            status = 404 if error.code == "not_found" else 400
            return JSONResponse({"error": error.code, "message": error.message, **error.facts}, status)
        if sum(self._open.values()) >= MAX_STREAMS or self._open.get(agent, 0) >= MAX_STREAMS_PER_AGENT:
            message = f"too many open event streams ({MAX_STREAMS_PER_AGENT} an agent); close some first"
            return JSONResponse({"error": "refused", "message": message}, 429)
        self._open[agent] = self._open.get(agent, 0) + 1
        return _Stream(
            self._messages(agent, board, place),
            on_end=lambda: self._ended(agent),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )

    def _ended(self, agent: str) -> None:
        self._open[agent] -= 1
        if not self._open[agent]:
            del self._open[agent]

    async def _place(self, request: Request, agent: str, board: str) -> int:
        named = request.headers.get("last-event-id") or request.query_params.get("after")
        end = (await self._board.board(agent, board)).seq
        if named is None:
            return end
        if not (named.isascii() and named.isdecimal() and len(named) <= 15) or int(named) > end:
            raise InvalidInput(f"after must be a sequence from 0 to {end}.", seq=end)
        return int(named)

    async def _messages(self, agent: str, board: str, place: int) -> AsyncIterator[bytes]:
        store = self._board.store
        loop = asyncio.get_running_loop()
        yield b"retry: 2000\n\n"
        quiet_until = loop.time() + self._keep_alive
        while not self._closing.is_set():
            seen = store.changes()
            log = await store.log(board, agent, place, _PAGE)
            place = log.cursor
            if log.events:
                yield b"".join(_message(wire_event(event).model_dump(mode="json")) for event in log.events)
            elif loop.time() >= quiet_until:  # other boards' news does not keep this stream alive
                yield b": still here\n\n"
            elif not log.more:
                await self._news(seen, quiet_until - loop.time())
                continue
            quiet_until = loop.time() + self._keep_alive

    async def _news(self, seen: int, seconds: float) -> None:
        """Returns when the store changed, the time is over, or the server stops."""
        change = asyncio.ensure_future(self._board.store.wait_for_change(seen, seconds))
        closing = asyncio.ensure_future(self._closing.wait())
        try:
            await asyncio.wait({change, closing}, return_when=asyncio.FIRST_COMPLETED)
            if change.done():
                change.result()
        finally:
            change.cancel()
            closing.cancel()


class _Stream(StreamingResponse):
    """A streaming response that says when it is over, whether it was ever begun or not."""

    def __init__(self, *args: Any, on_end: Callable[[], None], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._on_end = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._on_end()


def _message(event: dict[str, object]) -> bytes:
    body = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    return f"id: {event['seq']}\nevent: {event['event']}\ndata: {body}\n\n".encode()
