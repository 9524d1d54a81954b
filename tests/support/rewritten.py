"""Workers rewrite the assertions of test files together, each its share, in place of each all of them."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

TESTS = Path(__file__).parents[1]


def share(config: pytest.Config) -> None:
    """Has pytest rewrite and keep this worker's share of the test files, which all workers read when they collect.

    Pytest keeps what it rewrote before it runs it, and without builtins a module ends at its first import.
    """
    inputs = getattr(config, "workerinput", None)
    hook = getattr(config.pluginmanager, "rewrite_hook", None)
    if inputs is None or hook is None:
        return
    number, workers = int(inputs["workerid"].removeprefix("gw")), inputs["workercount"]
    files = sorted(TESTS.rglob("test_*.py"), key=lambda path: (path.stat().st_size, path))
    for path in files[number::workers]:
        module = ModuleType(path.stem)
        module.__spec__ = importlib.util.spec_from_file_location(path.stem, path, loader=hook)
        module.__dict__["__builtins__"] = {}
        try:
            hook.exec_module(module)
        except ImportError:
            continue
