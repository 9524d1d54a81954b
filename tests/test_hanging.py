"""A test that hangs ends its process, whatever it catches, and the process says where it hung."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import hanging
import pytest

HANGING = """
import asyncio, sys
import hanging

async def inside():
    while True:
        try:
            await asyncio.Event().wait()
        except BaseException:
            pass

async def hangs():
    await inside()

with hanging.ended_after(1, "test_of_mine", sys.stderr):
    asyncio.run(hangs())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no timers that interrupt")
def test_a_test_that_hangs_ends_its_process_which_says_where() -> None:
    folder = str(Path(hanging.__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", HANGING],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": folder},
        check=False,
    )
    assert done.returncode == 1
    assert "test_of_mine hangs: no end after 1 seconds" in done.stderr
    assert "in hangs\n" in done.stderr
    assert "in inside\n" in done.stderr
