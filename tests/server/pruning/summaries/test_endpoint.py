"""An endpoint that hangs, fails, lies about itself or never stops, spoken to over real HTTP."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from blackboard_mcp.protocols.errors import SummaryFailed
from blackboard_mcp.protocols.items import Item, ItemType
from blackboard_mcp.protocols.summaries import SummaryTask
from blackboard_mcp.server.pruning.summaries import endpoint as endpoints
from blackboard_mcp.server.pruning.summaries.endpoint import FAILURES, MAX_ANSWER, PAUSE_SECONDS, ChatEndpoint
from patience import PATIENCE

KEY = "sk-very-secret"
both_kinds = pytest.mark.parametrize("kind", ["openai", "ollama"])


@pytest.fixture
def task(make_item: Callable[..., Item]) -> SummaryTask:
    items = (make_item(1, "Why?", ItemType.QUESTION), make_item(2, "Retry 3 times.", ItemType.DECISION))
    return SummaryTask("main", "Q-1", items, 100)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def connect(kind: str, url: str, seconds: float = 5.0, clock: Clock | None = None) -> ChatEndpoint:
    return ChatEndpoint(kind, url, "small", key=KEY, seconds=seconds, clock=clock or Clock())


async def fails(endpoint: ChatEndpoint, task: SummaryTask) -> str:
    try:
        with pytest.raises(SummaryFailed) as caught:
            await endpoint.write(task)
    finally:
        await endpoint.close()
    assert KEY not in str(caught.value)
    return caught.value.message


@both_kinds
async def test_a_good_answer_is_returned_as_it_is(kind: str, model: Any, task: SummaryTask) -> None:
    model.says("Retry 3 times. [D-2]")
    endpoint = connect(kind, model.url + "/v1/")
    assert await endpoint.write(task) == "Retry 3 times. [D-2]"
    await endpoint.close()
    asked = model.asked[0]
    assert asked.path == {"openai": "/v1/chat/completions", "ollama": "/v1/api/chat"}[kind]
    assert f"authorization: Bearer {KEY}".lower() in asked.headers["raw"].lower()
    assert asked.headers["accept-encoding"] == "identity"
    assert asked.body["model"] == "small"
    assert asked.body["stream"] is False
    assert "Retry 3 times." in asked.prompt


async def test_what_a_reasoning_model_thinks_aloud_and_texts_in_parts_are_understood(
    model: Any, task: SummaryTask
) -> None:
    endpoint = connect("openai", model.url)
    model.says("<think>Hm [X-1]\n</think>Retry. [D-2]")
    assert await endpoint.write(task) == "Retry. [D-2]"
    model.says([{"type": "text", "text": "Retry. "}, {"type": "text", "text": "[D-2]"}])
    assert await endpoint.write(task) == "Retry. [D-2]"
    await endpoint.close()


async def test_a_long_prompt_asks_ollama_for_room_enough(
    model: Any, task: SummaryTask, make_item: Callable[..., Item]
) -> None:
    model.says("x")
    long = SummaryTask("main", "Q-1", (*task.sources, make_item(3, "word " * 6_000)), 100)
    endpoint = connect("ollama", model.url)
    await endpoint.write(task)
    await endpoint.write(long)
    await endpoint.close()
    few, many = (asked.body["options"]["num_ctx"] for asked in model.asked)
    assert few < 6_000 < many


# Silence


async def _before_headers(asked: Any, reply: Any) -> None:
    await reply.hang()


async def _mid_headers(asked: Any, reply: Any) -> None:
    await reply.send(b"HTTP/1.1 200 OK\r\ncontent-ty")
    await reply.hang()


async def _mid_body(asked: Any, reply: Any) -> None:
    await reply.head(length=1_000)
    await reply.send(b'{"choices": [')
    await reply.hang()


async def _drip(asked: Any, reply: Any) -> None:
    await reply.head(length=1_000)
    while not reply.model.over.is_set():
        await reply.send(b" ")
        await asyncio.sleep(0.05)


@both_kinds
@pytest.mark.parametrize("silence", [_before_headers, _mid_headers, _mid_body, _drip])
async def test_an_endpoint_that_hangs_or_drips_costs_no_more_than_its_time(
    kind: str, silence: Any, model: Any, task: SummaryTask
) -> None:
    model.behave = silence
    endpoint = connect(kind, model.url, seconds=0.4)
    await endpoint._opened()  # what it imports is no part of the time
    async with asyncio.timeout(PATIENCE):
        said = await fails(endpoint, task)
    assert "took over 0.4 s" in said or "kept silent" in said
    assert len(model.asked) == 1


async def test_an_address_where_nobody_listens_is_given_up_in_time(task: SummaryTask, model: Any) -> None:
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    assert "cannot be reached" in await fails(connect("openai", f"http://127.0.0.1:{port}"), task)


# Failure


@both_kinds
@pytest.mark.parametrize("status", [500, 503, 429])
async def test_a_busy_endpoint_is_asked_again_a_few_times(
    kind: str, status: int, model: Any, task: SummaryTask
) -> None:
    async def busy_twice(asked: Any, reply: Any) -> None:
        if len(model.asked) < 3:
            await reply.whole(b"{}", status, retry_after="0")
        else:
            await reply.completion(asked, "Retry. [D-2]")

    model.behave = busy_twice
    endpoint = connect(kind, model.url)
    assert await endpoint.write(task) == "Retry. [D-2]"
    await endpoint.close()

    async def busy(asked: Any, reply: Any) -> None:
        await reply.whole(b"{}", status, retry_after="0")

    model.behave = busy
    model.asked.clear()
    assert f"answered {status}" in await fails(connect(kind, model.url), task)
    assert len(model.asked) == 3


async def test_a_wait_that_the_endpoint_asks_for_is_bounded(
    model: Any, task: SummaryTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def busy(asked: Any, reply: Any) -> None:
        await reply.whole(b"{}", 429, retry_after="86400")

    model.behave = busy
    monkeypatch.setattr(endpoints, "RETRY_AFTER_SECONDS", 0.01)
    assert "answered 429" in await fails(connect("openai", model.url), task)
    assert len(model.asked) == 3


@pytest.mark.parametrize("status", [400, 401, 404, 413])
async def test_a_refusal_is_not_repeated_and_its_words_are_not_passed_on(
    status: int, model: Any, task: SummaryTask
) -> None:
    async def refuse(asked: Any, reply: Any) -> None:
        await reply.whole(f'{{"error": "Incorrect API key provided: {KEY}"}}'.encode(), status)

    model.behave = refuse
    assert await fails(connect("openai", model.url), task) == f"the openai endpoint answered {status}"
    assert len(model.asked) == 1


@both_kinds
async def test_a_redirect_is_not_followed(
    kind: str, model: Any, another_model: Any, task: SummaryTask
) -> None:
    async def redirect(asked: Any, reply: Any) -> None:
        await reply.whole(b"", 307, location=another_model.url + asked.path)

    model.behave = redirect
    another_model.says("Retry. [D-2]")
    assert "redirects are not followed" in await fails(connect(kind, model.url), task)
    assert another_model.asked == []


GARBAGE = [
    b"",
    b"null",
    b"[]",
    b"{}",
    b'{"choices": []}',
    b'{"choices": [{"message": {}}], "message": {}}',
    b'{"choices": [{"message": {"content": null}}], "message": {"content": null}}',
    b'{"choices": [{"message": {"content": 7}}], "message": {"content": 7}}',
    b'{"choices": [{"message": {"content": "  "}}], "message": {"content": "  "}}',
    b'{"choices": [{"message": {"content": "cut of',
    b"\xff\xfe\x00\x01",
    b"[" * 100_000,
    b"<html>Bad gateway</html>",
]


@both_kinds
@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
async def test_garbage_is_no_answer(kind: str, garbage: bytes, model: Any, task: SummaryTask) -> None:
    async def send(asked: Any, reply: Any) -> None:
        await reply.whole(garbage)

    model.behave = send
    said = await fails(connect(kind, model.url), task)
    assert "no chat completion" in said or "without words" in said


@both_kinds
async def test_an_answer_that_breaks_off_is_no_answer(kind: str, model: Any, task: SummaryTask) -> None:
    async def break_off(asked: Any, reply: Any) -> None:
        await reply.head(length=1_000)
        await reply.send(b'{"choices": [{"message": {"content": "Retry. [D-2]"}}]}')

    model.behave = break_off
    assert "broke off" in await fails(connect(kind, model.url), task)


@both_kinds
async def test_of_an_endless_answer_only_a_bound_is_read(kind: str, model: Any, task: SummaryTask) -> None:
    hundred_megabytes = 100 * 1024 * 1024

    async def flood(asked: Any, reply: Any) -> None:
        await reply.head(length=hundred_megabytes)
        await reply.send(b'{"choices": [{"message": {"content": "')
        for _ in range(hundred_megabytes // 65_536):
            await reply.send(b"x" * 65_536)

    model.behave = flood
    endpoint = connect(kind, model.url)
    assert "over 262,144 bytes" in await fails(endpoint, task)
    assert MAX_ANSWER < endpoint.bytes_read <= MAX_ANSWER + 65_536
    assert model.sent < hundred_megabytes // 4, "the connection was closed, not drained"


async def test_a_compressed_answer_is_refused_before_it_is_read(model: Any, task: SummaryTask) -> None:
    bomb = gzip.compress(b"x" * 50_000_000)

    async def send(asked: Any, reply: Any) -> None:
        await reply.whole(bomb, content_encoding="gzip")

    model.behave = send
    endpoint = connect("openai", model.url)
    assert "compressed" in await fails(endpoint, task)
    assert endpoint.bytes_read == 0


async def test_no_proxy_of_the_environment_sees_the_key(
    model: Any, another_model: Any, task: SummaryTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, another_model.url)
    model.says("Retry. [D-2]")
    endpoint = connect("openai", model.url)
    assert await endpoint.write(task) == "Retry. [D-2]"
    await endpoint.close()
    assert another_model.asked == []


# Being left alone, and not crowded


async def test_after_failures_in_a_row_the_endpoint_is_left_alone_and_then_tried_once(
    model: Any, task: SummaryTask
) -> None:
    async def refuse(asked: Any, reply: Any) -> None:
        await reply.whole(b"{}", 404)

    clock = Clock()
    endpoint = connect("openai", model.url, clock=clock)
    model.behave = refuse
    for _ in range(FAILURES):
        with pytest.raises(SummaryFailed, match="404"):
            await endpoint.write(task)
    with pytest.raises(SummaryFailed, match="left alone"):
        await endpoint.write(task)
    assert len(model.asked) == FAILURES

    clock.now += PAUSE_SECONDS
    release = asyncio.Event()

    async def slow(asked: Any, reply: Any) -> None:
        await release.wait()
        await reply.completion(asked, "Retry. [D-2]")

    model.behave = slow
    model.came.clear()
    first = asyncio.create_task(endpoint.write(task))
    await asyncio.wait_for(model.came.wait(), PATIENCE)
    with pytest.raises(SummaryFailed, match="left alone"):
        await endpoint.write(task)
    release.set()
    assert await first == "Retry. [D-2]"
    assert await endpoint.write(task) == "Retry. [D-2]"
    await endpoint.close()


async def test_at_most_two_calls_are_under_way_at_once(model: Any, task: SummaryTask) -> None:
    at_once, most = 0, 0
    both = asyncio.Event()

    async def count(asked: Any, reply: Any) -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        if at_once == 2:
            both.set()
        await asyncio.wait_for(both.wait(), PATIENCE)
        at_once -= 1
        await reply.completion(asked, "Retry. [D-2]")

    model.behave = count
    endpoint = connect("openai", model.url)
    answers = await asyncio.gather(*(endpoint.write(task) for _ in range(6)))
    await endpoint.close()
    assert answers == ["Retry. [D-2]"] * 6
    assert most == 2


async def test_a_cancelled_call_frees_its_place(model: Any, task: SummaryTask) -> None:
    model.behave = _before_headers
    endpoint = connect("openai", model.url)
    for _ in range(3):
        model.came.clear()
        call = asyncio.create_task(endpoint.write(task))
        await asyncio.wait_for(model.came.wait(), PATIENCE)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
    model.says("Retry. [D-2]")
    assert await endpoint.write(task) == "Retry. [D-2]"
    await endpoint.close()


async def test_the_key_and_the_sources_stand_in_no_log(
    model: Any, task: SummaryTask, caplog: pytest.LogCaptureFixture
) -> None:
    model.says("Retry. [D-2]")
    endpoint = connect("openai", model.url)
    with caplog.at_level(logging.DEBUG):
        await endpoint.write(task)
        await endpoint.close()
    assert KEY not in caplog.text
    assert json.dumps(model.asked[0].body)[:40] not in caplog.text
