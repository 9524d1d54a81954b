"""Makes `samples` importable by name, as an operator's module is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    yield
    if "samples" in sys.modules:
        sys.modules["samples"].RELEASE.set()
        del sys.modules["samples"]
