"""Plain requests, read and answered without a state machine: a POST of one small body, and an answer of one piece.

Most calls are plain. h11 takes a fifth of what a small call costs, because it checks every step of every exchange.
What is recognised here is a part of what h11 takes, and means the same to both. Everything else is h11's: a request
that is not plain, and a plain one as soon as its client sends more, or its answer is of another kind. h11 is then
given the request as it came, and goes on from there.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

import h11
from starlette.types import Message
from uvicorn.protocols.http.h11_impl import RequestResponseCycle

LONGEST_BODY: Final = 16_384
"""Bytes of a body up to which a request is plain; so much more is kept of each until it is answered."""
Headers = list[tuple[bytes, bytes]]

_VALUE: Final = rb": ?([!-~][ -~]*+(?<! ))\r\n"
_LINE: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]++)" + _VALUE)
_HEAD: Final = re.compile(rb"POST (/[0-9A-Za-z._/-]*+) HTTP/1\.1\r\n((?:" + _LINE.pattern + rb")++)\r\n")
_LOWER_LINE: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9a-z-]++)" + _VALUE)
_SPECIAL: Final = frozenset({b"transfer-encoding", b"expect", b"upgrade"})


class PlainHead(NamedTuple):
    """The head of a plain request: its path, its headers with lower-case names, and the sizes of head and body."""

    path: bytes
    headers: Headers
    size: int
    body: int


def plain_head(data: bytes, most: int) -> PlainHead | None:
    """Returns the head that `data` begins with, if it is whole, has at most `most` bytes and is a plain request's.

    `data` may have a part of the body or all of it, and nothing behind it.
    """
    found = _HEAD.match(data, 0, most)
    if found is None:
        return None
    headers = [(name.lower(), value) for name, value in _LINE.findall(found[2])]
    names = [name for name, _ in headers]
    if names.count(b"host") != 1 or names.count(b"content-length") != 1 or not _SPECIAL.isdisjoint(names):
        return None
    told = dict(headers)
    length = told[b"content-length"]
    if not length.isdigit() or len(length) > 5 or int(length) > LONGEST_BODY:
        return None
    if b"connection" in told and (names.count(b"connection") > 1 or told[b"connection"] != b"keep-alive"):
        return None
    size, body = found.end(), int(length)
    return PlainHead(found[1], headers, size, body) if len(data) <= size + body else None


def _answer_head(headers: Headers) -> tuple[bytes, int] | None:
    """Returns the head of a plain answer and the length of its body, or `None` where h11 must see the headers."""
    told = dict(headers)
    length = told.get(b"content-length", b"")
    if (
        len(told) < len(headers)
        or not length.isdigit()
        or b"connection" in told
        or b"transfer-encoding" in told
    ):
        return None
    lines = b"".join([b"%b: %b\r\n" % pair for pair in headers])
    # Read back, they are the same headers: no name or value has a line break or anything else that h11 refuses.
    if _LOWER_LINE.findall(lines) != headers:
        return None
    return b"HTTP/1.1 200 OK\r\n%b\r\n" % lines, int(length)


class PlainCycle(RequestResponseCycle):
    """A plain request and its answer.

    Args:
        data: the request as far as it has come.
        head: its head.
    """

    def __init__(self, data: bytes, head: PlainHead, **settings: Any) -> None:
        super().__init__(**settings)
        self.data: bytes | None = data
        """The request until it is answered or given to h11; then `None`."""
        self.missing = head.size + head.body - len(data)
        self._start: tuple[Message, bytes, int] | None = None
        self._take(data[head.size :])

    def more(self, data: bytes) -> None:
        """Takes more of the body: at most as much as is missing."""
        assert self.data is not None
        self.data += data
        self.missing -= len(data)
        self._take(data)

    def leave(self) -> None:
        """Gives h11 the request, of which the application knows already; h11 does the rest."""
        assert self.data is not None
        self.conn.receive_data(self.data)
        self.data = None
        while self.conn.next_event() not in (h11.NEED_DATA, h11.PAUSED):
            pass

    def _take(self, body: bytes) -> None:
        self.body += body
        self.more_body = self.missing > 0
        if body or not self.more_body:
            self.message_event.set()

    async def send(self, message: Any) -> None:
        """Sends an answer of one piece at once, and any other as uvicorn does, by h11."""
        start, self._start = self._start, None
        if self.disconnected:
            return
        if start is None and self.data is not None and message["type"] == "http.response.start":
            headers = [*self.default_headers, *message.get("headers", ())]
            head = _answer_head(headers) if message["status"] == 200 else None
            if head is not None:
                self._start = (message, *head)
                self.response_started = True
                return
        elif start is not None and self._is_whole(message, start[2]):
            self.data = None
            self.response_complete = True
            self.message_event.set()
            self.transport.write(start[1] + message.get("body", b""))
            self.on_response()
            return
        if self.data is not None:
            self.leave()
        if start is not None:
            self.response_started = False
            await super().send(start[0])  # type: ignore[arg-type]
        await super().send(message)

    def _is_whole(self, message: Message, length: int) -> bool:
        """Tells whether nothing is left but to send this body behind its head, and to wait for the next request."""
        return (
            self.data is not None
            and not self.missing
            and self.keep_alive
            and not self.flow.write_paused
            and message["type"] == "http.response.body"
            and not message.get("more_body", False)
            and len(message.get("body", b"")) == length
        )
