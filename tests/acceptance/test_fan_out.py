"""A burst to many durable subscriptions over real connections, with readers that stall: F20, I20.

How fast it went is for the benchmark to tell; `tests/server/usecases/test_tails.py` counts who is woken.
The run is the benchmark's, smaller; HYPOTHESIS_PROFILE=nightly takes a thousand subscriptions and ten
thousand events.
"""

from __future__ import annotations

import asyncio
import importlib
from pathlib import Path

import pytest
from profiles import NIGHTLY

FOLDER = Path(__file__).parents[2] / "benchmarks"
if not FOLDER.is_dir():
    pytest.skip("the benchmarks are not in a source distribution", allow_module_level=True)

AGENTS, EACH, EVENTS, STALLED = (20, 50, 10_000, 20) if NIGHTLY else (6, 10, 500, 4)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_I20_a_burst_reaches_every_subscription_whole_in_order_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    benchmark = importlib.import_module("fan_out")
    came = asyncio.run(benchmark.run(tmp_path, AGENTS, EACH, EVENTS, STALLED))
    assert came.subscriptions == AGENTS * EACH
    assert came.wrong == []
    # Every subscription has the last event at least, and most have a part of the burst.
    assert came.delivered > came.subscriptions * EVENTS / 200
    # Shared ends and pages take 24 MiB at most, a stalled stream a few hundred KiB.
    assert came.most - came.before < 100
