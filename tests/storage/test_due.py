"""What falls due by time is found by an index, however much there is besides."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest
from blackboard_mcp.storage.operations.ledger.rows import sql
from blackboard_mcp.storage.sqlite.opening import migrations


@pytest.mark.parametrize(
    ("name", "bound", "way"),
    [
        ("expiring", (1, 200, 0, 0, 0), "item_expiry ((expires_at,board,number)>(?,?,?) AND expires_at<?)"),
        ("next_expiry", (1,), "item_expiry (expires_at>?)"),
        ("idempotency_due", (1, 500), "idempotency_expiry (expires_at<?)"),
        ("idempotency_drop", (1, "a", "k"), "PRIMARY KEY (board=? AND agent=? AND key=?)"),
        ("idempotency_get", (1, "a", "k", 1), "PRIMARY KEY (board=? AND agent=? AND key=?)"),
    ],
)
def test_what_is_due_is_found_by_an_index_and_not_sorted(name: str, bound: tuple[Any, ...], way: str) -> None:
    raw = sqlite3.connect(":memory:")
    for script in migrations():
        raw.executescript(script)
    plan = [row[3] for row in raw.execute(f"EXPLAIN QUERY PLAN {sql(name)}", bound)]
    raw.close()
    assert way in plan[0]
    assert not [step for step in plan if "SCAN" in step or "TEMP B-TREE" in step]
