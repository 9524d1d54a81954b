"""Quick calls of the modern generation: answered in one piece, without tasks of their own, under the same rules."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
import sample_board
from blackboard_mcp.server.access.needs import NOTHING
from blackboard_mcp.server.http.connections import BoundedProtocol
from blackboard_mcp.server.tools.tool import Answer, Caller


class Tasks:
    """Counts the tasks that a server makes; those of the test's client read from a stream."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self, loop: asyncio.AbstractEventLoop, coro: Any, **more: Any) -> asyncio.Task[Any]:
        self.made += not coro.__qualname__.startswith("StreamReader.")
        return asyncio.Task(coro, loop=loop, **more)


def with_quick(sample: Any) -> None:
    sample.server.tools.add(sample.post, name="quick_post", description="Post.", needs=NOTHING, quick=True)


async def test_a_quick_call_makes_one_task_and_another_call_three(serving: Any) -> None:
    tasks = Tasks()
    asyncio.get_running_loop().set_task_factory(tasks)
    try:
        async with serving() as served:
            with_quick(served.sample)
            wire = await served.wire()
            for name, made in (("quick_post", 1), ("post", 3)) * 3:
                before = tasks.made
                await wire.send(served.modern("tools/call", name, arguments={"text": "a"}))
                reply = await wire.reply()
                assert reply.status == 200, reply
                assert reply.headers["content-type"] == "application/json"
                assert reply.document["result"]["content"][0]["text"] == "alice by http: a"
                assert tasks.made - before == made
    finally:
        asyncio.get_running_loop().set_task_factory(None)


@pytest.mark.parametrize("tool", ["post", "quick_post"])
async def test_the_rules_of_requests_are_the_same(serving: Any, tool: str) -> None:
    async with serving() as served:
        with_quick(served.sample)
        good = served.modern("tools/call", tool, arguments={"text": "a"})

        async def status(data: bytes) -> int:
            return int((await served.exchange(data)).status)

        assert await status(good) == 200
        assert await status(good.replace(b"mcp-method: tools/call", b"mcp-method: tools/list")) == 400
        assert await status(good.replace(b"mcp-name: " + tool.encode(), b"mcp-name: wait")) == 400
        twice = b"mcp-name: " + tool.encode() + b"\r\n"
        assert await status(good.replace(twice, 2 * twice)) == 400
        assert (
            await status(
                good.replace(b"mcp-protocol-version: 2026-07-28", b"mcp-protocol-version: 2099-01-01")
            )
            == 400
        )
        assert (
            await status(
                good.replace(b"accept: application/json, text/event-stream", b"accept: application/json")
            )
            == 406
        )
        assert (
            await status(
                good.replace(b"accept: application/json, text/event-stream", b"accept: text/event-stream")
            )
            == 406
        )
        assert (
            await status(good.replace(b"x-blackboard-agent: alice", b"x-blackboard-agent: not a name")) >= 400
        )
        # A header that names a quick tool does not make another one quick.
        lie = served.modern("tools/call", "wait", arguments={}).replace(
            b"mcp-name: wait", b"mcp-name: quick_post"
        )
        assert await status(lie) == 400
        refused = await served.exchange(served.modern("tools/call", tool, arguments={"limit": 9}))
        assert (refused.status, refused.document["result"]["isError"]) == (200, True)


def test_a_tool_that_may_wait_is_not_quick() -> None:
    sample = sample_board.Sample()

    async def waiting(caller: Any, seconds: float = 0.0) -> Any: ...

    with pytest.raises(ValueError, match="may wait"):
        sample.server.tools.add(waiting, name="waiting", description="Wait.", needs=NOTHING, quick=True)
    assert sample.server.tools.find("waiting") is None


async def test_calls_of_a_tool_that_may_wait_are_quick_where_it_says_so(serving: Any) -> None:
    async def waiting(caller: Caller, seconds: float | None = None, text: str = "") -> Answer:
        return Answer(f"{seconds} {len(text)}", {})

    tasks = Tasks()
    asyncio.get_running_loop().set_task_factory(tasks)
    try:
        async with serving() as served:
            served.sample.server.tools.add(
                waiting,
                name="waiting",
                description="Wait.",
                needs=NOTHING,
                quick=lambda given: given.get("seconds") == 0,
            )
            wire = await served.wire()
            long = "a" * 20_000
            for arguments, told, made in (
                ({"seconds": 0}, "0.0 0", 1),
                ({"seconds": 1}, "1.0 0", 3),
                ({"seconds": 0, "text": long}, "0.0 20000", 3),
                ({}, "None 0", 3),
                ({"seconds": 0, "text": "a"}, "0.0 1", 1),
            ):
                before = tasks.made
                await wire.send(served.modern("tools/call", "waiting", arguments=arguments))
                reply = await wire.reply()
                assert reply.document["result"]["content"][0]["text"] == told
                assert tasks.made - before == made, arguments
            for params in ([], "no", {"name": "waiting", "arguments": [0]}, None):
                body = json.dumps(
                    {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
                ).encode()
                said = {
                    "mcp_protocol_version": "2026-07-28",
                    "mcp_method": "tools/call",
                    "mcp_name": "waiting",
                }
                assert (await served.exchange(served.request(body=body, **said))).status == 400
    finally:
        asyncio.get_running_loop().set_task_factory(None)


class Recorded:
    """A transport that notes every write."""

    def __init__(self, transport: asyncio.Transport, writes: list[bytes]) -> None:
        self._transport = transport
        self._writes = writes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if data:
            self._writes.append(bytes(data))
        self._transport.write(data)


async def test_an_answer_of_known_length_is_one_write_and_the_head_of_a_stream_comes_at_once(
    serving: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes: list[bytes] = []
    connected = BoundedProtocol.connection_made

    def recorded(self: BoundedProtocol, transport: asyncio.Transport) -> None:
        connected(self, transport)
        self.transport = Recorded(transport, writes)  # type: ignore[assignment]

    monkeypatch.setattr(BoundedProtocol, "connection_made", recorded)
    async with serving() as served:
        with_quick(served.sample)
        wire = await served.wire()
        for _ in range(2):
            await wire.send(served.modern("tools/call", "quick_post", arguments={"text": "a"}))
            reply = await wire.reply()
            assert reply.document["result"]["content"][0]["text"] == "alice by http: a"
            (write,) = writes
            assert write.startswith(b"HTTP/1.1 200 OK\r\n")
            assert write.endswith(b"\r\n\r\n" + reply.body)
            writes.clear()
        await wire.send(served.request("/healthz", "HEAD"))
        assert (await wire.head()).headers["content-length"] == "15"
        writes.clear()
        listening = await served.wire()
        await listening.send(served.modern("subscriptions/listen", notifications={"toolsListChanged": True}))
        assert (await listening.head()).status == 200
        assert writes[0].endswith(b"\r\n\r\n")
