"""How much a message holds, told from its bytes: never less than there is, and hardly more."""

from __future__ import annotations

import json
from typing import Any

import pytest
from blackboard_mcp.server.limits.json_size import MAX_MESSAGE_VALUES, holds_too_much
from counting import lines_of
from hypothesis import given, settings
from hypothesis import strategies as st

DOCUMENTS: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.sampled_from('ab\\"[]{},:\n\u00e4\U0001f600')),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.sampled_from('a\\",[{')), inner),
    max_leaves=30,
)


def marks(value: Any) -> int:
    """Commas and opening brackets of a document that is written without any space, strings left out."""
    if isinstance(value, dict):
        return 1 + max(len(value) - 1, 0) + sum(map(marks, value.values()))
    if isinstance(value, list):
        return 1 + max(len(value) - 1, 0) + sum(map(marks, value))
    return 0


@settings(max_examples=300, deadline=None)
@given(DOCUMENTS, st.booleans())
def test_commas_and_brackets_count_outside_of_strings_alone(document: Any, ascii_only: bool) -> None:
    body = json.dumps(document, ensure_ascii=ascii_only).encode()
    held = marks(document)
    assert not holds_too_much(body, held)
    assert held == 0 or holds_too_much(body, held - 1)


@pytest.mark.parametrize(
    "body",
    [
        b"[" + b"{}," * 900_000 + b"{}]",
        b'{"' + b'":0,"'.join(b"a" for _ in range(300_000)) + b'":0}',
        b'["' + b'a","' * 300_000 + b'"]',
        b"[" * 100_000 + b"]" * 100_000,
        b'["\\"' + b'","\\\\' * 200_000 + b'"]',
        "[" + "0," * 200_000 + "0]",
    ],
)
def test_a_bomb_is_too_much_and_that_is_seen_at_once(body: bytes | str) -> None:
    raw = body.encode("utf-16") if isinstance(body, str) else body
    seen: list[bool] = []
    # Each line goes through the bytes a few times, and none of them once for each value.
    assert lines_of(lambda: seen.append(holds_too_much(raw))) < 10
    assert seen == [True]


@pytest.mark.parametrize("text", ["a, " * 300_000, '", [{' * 100_000, "\\" * 300_000, '\\\\",' * 100_000])
def test_a_long_text_is_one_value_whatever_is_in_it(text: str) -> None:
    assert not holds_too_much(json.dumps({"text": text}).encode())


def test_what_a_tool_may_be_given_is_not_too_much() -> None:
    body = json.dumps({"arguments": {"a": [[]] * 20_000}, "_meta": {"b": [0] * 5_000}}).encode()
    assert len(body) < MAX_MESSAGE_VALUES * 2
    assert not holds_too_much(body)
