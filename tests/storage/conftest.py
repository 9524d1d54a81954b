"""Reports what the conformance kit detected of each store."""

from __future__ import annotations

import pytest
from blackboard_mcp.storage.testing.kit import CAPABILITIES


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for name, found in sorted(CAPABILITIES.items()):
        words = ", ".join(f"{what}: {'yes' if there else 'no'}" for what, there in found.items())
        terminalreporter.write_line(f"store capabilities of {name}: {words}")
