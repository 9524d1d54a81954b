"""A server for each test that asks for one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import injecting
import pytest
import wires


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Any]:
    running = injecting.Server(tmp_path / "data", tmp_path / "log", limits=wires.UNHURRIED)
    running.start()
    yield running
    running.abandon()
