"""Months and years that a query names."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from blackboard_mcp.storage.lance.dates import Month, months, within
from blackboard_mcp.storage.lance.rows import microseconds


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("What broke in July 2025?", [Month(2025, 7)]),
        ("What broke in July, 2025?", [Month(2025, 7)]),
        ("pumps of 2024 and June", [Month(2024, None), Month(None, 6)]),
        ("status of 2026-05", [Month(2026, 5)]),
        ("the plan in May", [Month(None, 5)]),
        ("the plan since early March", [Month(None, 3)]),
        ("May 2026", [Month(2026, 5)]),
        ("May I post? We March on. It may march in june", []),
        ("port 20250, D-2024x, 1776 or 2026-13", [Month(2026, None)]),
        ("", []),
    ],
)
def test_months_and_years_that_a_query_names_are_found(query: str, named: list[Month]) -> None:
    assert months(query) == named


def test_an_instant_is_within_a_month_that_is_named_in_any_or_its_year() -> None:
    at = microseconds(datetime(2025, 7, 31, 23, 59, 59, tzinfo=UTC))
    for named, there in (
        ([], False),
        ([Month(2025, 7)], True),
        ([Month(None, 7)], True),
        ([Month(2025, None)], True),
        ([Month(2024, 7), Month(2025, 8)], False),
        ([Month(2024, 7), Month(2025, 7)], True),
    ):
        assert within(at, named) is there
