"""Server-Sent Events: a board's log as a stream, for people's pages and for programs.

`GET /boards/{board}/events?after=N` sends the events after a sequence and then each new one; without
`after`, or a `Last-Event-ID`, it begins with the next. The id of a message is the sequence, so a client
that reconnects misses nothing and gets nothing twice.

`filter` is a JSON object as `subscribe` takes it. `subscription` names a durable one of the agent's
instead: the stream has its filter and begins at its cursor; the place that a reconnecting client names
confirms what came before it, and the cursor moves there. Streaming is using it; the stream ends with it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Final

from blackboard_mcp.protocols.access import Action, Principal
from blackboard_mcp.protocols.errors import BlackboardError, InvalidInput
from blackboard_mcp.protocols.filters import EventFilter, parse_event_filter
from blackboard_mcp.protocols.grants import under
from blackboard_mcp.protocols.matching import matcher
from blackboard_mcp.protocols.values import dataclass
from blackboard_mcp.protocols.wire import wire_event
from blackboard_mcp.server.access.identity import PRINCIPAL_SCOPE_KEY
from blackboard_mcp.server.answers.assurance import to_reader
from blackboard_mcp.server.input.arguments import refuse_monsters
from blackboard_mcp.server.limits.concurrency import Counted, counted_as
from blackboard_mcp.server.limits.limits import Limits
from blackboard_mcp.server.text.lines import visible_json
from blackboard_mcp.server.usecases.blackboard import Blackboard
from blackboard_mcp.server.usecases.following import with_threads
from blackboard_mcp.server.usecases.tails import Heard
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

logger = logging.getLogger(__name__)

_PAGE: Final = 100
"""Events of one write: what a stream holds of a reader that is slow."""
_RETRY_SECONDS: Final = 5
_FILTER_LENGTH: Final = 4_000
KEEP_ALIVE_SECONDS: Final = 15.0

_STATUSES: Final = {"not_found": 404, "cursor_expired": 410, "forbidden": 403}
_NEEDS: Final = frozenset({Action.READ})


class EventStreams:
    """The streams that are open; `close` ends them so that a server can stop.

    A stream without news sends a comment every `keep_alive` seconds.
    """

    def __init__(
        self, board: Blackboard, *, keep_alive: float = KEEP_ALIVE_SECONDS, limits: Limits | None = None
    ) -> None:
        self._board = board
        self._keep_alive = keep_alive
        bounds = limits or Limits()
        self.open = Counted(bounds.event_streams, bounds.event_streams_per_principal)
        self._closing = asyncio.Event()

    def route(self) -> Route:
        return Route("/boards/{board}/events", self.stream, methods=["GET"])

    def close(self) -> None:
        """End every stream at its next message, at once when it waits."""
        self._closing.set()

    async def stream(self, request: Request) -> Response:
        principal: Principal = request.scope[PRINCIPAL_SCOPE_KEY]
        agent = principal.agent
        try:
            named = request.path_params["board"]
            with under(await self._board.rights.enter(principal, _NEEDS, named)):
                board = await self._board.board_of(named, agent)
                asked = await self._asked(request, agent, board)
        except BlackboardError as error:
            status = _STATUSES.get(error.code, 400)
            return JSONResponse(
                {"error": error.code, "message": to_reader(error.message), **error.facts}, status
            )
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        if request.method == "HEAD":
            return Response(media_type="text/event-stream", headers=headers)
        who = counted_as(principal)
        full = self.open.enter(who)
        if full is not None:
            return self._refusal(who, full)
        return _Stream(
            self._messages(agent, board, asked),
            on_end=lambda: self.open.leave(who),
            media_type="text/event-stream",
            headers=headers,
        )

    def _refusal(self, who: str, full: str) -> Response:
        if full == "each":
            limit = "event_streams_per_principal"
            message = f"{who} has {self.open.most_each} open event streams (limit {limit}); close some first"
        else:
            limit = "event_streams"
            message = f"the server has {self.open.most} open event streams (limit {limit}); try again later"
        told = {
            "error": "rate_limited",
            "message": message,
            "limit": limit,
            "retry_after_seconds": _RETRY_SECONDS,
        }
        return JSONResponse(told, 429, headers={"Retry-After": str(_RETRY_SECONDS)})

    async def _asked(self, request: Request, agent: str, board: str) -> _Asked:
        """What a request asks for.

        Raises:
            InvalidInput: not a filter, not a number, or a filter and a subscription.
            UnknownReference: no such subscription.
            CursorExpired: the subscription was unused for too long, or the place is none of the log.
        """
        end = (await self._board.board(agent, board)).seq
        named = request.headers.get("last-event-id") or request.query_params.get("after")
        if named is not None and not (named.isascii() and named.isdecimal() and len(named) <= 15):
            raise InvalidInput(f"after must be a sequence from 0 to {end}.", seq=end)
        place = None if named is None else await self._board.following.place(board, int(named))
        subscription = request.query_params.get("subscription")
        given = request.query_params.get("filter")
        if subscription is not None:
            if given is not None:
                raise InvalidInput("A subscription has its filter: leave filter out, or subscription.")
            held = await self._board.following.resume(agent, board, subscription, place)
            condition = parse_event_filter(held.filter, stored=True)
            return _Asked(held.cursor if place is None else place, end, condition, held.id)
        filter_ = await with_threads(self._board.store, board, agent, _filter(given))
        return _Asked(end if place is None else place, end, parse_event_filter(filter_))

    async def _messages(self, agent: str, board: str, asked: _Asked) -> AsyncIterator[bytes]:
        try:
            async for message in self._following(agent, board, asked):
                yield message
        except BlackboardError as error:
            # Nothing can be told in the midst of a stream; a client that comes back is told, or goes on.
            logger.warning("an event stream of %s ended: %s", agent, error.message)

    async def _following(self, agent: str, board: str, asked: _Asked) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        tails, viewers = self._board.following.tails, self._board.following.viewers
        wanted = matcher(asked.condition, await viewers.of(agent, board))
        place, end = asked.place, asked.end
        yield b"retry: 2000\n\n"
        quiet_until = renew_at = loop.time() + self._keep_alive
        while not self._closing.is_set():
            await viewers.renew(known=True)
            seconds = max(0.0, quiet_until - loop.time())
            heard = await self._news(tails.after(board, wanted, place, end=end, limit=_PAGE, seconds=seconds))
            if heard is None:
                return
            if asked.subscription is not None and loop.time() >= renew_at:
                await self._board.following.resume(agent, board, asked.subscription, None)
                renew_at = loop.time() + self._keep_alive
            after, place = place, heard.cursor
            if heard.events:
                shown = [event.seq for event in heard.events]
                self._board.looks.streamed(board, agent, shown, after, place, asked.condition)
                yield b"".join(_message(wire_event(event).model_dump(mode="json")) for event in heard.events)
            elif loop.time() >= quiet_until:
                # A client that comes back goes on from here, not from the last event that was for it.
                yield b": still here\nid: %d\n\n" % place
            else:
                continue
            quiet_until = loop.time() + self._keep_alive

    async def _news(self, hearing: Coroutine[Any, Any, Heard]) -> Heard | None:
        """What is heard, or `None` when the server stops."""
        news = asyncio.ensure_future(hearing)
        closing = asyncio.ensure_future(self._closing.wait())
        try:
            await asyncio.wait({news, closing}, return_when=asyncio.FIRST_COMPLETED)
            return news.result() if news.done() else None
        finally:
            news.cancel()
            closing.cancel()


@dataclass(frozen=True, slots=True)
class _Asked:
    """Where a stream begins, where the board stood then, and what it carries."""

    place: int
    end: int
    condition: EventFilter
    subscription: str | None = None


def _filter(given: str | None) -> dict[str, Any]:
    if given is None:
        return {}
    try:
        if len(given) > _FILTER_LENGTH:
            raise ValueError
        filter_ = json.loads(given)
    except (ValueError, RecursionError):
        raise InvalidInput(
            f'filter is a JSON object of at most {_FILTER_LENGTH} characters, as in ?filter={{"type":"CRITIQUE"}}.'
        ) from None
    refuse_monsters("filter", filter_)
    parse_event_filter(filter_)
    return dict(filter_)


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
    body = visible_json(json.dumps(event, ensure_ascii=False, separators=(",", ":")))
    return f"id: {event['seq']}\nevent: {event['event']}\ndata: {body}\n\n".encode()
