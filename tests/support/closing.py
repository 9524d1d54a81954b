"""Lines printed at the end of a test run, from every process: the abilities of stores, and skipped tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

LINES: set[str] = set()
"""The lines that tests of this process add to the end of the run."""


def skips(reports: Iterable[Any]) -> list[str]:
    """Returns one line for each reason for which tests were skipped, with their number."""
    reasons = Counter(" ".join(report.longrepr[2].split()) for report in reports)
    return [f"skipped {number}: {why.removeprefix('Skipped: ')}" for why, number in sorted(reasons.items())]
