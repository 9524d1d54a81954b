"""Programs that hang, flood, fork and hide are contained, and nothing that they started outlives them."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.server.checks import running
from blackboard_mcp.server.checks.running import Check, Outcome, plain, run
from patience import PATIENCE

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="needs Linux, which counts processes and memory"
)
LAUNCHER = Path(running.__file__).with_name("launcher.py")
FREE = 1_000_000


@pytest.fixture
def top(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    return folder


def python(code: str, **limits: Any) -> Check:
    return Check("c", (sys.executable, "-S", "-c", code), **limits)


def alive(mark: str) -> list[str]:
    """Returns the processes whose command line has a mark."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            found += [folder.name] if mark.encode() in words else []
    return found


async def test_a_program_passes_by_its_exit_status(top: Path) -> None:
    (top / "a.txt").write_text("hello\n")
    passed = await run(python("print(open('a.txt').read())"), top, FREE)
    assert (passed.ok, passed.exit, passed.output, passed.why) == (True, 0, "hello", "")
    failed = await run(python("import sys; print('no', file=sys.stderr); sys.exit(3)"), top, FREE)
    assert (failed.ok, failed.why, failed.output) == (False, "exit 3", "no")
    missing = await run(Check("c", ("no-such-program",)), top, FREE)
    assert (missing.ok, missing.exit) == (False, None)
    assert "could not be started" in missing.why


