"""Errors assure who asked for a change that nothing was changed, and tell a reader the rest."""

from __future__ import annotations

import pytest
from blackboard_mcp.server.access.needs import TOOLS
from blackboard_mcp.server.answers.assurance import to_reader


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "No item 7 on board 'main'. Nothing was changed; query() lists it.",
            "No item 7 on board 'main'. query() lists it.",
        ),
        ("It is wrong. Nothing was changed.", "It is wrong."),
        ("It is wrong. Nothing was changed; leave out tags.", "It is wrong. Leave out tags."),
        ("read: limit must be a number; nothing was changed", "read: limit must be a number"),
        ("Too much. Nothing was changed. Call again later.", "Too much. Call again later."),
        ("Nothing matches.", "Nothing matches."),
    ],
)
def test_a_reader_is_told_the_same_without_the_assurance(said: str, told: str) -> None:
    assert to_reader(said) == told


@pytest.mark.parametrize(
    ("tool", "arguments", "reads"),
    [
        ("read", {}, True),
        ("wait", {"since": "x"}, True),
        ("query_archive", {"text": "x"}, True),
        ("query_archive", {"restore": True}, False),
        ("debate", {"op": "status"}, True),
        ("debate", {"op": "close"}, False),
        ("debate", {}, False),
        ("subscribe", {}, False),
        ("consume", {}, True),
        ("consume", {"group": "g"}, False),
        ("transaction", {"reads": {"a": 1}}, True),
        ("transaction", {"debates": ["x"]}, False),
        ("post", {}, False),
    ],
)
def test_which_calls_change_nothing(tool: str, arguments: dict[str, object], reads: bool) -> None:
    assert TOOLS[tool].only_reads(arguments) is reads
