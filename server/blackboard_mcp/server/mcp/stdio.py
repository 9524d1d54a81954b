"""The stdio transport: JSON-RPC messages, one on each line, of bounded length, and an error for every faulty line.

The SDK's own reader has no line limit (a line of 300 MB stays in memory twice), drops a line it cannot parse
without an answer, and cancels unanswered calls when input ends. This one bounds the line, answers, and lets
short calls finish. Standard output belongs to the protocol: meanwhile, stray prints go to standard error, and
child processes read an empty input.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from blackboard_mcp.server.limits.json_size import TOO_MUCH, holds_too_much
from blackboard_mcp.server.mcp.lines import (
    MAX_LINE_BYTES,
    NO_ID,
    LineWriter,
    Oversized,
    is_left,
    is_notification,
    read_lines,
)
from mcp.shared.message import SessionMessage
from mcp.types import (
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

DRAIN_SECONDS: Final = 2.0
MOST_UNREAD: Final = 1000
"""The number of answers that may wait for the client to read them before no more of its messages are taken."""
_PARSE_ERROR: Final = -32700
_INVALID_REQUEST: Final = -32600

Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]


@asynccontextmanager
async def stdio_streams(
    *, input_fd: int | None = None, output_fd: int | None = None, limit: int = MAX_LINE_BYTES
) -> AsyncIterator[Streams]:
    """Yields message streams to read and write over standard input and output, or over the given descriptors.

    After input has ended, the read stream stays open until every call is answered, at most for
    `DRAIN_SECONDS`.
    """
    with contextlib.ExitStack() as stack:
        if input_fd is None:
            input_fd = _claim(0, stack, _open_null)
        if output_fd is None:
            output_fd = _claim(1, stack, _duplicate_stderr)
        wire = _Wire(input_fd, output_fd, limit)
        stack.callback(wire.close)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wire.read)
            tasks.start_soon(wire.write)
            yield wire.read_stream, wire.write_stream
            tasks.cancel_scope.cancel()


class _Wire:
    """The two halves of the transport: lines from the client become messages, and messages become lines."""

    def __init__(self, input_fd: int, output_fd: int, limit: int) -> None:
        self._input_fd = input_fd
        self._output = LineWriter(output_fd)
        self._limit = limit
        self._inbox, self.read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        self.write_stream, self._outbox = anyio.create_memory_object_stream[SessionMessage](0)
        self._owed: set[int | str] = set()
        self._paid = asyncio.Event()
        self._written = asyncio.Event()
        self._reading = anyio.CancelScope()

    async def read(self) -> None:
        """Passes messages from the input to the server until the input ends; then waits for answers still due.

        It ends at once where nobody reads the answers any more.
        """
        async with self._inbox:
            with self._reading, contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                async for line in read_lines(self._input_fd, self._limit):
                    await self._receive(line)
                    await self._heard()
                await self._drain()

    async def _receive(self, line: bytes | Oversized) -> None:
        if isinstance(line, Oversized):
            message = f"the line is longer than {self._limit} bytes and was refused; send less in one call"
            await self._refuse(line.request_id, _INVALID_REQUEST, message)
            return
        if not line.strip():
            return
        if holds_too_much(line):
            await self._refuse(Oversized(line[:4096], line[-512:]).request_id, _INVALID_REQUEST, TOO_MUCH)
            return
        try:
            message_in = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValidationError:
            await self._refuse(*_diagnose(line))
            return
        if isinstance(message_in, JSONRPCNotification) and _has_wrong_id(message_in.method, line):
            # The SDK takes it for a notification, and its sender would wait for the answer without end.
            await self._refuse(None, _INVALID_REQUEST, NO_ID)
            return
        if isinstance(message_in, JSONRPCRequest) and message_in.method != "subscriptions/listen":
            self._owed.add(message_in.id)
        elif isinstance(message_in, JSONRPCNotification) and message_in.method == "notifications/cancelled":
            cancelled = (message_in.params or {}).get("requestId")
            if isinstance(cancelled, int | str):
                self._owed.discard(cancelled)
            self._paid.set()
        await self._inbox.send(SessionMessage(message_in))

    async def _heard(self) -> None:
        """Waits while more answers than allowed are unread, so that what they take is bounded.

        Ends the reading where the client has closed the input and nobody reads: its end is behind what is not taken.
        """
        while self._outbox.statistics().tasks_waiting_send > MOST_UNREAD:
            self._written.clear()
            with anyio.move_on_after(DRAIN_SECONDS) as waiting:
                await self._written.wait()
            if waiting.cancelled_caught and is_left(self._input_fd):
                self._reading.cancel()
                await anyio.lowlevel.checkpoint()

    async def _drain(self) -> None:
        with anyio.move_on_after(DRAIN_SECONDS):
            while self._owed:
                self._paid.clear()
                await self._paid.wait()

    async def _refuse(self, request_id: int | str | None, code: int, message: str) -> None:
        error = JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=code, message=message))
        await self.write_stream.send(SessionMessage(error))

    def close(self) -> None:
        """Lets the thread that writes the output end."""
        self._output.close()

    async def write(self) -> None:
        """Writes the server's messages to the output until there are no more, or the client stops reading."""
        async with self._outbox:
            async for message in self._outbox:
                body = message.message
                line = body.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
                try:
                    await self._output.write(line)
                except OSError:
                    # Nobody learns of any answer any more, though another process may hold the input open.
                    self._reading.cancel()
                    return
                self._written.set()
                if isinstance(body, JSONRPCResponse | JSONRPCError) and body.id is not None:
                    self._owed.discard(body.id)
                    self._paid.set()


def _has_wrong_id(method: str, line: bytes) -> bool:
    """Tells whether a line that the SDK takes for a notification says an id, which can be none of a request."""
    if b'"id"' not in line:
        return False
    try:
        message = json.loads(line)
        return "id" in message and not is_notification(method, message["id"])
    except ValueError:  # a number of thousands of digits somewhere in it
        return False


def _diagnose(line: bytes) -> tuple[int | str | None, int, str]:
    """Returns the answer to a line that is no message: its request id (`None` if not plain), error code and text."""
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return None, _PARSE_ERROR, "Parse error: the line is not JSON"
    if isinstance(document, list):
        return None, _INVALID_REQUEST, "batches are not served: send one message a line"
    identifier = document.get("id") if isinstance(document, dict) else None
    usable = isinstance(identifier, int | str) and not isinstance(identifier, bool)
    if usable and isinstance(identifier, str):
        usable = len(identifier) <= 128 and identifier.isprintable() and identifier.isascii()
    code = _PARSE_ERROR if isinstance(document, dict) and "method" in document else _INVALID_REQUEST
    message = "the line is not a JSON-RPC 2.0 message of well-formed Unicode"
    return (identifier if usable else None), code, message


def _claim(fd: int, stack: contextlib.ExitStack, divert: Callable[[], int]) -> int:
    """Returns a private duplicate of a standard descriptor.

    The original points elsewhere until the stack ends.
    """
    private = os.dup(fd)
    diversion = divert()
    try:
        os.dup2(diversion, fd)
    finally:
        os.close(diversion)
    # The duplicate stays open: a thread may still block in a read of it.
    stack.callback(os.dup2, private, fd)
    return private


def _open_null() -> int:
    return os.open(os.devnull, os.O_RDONLY)


def _duplicate_stderr() -> int:
    try:
        return os.dup(2)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY)
