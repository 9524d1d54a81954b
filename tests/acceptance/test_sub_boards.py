"""A server that is killed after each step on a task of a sub-board goes on, and does no step twice (F45)."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from injecting import Server, tool, wires
from killing import GONE
from patience import until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")

BELOW = {"id": "tides", "input": {"stations": "survey", "closed": "F-2"}, "output": {"table": "draft"}}
BEGIN = [
    "ensure_board tides",
    "note_sub_board main",
    "post tides closed",
    "begin_sub_board main",
]
END = ["post main table", "post tides RESOLVED", "end_sub_board main"]


def log_of(wire: Any, board: str) -> list[dict[str, Any]]:
    """Returns the log of a board, which is short."""
    uri = f"board://{board}/events.json?after=0"
    message = wires.ask(wire, "resources/read", f'"uri": "{uri}"', of=uri).message
    found: list[dict[str, Any]] = json.loads(message["result"]["contents"][0]["text"])["events"]
    return found


class Lives:
    """A server that is started again and again, and dies after each step that is new."""

    def __init__(self, folder: Path) -> None:
        self.server = Server(folder / "data", folder / "log", "--tools", "core,run,plan,admin")
        self.journal = folder / "journal"
        self.journal.touch()

    def start(self) -> bool:
        """Starts the server; tells whether it was ready before it died."""
        try:
            self.server.start(
                sys.executable, str(Path(__file__).with_name("dying_server.py")), str(self.journal)
            )
        except RuntimeError:
            return False
        return True

    @property
    def steps(self) -> list[str]:
        """The steps after which it was killed, in order."""
        return self.journal.read_text().splitlines()

    def die(self, steps: int) -> None:
        """Lives on until so many steps were made, with a death after each."""
        while len(self.steps) < steps:
            before = len(self.steps)
            if self.start():
                assert self.server.wait() == -9
            assert len(self.steps) == before + 1, "it died without a step"


def test_each_step_of_a_task_below_is_done_once_though_the_server_is_killed_after_each(
    tmp_path: Path,
) -> None:
    lives = Lives(tmp_path)
    server = lives.server
    try:
        server.start()
        tool(server.wire, "post", text="Nine stations.", key="survey")
        tool(server.wire, "post", text="Station 4 is closed.")
        items = [
            {"title": "compare", "board": BELOW, "trigger": "exists(go)"},
            {"title": "tell", "after": ["$1"]},
        ]
        tool(server.wire, "plan", items=items)
        server.stop()

        assert lives.start()
        with contextlib.suppress(*GONE):
            tool(server.wire, "post", text="begin", key="go")
        assert server.wait() == -9
        lives.die(len(BEGIN))
        assert lives.steps == BEGIN

        assert lives.start()
        found = tool(server.wire, "plan", why="T-1")["items"][0]
        assert (found["state"], found["attempts"]) == ("WAITING", 1)
        tool(server.wire, "post", text="4, 2, 7", key="draft", board="tides")
        start = {"problem": "Which one leads?", "agents": ["ada"]}
        tool(server.wire, "turn", start=start, board="tides", seconds=0)
        with contextlib.suppress(*GONE):
            tool(server.wire, "finalize", text="Station 2 leads.", board="tides")
        assert server.wait() == -9
        lives.die(len(BEGIN + END))
        assert lives.steps == BEGIN + END

        server.start()
        until(lambda: tool(server.wire, "plan", why="T-2")["items"][0]["ready"], "the next task waits")
        check(server.wire)
    finally:
        server.abandon()


def check(wire: Any) -> None:
    """Checks by the logs of both boards that each step was made once."""
    main, tides = log_of(wire, "main"), log_of(wire, "tides")
    of_task = [e["event"] for e in main if e["data"].get("task") == "T-1"]
    assert of_task == ["plan.added", "plan.triggered", "claim.taken", "claim.waiting", "claim.done"]
    written = [(e["key"], e["version"]) for e in tides if e["agent"] == "system" and e["key"]]
    assert written == [("closed", 1), ("stations", 1), ("task:T-1", 1), ("task:T-1", 1)]
    assert [e["event"] for e in tides[:2]] == ["board.created", "board.changed"]
    assert [e["data"]["now"] for e in tides if e["event"] == "item.changed"] == [{"status": "RESOLVED"}]
    outputs = [e for e in main if e["event"] == "item.posted" and e["agent"] == "system"]
    assert [(e["key"], e["version"], e["type"]) for e in outputs] == [
        ("table", 1, "FACT"),
        (None, 1, "RESULT"),
    ]
    result = tool(wire, "read", ids=[outputs[1]["item"]])["items"][0]
    assert (result["text"], result["metadata"]["from"]["board"]) == ("Station 2 leads.", "tides")
