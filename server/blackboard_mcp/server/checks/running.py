"""One run of a check: a program of the operator, started by the launcher and kept within limits."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from blackboard_mcp.protocols.values import dataclass
from blackboard_mcp.protocols.workspace import file_glob

RUNNABLE: Final = os.name == "posix"
"""Whether checks can be kept within limits here: they need the signals, sessions and limits of POSIX."""
_LAUNCHER: Final = Path(__file__).with_name("launcher.py")
_GIVEN: Final = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ")
_BELT: Final = 30.0
"""Seconds that the launcher may take beyond the limit of the check."""
_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])")
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class Check:
    """A program of the operator that judges the files of boards: it passes if its exit status is 0.

    `run` is its argument vector; no shell reads it. `files` is a glob: a write to a file that matches starts it.
    `environment` names the variables that it gets. `memory_bytes` is for all its processes together, `file_bytes` for
    each file that it writes. Without `boards` it is for all boards.
    """

    name: str
    run: tuple[str, ...]
    files: str = "**"
    boards: frozenset[str] = frozenset()
    environment: tuple[str, ...] = ()
    seconds: int = 120
    cpu_seconds: int = 120
    memory_bytes: int = 1_000_000_000
    file_bytes: int = 100_000_000
    processes: int = 64

    def covers(self, board: str) -> bool:
        """Tells whether the check is for a board."""
        return not self.boards or board in self.boards

    def matches(self, path: str) -> bool:
        """Tells whether a write to a file starts the check."""
        return file_glob(self.files)(path)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run gave: the exit status, or what kept it from an end of its own; seconds; its output as plain text."""

    exit: int | None
    broken: str
    seconds: float
    output: str

    @property
    def ok(self) -> bool:
        """Whether the check passed."""
        return self.exit == 0 and not self.broken

    @property
    def why(self) -> str:
        """Why it failed, in words; empty if it passed."""
        return self.broken or (f"exit {self.exit}" if self.exit else "")


async def run(check: Check, top: Path, free_bytes: int) -> Outcome:
    """Runs a check on the files in the folder `top`, which it may change, and ends all that it started.

    `HOME` and the folder for temporary files are below `top`'s parent, so they go with it. The disk keeps `free_bytes`.
    """
    home = top.parent / "home"
    home.mkdir(exist_ok=True)
    given = {name: os.environ[name] for name in (*_GIVEN, *check.environment) if name in os.environ}
    limits = {name: value for name, value in asdict(check).items() if isinstance(value, int)}
    order: Mapping[str, Any] = {
        **limits,
        "run": check.run,
        "folder": str(top),
        "environment": {**given, "HOME": str(home), "TMPDIR": str(home)},
        "free_bytes": free_bytes,
    }
    began = time.monotonic()
    launcher = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-S",
        str(_LAUNCHER),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
        limit=2**20,
    )
    if launcher.stdin is None or launcher.stdout is None:
        raise OSError("no pipes to the launcher")
    try:
        launcher.stdin.write(json.dumps(order).encode() + b"\n")
        async with asyncio.timeout(check.seconds + _BELT):
            said = await launcher.stdout.read()
        outcome = Outcome(**json.loads(said))
    except TimeoutError:
        return Outcome(None, "its launcher did not end", check.seconds + _BELT, "")
    except (ValueError, ConnectionError):
        return Outcome(None, "its launcher was killed", round(time.monotonic() - began, 2), "")
    finally:
        # The end of its input makes the launcher end all; it is awaited so that nothing runs on.
        launcher.stdin.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_BELT):
                await launcher.wait()
        if launcher.returncode is None:
            launcher.kill()
            await launcher.wait()
    # Agents know files by their paths in the workspace.
    output = plain(outcome.output).replace(f"{top}/", "")
    return Outcome(outcome.exit, outcome.broken, outcome.seconds, output)


def plain(output: str) -> str:
    """Returns an output without colours and other control characters."""
    return _CONTROLS.sub("", _ESCAPES.sub("", output.replace("\r\n", "\n"))).strip("\n")
