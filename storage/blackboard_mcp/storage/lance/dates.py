"""Months and years that a query names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_NAMES = "|".join(_MONTHS)
_YEAR = r"(?:19|20)\d\d"
_NAMED = re.compile(
    rf"\b(?:(?P<month>{_NAMES})(?:,?\s+(?P<year>{_YEAR}))?|(?P<alone>{_YEAR})(?:-(?P<number>0[1-9]|1[0-2]))?)\b"
)
_SURE = re.compile(r"\b(?:in|of|since|until|by|during|last|this|early|mid|late)\s+\Z", re.IGNORECASE)
_AMBIGUOUS = ("March", "May")


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Month(NamedTuple):
    """A month of a year; `None` stands for any."""

    year: int | None
    month: int | None


def within(instant: int, named: Sequence[Month]) -> bool:
    """Tells whether an instant, in microseconds since 1970, is in one of the months of UTC."""
    if not named:
        return False
    at = _EPOCH + timedelta(microseconds=instant)
    return any(year in (None, at.year) and month in (None, at.month) for year, month in named)


def months(query: str) -> list[Month]:
    """Returns the months and years that a query names, such as `May 2026`, `in March`, `2025` or `2026-05`.

    March and May count only after a word such as "in", or before a year.
    """
    found = []
    for match in _NAMED.finditer(query):
        name, year = match["month"], match["year"] or match["alone"]
        if name in _AMBIGUOUS and not (year or _SURE.search(query, 0, match.start())):
            continue
        month = _MONTHS.index(name) + 1 if name else int(match["number"]) if match["number"] else None
        found.append(Month(None if year is None else int(year), month))
    return found
