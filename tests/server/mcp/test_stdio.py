"""The stdio wire with a real process at its other end."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp.types as types
import pytest
import sample_board
from blackboard_mcp.server.mcp import stdio
from blackboard_mcp.server.mcp.lines import MAX_LINE_BYTES, LineSplitter, LineWriter, Oversized, read_lines
from blackboard_mcp.server.mcp.stdio import MOST_UNREAD, stdio_streams
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.shared.message import SessionMessage
from mcp.shared.subscriptions import ResourceUpdated
from patience import PATIENCE

PROGRAM = [sample_board.__file__, "stdio"]
EVENTS = "board://main/events"
LEGACY, MODERN = "legacy", "2026-07-28"
pytestmark = pytest.mark.filterwarnings("ignore:resources/(un)?subscribe is removed")

META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
}


def line(identifier: int | str, method: str, **params: Any) -> bytes:
    message = {"jsonrpc": "2.0", "id": identifier, "method": method, "params": {**params, "_meta": META}}
    return json.dumps(message).encode() + b"\n"


def call(identifier: int | str, name: str, **arguments: Any) -> bytes:
    return line(identifier, "tools/call", name=name, arguments=arguments)


def peak_kilobytes(pid: int) -> int:
    """The most memory a process ever held; 0 where the system does not say."""
    status = Path(f"/proc/{pid}/status")
    rows = status.read_text().splitlines() if status.exists() else []
    return next((int(row.split()[1]) for row in rows if row.startswith("VmHWM")), 0)


class Raw:
    """A server process and its wire, line by line."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self.process, self.stdin, self.stdout, self.stderr = (
            process,
            process.stdin,
            process.stdout,
            process.stderr,
        )

    async def send(self, *lines: bytes) -> None:
        for data in lines:
            self.stdin.write(data)
        await self.stdin.drain()

    async def receive(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(await asyncio.wait_for(self.stdout.readline(), PATIENCE))
        return document

    async def finish(self) -> tuple[list[dict[str, Any]], str]:
        """End the input; what still came, and what the process said."""
        self.stdin.close()
        out, err = await asyncio.wait_for(asyncio.gather(self.stdout.read(), self.stderr.read()), PATIENCE)
        assert await asyncio.wait_for(self.process.wait(), PATIENCE) == 0
        return [json.loads(text) for text in out.splitlines()], err.decode()


@asynccontextmanager
async def serving() -> AsyncIterator[Raw]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *PROGRAM,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=2**24,
    )
    try:
        yield Raw(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
        process._transport.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("mode", [LEGACY, MODERN, "auto"])
async def test_both_generations_call_and_hear_of_changes(mode: str) -> None:
    heard = asyncio.Event()

    async def hear(message: object) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            heard.set()

    program = StdioServerParameters(command=sys.executable, args=PROGRAM)
    info = types.Implementation(name="alice", version="1")
    async with Client(program, mode=mode, client_info=info, message_handler=hear) as alice:
        results = await asyncio.gather(*(alice.call_tool("post", {"text": str(n)}) for n in range(50)))
        texts = [
            content.text for r in results for content in r.content if isinstance(content, types.TextContent)
        ]
        assert texts == [f"alice by stdio: {n}" for n in range(50)]
        if mode == LEGACY:
            await alice.subscribe_resource(EVENTS)
            await alice.call_tool("publish", {"uri": EVENTS})
            await asyncio.wait_for(heard.wait(), PATIENCE)
        else:
            async with alice.listen(resource_subscriptions=[EVENTS]) as stream:
                await alice.call_tool("publish", {"uri": EVENTS})
                assert await asyncio.wait_for(anext(aiter(stream)), PATIENCE) == ResourceUpdated(EVENTS)


async def test_calls_under_way_are_answered_when_the_input_ends() -> None:
    async with serving() as server:
        await server.send(
            call(1, "post", text="a"), call(2, "wait", seconds=0.3), call("x", "publish", uri=EVENTS)
        )
        answers, errors = await server.finish()
    assert sorted(str(answer["id"]) for answer in answers) == ["1", "2", "x"]
    assert "stopped cleanly" in errors


async def test_a_long_wait_and_a_stream_end_with_the_input() -> None:
    async with serving() as server:
        await server.send(
            line("l", "subscriptions/listen", notifications={"resourceSubscriptions": [EVENTS]})
        )
        assert (await server.receive())["method"] == "notifications/subscriptions/acknowledged"
        await server.send(call(1, "wait", seconds=50))
        _, errors = await server.finish()
    assert "cancelled" in errors


async def test_what_a_tool_prints_stays_off_the_wire() -> None:
    async with serving() as server:
        await server.send(call(1, "publish", uri=EVENTS))
        assert (await server.receive())["id"] == 1
        answers, errors = await server.finish()
    assert answers == []
    assert "a stray print" in errors


async def test_a_giant_line_is_refused_by_its_id_and_the_next_one_served() -> None:
    giant = call("big", "post", text="x" * (MAX_LINE_BYTES + 10))
    last = json.dumps(
        {"method": "tools/call", "params": {"t": "x" * (MAX_LINE_BYTES + 10)}, "jsonrpc": "2.0", "id": 8}
    )
    async with serving() as server:
        await server.send(call(1, "post", text="a"))
        await server.receive()
        before = peak_kilobytes(server.process.pid)
        await server.send(giant, last.encode() + b"\n", call(2, "post", text="a"))
        answers = [await server.receive() for _ in range(3)]
        more = peak_kilobytes(server.process.pid) - before
        assert more * 1024 < 3 * MAX_LINE_BYTES, "one line at a time, and no copies of it"
    assert [answer["id"] for answer in answers] == ["big", 8, 2]
    assert "longer than" in answers[0]["error"]["message"]
    assert "result" in answers[2]


@pytest.mark.parametrize(
    ("sent", "identifier", "code"),
    [
        (b"not json\n", None, -32700),
        (b"[]\n", None, -32600),
        (b'{"jsonrpc":"2.0","id":5,"method":7}\n', 5, -32700),
        (b'{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"a":"\\ud800"}}\n', 6, -32700),
        (b'{"id":"\\ud800","method":1}\n', None, -32700),
        (b'{"jsonrpc":"2.0","id":1.0,"method":"ping"}\n', None, -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}\n', None, -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}\n', None, -32600),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}\n', None, -32600),
        (b"\xff\xfe\n", None, -32700),
        (b"[" * 40_000 + b"\n", None, -32700),
        (b"[" * 100_000 + b"\n", None, -32600),
    ],
)
async def test_a_line_that_is_no_message_is_answered(sent: bytes, identifier: Any, code: int) -> None:
    async with serving() as server:
        await server.send(sent, b"\n  \n", call(2, "post", text="a"))
        error, answer = await server.receive(), await server.receive()
    assert (error["id"], error["error"]["code"]) == (identifier, code)
    assert "result" in answer


