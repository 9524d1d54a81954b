"""What holds for the results of every tool: structure on request only, codes, footers, schemas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import boards
import pytest
from mcp.shared.exceptions import MCPError

board, mode, both = boards.board, boards.mode, boards.both

CALLS: list[tuple[str, dict[str, Any], set[str]]] = [
    ("post", {"text": "x"}, {"items", "seq"}),
    ("post", {"items": [{"text": "x"}, {"text": "y"}]}, {"items", "seq"}),
    ("read", {}, {"view", "tokens", "seq", "shown", "stubs", "hidden"}),
    ("read", {"ids": ["F-1"]}, {"items", "seq", "missing"}),
    ("read", {"since": 0}, {"events", "cursor", "seq"}),
    ("query", {}, {"items", "cursor", "seq"}),
    ("query_archive", {}, {"items", "seq", "mode", "left"}),
    ("subscribe", {}, {"subscriptions", "seq"}),
    ("subscribe", {"filter": {}, "name": "all"}, {"id", "cursor", "filter", "name"}),
    ("wait", {"seconds": 0, "since": 0}, {"events", "cursor", "seq"}),
    ("debate", {"op": "status", "id": "F-1"}, {"item", "state", "obligations", "outstanding", "seq"}),
    ("core", {}, {"objective", "constraints", "flags", "version", "seq"}),
    ("board", {}, {"board", "title", "lifecycle", "seq"}),
    ("prune", {"dry_run": True}, {"moved", "dry_run", "seq"}),
]
FAILURES: list[tuple[str, dict[str, Any], str]] = [
    ("post", {}, "invalid"),
    ("post", {"text": "x", "edges": {"supports": ["F-99"]}}, "not_found"),
    ("post", {"text": "x", "key": "k", "expected_version": 9}, "conflict"),
    ("read", {"ids": ["?"]}, "invalid"),
    ("read", {"budget": 5}, "refused"),
    ("query", {"cursor": "x"}, "invalid"),
    ("query_archive", {"after": "x"}, "invalid"),
    ("subscribe", {"unsubscribe": "x"}, "not_found"),
    ("wait", {"since": 999}, "cursor_expired"),
    ("debate", {"op": "decide", "outcome": "stands", "id": "F-1", "reason": "x"}, "conflict"),
    ("core", {"objective": "x", "expected_version": 9}, "conflict"),
    ("board", {"settings": {"x": 1}}, "invalid"),
    ("prune", {"board": "nowhere"}, "not_found"),
]


@both
async def test_results_are_structured_exactly_when_the_request_says_true(board: Any, mode: str) -> None:
    alice = await board.join("alice")
    await alice.post("A fact.")
    await alice.do("core", constraints=["Nobody may be shown less than this whole sentence."])
    wants: list[tuple[Any, bool]] = [
        (None, False),
        ({}, False),
        ({"blackboard/structured": False}, False),
        ({"blackboard/structured": "true"}, False),
        ({"blackboard/structured": 1}, False),
        ({"blackboard/structured": True}, True),
    ]
    for tool, arguments, keys in CALLS:
        for meta, structured in wants:
            given = arguments | ({"name": f"n{len(str(meta))}"} if "name" in arguments else {})
            result = await alice.client.call_tool(tool, given, meta=meta)
            assert not result.is_error, (tool, boards.text_of(result))
            assert (result.structured_content is not None) == structured, (tool, meta)
            if structured:
                assert keys <= result.structured_content.keys(), tool
            assert "seq " in boards.text_of(result).splitlines()[-1]
            if "name" in arguments:
                await alice.do("subscribe", unsubscribe=given["name"])
    for tool, arguments, code in FAILURES:
        for meta, structured in wants:
            result = await alice.client.call_tool(tool, arguments, meta=meta)
            assert result.is_error, tool
            assert (result.structured_content is not None) == structured
            if structured:
                assert result.structured_content["error"] == code, tool
                message, _, footer = boards.text_of(result).partition("\nseq ")
                assert result.structured_content["message"] == message
                assert bool(footer) == ("board" not in arguments), tool


@both
async def test_structured_always_answers_every_call_within_its_schema(tmp_path: Path, mode: str) -> None:
    async with boards.open_boards(tmp_path, mode, structured="always") as board_:
        alice = await board_.join("alice")
        tools = {tool.name: tool for tool in (await alice.client.list_tools()).tools}
        await alice.post("A fact.")
        await alice.do("core", constraints=["Nobody may be shown less than this whole sentence."])
        # The SDK's client checks each answer against the published schema, and raises.
        for tool, arguments, _ in CALLS:
            result = await alice.client.call_tool(tool, arguments)
            assert result.structured_content is not None, tool
        for tool, arguments, _ in FAILURES:
            result = await alice.client.call_tool(tool, arguments)
            assert result.is_error
            assert result.structured_content is not None
        assert tools["post"].output_schema is not None
        assert tools["query"].output_schema is not None


async def test_the_same_facts_stand_in_text_and_structure(board: Any) -> None:
    alice, bob = await board.join("alice", "bob")
    await alice.post("A fact.", key="k", tags=["t"])
    await bob.post("A doubt.", "CRITIQUE", edges={"critiques": ["F-1"]})
    for item in (await alice.do("query"))["items"]:
        assert set(item) >= boards.ITEM_KEYS
        whole = (await alice.do("read", ids=[item["id"]]))["items"][0]
        assert whole == item
        resource = await alice.facts(f"board://main/items/{item['id']}.json")
        assert {key: resource[key] for key in item} == item
        text = await alice.say("read", ids=[item["id"]])
        for fact in (item["id"], item["type"], item["author"], item["zone"], item["status"], item["text"]):
            assert fact in text


async def test_a_call_that_fails_inside_says_a_reference_and_no_more(
    board: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    alice = await board.join("alice")

    async def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("secret path /etc")

    monkeypatch.setattr(board.opened.blackboard, "query", broken)
    result = await alice.client.call_tool("query", {}, meta=boards.STRUCTURED)
    assert result.is_error
    assert result.structured_content["error"] == "internal"
    assert "secret" not in str(result)
    assert "secret path" in caplog.text


async def test_every_tool_takes_a_board_and_refuses_what_it_does_not_know(board: Any) -> None:
    alice = await board.join("alice")
    await alice.post("x", board="other")
    for tool in (await alice.client.list_tools()).tools:
        assert "board" in tool.input_schema["properties"], tool.name
        failure = await alice.fail(tool.name, nonsense=1)
        assert failure["fields"] == ["nonsense"]
        assert f"{tool.name} takes: " in failure["message"]
    for tool, arguments, _ in CALLS:
        await alice.do(tool, **arguments, board="other")
    assert await board.seq() == 0, "the default board was not touched"


@both
async def test_long_items_come_in_structured_answers_of_a_megabyte_and_none_is_lost(
    board: Any, mode: str
) -> None:
    alice = await board.join("alice")
    await alice.do("board", settings={"target_tokens": 10_000_000})
    for n in range(7):
        await alice.post(f"{n} " + "\u00e4" * 60_000 + '"' * 100_000)
    ids = [str(n) for n in range(1, 8)]
    failure = await alice.fail("read", ids=ids)
    assert failure["fit"] == 3
    assert len((await alice.do("read", ids=ids[:3]))["items"]) == 3
    first = await alice.do("query", limit=7)
    second = await alice.do("query", limit=7, cursor=first["cursor"])
    third = await alice.do("query", limit=7, cursor=second["cursor"])
    numbers = [[item["number"] for item in page["items"]] for page in (first, second, third)]
    assert numbers == [[7, 6, 5], [4, 3, 2], [1]]
    assert third["cursor"] is None
    assert "F-1" in await alice.say("read", ids=ids)
    assert len(await alice.say("query", limit=7)) < 5_000
    with pytest.raises(MCPError, match="one answer at most"):
        await alice.client.read_resource("board://main/working.json")
