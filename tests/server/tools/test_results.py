"""`report_result` through real clients: a failed check is a hot issue until it passes (F51, I8)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import boards
import pytest

mode, both = boards.mode, boards.both


@pytest.fixture
async def board(tmp_path: Path, mode: str) -> AsyncIterator[Any]:
    async with boards.open_boards(tmp_path, mode, tools=("core", "memory"), target_tokens=300) as opened:
        yield opened


@both
async def test_I8_a_failure_stands_in_every_view_until_the_check_passes_for_its_subject(
    board: Any, mode: str
) -> None:
    ann, ben = await board.join("ann", "ben")
    said = await ann.say("report_result", check="lint", subject="a.py", ok=False, text="E501 in line 3")
    assert said.splitlines()[0] == (
        'I-1 stands in every view until report_result(check="lint", subject="a.py", ok=true)'
    )
    assert (await ben.do("report_result", check="lint", subject="b.py", ok=False))["item"] == "I-2"
    for n in range(30):
        await ben.post(f"Step {n} of a long log that fills the board, line by line.", "LOG")
    await board.opened.pruner.run_pass("main")
    view = await ben.say("read", budget=400)
    assert "lint fails for a.py: E501 in line 3" in view
    assert "lint fails for b.py" in view
    told = await ben.do("report_result", check="lint", subject="a.py", ok=False, text="E501 in line 9")
    assert (told["item"], told["version"], told["open"]) == ("I-1", 2, True)
    view = await ann.say("read")
    assert "E501 in line 9" in view
    assert "E501 in line 3" not in view
    assert (await ben.say("report_result", check=" lint ", subject="a.py", ok=True)).startswith(
        "I-1 is resolved"
    )
    assert (
        "lint fails for a.py: E501 in line 9"
        not in (await ann.say("read")).split("waits for you")[0].split("settled")[0]
    )
    again = await ann.do("report_result", check="lint", subject="a.py", ok=False, text="E302")
    assert (again["item"], again["open"], (await ann.item("I-1"))["status"]) == ("I-1", True, "ACTIVE")
    assert "lint fails for a.py: E302" in await ben.say("read")


@both
async def test_a_pass_without_a_failure_writes_nothing(board: Any, mode: str) -> None:
    ann = await board.join("ann")
    await ann.post("a fact")
    before = await board.seq()
    told = await ann.do("report_result", check="lint", ok=True)
    assert (told["item"], told["open"], await board.seq()) == (None, False, before)


@both
async def test_wrong_reports_are_refused(board: Any, mode: str) -> None:
    ann = await board.join("ann")
    await ann.post("a fact")
    before = await board.seq()
    assert (await ann.fail("report_result", check=" ", ok=False))["error"] == "invalid"
    assert (await ann.fail("report_result", check="lint", ok=False, cites=["F-99"]))["error"] == "not_found"
    assert (await ann.fail("report_result", check="lint"))["error"] == "invalid"
    assert await board.seq() == before