@pytest.mark.parametrize("more", [{}, {"id": None}])
async def test_a_modern_call_is_cancelled_by_its_notification(more: dict[str, None]) -> None:
    async with serving() as server:
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}, **more}
        await server.send(call(1, "wait", seconds=50), call(2, "post"))
        assert (await server.receive())["id"] == 2
        await server.send(json.dumps(cancel).encode() + b"\n")
        assert await asyncio.wait_for(server.stderr.readline(), PATIENCE) == b"cancelled\n"
        answers, _ = await server.finish()
    assert answers == []


@pytest.mark.parametrize("identifier", [[1], {}, None, 1.5, "\0"])
async def test_a_notification_that_cancels_what_is_no_id_changes_nothing(identifier: Any) -> None:
    cancel = {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": identifier},
    }
    async with serving() as server:
        await server.send(json.dumps(cancel).encode() + b"\n", call(2, "post", text="a"))
        assert "result" in await server.receive()


async def test_a_client_that_reads_nothing_does_not_keep_the_process() -> None:
    reading, writing = os.pipe()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *PROGRAM,
        stdin=asyncio.subprocess.PIPE,
        stdout=writing,
        stderr=asyncio.subprocess.PIPE,
    )
    os.close(writing)
    assert process.stderr is not None
    _, errors = await asyncio.wait_for(
        process.communicate(b"".join(line(n, "tools/list") for n in range(100))), 15
    )
    os.close(reading)
    assert (process.returncode, errors) == (0, b"stopped cleanly\n")
    process._transport.close()  # type: ignore[attr-defined]


async def test_a_writer_keeps_the_order_of_small_and_large_pieces() -> None:
    reading, writing = os.pipe()
    writer = LineWriter(writing)
    pieces = [bytes([65 + n % 26]) * (10 if n % 3 else 200_000) + b"\n" for n in range(30)]
    got: list[bytes] = []

    def drain() -> None:
        with os.fdopen(reading, "rb") as pipe:
            got.extend(pipe.readlines())

    drained = asyncio.create_task(asyncio.to_thread(drain))
    await asyncio.gather(*(writer.write(piece) for piece in pieces))
    writer.close()
    os.close(writing)
    await drained
    assert got == pieces


