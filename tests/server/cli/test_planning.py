"""`plan` on the command line: a plan from a file, shown, and written as a file again (F43)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.server.board import Board
from commands import answered, refused, said

TOML = """
[[items]]
kind = "stage"
title = "build"
entry = "done($2) and flag(go)"

[[items]]
title = "look around"
priority = 5
verify = "owner"

[[items]]
kind = "milestone"
title = "built"
parent = "$1"
entry = "done($4)"

[[items]]
title = "saw"
stage = "$1"
after = ["$2"]
paths = ["file:wood/**"]

[[items]]
title = "paint"
stage = "$1"
required = false
skill = "paint"

[[items]]
title = "tell"
trigger = "milestone(built)"
text = "Everybody."
"""


async def begin(data: Path) -> None:
    """Makes the board main."""
    async with Board.open(data=data, agent="ann", settings={"synchronous": "NORMAL"}) as board:
        await board.post("to begin with")


@pytest.fixture
def ann(tmp_path: Path) -> dict[str, str]:
    asyncio.run(begin(tmp_path / "data"))
    return {"BLACKBOARD_DATA": str(tmp_path / "data"), "BLACKBOARD_AGENT": "ann"}


def test_a_plan_is_begun_shown_and_written_again(ann: dict[str, str], tmp_path: Path) -> None:
    assert "no plan" in said(ann, "plan")
    file = tmp_path / "spring.toml"
    file.write_text(TOML)
    told = said(ann, "plan", str(file))
    assert told == said(ann, "plan")
    assert told.splitlines() == [
        "G-1 AVAILABLE (waits for done(T-1) and flag(go)): build",
        "  G-2 milestone AVAILABLE (G-1 is AVAILABLE): built",
        "T-1 ready: look around",
        "T-2 PENDING, waits for T-1 PENDING; stage G-1 AVAILABLE: saw",
        "T-3 PENDING, waits for stage G-1 AVAILABLE: paint",
        "T-4 PENDING, waits for trigger milestone(built): tell",
    ]
    exported = tmp_path / "again.json"
    exported.write_text(said(ann, "plan", "--export"))
    assert said(ann, "plan", str(exported), "--board", "summer") == told
    assert json.loads(said(ann, "plan", "--export", "--board", "summer")) == json.loads(exported.read_text())
    first, second = (answered(ann, "plan", "--board", board) for board in ("main", "summer"))
    assert [meant(task) for task in first["items"]] == [meant(task) for task in second["items"]]


def meant(task: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in task.items() if name not in ("created_by", "seq")}


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.toml", "[[items]", "is no TOML"),
        ("a.json", "[1]", "has to hold a list of items"),
        ("a.json", "[" * 100_000, "is no JSON"),
        ("a.json", '{"items": [1]}', "has to hold a list of items"),
        ("a.json", '{"items": [], "more": 1}', "has to hold a list of items"),
        ("a.json", '{"items": [{"title": "x", "stage": "$9"}]}', "names item 9"),
        ("a.json", '{"items": [{"title": "x", "colour": 1}]}', "colour"),
        ("a.json", '{"items": [{"title": "%s"}]}' % ("x" * 1_000_000), "more than 1,000,000 bytes"),
    ],
)
def test_a_wrong_file_plans_nothing(
    ann: dict[str, str], tmp_path: Path, name: str, text: str, told: str
) -> None:
    (tmp_path / name).write_text(text)
    assert told in refused(ann, "plan", str(tmp_path / name))
    assert answered(ann, "plan")["items"] == []
