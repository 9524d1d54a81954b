"""What falls due by time is found by an index, however much there is besides."""

from __future__ import annotations

import sqlite3
from contextlib import closing
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


@pytest.mark.parametrize(
    ("name", "bound"),
    [
        ("lapsing_boards", (1, 2, 3, "closed", 4, 5, 0)),
        ("agreements_lapsing", (1, 2, "closed", 0)),
    ],
)
def test_a_look_for_what_has_lapsed_visits_no_board_where_nothing_can(
    name: str, bound: tuple[Any, ...]
) -> None:
    """Counts steps of SQLite's machine, since a server looks every two seconds."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    found = []
    with closing(sqlite3.connect(":memory:")) as raw:
        for script in migrations():
            raw.executescript(script)
        for boards in (1, 100):
            raw.executemany(
                "INSERT INTO board(id, title, lifecycle, config, core, seq, last_number, created_at, working_items, "
                "working_tokens, archived_items) VALUES (?, '', 'open', '{}', '{}', 0, 0, 0, 0, 0, 0)",
                [(f"{boards}-{n}",) for n in range(boards)],
            )
            steps = 0
            raw.set_progress_handler(count, 1)
            assert raw.execute(sql(name), bound).fetchall() == []
            raw.set_progress_handler(None, 1)
            found.append(steps)
    assert found[1] <= found[0] + 20, found
