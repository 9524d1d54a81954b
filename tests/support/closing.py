"""What a run says before its last line, from whichever process it comes: what stores can do, what was skipped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

LINES: set[str] = set()
"""Lines that tests of this process want said at the end."""


def skips(reports: Iterable[Any]) -> list[str]:
    """One line for each reason for which tests were skipped."""
    reasons = Counter(" ".join(report.longrepr[2].split()) for report in reports)
    return [f"skipped {number}: {why.removeprefix('Skipped: ')}" for why, number in sorted(reasons.items())]
