"""Plain calls, which the SDK does not see, are answered with the bytes that the SDK would send.

The SDK is the reference: a header for an argument that no tool declares changes nothing, but makes no call plain.
"""

from __future__ import annotations

import asyncio
import copy
import json
import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import httpx2
import pytest
import sample_board
from blackboard_mcp.protocols.errors import Conflict, RateLimited
from blackboard_mcp.server.access.needs import NOTHING
from blackboard_mcp.server.http.plain_requests import PlainCycle
from blackboard_mcp.server.limits.limits import Limits
from blackboard_mcp.server.mcp.plain_calls import PlainCalls
from blackboard_mcp.server.tools.tool import Answer, Caller
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS
from patience import PATIENCE
from pydantic import Field
from starlette.routing import Router

VERSION = "2026-07-28"
META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1", "title": "A test", "icons": []},
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}, "extensions": {"a/b": {"c": 1}}},
    "progressToken": "p",
    "blackboard/idempotency_key": "once",
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
}
MESSAGE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 7,
    "method": "tools/call",
    "params": {"name": "say", "arguments": {"text": "a", "how": "plain"}, "_meta": META},
}
HEADERS = {"mcp-protocol-version": VERSION, "mcp-method": "tools/call", "mcp-name": "say"}
SDK = {"mcp-param-undeclared": "1"}
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 7.0, 2**53, 2**53 + 1, 10**40, float("inf"), float("nan"), "", "a", "2.0", "say",
    "tools/call", VERSION, "é", "\ud800", "\0", "\u202e", "a" * 3_000, [], [[]], {}, {"": None},
    {"\ud800": 1}, {"name": "say"},
)  # fmt: skip
"""Values that replace each value of a message, one after the other."""
STRUCTURED = {**META, "blackboard/structured": True}
GONE = object()


Text = Annotated[str, Field(max_length=20_000)]
How = Literal["plain", "refused", "limited", "broken", "protocol"]


async def say(caller: Caller, text: Text = "", how: How = "plain") -> Answer:
    if how == "refused":
        raise Conflict(text or "no", current=None)
    if how == "limited":
        raise RateLimited("later", retry_after_seconds=1.0, limit="calls")
    if how == "broken":
        raise KeyError(text)
    if how == "protocol":
        raise MCPError(INVALID_PARAMS, text)
    return Answer(f"{caller.agent} {caller.asked_once} {caller.headers.get('Mcp-Name')} {text}", {"a": None})


async def wait(caller: Caller, seconds: float = 0.0, text: Text = "") -> Answer:
    return Answer(f"{seconds} {text}", {})


def with_tools(sample: Any) -> None:
    sample.server.tools.add(say, name="say", description="Say.", needs=NOTHING, quick=True)
    sample.server.tools.add(
        wait,
        name="wait_a_bit",
        description="Wait.",
        needs=NOTHING,
        quick=lambda given: given.get("seconds") == 0,
    )


