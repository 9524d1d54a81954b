"""One served process for the tests of a module; each test takes boards of its own on it."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from blackboard_mcp.server.demo.process import Serving, command, environment
from patience import PATIENCE

READY = "blackboard-mcp serves "
Start = Callable[..., Serving]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The served data folder."""
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def served(data: Path, start: Start) -> Serving:
    """A server over HTTP on the module's data folder."""
    return start(data)


@pytest.fixture(scope="module")
def start() -> Iterator[Start]:
    """Starts servers over HTTP on a data folder, with further options, that end with the module.

    What one says on standard error is added to `said`, where it is given; `script` runs in the command's place.
    """
    with ExitStack() as stack:
        yield lambda data, *options, **more: stack.enter_context(running(data, *options, **more))


@contextmanager
def running(
    data: Path, *options: str, said: list[str] | None = None, script: Path | None = None
) -> Iterator[Serving]:
    """Runs the command's server, or that of a script with the same options."""
    words = command("serve", "--transport", "http", "--port", "0", "--data", str(data), *options)
    if script is not None:
        words = [words[0], str(script), *words[3:]]
    process = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment()
    )
    assert process.stderr is not None
    said = [] if said is None else said
    for line in process.stderr:
        said.append(line)
        if line.startswith(READY):
            break
    else:
        pytest.fail(f"the server did not start: {said}")
    draining = threading.Thread(target=said.extend, args=(process.stderr,))
    draining.start()
    try:
        yield Serving(line.strip().removeprefix(READY), process.pid)
    finally:
        process.terminate()
        assert process.wait(PATIENCE) == 0, said
        draining.join()
        process.stderr.close()
        crashes = [line for line in said if "Traceback" in line or " ERROR " in line]
        assert not crashes, "".join(said)
