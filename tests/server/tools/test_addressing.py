"""Whoever is spoken to is spoken to by name: words that mean nobody in particular are refused with what to write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import boards
import pytest

mode = boards.mode

ALL = ("core", "memory", "messages", "admin")
OPEN = {"op": "open", "id": "H-1"}


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("debate", {**OPEN, "watchers": ["bob", "{name}"]}, 'debate(op="watch", id="…")'),
        ("transaction", {"debates": [{**OPEN, "watchers": ["{name}"]}]}, 'debate(op="watch", id="…")'),
        ("post", {"type": "PLAN", "text": "Go.", "agree": ["{name}"]}, 'agree=["all"] asks everybody'),
        ("request", {"text": "Why?", "to": "{name}"}, 'to="skill:NAME"'),
        ("board", {"members": {"{name}": "observer"}}, "each by name"),
    ],
)
async def test_nobody_is_addressed_by_a_word_for_others(
    tmp_path: Path, mode: str, tool: str, arguments: dict[str, Any], words: str
) -> None:
    async with boards.open_boards(tmp_path, mode, tools=ALL) as at:
        alice = await at.join("alice")
        await alice.post("a claim", "HYPOTHESIS")
        seq = await at.seq()
        for name in ("me", "you", "Everyone", "aII", "system"):
            failure = await alice.fail(tool, **filled(arguments, name))
            assert failure["error"] == "invalid"
            assert f"Nobody is called '{name}'" in failure["message"]
            assert words in failure["message"]
            assert "Nothing was changed" in failure["message"]
        assert await at.seq() == seq


def filled(given: Any, name: str) -> Any:
    """`given` with a name wherever one is missing."""
    if isinstance(given, dict):
        return {filled(key, name): filled(value, name) for key, value in given.items()}
    if isinstance(given, list):
        return [filled(value, name) for value in given]
    return name if given == "{name}" else given


async def test_all_still_asks_everybody_to_agree_and_names_are_kept_composed(
    tmp_path: Path, mode: str
) -> None:
    async with boards.open_boards(tmp_path, mode, tools=ALL) as at:
        alice, juergen = await at.join("alice", "jürgen")
        await juergen.post("I am here.")
        await alice.do("board", members={"ju\u0308rgen": "contributor"})
        assert (await alice.do("board"))["members"] == {"jürgen": "contributor"}
        plan = await alice.post("Go.", "PLAN", agree=["All"])
        assert plan["agreement"]["waiting"] == ["jürgen"]
        answer = await alice.do("request", text="Why?", to="ju\u0308rgen", seconds=0)
        assert answer["request"]["to"] == "jürgen"
