"""What reads of a transaction are held against: by which indexes, how much of the log, and where that ends."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

import pytest
from blackboard_mcp.protocols.errors import Conflict
from blackboard_mcp.protocols.transactions import BOARD, Since, Transaction
from blackboard_mcp.storage.operation import Write
from blackboard_mcp.storage.operations.ledger import read_set
from blackboard_mcp.storage.operations.ledger import transactions as transacting
from blackboard_mcp.storage.operations.ledger.rows import sql
from blackboard_mcp.storage.testing.harness import CONFIG, HandClock, Table, draft
from blackboard_mcp.storage.testing.kit.transacting import Reads, moved, transact
from blackboard_mcp.storage.testing.walk.inline import inline_store

T = TypeVar("T")
LOOKING = [
    sql(name)
    for name in ("standing_items", "standing_entries", "last_event_of_items", "events_between", "last_event")
]


def run(calling: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(calling)


@pytest.fixture
def at() -> Iterator[Table]:
    table = Table(inline_store(HandClock()))
    run(table.store.ensure_board(table.board, "alice", CONFIG))
    yield table
    run(table.store.close())


def fill(at: Table, count: int, prefix: str) -> int:
    """So many entries; the sequence then."""
    for start in range(0, count, 100):
        drafts = [draft("x", "LOG", key=f"{prefix}:{n}") for n in range(start, min(start + 100, count))]
        run(at.batch("alice", *drafts))
    return run(at.seq())


def test_a_glob_read_long_ago_is_checked_through_what_can_match(
    at: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(at, 5, "plan")
    read = run(at.seq())
    fill(at, 50, "noise")
    monkeypatch.setattr(read_set, "_SCAN", 20)
    run(transact(at, "bob", {"plan:*": read}))
    run(at.change("alice", 3, status="RESOLVED"))
    seq = run(at.seq())
    assert run(moved(at, "bob", {"plan:*": read})) == {"plan:*": seq, "plan:2": 1}
    run(at.post("alice", "mine", key="plan:7", private=True))
    assert run(moved(at, "bob", {"plan:*": read})) == {"plan:*": seq, "plan:2": 1}


def test_a_glob_that_cannot_be_checked_any_more_counts_as_moved(
    at: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = fill(at, 30, "plan")
    fill(at, 30, "noise")
    monkeypatch.setattr(read_set, "_SCAN", 20)
    with pytest.raises(Conflict, match="too much happened") as told:
        run(transact(at, "bob", {"**:x": read}))
    assert told.value.facts["moved"] == {"**:x": run(at.seq())}
    run(transact(at, "bob", {"**:x": run(at.seq())}))


def ways(at: Table, reads: Reads) -> tuple[int, list[str]]:
    """How many steps SQLite takes for a transaction that writes an entry, and how it looks up what was read."""
    raw: sqlite3.Connection = at.store.engine._raw  # type: ignore[attr-defined]
    wanted = Transaction(reads, [draft("x", "LOG", key="written", expected=0)])
    steps = transacting.transact(Write(0), at.board, "bob", wanted, config=CONFIG)
    told: list[str] = []
    taken = 0

    def count() -> int:
        nonlocal taken
        taken += 1
        return 0

    raw.execute("BEGIN")
    try:
        statement, bound = next(steps)
        while True:
            if statement in LOOKING:
                told += [row[3] for row in raw.execute(f"EXPLAIN QUERY PLAN {statement}", bound)]
            raw.set_progress_handler(count, 50)
            rows = raw.execute(statement, bound).fetchall()
            raw.set_progress_handler(None, 0)
            statement, bound = steps.send(rows)
    except StopIteration:
        return taken, told
    finally:
        raw.set_progress_handler(None, 0)
        raw.execute("ROLLBACK")


def test_a_transaction_costs_the_same_on_a_board_twenty_times_as_large(at: Table) -> None:
    def reads() -> Reads:
        seq = run(at.seq())
        run(at.post("alice", "late", "LOG"))
        return {
            "plan:1": 1,
            "plan:x": 0,
            "L-2": Since(seq - 1),
            "plan:2": Since(seq),
            "plan:*": seq,
            "**:x": seq,
            BOARD: seq + 1,
        }

    fill(at, 300, "plan")
    small, told = ways(at, reads())
    fill(at, 6_000, "more")
    large, _ = ways(at, reads())
    assert large <= small * 1.5 + 5
    assert len(told) >= len(LOOKING)
    # Read rules and their marks are few, whatever the board has.
    few = ("VIRTUAL TABLE", "CONSTANT ROW", "SCAN kept")
    assert not [way for way in told if way.startswith("SCAN") and not any(word in way for word in few)], told


def test_what_was_read_long_ago_costs_no_more_the_longer_the_log_grew_since(
    at: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_set, "_SCAN", 100)
    seq = fill(at, 90, "plan")
    reads: Reads = {**{f"plan:{n}": Since(seq) for n in range(40)}, "plan:*": seq}
    fill(at, 300, "more")
    small, _ = ways(at, reads)
    fill(at, 3_000, "most")
    large, _ = ways(at, reads)
    assert large <= small * 1.5 + 5
