"""Tables of a board that no operation fills yet."""

from __future__ import annotations

UNFILLED = frozenset(
    {
        "stage",
        "condition_term",
        "condition_due",
    }
)
