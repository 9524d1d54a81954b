"""The command `check`: an operator runs a check of the settings by hand, beside a server and without one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from blackboard_mcp.protocols.errors import BlackboardError
from blackboard_mcp.server.board import Board
from commands import refused, run, said

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="checks need POSIX")

CONFIG = """\
[[check]]
name = "sums"
run = ["sh", "-c", "cat sums.txt; grep -q good sums.txt"]

[[check]]
name = "long"
run = ["sh", "-c", "seq 20000"]
boards = ["main"]

[[check]]
name = "elsewhere"
run = ["true"]
boards = ["side"]
"""


@pytest.fixture
async def given(tmp_path: Path) -> dict[str, str]:
    """Returns the environment of commands on a board with one file."""
    (tmp_path / "blackboard.toml").write_text(CONFIG)
    data = tmp_path / "data"
    async with Board.open(data=data, agent="ann") as board:
        await board.artifact_write("sums.txt", "bad\n")
    return {"BLACKBOARD_DATA": str(data), "CHECK_CONFIG": str(tmp_path / "blackboard.toml")}


def at(given: dict[str, str]) -> tuple[str, str]:
    return "--config", given["CHECK_CONFIG"]


async def test_a_check_by_hand_prints_all_and_tells_agents(given: dict[str, str]) -> None:
    done = run(given, "check", *at(given))
    assert (done.returncode, done.stdout) == (1, "sums: has not run yet\nlong: has not run yet\n")
    done = run(given, "check", "sums", *at(given))
    assert (done.returncode, done.stdout) == (1, "bad\n")
    assert done.stderr.startswith("sums failed (exit 1) at rev 1 after ")
    assert done.stderr.endswith(" s: E-1\n")
    async with Board.open(data=Path(given["BLACKBOARD_DATA"]), agent="ann") as board:
        assert "sums fails: rev 1, exit 1, bad; E-1 has the output" in (await board.view()).view
        await board.artifact_write("sums.txt", "good\n")
    told = run(given, "check", *at(given)).stdout
    assert told.startswith("sums: failed at rev 1 (E-1); files were written since\n")
    told = said(given, "check", "sums", *at(given))
    assert told.startswith("good\nsums passed at rev 2 after ")
    async with Board.open(data=Path(given["BLACKBOARD_DATA"]), agent="ann") as board:
        assert "sums fails" not in (await board.view()).view
    # It runs again though nothing was written since, and the last output can be printed without a run.
    assert "passed at rev 2" in said(given, "check", "sums", *at(given))
    assert said(given, "check", "sums", "--output", *at(given)) == "good\n"
    whole = said(given, "check", "long", *at(given))
    assert "1\n2\n3\n" in whole
    assert "bytes left out" in whole
    assert whole.startswith(said(given, "check", "long", "--output", *at(given)))
    told = said(given, "check", *at(given))
    assert [line.split(" at ")[0] for line in told.splitlines()] == ["sums: passed", "long: passed"]


def test_what_cannot_run_is_said(given: dict[str, str], tmp_path: Path) -> None:
    assert "No check 'nosuch' is set for board main; there are: sums, long." in refused(
        given, "check", "nosuch", *at(given)
    )
    assert "No check 'elsewhere' is set for board main" in refused(given, "check", "elsewhere", *at(given))
    assert "No output of a check 'long' is kept" in refused(given, "check", "long", "--output", *at(given))
    assert "the settings have no [[check]] tables" in refused(given, "check", "sums")
    assert run(given, "check", "--output", *at(given)).returncode == 2


async def test_the_hot_issue_of_a_check_that_is_no_longer_set_is_ended_by_hand(given: dict[str, str]) -> None:
    assert run(given, "check", "sums", *at(given)).returncode == 1
    assert "The settings or a rule have sums checked" in refused(given, "check", "sums", "--end", *at(given))
    data = Path(given["BLACKBOARD_DATA"])
    async with Board.open(data=data, agent="ann") as board:
        with pytest.raises(BlackboardError, match="blackboard-mcp check NAME --end"):
            await board.report_result("sums", ok=True)
    assert said(given, "check", "sums", "--end") == "I-2 is resolved\n"
    async with Board.open(data=data, agent="ann") as board:
        assert "sums fails" not in (await board.view()).view
    assert "No hot issue of a check 'sums' is open on board main" in refused(given, "check", "sums", "--end")
    assert run(given, "check", "--end").returncode == 2


def test_the_hot_issue_of_a_check_that_is_now_for_other_boards_is_ended_by_hand(
    given: dict[str, str],
) -> None:
    assert run(given, "check", "sums", *at(given)).returncode == 1
    moved = CONFIG.replace('name = "sums"\n', 'name = "sums"\nboards = ["side"]\n')
    Path(given["CHECK_CONFIG"]).write_text(moved)
    assert said(given, "check", "sums", "--end", *at(given)) == "I-2 is resolved\n"


async def test_a_hot_issue_under_debate_ends_with_the_debate(given: dict[str, str]) -> None:
    assert run(given, "check", "sums", *at(given)).returncode == 1
    data = Path(given["BLACKBOARD_DATA"])
    async with Board.open(data=data, agent="ann") as board:
        await board.post("It is a false alarm.", type="CRITIQUE", edges={"critiques": ["I-2"]})
    assert said(given, "check", "sums", "--end") == "I-2 ends with the debate about it\n"
    said(given, "board", "--lifecycle", "settled")
    assert "Board main takes no posts" in refused(given, "check", "sums", "--end"), (
        "nor does the debate end it there"
    )
    said(given, "board", "--lifecycle", "open")
    async with Board.open(data=data, agent="ann") as board:
        assert "sums fails" in (await board.view()).view
        await board.withdraw("C-3")
        assert "I-2 by system resolved, its critics withdrew" in (await board.view()).view
