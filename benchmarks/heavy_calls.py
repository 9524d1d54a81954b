"""Measures the most expensive calls: the CPU of each, compared with that of a plain post in the same run.

    python benchmarks/heavy_calls.py [--most 200]

Sends the calls of `tests/acceptance/test_heavy_calls.py`, whose work the test counts, to a server process over HTTP;
what C does is in the time alone. Each is sent three times and the least counts. Read the ratios: the CPU of a post
is of this machine. Ends with status 1 when a call costs more than `--most` posts.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1] / "tests"
TIMES, POSTS = 3, 60


def calls() -> Any:
    """Imports and returns the test module with the calls."""
    sys.path.insert(0, str(TESTS / "support"))
    spec = importlib.util.spec_from_file_location("heavy", TESTS / "acceptance" / "test_heavy_calls.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["heavy"] = module
    spec.loader.exec_module(module)
    return module


heavy = calls()


@dataclass
class Timed(heavy.Server):  # type: ignore[misc]
    """A server whose calls are measured in CPU time."""

    pid: int = 0
    post: float = 0.0
    cost: dict[str, float] = field(default_factory=dict)

    def cpu(self) -> float:
        """Returns the CPU seconds of all threads of the server."""
        used = 0
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError):
                used += int((task / "schedstat").read_text().split()[0])
        return used / 1e9

    def timed(self, asking: Callable[[], Any]) -> tuple[float, Any]:
        """Makes a call, and returns the CPU seconds that it took and its reply."""
        before = self.cpu()
        reply = asking()
        return self.cpu() - before, reply

    def plain(self) -> float:
        """Makes a plain post, and returns its CPU seconds."""
        return self.timed(
            lambda: heavy.wires.call(self.modern, "post", '{"text": "a fact", "board": "quiet"}')
        )[0]

    def measured(self, name: str, asking: Callable[[], Any]) -> Any:
        """Makes a call `TIMES` times, keeps the least CPU seconds under its name, and returns the first reply."""
        took, first = self.timed(asking)
        took = min([took, *(self.timed(asking)[0] for _ in range(TIMES - 1))])
        self.cost[name] = max(took, self.cost.get(name, 0.0))
        return first


def tests() -> Iterator[Callable[[Any], None]]:
    """Yields a function of a server for each test of the module and each of its parameters."""
    for name, test in vars(heavy).items():
        if name.startswith("test_"):
            marks = [mark for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
            given = [{mark.args[0]: value} for mark in marks for value in mark.args[1]] or [{}]
            for more in given:
                yield lambda server, test=test, more=more: test(server, **more)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--most", type=float, default=200.0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        place = Path(folder)
        url, pid = stack.enter_context(heavy.wires.http_process(place / "data", place / "log", *heavy.QUIET))
        wires = [heavy.wires.HttpWire(url, pid, "ada", modern=modern) for modern in (True, False)]
        for wire in wires:
            stack.callback(wire.close)
        server = Timed(*wires, None, pid=pid)
        posts = [server.plain() for _ in range(POSTS)]
        for test in tests():
            test(server)
            posts += [server.plain() for _ in range(5)]
    post = statistics.median(posts)
    for name, took in sorted(server.cost.items(), key=lambda one: -one[1]):
        print(f"{took / post:7.1f} posts  {1_000 * took:7.1f} ms  {name}")
    print(f"a plain post {1_000 * post:.2f} ms, load {os.getloadavg()[0]:.1f}")
    if dear := [name for name, took in server.cost.items() if took > asked.most * post]:
        sys.exit(f"dearer than {asked.most:g} posts: {', '.join(dear)}")


if __name__ == "__main__":
    main()
