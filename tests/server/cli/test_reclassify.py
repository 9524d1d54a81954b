"""`reclassify` as an operator runs it: the rules of a file are applied to what a board has, dry run first."""

from __future__ import annotations

import asyncio
import tomllib
from pathlib import Path

import pytest
from blackboard_mcp.protocols.errors import BlackboardError
from blackboard_mcp.server import compose
from blackboard_mcp.server.access.reading import read_rules
from blackboard_mcp.server.board import Board
from blackboard_mcp.server.cli import cli
from blackboard_mcp.server.settings.server import Settings
from click.testing import CliRunner

RULES = """
[[read]]
name = "payroll"
key = "pay:**"
readers = ["ann"]
"""


def said(*words: str) -> str:
    done = CliRunner().invoke(cli, list(words))
    return done.exception.message if isinstance(done.exception, BlackboardError) else done.output


async def _made(folder: Path) -> None:
    async with Board.open(data=folder, agent="ann") as board:
        await board.post("an open question", type="QUESTION")
        await board.post("@ben earns 7", key="pay:ben", metadata={"by": "ann"})
        await board.post("@ben earns 8", key="pay:ben")
        rule = await board.post("Pay is due on Friday.", key="pay:day")
        await board.post("It is Thursday.", type="CRITIQUE", edges={"critiques": [rule.id]})


async def _seen(folder: Path, agent: str) -> list[str]:
    async with Board.open(data=folder, agent=agent) as board:
        return sorted([item.text async for item in board.query(key="pay:**")])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    asyncio.run(_made(tmp_path / "data"))
    (tmp_path / "rules.toml").write_text(RULES)
    return tmp_path


def serve_once(folder: Path) -> None:
    """A server begins with the rules of the file, and ends."""

    async def begin() -> None:
        given = Settings(data=folder / "data", read=read_rules(tomllib.loads(RULES)["read"], "read"))
        async with compose.installation(given, eager_index=False):
            pass

    asyncio.run(begin())


def test_a_dry_run_says_what_would_be_kept_and_what_cannot_be(folder: Path) -> None:
    at = ("--data", str(folder / "data"))
    assert "there are no read rules" in said("reclassify", *at)
    with_rules = (*at, "--config", str(folder / "rules.toml"))
    told = said("reclassify", *with_rules)
    assert "F-2 would be kept by payroll" in told
    assert "stays for everybody (an edge critiques), though payroll fits" in told
    assert told.splitlines()[-1] == "to do it: --apply --leave"
    assert len(asyncio.run(_seen(folder / "data", "ben"))) == 2
    assert "are not in force yet" in said("reclassify", "--apply", "--leave", *with_rules)
    serve_once(folder)
    assert "1 items stay for everybody" in said("reclassify", "--apply", *with_rules)
    assert len(asyncio.run(_seen(folder / "data", "ben"))) == 2


def test_what_was_kept_is_gone_for_others_and_the_history_still_adds_up(folder: Path) -> None:
    at = ("--data", str(folder / "data"))
    serve_once(folder)
    told = said("reclassify", "--apply", "--leave", *at, "--config", str(folder / "rules.toml"))
    assert "main: kept 1 items, 1 stay for everybody" in told
    assert asyncio.run(_seen(folder / "data", "ben")) == ["Pay is due on Friday."]
    assert asyncio.run(_seen(folder / "data", "ann")) == ["@ben earns 8", "Pay is due on Friday."]
    checked = CliRunner().invoke(cli, ["verify", *at])
    assert checked.exit_code == 0, checked.output
    file = str(folder / "history.jsonl")
    assert CliRunner().invoke(cli, ["export", file, *at]).exit_code == 0
    there = ("--data", str(folder / "there"))
    brought = CliRunner().invoke(cli, ["import", file, *there, "--config", str(folder / "rules.toml")])
    assert brought.exit_code == 0, brought.output
    public = str(folder / "public.jsonl")
    assert CliRunner().invoke(cli, ["export", public, "--public", *at]).exit_code == 0
    assert "earns" not in Path(public).read_text("utf-8")


def test_what_stays_with_a_team_is_named(folder: Path) -> None:
    async def note() -> str:
        async with Board.open(data=folder / "data", agent="ben") as board:
            return (await board.post("ours", key="pay:ours", visibility="team")).id

    id_ = asyncio.run(note())
    serve_once(folder)
    at = ("--data", str(folder / "data"), "--config", str(folder / "rules.toml"))
    assert f"1 items stay with their teams: {id_}" in said("reclassify", "--apply", *at)
    told = said("reclassify", "--apply", "--leave", *at)
    assert f"{id_} stays with its team, though payroll fits" in told
    assert "main: kept 1 items, 1 stay for everybody, 1 with their teams" in told
    assert "ours" in asyncio.run(_seen(folder / "data", "ben"))
