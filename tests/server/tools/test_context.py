"""`get_context` through real clients: a fixed order within a budget (F35, I7, I8)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import boards
import pytest

mode, both = boards.mode, boards.both
SETS = ("core", "plan", "memory", "admin")
RULE = "Never invent a figure.\nAsk “the source” first; see docs/a.b.md."


@pytest.fixture
async def board(tmp_path: Path, mode: str) -> AsyncIterator[Any]:
    async with boards.open_boards(tmp_path, mode, tools=SETS) as opened:
        yield opened


async def furnish(board: Any) -> tuple[Any, Any]:
    """A board with something for each part of bob's context."""
    ann, bob = await board.join("ann", "bob")
    await ann.do("constraint", text=RULE)
    await ann.do("report_result", check="lint", ok=False, subject="a.py", text="E501 in line 3")
    await ann.post("We buy the blue pump.", "DECISION")
    await ann.post("The valve broke.", "HYPOTHESIS")
    await ann.do("post", id="H-4", status="WITHDRAWN")
    await ann.do("plan", items=[{"title": "weigh the pump", "retries": 0}, {"title": "paint it"}])
    await bob.do("claim", id="T-1")
    await bob.do("claim", id="T-1", op="fail", text="The scale is broken.")
    await bob.do("claim", id="T-2")
    await ann.post("Blue paint peels off at eight bar.", "FACT")
    await ann.post("The canteen opens at noon.", "LOG")
    return ann, bob


@both
async def test_the_parts_come_in_their_order(board: Any, mode: str) -> None:
    _, bob = await furnish(board)
    text = await bob.say("get_context", query="which paint for the pump at eight bar")
    lease = next(t["lease"] for t in (await bob.do("plan"))["items"] if t["id"] == "T-2")
    lines = text.splitlines()
    assert lines[:4] == [
        "rules r1 (1), all in force:",
        "K-1:",
        "> Never invent a figure.",
        "> Ask “the source” first; see docs/a.b.md.",
    ]
    headings = [line for line in lines if line.endswith(":") and line != "K-1:"]
    assert headings == [
        "rules r1 (1), all in force:",
        "open hot issues:",
        "decided:",
        "dead ends, do not try these again as they were:",
        "yours to do:",
        "relevant:",
    ]
    assert "D-3 by ann: We buy the blue pump." in lines
    assert "H-4 withdrawn: The valve broke." in lines
    assert "T-1 failed: weigh the pump: The scale is broken." in lines
    assert f"T-2 is yours, lease {lease}: paint it" in lines
    assert any(line.startswith("F-") and "(live, " in line for line in lines)
    assert "canteen" not in text
    given = await bob.do("get_context", query="which paint for the pump at eight bar")
    ids = [entry["id"] for entry in given["entries"]]
    assert len(ids) == len(set(ids))
    assert given == await bob.do("get_context", query="which paint for the pump at eight bar")


@both
async def test_I7_I8_rules_and_hot_issues_stand_whole_at_any_budget_or_the_call_fails(
    board: Any, mode: str
) -> None:
    ann, bob = await furnish(board)
    for n in range(30):
        await ann.post(f"Run {n} of the pump took {n} minutes and nothing else was seen in it.", "LOG")
    for budget in (1, 50, 100, 150, 200, 400, 2_000):
        result = await bob.call("get_context", query="pump run", budget=budget)
        if result.is_error:
            needed = result.structured_content["needed"]
            assert needed > budget
            given = await bob.do("get_context", query="pump run", budget=needed)
        else:
            given = result.structured_content
            assert given["tokens"] <= budget
        said = given["context"].replace("> ", "")
        assert RULE in said
        assert "E501 in line 3" in said
    assert "constraint(id=" in (await bob.fail("get_context", budget=5))["message"]


async def test_what_an_agent_owes_stands_in_the_words_of_the_footer(board: Any) -> None:
    ann, bob = await furnish(board)
    await bob.post("The pump is loud.")
    asked = await ann.post("@bob how loud?", "QUESTION")
    decided = await ann.post("We wear ear plugs.", "DECISION", agree=["bob"])
    text = await bob.say("get_context", query="loud pump")
    assert f"answer {asked['id']}" in text.splitlines()
    assert f"agree or object to {decided['id']}" in text.splitlines()


