"""What a client pays for: tokens of tools, instructions, views and footers, as a client receives them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from blackboard_mcp.server.demo.process import http_clients, http_server
from blackboard_mcp.server.demo.replay import call, say
from blackboard_mcp.server.text.tokens import load_tokenizer
from mcp.types import Tool

TOKENIZER = load_tokenizer("o200k_base")
CORE = {"post", "read", "query", "query_archive", "subscribe", "wait", "debate"}
CORE_TOKENS, ALL_TOKENS, TOOL_TOKENS = 1_000, 3_500, 240
RUN_AND_PLAN_TOKENS = 740
RUN_AND_PLAN = ("join", "turn", "finalize", "plan", "stage", "claim")
INSTRUCTIONS_TOKENS, VIEW_TOKENS, FOOTER_TOKENS = 150, 1_500, 30
MODES = ["legacy", "2026-07-28", "auto"]


def tokens(tool: Tool) -> int:
    """What a model may pay for a tool, as compact JSON: all that was listed, but what is for people."""
    shown = tool.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"title", "annotations"})
    return TOKENIZER.count(json.dumps(shown, ensure_ascii=False, separators=(",", ":")))


@pytest.mark.parametrize("mode", MODES)
async def test_tools_and_instructions_stay_under_their_ceilings(tmp_path: Path, mode: str) -> None:
    async with http_server(tmp_path) as server, http_clients(server.url, mode=mode)("ada") as ada:
        sizes = {tool.name: tokens(tool) for tool in (await ada.list_tools()).tools}
        instructions = ada.instructions
    print(sizes, sum(sizes.values()))
    assert sizes.keys() == CORE
    assert sum(sizes.values()) <= CORE_TOKENS
    assert max(sizes.values()) <= TOOL_TOKENS
    if mode != "2026-07-28":  # a client pinned to a version has asked for nothing yet
        assert instructions
        assert TOKENIZER.count(instructions) <= INSTRUCTIONS_TOKENS


async def test_every_set_together_stays_under_its_ceiling_with_a_prefix_too(tmp_path: Path) -> None:
    options = ("--tools", "all", "--tool-prefix", "board_")
    async with http_server(tmp_path, *options) as server, http_clients(server.url)("ada") as ada:
        sizes = {tool.name: tokens(tool) for tool in (await ada.list_tools()).tools}
    print(sizes, sum(sizes.values()))
    assert all(name.startswith("board_") for name in sizes)
    assert {name.removeprefix("board_") for name in sizes} >= CORE
    assert sum(sizes.values()) <= ALL_TOKENS
    assert max(sizes.values()) <= TOOL_TOKENS + TOKENIZER.count("board_")


async def test_the_tools_of_runs_and_plans_stay_under_their_ceiling(tmp_path: Path) -> None:
    async with http_server(tmp_path, "--tools", "run,plan") as server, http_clients(server.url)("ada") as ada:
        sizes = {
            tool.name: tokens(tool) for tool in (await ada.list_tools()).tools if tool.name in RUN_AND_PLAN
        }
    print(sizes, sum(sizes.values()))
    assert sizes.keys() == set(RUN_AND_PLAN)
    assert sum(sizes.values()) <= RUN_AND_PLAN_TOKENS


async def test_the_default_view_of_a_full_board_and_every_footer_fit(tmp_path: Path) -> None:
    async with http_server(tmp_path, "--target-tokens", "20000") as server:
        connect = http_clients(server.url)
        async with connect("ada") as ada, connect("ben") as ben:
            prose = "The quick brown fox, 狐狸 🦊, counts 12,345.678 tokens of `code()` and\n\n* lists. "
            numbers: list[str] = []
            for n in range(12):
                items = [
                    {"text": f"{n}.{m} {prose * (m + 1)}", "type": ("FACT", "HYPOTHESIS", "PLAN")[m % 3]}
                    for m in range(12)
                ]
                numbers += [item["id"] for item in (await call(ada, "post", items=items))["items"]]
            for id_ in numbers[::9]:
                await call(ben, "post", text=f"@ada no: {prose}", type="CRITIQUE", edges={"critiques": [id_]})
            for n in range(3):
                await call(ada, "post", text=f"never {n}", type="CONSTRAINT")
                await call(ben, "post", text=f"broken {n}", type="HOT_ISSUE")
            await call(ada, "post", text="a note of mine " + prose, visibility="private")

            answers = {
                "read": await say(ada, "read"),
                "query": await say(ada, "query", limit=200),
                "read ids": await say(ada, "read", ids=numbers[:20]),
                "query_archive": await say(ada, "query_archive", text="fox"),
                "post": await say(ada, "post", text="one more"),
                "wait": await say(ada, "wait", since=0, seconds=0, limit=200),
                "subscribe": await say(ada, "subscribe", filter={"type": "CRITIQUE"}),
                "debate": await say(ada, "debate", op="status", id=numbers[0]),
                "a critic's read": await say(ben, "read"),
            }
            view = await call(ada, "read")
    for name in ("read", "a critic's read"):
        assert TOKENIZER.count(answers[name]) <= VIEW_TOKENS, name
    assert view["tokens"] <= VIEW_TOKENS
    assert TOKENIZER.count(view["view"]) == view["tokens"]
    assert "you owe: answer " in answers["post"]
    for name, text in answers.items():
        footer = text.splitlines()[-1]
        assert "seq " in footer, name
        assert TOKENIZER.count(footer) <= FOOTER_TOKENS, (name, footer)