async def test_a_client_that_sends_and_does_not_read_is_heard_no_further_until_it_does() -> None:
    server_in, to_server = os.pipe()
    from_server, server_out = os.pipe()
    asked, most = 4 * MOST_UNREAD, 0
    answer = types.JSONRPCResponse(jsonrpc="2.0", id=1, result={"text": "x" * 5000})

    async def serve() -> None:
        nonlocal most
        streams = stdio_streams(input_fd=server_in, output_fd=server_out)
        async with streams as (messages, answers), messages, answers:
            async with anyio.create_task_group() as tasks:
                async for _ in messages:
                    tasks.start_soon(answers.send, SessionMessage(answer))
                    await asyncio.sleep(0)
                    most = max(most, answers.statistics().tasks_waiting_send)
            await answers.send(SessionMessage(answer))  # taken once all before it are written
        os.close(server_out)

    def ask() -> None:
        with os.fdopen(to_server, "wb") as messages:
            messages.writelines(line(n, "ping") for n in range(asked))

    def read() -> int:
        with os.fdopen(from_server, "rb") as answers:
            return len(answers.readlines())

    async with asyncio.timeout(PATIENCE):
        client = asyncio.gather(serve(), asyncio.to_thread(ask))
        before = -1
        while before != most:  # until it takes no more
            before = most
            await asyncio.sleep(0.3)
        assert await asyncio.to_thread(read) in (asked, asked + 1)
        await client
    assert most <= MOST_UNREAD + 2
    os.close(server_in)


async def test_a_server_whose_client_left_ends_though_another_process_holds_the_unread_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stdio, "DRAIN_SECONDS", 0.05)
    server_in, to_server = os.pipe()
    from_server, server_out = os.pipe()
    answer = types.JSONRPCResponse(jsonrpc="2.0", id=1, result={"text": "x" * 5000})

    async def serve() -> None:
        async with (
            stdio_streams(input_fd=server_in, output_fd=server_out) as (messages, answers),
            messages,
            answers,
            anyio.create_task_group() as tasks,
        ):
            async for _ in messages:
                tasks.start_soon(answers.send, SessionMessage(answer))
                await asyncio.sleep(0)
            tasks.cancel_scope.cancel()

    def ask() -> None:
        with os.fdopen(to_server, "wb") as messages:
            messages.writelines(line(n, "ping") for n in range(MOST_UNREAD + 100))

    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(serve(), asyncio.to_thread(ask))
    os.close(from_server)
    os.close(server_in)


async def test_a_server_whose_answers_nobody_can_read_ends_though_its_input_stays_open() -> None:
    reading, writing = os.pipe()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *PROGRAM,
        stdin=asyncio.subprocess.PIPE,
        stdout=writing,
        stderr=asyncio.subprocess.PIPE,
    )
    os.close(writing)
    os.close(reading)
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.write(line(1, "tools/list"))
    errors = await asyncio.wait_for(process.stderr.read(), PATIENCE)
    assert (await asyncio.wait_for(process.wait(), PATIENCE), errors) == (0, b"stopped cleanly\n")
    process._transport.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("size", [10, 200_000])
async def test_a_pipe_that_others_made_non_blocking_loses_nothing(size: int) -> None:
    """A launcher in Node makes its own streams non-blocking, and so those of the program that it hands them on to."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    writer = LineWriter(writing)
    pieces = [bytes([65 + n]) * size for n in range(20)]
    lines = read_lines(reading)
    written = asyncio.gather(*(writer.write(piece + b"\n") for piece in pieces))
    found = [await asyncio.wait_for(anext(lines), PATIENCE) for _ in pieces]
    await asyncio.wait_for(written, PATIENCE)
    writer.close()
    os.close(writing)
    assert found == pieces
    assert await anext(lines, None) is None
    os.close(reading)


async def test_writing_to_nobody_is_an_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    writer = LineWriter(writing)
    for piece in (b"small", b"x" * 100_000):
        with pytest.raises(BrokenPipeError):
            await writer.write(piece)
    writer.close()
    os.close(writing)


def test_lines_are_cut_wherever_the_pieces_end() -> None:
    data = b"one\ntwo\n\nthree"
    for size in range(1, len(data) + 1):
        splitter = LineSplitter(100)
        lines = [found for at in range(0, len(data), size) for found in splitter.feed(data[at : at + size])]
        assert [*lines, *splitter.end()] == [b"one", b"two", b"", b"three"]
        assert splitter.end() == []


@pytest.mark.parametrize(
    ("text", "identifier"),
    [
        ('{"jsonrpc":"2.0","id":7,"method":"m","params":{"id":8,"x":"%s"}}', 7),
        ('{"method":"m","params":{"id":8,"x":"%s"},"jsonrpc":"2.0","id":"nine"}', "nine"),
        ('{"method":"m","params":{"x":"%s","id":8}}', None),
        ('{"method":"m","params":{"id":8,"x":"%s"},"jsonrpc":"2.0"}', None),
    ],
)
def test_the_id_of_an_oversized_line_is_found_only_beyond_doubt(text: str, identifier: object) -> None:
    splitter = LineSplitter(1000)
    data = (text % ("y" * 20_000)).encode()
    found = [line for at in range(0, len(data), 700) for line in splitter.feed(data[at : at + 700])]
    found += splitter.feed(b"\nnext\n")
    assert isinstance(found[0], Oversized)
    assert found[0].request_id == identifier
    assert found[1:] == [b"next"]
    assert len(found[0].head) + len(found[0].tail) < 5000
