"""The command `intake` as hooks run it: a process, lines of JSON on its standard input."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
from blackboard_mcp.server.board import Board
from fakemodel import fake_model
from patience import RUN

LINES = [{"id": f"m{n}", "kind": "message", "text": f"message {n}", "thread": "s"} for n in range(3)]


def intake(document: str, *options: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "blackboard_mcp.server", "intake", "--agent", "ben", *options]
    return subprocess.run(words, input=document, capture_output=True, text=True, timeout=RUN, check=False)


async def test_lines_are_handed_over_to_a_folder_once(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    async with Board.open(data=folder, agent="ann") as board:
        await board.post("hello")
    document = "\n".join(map(json.dumps, LINES)) + "\n"
    first, again = (intake(document, "--data", str(folder)) for _ in range(2))
    assert (first.returncode, first.stderr) == (0, "")
    told = json.loads(first.stdout)
    assert (len(told["items"]), told["repeated"]) == (3, 0)
    assert json.loads(again.stdout)["repeated"] == 3
    async with Board.open(data=folder, agent="ann") as board:
        found = await board.read(told["items"])
    assert {(item.author, item.type) for item in found.items} == {("ben", "LOG")}


async def test_a_wrong_line_is_named_and_nothing_is_sent(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    async with Board.open(data=folder, agent="ann") as board:
        await board.post("hello")
    done = intake(json.dumps(LINES[0]) + "\nnonsense\n", "--data", str(folder))
    assert (done.returncode, done.stdout) == (1, "")
    assert "Line 2 is no JSON object" in done.stderr
    assert intake("", "--data", str(folder)).returncode == 1
    async with Board.open(data=folder, agent="ann") as board:
        assert [item.text async for item in board.query()] == ["hello"]


def test_a_server_that_does_not_answer_is_named() -> None:
    done = intake(json.dumps(LINES[0]), "--url", "http://127.0.0.1:9/mcp")
    assert done.returncode == 1
    assert "http://127.0.0.1:9/intake: no answer" in done.stderr


async def test_a_model_reads_what_is_handed_over_to_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, wanted = tmp_path / "data", "Tabs drive me mad."
    async with fake_model() as model:
        model.says(json.dumps({"rules": [{"text": wanted, "strength": "strict"}]}))
        settings = {
            "summariser": "openai",
            "summary_url": model.url,
            "summary_model": "m",
            "capture": "model",
            "tools": "memory",
        }
        async with Board.open(data=folder, agent="ann", settings=settings) as board:
            line = {"id": "m8", "kind": "message", "text": f"Hello. {wanted}"}
            assert len((await board.hand_over([line])).proposed) == 1
            assert [one.by_model for one in (await board.constraint()).proposals] == [True]
        for name, value in settings.items():
            monkeypatch.setenv(f"BLACKBOARD_{name.upper()}", value)
        told = "Tabs drive me mad, and so do dots."
        model.says(json.dumps({"rules": [{"text": told, "strength": "strict"}]}))
        document = json.dumps({"id": "m9", "kind": "message", "text": told})
        done = await asyncio.to_thread(intake, document, "--data", str(folder))
        assert (len(json.loads(done.stdout)["proposed"]), len(model.asked)) == (1, 2), done.stderr
