"""A server that is killed after each step on a task of a sub-board: `dying_server.py JOURNAL PYTHON -m MODULE WORDS…`.

A step is a transaction that the server makes in its own name. Its name is on a line of the journal; a step whose name
is there already was made by an earlier life, and does not kill again.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
from pathlib import Path
from typing import Any

from blackboard_mcp.protocols.events import SYSTEM
from blackboard_mcp.storage.store import SqlBoardStore

STEPS = ("ensure_board", "note_sub_board", "post", "begin_sub_board", "end_sub_board")


def named(step: str, given: tuple[Any, ...]) -> str:
    """Returns the name of a step, or an empty string for what the server did not do in its own name."""
    if step != "post":
        return f"{step} {given[0]}"
    board, agent, drafts = given
    return f"post {board} {drafts[0].key or drafts[0].status}" if agent == SYSTEM else ""


def deadly(step: str, journal: Path) -> None:
    """Kills the process after a step."""
    honest = SqlBoardStore.__dict__[step]
    made = set(journal.read_text().splitlines())

    async def call(self: SqlBoardStore, *given: Any, **more: Any) -> Any:
        answer = await honest.__get__(self, SqlBoardStore)(*given, **more)
        name = named(step, given)
        if name and answer is not False and name not in made:
            lines = os.open(journal, os.O_WRONLY | os.O_APPEND)
            os.write(lines, f"{name}\n".encode())
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    setattr(SqlBoardStore, step, call)


if __name__ == "__main__":
    _, kept, _, _, module, *words = sys.argv
    for step in STEPS:
        deadly(step, Path(kept))
    sys.argv = [module, *words]
    runpy.run_module(module, run_name="__main__")
