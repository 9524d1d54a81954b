"""A server for each test that asks for one."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_spec = importlib.util.spec_from_file_location("injecting", Path(__file__).with_name("injecting.py"))
assert _spec is not None
assert _spec.loader is not None
injecting = importlib.util.module_from_spec(_spec)
sys.modules["injecting"] = injecting
_spec.loader.exec_module(injecting)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Any]:
    running = injecting.Server(tmp_path / "data", tmp_path / "log")
    running.start()
    yield running
    running.abandon()
