"""The one thing of the SDK that is replaced: how its modern HTTP wire writes JSON."""

from __future__ import annotations

import ast
import inspect
import json
from collections import Counter

import pytest
from blackboard_mcp.server.mcp import sdk
from mcp.server import _streamable_http_modern as modern_http


def test_the_sdks_module_uses_of_json_what_ours_stands_for() -> None:
    """Fails when another version of the SDK writes its answers in another way."""
    used = Counter(
        node.attr
        for node in ast.walk(ast.parse(inspect.getsource(modern_http)))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "json"
    )
    assert used == {"dumps": 2, "loads": 1}
    assert vars(modern_http)["json"] is sdk.PlainJson


@pytest.mark.parametrize("text", ["größer als 数 🙂", "half of a pair \ud83d"])
def test_letters_go_as_they_are_and_halves_of_pairs_as_escapes(text: str) -> None:
    written = sdk.PlainJson.dumps({"text": text}, separators=(",", ":"))
    assert sdk.PlainJson.loads(written.encode()) == {"text": text}
    assert ("\\u" in written) == (not text.isprintable())
    assert json.loads(written) == {"text": text}
