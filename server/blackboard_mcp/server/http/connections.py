"""uvicorn's HTTP/1.1 with bounds on connections, on request heads, and on how long a client takes to send and read.

Faults that come before the application are answered in JSON: too many connections, a head that is too large
or too slow, and data that is not HTTP.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

import h11
from blackboard_mcp.server.http.exposure import is_in
from blackboard_mcp.server.http.gate import head_too_large
from blackboard_mcp.server.http.plain_requests import PlainCycle, plain_head
from blackboard_mcp.server.limits.concurrency import Counted
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    from blackboard_mcp.server.http.exposure import Network
    from blackboard_mcp.server.limits.limits import Limits
    from blackboard_mcp.server.mcp.server import BoardServer

logger = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 5
_PARTING_SECONDS: Final = 1.0
_MOST_PARTING: Final = 64
_VERSIONS: Final = (b"1.0", b"1.1")
_REASONS: Final = {
    400: "Bad Request",
    408: "Request Timeout",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}


def bounded_protocol(
    server: BoardServer, proxies: Sequence[Network] = (), ended: Callable[[], None] | None = None
) -> type[BoundedProtocol]:
    """Returns the class of one server's connections, with that server's limits.

    Connections from `proxies` count against the bound of all connections, but not against the bound of one
    address. `ended` is called at the end of each connection.
    """

    class Bounded(BoundedProtocol):
        board = server
        trusted = tuple(proxies)
        counted = Counted(server.limits.connections, server.limits.connections_per_peer)
        at_end = () if ended is None else (ended,)
        parting: ClassVar[set[BoundedProtocol]] = set()

    return Bounded


class _Framed(h11.Connection):
    """An h11 connection that refuses requests whose body could end in two places.

    h11 follows Transfer-Encoding if Content-Length stands beside it. A proxy in front that follows
    Content-Length would take the following bytes for part of the same request, and let a second request
    through under the name of the first (RFC 9112, 6.1 and 11.2).

    The head of an answer whose length it tells leaves with the first part of the body: sending is what a small call
    costs most. Streams tell no length, and their heads leave at once.
    """

    _head = b""

    def send(self, event: h11.Event) -> bytes | None:  # type: ignore[override]
        """Returns the bytes to write for an event; those of a head come with what follows it."""
        output = super().send(event)
        if output is None:
            return None
        if type(event) is h11.Response and any(name == b"content-length" for name, _ in event.headers):
            self._head = output
            return b""
        head, self._head = self._head, b""
        return head + output if head else output

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """Returns h11's next event, but refuses ambiguous requests, and passes over an empty line before a request.

        Old clients send a line break behind a body (RFC 9112, 2.2), which h11 takes for a request.

        Raises:
            h11.RemoteProtocolError: the request's body has two ends, or its version is not HTTP/1.0 or 1.1.
        """
        if self.their_state is h11.IDLE and (begins := self.trailing_data[0][:2]).startswith(b"\r"):
            if begins == b"\r":
                return h11.NEED_DATA
            if begins == b"\r\n":
                self._receive_buffer.maybe_extract_at_most(2)
        event = super().next_event()
        if isinstance(event, h11.Request):
            names = {name for name, _ in event.headers}
            if b"transfer-encoding" in names and (b"content-length" in names or event.http_version != b"1.1"):
                raise h11.RemoteProtocolError("two ends of one body")
            if event.http_version not in _VERSIONS:
                raise h11.RemoteProtocolError("another version of HTTP")
        return event


class BoundedProtocol(H11Protocol):
    """One connection. A refused one gets an answer, its further data is discarded, and it is closed soon after."""

    board: ClassVar[BoardServer]
    counted: ClassVar[Counted]
    trusted: ClassVar[tuple[Network, ...]]
    parting: ClassVar[set[BoundedProtocol]]
    at_end: ClassVar[Sequence[Callable[[], None]]]

    _peer: str | None = None
    _head_timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None
    _refused = False
    _began = False
    _plain: PlainCycle | None = None

    def __init__(self, *given: Any, **settings: Any) -> None:
        super().__init__(*given, **settings)
        self.conn = _Framed(h11.SERVER, self.limits.head_bytes)

    @property
    def limits(self) -> Limits:
        """The limits of the server that the connection belongs to."""
        return self.board.limits

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        peer, port = self.client or ("", 0)
        if self.trusted and is_in(peer, self.trusted):
            peer = f"{peer} {port}"  # all clients come from the proxy's address: count each connection on its own
        full = self.counted.enter(peer)
        if full is None:
            self._peer = peer
            self._watch_head()
            return
        most = self.counted.most_each if full == "each" else self.counted.most
        limit = "connections_per_peer" if full == "each" else "connections"
        whose = "your address has" if full == "each" else "the server has"
        logger.warning("refused a connection: %s %d open (limit %s)", whose, most, limit)
        self._refuse(
            429 if full == "each" else 503,
            "rate_limited",
            f"{whose} {most} connections open (limit {limit}); close some, or try again in {_RETRY_SECONDS} seconds. "
            "Nothing was changed.",
            limit=limit,
            most=most,
            retry_after_seconds=_RETRY_SECONDS,
        )

    def data_received(self, data: bytes) -> None:
        # What follows a refusal, or a request that says it is the last, is of no concern. h11 would refuse the latter,
        # and that would take the place of the answer to the request.
        if self._refused or self.conn.their_state is h11.MUST_CLOSE:
            return
        # A late line break behind a body is no beginning of a request, and a connection without one stays idle.
        if data == b"\r\n" and self._is_idle() and not self.conn.trailing_data[0]:
            return
        self._began = True
        if self._took(data):
            return
        super().data_received(data)
        if self._refused:
            return
        if self.conn.their_state is h11.IDLE:
            self._watch_head()
        else:
            self._stop_watching_head()

    def _is_idle(self) -> bool:
        return self.conn.their_state is h11.IDLE and self.conn.our_state is h11.IDLE

    def _took(self, data: bytes) -> bool:
        """Takes data if it begins or continues a plain request; any other goes to h11, after all that was taken."""
        cycle = self._plain
        if cycle is not None and cycle.data is not None:
            if len(data) <= cycle.missing:
                cycle.more(data)
                return True
            cycle.leave()
            return False
        conn = self.conn
        if not self._is_idle() or self.access_log:
            return False
        head = None if conn.trailing_data[0] else plain_head(data, self.limits.head_bytes)
        if head is None:
            return False
        self._unset_keepalive_if_required()
        self._stop_watching_head()
        path = head.path.decode()
        self.headers = head.headers
        self.scope = {
            "type": "http",
            "asgi": {"version": self.config.asgi_version, "spec_version": "2.3"},
            "http_version": "1.1",
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,  # type: ignore[typeddict-item]
            "method": "POST",
            "root_path": self.root_path,
            "path": self.root_path + path,
            "raw_path": self.root_path.encode() + head.path,
            "query_string": b"",
            "headers": self.headers,
            "state": self.app_state.copy(),
        }
        self.cycle = self._plain = PlainCycle(
            data,
            head,
            scope=self.scope,
            conn=self.conn,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            on_response=self.on_response_complete,
        )
        task = self.loop.create_task(self.cycle.run_asgi(self.app))
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)
        return True

    def send_400_response(self, msg: str) -> None:
        """Answers data that is not a valid request. uvicorn calls this while it handles the parser's error."""
        fault = sys.exc_info()[1]
        status = fault.error_status_hint if isinstance(fault, h11.RemoteProtocolError) else 400
        if status == 431:
            told = head_too_large(self.limits.head_bytes)
            self._refuse(told.status, told.code, told.message, **told.facts)
        else:
            self._refuse(400, "http", "this is no HTTP/1.1 request that can be served")

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(self.limits.write_seconds, self._unread)

    def resume_writing(self) -> None:
        self._stop_watching_writes()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_watching_head()
        self._stop_watching_writes()
        self.parting.discard(self)
        if self._peer is not None:
            self.counted.leave(self._peer)
            self._peer = None
        super().connection_lost(exc)
        for call in self.at_end:
            call()

    def shutdown(self) -> None:
        if not self._refused:  # a refused one ends by itself, and h11 may be in the midst of its request
            super().shutdown()

    def _refuse(self, status: int, code: str, message: str, **facts: Any) -> None:
        """Sends an error, and delays closing the connection so that a client that still sends can read it."""
        self._refused = True
        self._stop_watching_head()
        if self.cycle is not None and not self.cycle.response_complete:
            # The application is still reading the faulty body: it must not send an answer of its own.
            begun, self.cycle.disconnected = self.cycle.response_started, True
            self.cycle.message_event.set()
            if begun:
                self.transport.abort()
                return
        if len(self.parting) >= _MOST_PARTING or self.transport.is_closing():
            self.transport.abort()
            return
        self.parting.add(self)
        body = json.dumps({**facts, "error": code, "message": message}).encode()
        retry = (
            f"retry-after: {math.ceil(facts['retry_after_seconds'])}\r\n"
            if "retry_after_seconds" in facts
            else ""
        )
        head = (
            f"HTTP/1.1 {status} {_REASONS[status]}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\n{retry}connection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._head_timer = self.loop.call_later(_PARTING_SECONDS, self.transport.abort)

    def eof_received(self) -> None:
        if self._refused:
            self.transport.close()
        super().eof_received()

    def _watch_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.limits.head_seconds, self._head_overdue)

    def _stop_watching_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _stop_watching_writes(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _unread(self) -> None:
        logger.info("dropped a connection that was not read for %g seconds", self.limits.write_seconds)
        self.transport.abort()

    def _head_overdue(self) -> None:
        self._head_timer = None
        answering = self.cycle is not None and not self.cycle.response_complete
        # An idle kept-alive connection has uvicorn's own timer.
        if answering or self.timeout_keep_alive_task is not None:
            return
        if not self._began:
            self.transport.abort()
            return
        seconds = self.limits.head_seconds
        self._refuse(
            408,
            "timeout",
            f"the request's headers did not arrive within {seconds:g} seconds (limit head_seconds); send it again. "
            "Nothing was changed.",
            limit="head_seconds",
            most=seconds,
        )
