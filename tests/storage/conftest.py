"""Has a run say what the conformance kit detected of each store."""

from __future__ import annotations

from blackboard_mcp.storage.testing.kit import CAPABILITIES
from closing import LINES


def pytest_sessionfinish() -> None:
    for name, found in CAPABILITIES.items():
        words = ", ".join(f"{what}: {'yes' if there else 'no'}" for what, there in sorted(found.items()))
        LINES.add(f"store capabilities of {name}: {words}")
