"""A warning for a data folder that will be full soon."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from ..usecases.growth import Growth
from .findings import Finding, warning

SOON: Final = timedelta(days=30)


def look(growth: Growth, now: datetime) -> Iterator[Finding]:
    """Yields a warning if posts will stop within `SOON` at the present rate of growth."""
    if growth.stops_at is not None and growth.stops_at < now + SOON:
        yield warning(
            "storage-filling",
            f"At the rate of the last {growth.days:.1f} days posts stop on {growth.stops_at:%Y-%m-%d}, for lack "
            "of disk.",
            "Enlarge the disk, move other files, have old items forgotten (`[retention]` of the settings), or lower "
            "`owner_bytes` and `board_bytes` of the boards.",
            **growth.facts(),
        )