@both
async def test_constraints_of_the_core_stand_first_among_the_rules(board: Any, mode: str) -> None:
    ann, bob = await furnish(board)
    await ann.do("core", constraints=["Never restart billing.", "Ask first."])
    given = await bob.do("get_context", query="which paint for the pump")
    rules = [entry["id"] for entry in given["entries"] if entry["part"] == "rules"]
    assert rules == ["core 1", "core 2", "K-1"]
    assert "core 1: Never restart billing." in given["context"].splitlines()


@both
async def test_what_left_is_found_and_hidden_items_are_not(board: Any, mode: str) -> None:
    ann, bob = await furnish(board)
    await ann.do("post", text="Secret paint recipe", visibility="private", type="FACT")
    for n in range(60):
        await ann.post(
            f"Filler {n}: " + "the flow was measured once more at the same place. " * 8, "LOG", importance=1
        )
    await ann.do("board", settings={"target_tokens": 1_000})
    await ann.do("prune")
    given = await bob.do("get_context", query="filler flow measured at the same place", budget=3_000)
    assert "archived" in given["context"]
    assert "Secret" not in (await bob.do("get_context", query="secret paint recipe", budget=3_000))["context"]
    assert "Secret" in (await ann.do("get_context", query="secret paint recipe", budget=3_000))["context"]


async def test_what_left_is_found_where_nothing_is_searched_by_meaning(tmp_path: Path) -> None:
    async with boards.open_boards(
        tmp_path, boards.MODERN, tools=("core", "admin", "memory"), embedder="none"
    ) as board:
        ann, bob = await board.join("ann", "bob")
        for n in range(30):
            await ann.post(f"Filler {n}: " + "the flow was measured once more. " * 8, "LOG", importance=1)
        await ann.do("board", settings={"target_tokens": 1_000})
        await ann.do("prune")
        given = await bob.do("get_context", query="filler flow measured", budget=3_000)
        assert "archived, lexical" in given["context"]
        nothing = await bob.do("get_context", query="zirconium glaze of the seventh shelf", budget=3_000)
        assert "archived" not in nothing["context"]


@both
async def test_f77_dead_ends_stay_with_their_reason_after_they_left(board: Any, mode: str) -> None:
    ann, bob = await board.join("ann", "bob")
    for n in range(12):
        await ann.post(f"Valve {n} broke in the test.", "HYPOTHESIS", importance=1)
        await ann.do("post", id=f"H-{n + 1}", status="WITHDRAWN")
    await ann.post("The gasket leaks at noon.", "HYPOTHESIS", importance=1)
    await bob.post("It was dry all day.", "CRITIQUE", edges={"critiques": ["H-13"]}, importance=1)
    await ann.do("post", id="H-13", status="WITHDRAWN")
    await ann.do("post", text="Secret valve broke", visibility="private", type="HYPOTHESIS", importance=1)
    await ann.do("post", id="H-15", status="WITHDRAWN")
    for n in range(12):
        await ann.post(
            f"Run {n}: " + "the flow was measured once more at the same place. " * 25, "LOG", importance=2
        )
    await ann.do("board", settings={"target_tokens": 1_000})
    await ann.do("prune")
    assert {(await ann.item(id_))["zone"] for id_ in ("H-1", "H-13", "H-15")} == {"archive"}
    given = await bob.do("get_context", query="gasket leaks at noon", budget=2_000)
    ends = [entry["id"] for entry in given["entries"] if entry["part"] == "dead_ends"]
    assert ends[0] == "H-13", "nearest first"
    assert {"H-12", "H-11", "H-10", "H-9"} <= set(ends), "and the newest"
    assert len(ends) == 10
    assert "H-13 withdrawn (C-14: It was dry all day.): The gasket leaks at noon." in given["context"]
    assert "Secret" not in given["context"]
    newest = await bob.do("get_context", budget=2_000)
    assert newest["context"].splitlines()[:2] == [
        "dead ends, do not try these again as they were:",
        "H-13 withdrawn (C-14: It was dry all day.): The gasket leaks at noon.",
    ]
    assert (await ann.do("get_context", budget=2_000))["entries"][0]["id"] == "H-15"
    small = await bob.do("get_context", budget=100)
    kept = [entry["id"] for entry in small["entries"] if entry["part"] == "dead_ends"]
    assert small["tokens"] <= 100
    assert 1 <= len(kept) < 4, "a quarter of the budget"


