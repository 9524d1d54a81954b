"""Eight agents write files in two processes that are killed: nothing is lost, and the repository agrees (I39, F48)."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.storage.workspace.committer import folder_of
from injecting import log_of, tool, wires
from killing import Team
from patience import RUN
from profiles import NIGHTLY

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="servers are stopped by signals"),
    pytest.mark.skipif(shutil.which("git") is None, reason="needs Git, to read the repository as others do"),
]

WRITERS = [f"writer{n}" for n in range(8)]
KILLS = 100 if NIGHTLY else 8
LINES = 60 if NIGHTLY else 12
SHARED = "shared.txt"


class Writers(Team):
    """Agents that append lines to a file of their own and to one that all share, until all lines are there."""

    def step(self, agent: str, wire: Any) -> bool:
        left = False
        listed = {one["path"] for one in tool(wire, "artifact_list", depth=9)["files"]}
        for path in (f"own/{agent}.txt", SHARED):
            text = tool(wire, "artifact_read", path=path, end=5_000)["text"] if path in listed else ""
            there = sum(line.startswith(f"{agent} ") for line in text.splitlines())
            if there < LINES:
                left = True
                tool(wire, "artifact_write", path=path, append=f"{agent} {there}\n", message=f"line {there}")
        return left


@contextmanager
def clone(data: Path, to: Path) -> Iterator[Path]:
    """Brings the repository of the board up to date, checks it with Git, and clones it."""
    words = [sys.executable, "-m", "blackboard_mcp.server", "workspace", "--data", str(data)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=RUN, env=wires.environment())
    assert done.returncode == 0, done.stderr
    where = folder_of(data / "workspaces", "main")
    subprocess.run(["git", "clone", "-q", str(where), str(to)], check=True, timeout=RUN)
    words = ["git", "-C", str(to), "fsck", "--full", "--strict"]
    done = subprocess.run(words, check=True, capture_output=True, text=True, timeout=RUN)
    assert not done.stderr
    yield to


def test_I39_files_and_repository_agree_after_kills(tmp_path: Path) -> None:
    data = tmp_path / "data"
    writers = Writers(data, tmp_path / "log", over_stdio=WRITERS[-1])
    writers.server.start()
    try:
        threads = writers.begin(*WRITERS)
        writers.kill_servers(KILLS, random.Random(39))
        for thread in threads:
            thread.join(RUN)
            assert not writers.wrong
        wire = writers.server.wire
        written = [event for event in log_of(wire) if event["event"] == "artifact.written"]
        assert [event["data"]["revision"] for event in written] == list(range(1, len(written) + 1))
        files = tool(wire, "artifact_list", depth=9)["files"]
        texts = {one["path"]: tool(wire, "artifact_read", path=one["path"], end=5_000) for one in files}
        assert sorted(texts) == sorted([SHARED, *(f"own/{name}.txt" for name in WRITERS)])
        for name in WRITERS:
            wanted = [f"{name} {n}" for n in range(LINES)]
            assert texts[f"own/{name}.txt"]["text"].splitlines() == wanted, "a line is lost, or came twice"
            shared = texts[SHARED]["text"].splitlines()
            assert [line for line in shared if line.startswith(f"{name} ")] == wanted
        with clone(data, tmp_path / "clone") as cloned:
            for path, read in texts.items():
                assert (cloned / "artifacts" / path).read_text() == read["text"] + "\n"
            words = ["git", "-C", str(cloned), "log", "--reverse", "--format=%an %s"]
            log = subprocess.run(words, check=True, capture_output=True, text=True, timeout=RUN).stdout
        assert [line.split()[0] for line in log.splitlines()] == [event["agent"] for event in written]
    finally:
        writers.server.abandon()
