"""Changes of texts: whatever was there stays, byte for byte where an entry goes in and out again."""

from __future__ import annotations

import json
import re
import tomllib

import pytest
from blackboard_mcp.server.clients import formats
from hypothesis import assume, given
from settings_texts import TOML, YAML, json_texts

ENTRY = {"command": "/opt/a b/blackboard-mcp", "args": ["connect", 'a"b\\c', "ü"], "headers": {"X-A": "b"}}
WITHIN = {"json": "mcpServers", "toml": "mcp_servers", "yaml": "extensions"}


@given(json_texts())
def test_json_has_an_entry_more_and_is_as_it_was_without_it(text: str) -> None:
    before = formats.load("json", text)
    path = ("mcpServers", "blackboard")
    assume(formats.find(before, path) is None)
    after = formats.put("json", text, path, ENTRY)
    found = formats.load("json", after)
    assert found["mcpServers"].pop("blackboard") == ENTRY
    made = "mcpServers" not in before
    assert found == {**before, "mcpServers": before.get("mcpServers", {})}
    back = formats.drop("json", after, path)
    if made:
        back = formats.drop("json", back, path[:1])
    assert formats.load("json", back) == before
    if (made and before) or before.get("mcpServers"):  # what held nothing may get a line of its own
        assert back == text
    assert re.findall("//|/[*]", back) == re.findall("//|/[*]", text)


@given(json_texts())
def test_json_with_comments_is_read_as_what_it_is_without_them(text: str) -> None:
    assert formats.load("json", json.dumps(formats.load("json", text))) == formats.load("json", text)
    try:
        strict = json.loads(text)
    except ValueError:
        return
    assert formats.load("json", text) == strict


@pytest.mark.parametrize("text", TOML)
@pytest.mark.parametrize("more", ["", "\n# mine\n[last]\nx = [\"[\", '[']\n"])
def test_toml_has_a_table_more_and_is_as_it_was_without_it(text: str, more: str) -> None:
    path = ("mcp_servers", "blackboard")
    after = formats.put("toml", text, path, ENTRY)
    assert tomllib.loads(after)["mcp_servers"]["blackboard"] == ENTRY
    after += more
    back = formats.drop("toml", after, path)
    ended = text if text.endswith("\n") or not text else text + "\n"
    assert back.rstrip() == (ended + more).rstrip()
    assert "blackboard" not in tomllib.loads(back).get("mcp_servers", {})


@pytest.mark.parametrize("text", YAML)
def test_yaml_has_an_entry_more_and_is_as_it_was_without_it(text: str) -> None:
    path = ("extensions", "blackboard")
    before = formats.load("yaml", text)
    after = formats.put("yaml", text, path, ENTRY)
    found = formats.load("yaml", after)
    assert found["extensions"].pop("blackboard") == ENTRY
    assert found == {**before, "extensions": before.get("extensions") or {}}
    back = formats.drop("yaml", after, path)
    if "extensions" not in before:
        back = formats.drop("yaml", back, path[:1])
    if before.get("extensions", True) is None:
        assert formats.load("yaml", back) == {**before, "extensions": {}}, "an empty mapping for nothing"
        assert "# none" in back
    else:
        assert back == text or back == text + "\n"


@pytest.mark.parametrize(
    ("kind", "text", "why"),
    [
        ("json", '{"mcpServers": []}', "'mcpServers'"),
        ("json", '{"mcpServers": null}', "'mcpServers'"),
        ("toml", 'mcp_servers = { a = { command = "x" } }\n', "does not change"),
        ("toml", "mcp_servers = 1\n", "'mcp_servers' is no object"),
        ("yaml", "extensions: [a]\n", "'extensions' is no object"),
        ("yaml", "{a: 1}\n", "does not change"),
    ],
)
def test_what_cannot_be_added_to_is_refused(kind: str, text: str, why: str) -> None:
    with pytest.raises(formats.NotEditable, match=re.escape(why)):
        formats.put(kind, text, (WITHIN[kind], "blackboard"), ENTRY)


@pytest.mark.parametrize(
    ("kind", "text", "why"),
    [
        ("json", '{"a": 1,\n "b": }', "line 2"),
        ("json", '{"a": 1} x', "line 1"),
        ("json", "[1]", "no object"),
        ("json", "[" * 100_000, "too deeply"),
        ("toml", "a = \n", "line 1"),
        ("yaml", "a: 1\nb: [\n", "line"),
        ("yaml", "- a\n", "no object"),
    ],
)
def test_what_is_not_of_the_format_is_refused_with_the_place(kind: str, text: str, why: str) -> None:
    with pytest.raises(formats.NotReadable, match=why):
        formats.load(kind, text)
