"""Reports what the conformance kit detected of each store, and sets Hypothesis's profiles."""

from __future__ import annotations

import os

import pytest
from blackboard_mcp.storage.testing.kit import CAPABILITIES
from hypothesis import HealthCheck, settings

settings.register_profile(
    "ci",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile(
    "nightly", settings.get_profile("ci"), derandomize=False, max_examples=2_000, print_blob=True
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for name, found in sorted(CAPABILITIES.items()):
        words = ", ".join(f"{what}: {'yes' if there else 'no'}" for what, there in found.items())
        terminalreporter.write_line(f"store capabilities of {name}: {words}")
