"""Long commands show how far they are, on a terminal alone."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from blackboard_mcp.server.board import Board
from blackboard_mcp.server.cli.progress import growing
from commands import on_terminal, run
from patience import until


async def furnish(data: Path) -> None:
    async with Board.open(data=data, agent="ann", settings={"synchronous": "NORMAL"}) as ann:
        await ann.post_all([{"text": f"fact {n}"} for n in range(100)])
        await ann.post("newer", edges={"supersedes": ["F-1"]})


def test_a_bar_is_on_a_terminal_alone_and_goes_with_the_work(tmp_path: Path) -> None:
    data = tmp_path / "data"
    asyncio.run(furnish(data))
    given = {"BLACKBOARD_DATA": str(data)}
    for what, words, said in (
        ("export", ("export", str(tmp_path / "board.jsonl")), "events of board main"),
        ("import", ("import", "--board", "again", str(tmp_path / "board.jsonl")), "board again: "),
        ("verify", ("verify",), "board main is what its history says"),
        ("boards", ("doctor",), "nothing is wrong"),
        ("index", ("rebuild-index",), "indexed "),
        ("backup", ("backup", str(tmp_path / "backup")), "all boards are in"),
    ):
        shown = on_terminal(given, *words)
        assert re.search(rf"{what}\b.*━.*\d+%", shown), (what, shown)
        *_, last = shown.split("\x1b[2K")  # the bar is wiped out
        assert said in last, (what, shown)
        assert "━" not in last
    for words in (("verify",), ("export", "-"), ("rebuild-index",), ("doctor",), ("doctor", "--json")):
        done = run(given, *words)
        assert done.returncode == 0
        assert "\x1b" not in done.stdout + done.stderr
        assert "━" not in done.stdout + done.stderr


async def test_the_bar_of_a_file_follows_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    file = tmp_path / "file"
    async with growing("backup", file, 1_000):
        file.write_bytes(b"x" * 500)
        await asyncio.to_thread(until, lambda: "50%" in capfd.readouterr().err)
