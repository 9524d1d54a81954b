"""The adapter through the SDK's own clients of both generations."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import mcp.types as types
import pytest
import sample_board
from blackboard_mcp.server.access.needs import NOTHING
from blackboard_mcp.server.mcp.server import BoardServer
from blackboard_mcp.server.tools.tool import Answer, Caller
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourceUpdated
from patience import PATIENCE

EVENTS, STATS = sample_board.EVENTS, sample_board.STATS

LEGACY, MODERN = "legacy", "2026-07-28"
STRUCTURED: Any = {"blackboard/structured": True}
ASKED_WRONGLY: Any = {"blackboard/structured": "yes"}
pytestmark = pytest.mark.filterwarnings("ignore:resources/(un)?subscribe is removed")
both = pytest.mark.parametrize("mode", [LEGACY, MODERN])


class Inbox:
    """The resource notifications a legacy client got, in order."""

    def __init__(self) -> None:
        self.uris: list[str] = []
        self.news = asyncio.Event()

    async def __call__(self, message: object) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            self.uris.append(str(message.params.uri))
            self.news.set()

    async def until(self, uri: str) -> list[str]:
        async with asyncio.timeout(PATIENCE):
            while uri not in self.uris:
                self.news.clear()
                await self.news.wait()
        return self.uris


@asynccontextmanager
async def client(sample: Any, mode: str, inbox: Inbox | None = None) -> AsyncIterator[Client]:
    info = types.Implementation(name="alice", version="1")
    async with Client(
        sample.server.sdk_server, mode=mode, client_info=info, message_handler=inbox
    ) as connected:
        yield connected


def text_of(result: types.CallToolResult) -> str:
    assert len(result.content) == 1
    content = result.content[0]
    assert isinstance(content, types.TextContent)
    return content.text


@both
async def test_an_answer_is_text_and_structured_only_on_request(mode: str) -> None:
    async with client(sample_board.Sample(), mode) as alice:
        plain = await alice.call_tool("post", {"text": "a"})
        asked = await alice.call_tool("post", {"text": "a"}, meta=STRUCTURED)
        declined = await alice.call_tool("post", {"text": "a"}, meta=ASKED_WRONGLY)
    assert text_of(plain) == text_of(asked) == "alice by stdio: a"
    assert plain.structured_content is declined.structured_content is None
    assert asked.structured_content == {"author": "alice", "count": None}


@both
async def test_structured_always_publishes_schemas_that_answers_and_errors_meet(mode: str) -> None:
    async with client(sample_board.Sample(structured="always"), mode) as alice:
        tools = {tool.name: tool for tool in (await alice.list_tools()).tools}
        assert tools["post"].output_schema is not None
        # The SDK's client validates both against the schema, and raises.
        good = await alice.call_tool("post", {"text": "a"})
        bad = await alice.call_tool("post", {"fail": "conflict"})
    assert good.structured_content == {"author": "alice", "count": None}
    assert bad.structured_content is not None
    assert bad.structured_content["error"] == "conflict"


@both
async def test_output_schemas_cost_nothing_unless_wanted(mode: str) -> None:
    async with client(sample_board.Sample(), mode) as alice:
        assert all(tool.output_schema is None for tool in (await alice.list_tools()).tools)


@both
async def test_a_refused_call_runs_nothing_and_says_what_is_right(mode: str) -> None:
    sample = sample_board.Sample()
    async with client(sample, mode) as alice:
        unknown = await alice.call_tool("post", {"text": "a", "foo": 1}, meta=STRUCTURED)
        wrong = await alice.call_tool("post", {"type": "FAKT"})
        nested = await alice.call_tool("post", {"parts": [{"text": "a", "zone": "core"}]})
        giant = await alice.call_tool("post", {"tags": [1] * 100_000})
    assert all(result.is_error for result in (unknown, wrong, nested, giant))
    assert text_of(unknown).startswith("unknown argument 'foo'; post takes: text, type, limit,")
    assert unknown.structured_content == {"error": "invalid", "message": text_of(unknown), "fields": ["foo"]}
    assert "type must be one of 'FACT', 'LOG', 'CRITIQUE'" in text_of(wrong)
    assert wrong.structured_content is None
    assert "parts[0].zone is not known here" in text_of(nested)
    assert len(text_of(giant)) < 600
    assert sample.calls == []


@both
async def test_an_error_of_ours_is_an_error_result_with_its_facts(mode: str) -> None:
    async with client(sample_board.Sample(), mode) as alice:
        result = await alice.call_tool("post", {"fail": "conflict"}, meta=STRUCTURED)
    message = "It moved meanwhile; read it again."
    assert result.is_error
    assert text_of(result) == message
    assert result.structured_content == {"error": "conflict", "message": message, "current_version": 7}


@both
async def test_a_crash_shows_a_reference_and_is_logged_with_it(
    mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with client(sample_board.Sample(), mode) as alice:
        with caplog.at_level(logging.ERROR):
            result = await alice.call_tool("post", {"fail": "crash"}, meta=STRUCTURED)
    assert result.is_error
    assert result.structured_content is not None
    assert result.structured_content["error"] == "internal"
    assert "secret" not in str(result)
    assert result.structured_content["reference"] in caplog.text
    assert "the secret of the house" in caplog.text


@both
async def test_an_unknown_tool_is_a_protocol_error_that_names_the_tools(mode: str) -> None:
    async with client(sample_board.Sample(), mode) as alice:
        with pytest.raises(MCPError, match="unknown tool 'nope'; the tools are: post, wait, publish"):
            await alice.call_tool("nope", {})


@both
async def test_errors_repeat_little_of_a_long_request_and_name_the_wrong_parameter(mode: str) -> None:
    async with client(sample_board.Sample(), mode) as alice:
        with pytest.raises(MCPError) as unknown:
            await alice.session.send_request(
                types.Request[Any, Any](method="x" * 9_000, params=None), types.EmptyResult
            )
        with pytest.raises(MCPError) as missing:
            await alice.read_resource("board://" + "x" * 9_000)
        with pytest.raises(MCPError, match="Invalid request parameters: arguments must be an object"):
            await alice.session.send_request(
                types.Request[Any, Any](method="tools/call", params={"name": "post", "arguments": [1]}),
                types.CallToolResult,
            )
        for method, params in (
            ("prompts/get", {"name": "x", "arguments": {str(n): 1 for n in range(5_001)}}),
            ("tools/call", {"name": "post", "inputResponses": [1] * 5_001}),
        ):
            with pytest.raises(MCPError, match="at most 5,000 values beside its arguments"):
                await alice.session.send_request(
                    types.Request[Any, Any](method=method, params=params), types.EmptyResult
                )
    assert unknown.value.error.data == "x" * 2_048
    assert len(missing.value.error.data["uri"]) == 2_048


async def test_errors_stay_short_where_each_letter_of_a_name_takes_ten_to_write() -> None:
    name = "\N{GRINNING FACE}" * 9_000
    async with client(sample_board.Sample(), LEGACY) as alice:
        for call in (alice.call_tool, alice.get_prompt, alice.read_resource, alice.subscribe_resource):
            with pytest.raises(MCPError, match=r"U0001f600") as refused:
                await call(name)
            assert len(refused.value.error.message) < 400, call


@both
async def test_progress_reaches_a_client_that_asked_for_it(mode: str) -> None:
    heard: list[tuple[float, float | None, str | None]] = []
    told = asyncio.Event()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))
        told.set()

    async with client(sample_board.Sample(), mode) as alice:
        result = await alice.call_tool("post", {"fail": "progress"}, progress_callback=hear)
        await asyncio.wait_for(told.wait(), PATIENCE)
        silent = await alice.call_tool("post", {"fail": "progress"})
    assert heard == [(1.0, 2.0, "half")]
    assert not result.is_error
    assert not silent.is_error


@both
async def test_a_tool_prefix_stands_before_names_and_in_refusals(mode: str) -> None:
    async with client(sample_board.Sample(prefix="board_"), mode) as alice:
        assert [t.name for t in (await alice.list_tools()).tools] == [
            "board_post",
            "board_wait",
            "board_publish",
        ]
        assert "board_post takes" in text_of(await alice.call_tool("board_post", {"foo": 1}))


@both
async def test_cancelling_a_call_cancels_its_tool(mode: str) -> None:
    sample = sample_board.Sample()
    async with client(sample, mode) as alice:
        call = asyncio.create_task(alice.call_tool("wait", {}))
        await asyncio.wait_for(sample.waiting.wait(), PATIENCE)
        call.cancel()
        await asyncio.wait_for(sample.cancelled.wait(), PATIENCE)
        await asyncio.gather(call, return_exceptions=True)


async def test_capabilities_of_both_generations_promise_what_is_served() -> None:
    sample = sample_board.Sample()
    async with client(sample, LEGACY) as old, client(sample, "auto") as new:
        for connected in (old, new):
            capabilities = connected.server_capabilities
            assert capabilities.resources is not None
            assert capabilities.resources.subscribe
            assert not capabilities.resources.list_changed
            assert capabilities.tools is not None
            assert not capabilities.tools.list_changed
            assert capabilities.completions is not None
            assert connected.instructions == "Post."
            assert connected.server_info is not None
            assert (connected.server_info.name, connected.server_info.version) == ("sample", "1.2.3")
        assert new.protocol_version == MODERN


async def read(connected: Client, uri: str) -> str:
    contents = (await connected.read_resource(uri)).contents
    assert isinstance(contents[0], types.TextResourceContents)
    assert contents[0].mime_type == "text/markdown"
    return contents[0].text


@both
async def test_resources_are_found_by_template_and_the_most_specific_wins(mode: str) -> None:
    async with client(sample_board.Sample(), mode) as alice:
        assert await read(alice, "board://about") == "about"
        assert await read(alice, EVENTS) == "alice reads main after 0"
        assert await read(alice, f"{EVENTS}?after=5") == "alice reads main after 5"
        assert await read(alice, "board://main/items/F-3") == "item F-3"
        assert await read(alice, "board://main/items/F-3.json") == '{"id": "F-3"}'
        listed = [str(resource.uri) for resource in (await alice.list_resources()).resources]
        templates = [t.uri_template for t in (await alice.list_resource_templates()).resource_templates]
    assert listed == ["board://about"]
    assert "board://{board}/events{?after}" in templates


@both
@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("board://nowhere/at/all", "no resource at"),
        ("junk", "no resource at"),
        ("board://main/items/F-404", "There is no F-404"),
        (f"{EVENTS}?after=x", "after must be a valid integer"),
        ("board://main/items/%00", "NUL"),
    ],
)
async def test_a_resource_that_is_not_there_is_a_protocol_error(mode: str, uri: str, message: str) -> None:
    async with client(sample_board.Sample(), mode) as alice:
        with pytest.raises(MCPError, match=message) as caught:
            await alice.read_resource(uri)
    assert caught.value.error.code == types.INVALID_PARAMS


@both
async def test_a_crash_in_a_resource_shows_a_reference_only(mode: str) -> None:
    async with client(sample_board.Sample(), mode) as alice:
        with pytest.raises(MCPError, match=r"Internal error \(reference [0-9a-f]{6}\)") as caught:
            await alice.read_resource("board://main/items/F-500")
    assert "secret" not in str(caught.value.error)


@both
async def test_arguments_of_templates_and_prompts_are_completed(mode: str) -> None:
    async with client(sample_board.Sample(), mode) as alice:
        template = types.ResourceTemplateReference(type="ref/resource", uri="board://{board}/items/{id}")
        many = await alice.complete(template, {"name": "id", "value": "F-"})
        one = await alice.complete(
            template, {"name": "id", "value": "id|"}, context_arguments={"board": "main"}
        )
        prompt = types.PromptReference(type="ref/prompt", name="review")
        of_prompt = await alice.complete(prompt, {"name": "tone", "value": "tone"})
    assert (len(many.completion.values), many.completion.total, many.completion.has_more) == (100, 200, True)
    assert one.completion.values == ["board://{board}/items/{id}|id|main"]
    assert of_prompt.completion.values == ["review|tone|"]


@both
async def test_a_prompt_is_one_user_message_and_refuses_unknown_arguments(mode: str) -> None:
    async with client(sample_board.Sample(), mode) as alice:
        listed = (await alice.list_prompts()).prompts[0]
        got = await alice.get_prompt("review", {"id": "F-1"})
        with pytest.raises(MCPError, match="unknown argument 'ids'"):
            await alice.get_prompt("review", {"ids": "F-1"})
        with pytest.raises(MCPError, match="unknown prompt"):
            await alice.get_prompt("nope")
    assert listed.arguments is not None
    assert [(a.name, a.required) for a in listed.arguments] == [("id", True), ("tone", False)]
    content = got.messages[0].content
    assert isinstance(content, types.TextContent)
    assert content.text == "alice, review F-1, be kind"


async def test_a_burst_is_one_notification_on_a_modern_stream() -> None:
    sample = sample_board.Sample()
    async with (
        client(sample, MODERN) as alice,
        alice.listen(resource_subscriptions=[EVENTS, STATS]) as stream,
    ):
        for _ in range(10_000):
            await sample.server.publish([EVENTS])
        await sample.server.publish([STATS])
        got = [await asyncio.wait_for(anext(aiter(stream)), PATIENCE) for _ in range(2)]
    assert got == [ResourceUpdated(EVENTS), ResourceUpdated(STATS)]


async def test_a_burst_is_one_notification_for_a_legacy_subscriber() -> None:
    sample = sample_board.Sample()
    inbox = Inbox()
    async with client(sample, LEGACY, inbox) as alice:
        await alice.subscribe_resource(EVENTS)
        await alice.subscribe_resource(STATS)
        for _ in range(10_000):
            await sample.server.publish([EVENTS])
        await sample.server.publish([STATS])
        assert await inbox.until(STATS) == [EVENTS, STATS]


async def test_what_a_tool_publishes_reaches_both_generations() -> None:
    sample = sample_board.Sample()
    inbox = Inbox()
    async with (
        client(sample, LEGACY, inbox) as old,
        client(sample, MODERN) as new,
        new.listen(resource_subscriptions=[EVENTS]) as stream,
    ):
        await old.subscribe_resource(EVENTS)
        await new.call_tool("publish", {"uri": EVENTS})
        assert await asyncio.wait_for(anext(aiter(stream)), PATIENCE) == ResourceUpdated(EVENTS)
        assert await inbox.until(EVENTS) == [EVENTS]


async def test_an_unsubscribed_legacy_client_hears_no_more() -> None:
    sample = sample_board.Sample()
    inbox = Inbox()
    async with client(sample, LEGACY, inbox) as alice:
        await alice.subscribe_resource(EVENTS)
        await alice.subscribe_resource(STATS)
        await alice.unsubscribe_resource(EVENTS)
        await sample.server.publish([EVENTS, STATS])
        assert await inbox.until(STATS) == [STATS]


async def test_a_legacy_client_that_leaves_leaves_no_subscription() -> None:
    sample = sample_board.Sample()
    async with client(sample, LEGACY) as alice:
        await alice.subscribe_resource(EVENTS)
        assert len(sample.server._hub) == 1
    assert len(sample.server._hub) == 0


async def test_only_known_resources_can_be_subscribed_to() -> None:
    sample = sample_board.Sample()
    async with client(sample, LEGACY) as old, client(sample, MODERN) as new:
        with pytest.raises(MCPError, match="no resource at 'junk:x'"):
            await old.subscribe_resource("junk:x")
        async with new.listen(resource_subscriptions=["junk:x", EVENTS], tools_list_changed=True) as stream:
            assert stream.honored.resource_subscriptions == [EVENTS]
            assert stream.honored.tools_list_changed is None


async def test_the_hook_decides_for_both_generations_and_knows_the_caller() -> None:
    sample = sample_board.Sample()
    asked: list[tuple[str, str]] = []

    async def hook(caller: Caller, uri: str) -> bool:
        asked.append((caller.agent, uri))
        return bool(uri != STATS)

    sample.server.on_subscribe(hook)
    async with client(sample, LEGACY) as old, client(sample, MODERN) as new:
        with pytest.raises(MCPError, match="no resource at"):
            await old.subscribe_resource(STATS)
        async with new.listen(resource_subscriptions=[STATS, EVENTS]) as stream:
            assert stream.honored.resource_subscriptions == [EVENTS]
    assert asked == [("alice", STATS), ("alice", STATS), ("alice", EVENTS)]


async def test_closing_the_streams_ends_a_listen_gracefully() -> None:
    sample = sample_board.Sample()
    async with client(sample, MODERN) as alice, alice.listen(resource_subscriptions=[EVENTS]) as stream:
        await sample.server.close_streams()
        assert [event async for event in stream] == []


def test_tokens_are_counted_for_every_tool() -> None:
    counted = sample_board.Sample().server.schema_tokens()
    assert list(counted) == ["post", "wait", "publish"]
    assert counted["wait"] < counted["post"] < 200


def test_a_name_is_served_once() -> None:
    async def fn(caller: Caller) -> Answer:
        return Answer("", {})

    server = BoardServer(name="s", version="1", instructions="", identify=lambda info: "a")
    server.tools.add(fn, name="t", description="", needs=NOTHING)
    with pytest.raises(ValueError, match="exists already"):
        server.tools.add(fn, name="t", description="", needs=NOTHING)


def test_a_resource_takes_exactly_what_its_template_has() -> None:
    async def fn(caller: Caller, id: str) -> str:
        return id

    server = BoardServer(name="s", version="1", instructions="", identify=lambda info: "a")
    with pytest.raises(TypeError, match="its function takes"):
        server.resource(
            "board://{board}", fn, name="r", description="", mime_type="text/plain", needs=NOTHING
        )


def test_constructing_a_server_leaves_the_root_logger_alone() -> None:
    root = logging.getLogger()
    before = list(root.handlers)
    sample_board.Sample()
    assert root.handlers == before
