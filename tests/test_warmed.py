"""A command from a warmed process is as good as one from a new interpreter, and is a child of whoever asked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE

COMMAND = str(Path(sys.executable).with_name("blackboard-mcp"))
MODULE = [sys.executable, "-m", "blackboard_mcp.server"]
COLD = {"PYTHONHASHSEED": "1"}
"""What only a new interpreter heeds, so that the command starts from one."""


@pytest.mark.parametrize("program", [[COMMAND], MODULE], ids=["command", "module"])
@pytest.mark.parametrize(
    "words",
    [["--version"], ["serve", "--help"], ["nonsense"], ["serve", "--port", "x"], ["boards"], ["serve"]],
    ids=lambda words: " ".join(words),
)
def test_it_says_and_returns_what_a_new_interpreter_does(
    program: list[str], words: list[str], tmp_path: Path
) -> None:
    def said(name: str, **more: str) -> tuple[int, bytes, bytes]:
        data = tmp_path / name
        data.mkdir()
        env = os.environ | {"BLACKBOARD_DATA": "kept"} | more
        done = subprocess.run(
            [*program, *words], input=b"", capture_output=True, cwd=data, env=env, check=False
        )
        assert (data / "kept").exists() == (words == ["serve"])
        return done.returncode, done.stdout, done.stderr.replace(name.encode(), b"")

    assert said("warm") == said("cold", **COLD)


def test_it_loads_no_vocabulary_and_builds_no_model_again() -> None:
    script = Path(__file__).parent / "support" / "warm_child.py"
    assert subprocess.run([sys.executable, str(script)], capture_output=True, check=True).stdout == b"\n"


@pytest.mark.parametrize("mask", [0o000, 0o027])
def test_it_makes_files_with_the_mask_that_was_asked_for(mask: int) -> None:
    script = Path(__file__).parent / "support" / "umask_child.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, check=True, umask=mask)
    assert int(done.stdout) == mask


def test_it_is_a_child_that_a_signal_ends(tmp_path: Path) -> None:
    for number, code in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 0)):
        with subprocess.Popen(
            [*MODULE, "serve", "--transport", "http", "--port", "0", "--data", str(tmp_path)],
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stderr is not None
            assert process.stderr.readline()
            process.send_signal(number)
            assert process.wait(PATIENCE) == code