def varied(document: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every document that differs in one value, lacks one, or has one more."""
    for path in paths(document):
        for value in (*VALUES, GONE):
            changed = copy.deepcopy(document)
            *before, last = path
            holder = changed
            for step in before:
                holder = holder[step]
            if repr(holder[last]) == repr(value):
                continue
            if value is GONE:
                del holder[last]
            else:
                holder[last] = value
            yield (*path, "gone" if value is GONE else value), changed
    for path in ((), ("params",), ("params", "_meta"), ("params", "arguments")):
        for name, value in (("more", 1), ("inputResponses", {}), ("requestState", "x"), ("\ud800", 1)):
            changed = copy.deepcopy(document)
            holder = changed
            for step in path:
                holder = holder[step]
            holder[name] = value
            yield (*path, name), changed


def paths(document: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for name, value in document.items():
        yield (*at, name)
        if isinstance(value, dict):
            yield from paths(value, (*at, name))


class Both:
    """Sends each request twice, to be answered as it is served and by the SDK."""

    def __init__(self, served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.served = served
        self.plain = 0
        answer = PlainCalls.answer

        async def counted(calls: PlainCalls, *given: Any) -> None:
            self.plain += 1
            await answer(calls, *given)

        monkeypatch.setattr(PlainCalls, "answer", counted)

    async def send(self, body: bytes, **headers: str) -> tuple[bool, Any]:
        """Returns whether the call was plain, and its answer, which is the same both ways."""
        before, answers = self.plain, []
        for more in ({}, SDK):
            given = {name.replace("-", "_"): value for name, value in {**HEADERS, **headers, **more}.items()}
            wire = await self.served.wire()
            await wire.send(self.served.request(body=body, **given))
            reply = await wire.reply()
            wire.writer.close()
            self.served.wires.remove(wire)
            reply.headers.pop("date", None)
            reply.headers.pop("mcp-session-id", None)
            said = re.sub(rb"reference [0-9a-f]{6}", b"reference", reply.body)
            answers.append((reply.status, list(reply.headers.items()), said))
        mine, sdks = answers
        assert mine == sdks, (mine, sdks, body[:300], headers)
        return self.plain > before, mine

    async def call(self, message: Any = MESSAGE, **headers: str) -> tuple[bool, Any]:
        return await self.send(json.dumps(message).encode(), **headers)


def saying(**arguments: Any) -> dict[str, Any]:
    return {**MESSAGE, "params": {**MESSAGE["params"], "arguments": arguments}}


@pytest.fixture
def roomy() -> Any:
    return sample_board.Sample(limits=Limits(connections_per_peer=1_000))


async def test_each_message_is_answered_as_the_sdk_answers_it(
    serving: Any, roomy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(sample=roomy) as served:
        with_tools(served.sample)
        both = Both(served, monkeypatch)
        assert (await both.call())[0]
        plain = []
        for about, message in varied(MESSAGE):
            if (await both.call(message))[0]:
                plain.append(about)
        assert {about[0] for about in plain} == {"id", "params"}
        assert {about[1] for about in plain if about[0] == "params"} == {"arguments", "_meta"}
        ids = [about[1] for about in plain if about[0] == "id"]
        assert [repr(given) for given in ids if type(given) is not str] == ["0", "1", "-1", str(2**53)]
        assert ("params", "_meta", "io.modelcontextprotocol/protocolVersion", "a") not in plain


@pytest.mark.parametrize("how", ["plain", "refused", "limited", "broken", "protocol", "unknown argument"])
async def test_each_outcome_is_answered_as_the_sdk_answers_it(
    serving: Any, roomy: Any, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    async with serving(sample=roomy) as served:
        with_tools(served.sample)
        both = Both(served, monkeypatch)
        texts = ("", "a", "é 漢 🎉", "\u202e\u200b\u2028", '"\\\n\t\x01', "</script>", "x" * 12_000)
        for text in texts[:1] if how == "limited" else texts:
            arguments = {"text": text, "none": 1} if how == "unknown argument" else {"text": text, "how": how}
            plain, (status, _, body) = await both.call(saying(**arguments))
            assert plain
            assert status == 200
            result = json.loads(body)["result"]
            assert result["isError"] is (how != "plain")


async def test_what_is_not_plain_is_the_sdks_and_answered_the_same(
    serving: Any, roomy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(sample=roomy) as served:
        with_tools(served.sample)
        both = Both(served, monkeypatch)
        good = json.dumps(MESSAGE).encode()
        assert (await both.send(good))[0]
        assert (await both.send(b"\n " + good + b" "))[0]
        for body in (
            b"{", b"[" * 5_000, b"[" + good + b"]", b"\xff" + good, good + b"x", b"null", b"7", b"9" * 5_000,
            good.replace(b'"a"', b'"' + b"a" * 16_384 + b'"'), good.replace(b'"id": 7', b'"id": 7, "id": null'),
            json.dumps({**MESSAGE, "params": {**MESSAGE["params"], "_meta": {**META, "x": [0] * 5_001}}}).encode(),
            json.dumps({**MESSAGE, "params": {**MESSAGE["params"], "_meta": STRUCTURED}}).encode(),
        ):  # fmt: skip
            assert not (await both.send(body))[0], body[:100]
        for headers in (
            {"mcp-protocol-version": "2099-01-01"}, {"mcp-protocol-version": "2025-06-18"},
            {"mcp-method": "tools/list"}, {"mcp-name": "post"}, {"mcp-name": "nothing"},
            {"mcp-name": "=?base64?c2F5?="}, {"accept": "application/json"},
            {"accept": "text/event-stream"}, {"accept": "*/*"}, {"accept": "application/json, text/event-stream;q=0"},
            {"accept": "application/json, text/event-stream, */*"}, {"content-type": "text/plain"},
            {"content-type": "application/json; charset=utf-8"}, {"x-a": "1\r\nx-a: 2"},
            {"mcp-name": "say\r\nmcp-name: say"}, {"mcp-method": "tools/call\r\nmcp-method: tools/call"},
            {"accept": "application/json, text/event-stream\r\naccept: application/json"},
        ):  # fmt: skip
            assert not (await both.send(good, **headers))[0], headers
        for seconds, plain in ((0, True), (0.001, False), ("0", False), (None, False)):
            message = saying(seconds=seconds)
            message["params"]["name"] = "wait_a_bit"
            assert (await both.call(message, **{"mcp-name": "wait_a_bit"}))[0] is plain


async def test_a_server_that_always_sends_structured_content_has_no_plain_calls(
    serving: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = sample_board.Sample(structured="always")
    async with serving(sample=sample) as served:
        with_tools(served.sample)
        both = Both(served, monkeypatch)
        plain, (_, _, body) = await both.call()
        assert not plain
        assert json.loads(body)["result"]["structuredContent"] == {"a": None}


async def test_a_plain_call_whose_client_hangs_up_runs_to_its_end(serving: Any) -> None:
    begun, go, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow(caller: Caller) -> Answer:
        begun.set()
        await go.wait()
        ended.set()
        return Answer("done", {})

    async with serving() as served:
        served.sample.server.tools.add(slow, name="slow", description="Slow.", needs=NOTHING, quick=True)
        wire = await served.wire()
        await wire.send(served.modern("tools/call", "slow", arguments={}))
        await begun.wait()
        wire.writer.close()
        await wire.writer.wait_closed()
        go.set()
        await asyncio.wait_for(ended.wait(), PATIENCE)


async def test_what_a_plain_call_is_told_of_the_server_is_the_sdks_own_stamp(serving: Any) -> None:
    async with serving() as served:
        with_tools(served.sample)
        reply = await served.exchange(served.modern("tools/call", "say", arguments={"text": "a"}))
        stamp = reply.document["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]
        assert stamp == served.sample.server.sdk_server._lowlevel_server.server_info_stamp


async def test_calls_of_the_sdks_own_client_are_plain_requests_and_plain_calls(
    serving: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[PlainCycle] = []
    made, leave = PlainCycle.__init__, PlainCycle.leave

    def counted(cycle: PlainCycle, *given: Any, **settings: Any) -> None:
        cycles.append(cycle)
        made(cycle, *given, **settings)

    def leaving(cycle: PlainCycle) -> None:
        left.append(cycle)
        leave(cycle)

    cycles: list[PlainCycle] = []
    async with serving() as served:
        with_tools(served.sample)
        both = Both(served, monkeypatch)
        async with (
            httpx2.AsyncClient(headers={"X-Blackboard-Agent": "alice"}, timeout=PATIENCE) as http,
            Client(streamable_http_client(served.mcp, http_client=http), mode=VERSION) as client,
        ):
            await client.list_tools()
            monkeypatch.setattr(PlainCycle, "__init__", counted)
            monkeypatch.setattr(PlainCycle, "leave", leaving)
            for number in range(3):
                result = await client.call_tool("say", {"text": f"{number}"})
                assert result.content[0].text == f"alice None say {number}"
        assert both.plain == 3
        assert (len(cycles), left) == (3, [])


async def test_the_router_is_not_asked_for_the_endpoint_of_calls(
    serving: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    app = Router.app

    async def noted(router: Router, scope: Any, receive: Any, send: Any) -> None:
        asked.append(scope.get("path", ""))
        await app(router, scope, receive, send)

    monkeypatch.setattr(Router, "app", noted)
    async with serving() as served:
        with_tools(served.sample)
        asked.clear()
        await served.exchange(served.modern("tools/call", "say", arguments={"text": "a"}))
        assert asked == []
        for path, status in (("/healthz", 200), ("/mcp/", 307), ("/mcp/more", 404)):
            assert (await served.exchange(served.request(path, "GET"))).status == status
        assert asked == ["/healthz", "/mcp/", "/mcp/more"]


def test_plain_calls_do_without_known_middlewares_alone(roomy: Any) -> None:
    middlewares = roomy.server.sdk_server._lowlevel_server.middleware
    names = [getattr(each, "__qualname__", type(each).__qualname__) for each in middlewares]
    assert names == ["RequestStateBoundary", "plain_errors", "Admission.of_requests"]
