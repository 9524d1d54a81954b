"""The benchmark of the dearest calls, at night: none costs more than so many posts of the same run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from profiles import NIGHTLY

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "heavy_calls.py"
if not SCRIPT.exists():
    pytest.skip("the benchmarks are not in a source distribution", allow_module_level=True)

if NIGHTLY:

    def test_no_call_costs_more_cpu_than_two_hundred_posts() -> None:
        done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, check=False)
        print(done.stdout)
        assert done.returncode == 0, done.stderr