async def test_it_gets_its_own_home_and_the_named_variables_only(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    monkeypatch.setenv("WANTED", "yes")
    code = "import os; print(sorted(os.environ), os.environ['HOME'], os.getcwd())"
    said = (await run(python(code, environment=("WANTED",)), top, FREE)).output
    assert "'WANTED'" in said
    assert "SECRET_TOKEN" not in said
    assert str(top.parent / "home") in said


BOMB = (
    "import os, time\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        time.sleep(.01)"
)
HIDDEN = "import os, sys, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(600)"
MANY = "import os, time\nfor _ in range(3):\n    os.fork()\nx = bytearray(30_000_000)\ntime.sleep(600)"


@pytest.mark.parametrize(
    ("code", "limits", "why"),
    [
        ("import time; time.sleep(600)", {"seconds": 1}, "ran longer than 1 s"),
        (
            "import signal, time\nfor n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\ntime.sleep(600)",
            {"seconds": 1},
            "ran longer than 1 s",
        ),
        ("import os\nwhile True: os.write(1, b'x' * 65536)", {}, "bytes of output"),
        ("x = bytearray(10**9)", {"memory_bytes": 200_000_000}, "exit 1"),
        (MANY, {"memory_bytes": 150_000_000}, "bytes of memory"),
        (BOMB, {"processes": 20}, "more than 20 processes"),
        ("while True: pass", {"cpu_seconds": 1}, "CPU"),
        ("import os, time; os.close(1); os.close(2); time.sleep(600)", {"seconds": 1}, "ran longer than 1 s"),
        ("open('big', 'wb').write(b'x' * 10**7)", {"file_bytes": 1_000_000}, "exit 1"),
    ],
    ids=[
        "hangs",
        "ignores signals",
        "floods",
        "one allocates",
        "many allocate",
        "forks",
        "spins",
        "silent",
        "fills",
    ],
)
async def test_what_breaks_a_limit_is_ended(top: Path, code: str, limits: dict[str, int], why: str) -> None:
    mark = f"mark-{os.urandom(8).hex()}"
    outcome = await run(python(f"'{mark}'\n{code}", **limits), top, FREE)
    assert not outcome.ok
    assert why in outcome.why
    assert len(outcome.output) < 70_000
    assert not alive(mark)


BOUNDED = """
import importlib.util, os, signal, sys
spec = importlib.util.spec_from_file_location("launcher", sys.argv[1])
launcher = importlib.util.module_from_spec(spec)
spec.loader.exec_module(launcher)
launcher._OF_OTHERS = 0
os.setuid(54321)
launcher._bound({"processes": 20, "cpu_seconds": 60, "file_bytes": 10**6, "memory_bytes": 10**9})
children = []
try:
    for _ in range(1_000):
        if (child := os.fork()) == 0:
            signal.pause()
        children.append(child)
except BlockingIOError:
    pass
for child in children:
    os.kill(child, signal.SIGKILL)
print(len(children))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user, who has no processes yet")
def test_the_system_bounds_how_many_a_user_starts_while_nobody_looks() -> None:
    words = [sys.executable, "-I", "-S", "-c", BOUNDED, str(LAUNCHER)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert 20 < int(done.stdout) < 600


async def test_the_launcher_goes_before_what_it_started_if_it_may(top: Path) -> None:
    first = "import os; os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))"
    words = [sys.executable, "-S", "-c", first]
    may = (await asyncio.to_thread(subprocess.run, words, capture_output=True)).returncode == 0
    shown = (
        "import os; print([os.sched_getscheduler(n) & 7 for n in (os.getppid(), 0)], os.getpriority(0, 0))"
    )
    outcome = await run(python(shown), top, FREE)
    assert outcome.output == f"[{os.SCHED_RR if may else os.SCHED_OTHER}, {os.SCHED_OTHER}] 10"


async def test_what_hides_from_its_group_ends_with_it(top: Path) -> None:
    mark = f"mark-{os.urandom(8).hex()}"
    outcome = await run(python(f"'{mark}'\n{HIDDEN}"), top, FREE)
    assert outcome.ok
    assert not alive(mark)


async def test_what_removes_its_own_folder_is_bounded_and_ends_as_else(top: Path) -> None:
    mark = f"mark-{os.urandom(8).hex()}"
    # It goes on for as long as the launcher needs to look at it.
    code = f"'{mark}'\nimport shutil\nshutil.rmtree('.', ignore_errors=True)\n{HIDDEN}\ntime.sleep(1)"
    assert (await run(python(code), top, FREE)).ok
    assert not alive(mark)


async def test_a_launcher_that_was_killed_is_told_as_killed(top: Path) -> None:
    outcome = await run(python("import os; os.kill(os.getppid(), 9)"), top, FREE)
    assert (outcome.ok, outcome.why) == (False, "its launcher was killed")
    assert outcome.seconds < PATIENCE


async def test_a_full_disk_ends_it(top: Path) -> None:
    outcome = await run(python("import time; time.sleep(600)"), top, 2**60)
    assert "free on the disk" in outcome.why


def test_it_ends_with_the_server(top: Path) -> None:
    mark = f"mark-{os.urandom(8).hex()}"
    order = {
        "run": [sys.executable, "-S", "-c", f"'{mark}'\nimport os, time; os.fork(); time.sleep(600)"],
        **{"folder": str(top), "environment": {}, "seconds": 600, "cpu_seconds": 600, "processes": 9},
        **{"file_bytes": 10**6, "memory_bytes": 10**9, "free_bytes": FREE},
    }
    words = [sys.executable, "-I", "-S", str(LAUNCHER)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as launcher:
        assert launcher.stdin is not None
        assert launcher.stdout is not None
        launcher.stdin.write(json.dumps(order).encode() + b"\n")
        launcher.stdin.flush()
        until = time.monotonic() + PATIENCE
        while len(alive(mark)) < 2:
            assert time.monotonic() < until
            time.sleep(0.02)
        # The system closes the pipe of a server that is killed.
        launcher.stdin.close()
        assert json.loads(launcher.stdout.read())["broken"] == "the server ended"
    assert not alive(mark)


async def test_of_a_long_output_the_beginning_and_the_end_are_kept(top: Path) -> None:
    outcome = await run(python("for n in range(100_000): print(n)"), top, FREE)
    assert outcome.output.startswith("0\n1\n2\n")
    assert outcome.output.endswith("\n99999")
    assert "bytes left out" in outcome.output
    assert len(outcome.output) < 70_000


def test_control_characters_and_colours_are_taken_out() -> None:
    assert plain("\x1b[31mred\x1b[0m\r\n\x1b]0;title\x07a\x00b\x07\tc\n") == "red\nab\tc"
    assert Outcome(0, "", 1.0, "").ok