async def test_f72_rules_in_a_context_count_as_shown(tmp_path: Path) -> None:
    async with boards.open_boards(tmp_path, boards.MODERN, tools=SETS) as opened:
        ann, bob = await opened.join("ann", "bob")
        await ann.do("plan", items=[{"title": "one"}])
        await bob.do("claim")
        await ann.do("constraint", text="Name the unit.")
        await bob.do("get_context")
        await bob.do("claim", op="done", text="8 bar")


async def test_what_is_done_is_no_dead_end_and_a_passed_check_is_no_issue(board: Any, mode: str) -> None:
    ann, bob = await board.join("ann", "bob")
    await ann.post("Migrate the schema.", "PLAN")
    await ann.do("post", id="P-1", status="RESOLVED")
    await ann.post("Migrate by hand.", "PLAN")
    await ann.do("post", id="P-2", status="WITHDRAWN")
    await ann.do("report_result", check="pytest", ok=False, text="2 migrations failed")
    assert "pytest fails" in await bob.say("get_context", query="migrate schema")
    await ann.do("report_result", check="pytest", ok=True)
    given = await bob.do("get_context", query="migrate schema")
    parts = {entry["id"]: entry["part"] for entry in given["entries"]}
    assert parts == {"P-1": "relevant", "P-2": "dead_ends"}
    assert "P-1 by ann (live, 2 words, resolved): Migrate the schema." in given["context"].splitlines()
    assert "pytest" not in given["context"]


async def test_an_empty_board_has_an_empty_context(tmp_path: Path) -> None:
    async with boards.open_boards(tmp_path, boards.MODERN, tools=SETS) as opened:
        ann = await opened.join("ann")
        await ann.post("The only item.")
        assert (await ann.say("get_context", query="zebra")).splitlines()[0] == "nothing is known yet"
        given = await ann.do("get_context", query="")
        assert [entry["part"] for entry in given["entries"]] == ["relevant"]


async def test_parts_of_files_are_relevant_too(tmp_path: Path) -> None:
    sets = (*SETS, "workspace")
    async with boards.open_boards(tmp_path, boards.MODERN, tools=sets) as board:
        ann, bob = await board.join("ann", "bob")
        pumps = "# Pumps\n\nBuy them.\n\n## Pressure\n\nAt eight bar the gasket bursts.\n"
        await ann.do("artifact_write", path="docs/pumps.md", content=pumps)
        await ann.do("artifact_write", path="docs/bread.md", content="# Bread\n\nBake it.\n")
        await ann.post("The gasket is of rubber.", "FACT")
        text = await bob.say("get_context", query="why does the gasket burst at eight bar")
        relevant = text.split("relevant:\n")[1].splitlines()
        assert relevant[0].startswith("F-1 by ann (live, 1 word)")
        assert relevant[1] == (
            'docs/pumps.md 5-7 "Pumps > Pressure" (file, rev 1): At eight bar the gasket bursts.'
        )
        given = await bob.do("get_context", query="gasket at eight bar", budget=60)
        assert given["tokens"] <= 60
        listed = await bob.do("get_context", query="gasket at eight bar")
        assert {"id": "docs/pumps.md:5-7", "part": "relevant"} in listed["entries"]
        # A task that names a file: its parts come without a query.
        assert "docs/pumps.md" in await bob.say("get_context", path="docs/pumps.md")
        assert (await bob.fail("get_context", path="../x"))["error"] == "invalid"
        # What was shown of items is noted, and a path that looks like an id is not taken for one.
        await ann.do("artifact_write", path="F-1", content="gasket at eight bar\n")
        assert "F-1 1-1" in await bob.say("get_context", query="gasket at eight bar")
