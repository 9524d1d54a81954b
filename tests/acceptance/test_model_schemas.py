"""Every provider of models takes our tools: the schemas as a client receives them, through what each documents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.server.demo.process import http_clients, http_server
from mcp.types import Tool
from model_schemas import anthropic, free_objects, gemini, openai, openai_strict, strict_form

HERE = Path(__file__).parent
CONNECTING = HERE.parents[1] / "docs" / "howto" / "connect-clients.md"


PREFIX = "x" * 32


async def test_every_provider_takes_every_tool(tmp_path: Path) -> None:
    async with http_server(tmp_path, "--tools", "all", "--tool-prefix", PREFIX) as server:
        for mode in ("legacy", "2026-07-28"):
            async with http_clients(server.url, mode=mode)("ada") as ada:
                tools = (await ada.list_tools()).tools
            assert len(tools) > 12
            for tool in tools:
                for refuse in (gemini, openai, anthropic):
                    assert not list(refuse(tool.name, tool.input_schema)), (refuse.__name__, tool.name)
                assert not list(openai_strict(tool.name, strict_form(tool.input_schema))), tool.name
            check_what_strict_schemas_cannot_say(tools)
            check_titles_and_hints(tools)


def check_what_strict_schemas_cannot_say(tools: list[Tool]) -> None:
    """Strict schemas have no objects with keys of any name; the docs name those of the core set."""
    free = {
        f"{tool.name.removeprefix(PREFIX)}.{path}"
        for tool in tools
        for path in free_objects(tool.input_schema)
    }
    core = {"post.edges", "post.metadata", "post.items[]", "subscribe.filter"}
    assert free - core == {
        *("core.flags", "board.settings", "board.members", "consume.fail", "consume.filter"),
        *("transaction.reads", "transaction.writes[]", "transaction.debates[]"),
        *("plan.items[]", "stage.define[]", "join.interests[]", "turn.decision", "turn.usage", "turn.start"),
        "artifact_write.replace",
    }
    assert core <= free
    page = CONNECTING.read_text("utf-8")
    assert all(f"`{name.removesuffix('[]')}`" in page for name in core)


def check_titles_and_hints(tools: list[Tool]) -> None:
    assert all(tool.title for tool in tools)
    reading = {tool.name for tool in tools if tool.annotations and tool.annotations.read_only_hint}
    names = ("read", "query", "wait", "get_context", "artifact_read", "artifact_list", "artifact_search")
    assert reading == {PREFIX + name for name in names}


TEXT: dict[str, Any] = {"type": "string"}


@pytest.mark.parametrize(
    ("schema", "refusing"),
    [
        ({"a": {"enum": ["x"]}}, {"gemini", "openai"}),
        ({"a": {"type": "string", "enum": ["x", 1]}}, {"gemini"}),
        ({"a": {"type": "array"}}, {"gemini", "openai"}),
        ({"a": {"type": ["string", "null"]}}, {"gemini"}),
        ({"a": {"type": "object", "additionalProperties": TEXT}}, {"gemini"}),
        ({"a": {"type": "object", "properties": {}}}, {"gemini"}),
        ({"a b": TEXT}, {"gemini", "anthropic"}),
        ({"a": {"type": "string", "maxLength": -1}}, {"anthropic"}),
        ({"a": TEXT}, set()),
    ],
)
def test_the_checker_refuses_what_each_provider_does(schema: Any, refusing: set[str]) -> None:
    whole = {"type": "object", "properties": schema}
    checks = (gemini, openai, anthropic)
    assert {check.__name__ for check in checks if list(check("t", whole))} == refusing
    assert not list(gemini("t", {"type": "object", "properties": {"a": TEXT}, "required": ["a"]}))
    for top in ({"type": "object", "properties": schema, "anyOf": []}, {"type": "string"}):
        assert all(list(check("t", top)) for check in (openai, anthropic))
    assert list(openai_strict("t", whole))


def test_a_map_of_values_has_no_strict_form() -> None:
    with pytest.raises(ValueError, match="additionalProperties"):
        strict_form({"type": "object", "properties": {"a": {"type": "object", "additionalProperties": TEXT}}})
