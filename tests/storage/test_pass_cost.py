"""What a pass costs in steps of SQLite: as much as it moves, or as much as there is, and never more."""

from __future__ import annotations

import asyncio
import sqlite3
from functools import partial

import pytest
from blackboard_mcp.protocols.board import PassStep
from blackboard_mcp.protocols.pruning import PassOutcome, Reach
from blackboard_mcp.server.pruning.selection import decide
from blackboard_mcp.storage.operations.leaving import pruning
from blackboard_mcp.storage.testing.harness import CONFIG, HandClock, Table, draft
from blackboard_mcp.storage.testing.walk.inline import inline_store

SMALL, LARGE = 250, 1_000
MOVED = 10
TOKENS = 20

AFTER_SUMMARIES = frozenset({PassStep.RESOLVED, PassStep.LOGS, PassStep.IMPORTANCE})


async def grow(at: Table, size: int) -> None:
    """Findings that rest on one another, decisions, questions, and an agent who has nothing but open work."""
    await at.store.ensure_board(at.board, "alice", CONFIG)
    await at.configure(target_tokens=10_000_000, owner_share=1.0, owner_held=1.0)
    await at.post("erin", "what is to be done", "PLAN", importance=1, tokens=TOKENS)
    for place in range(0, size, 25):
        drafts = [
            draft(
                f"finding {place + n}",
                "DECISION" if n % 5 == 0 else "FACT",
                importance=2 + n % 3,
                tokens=TOKENS,
                **({"derived_from": -n} if n % 4 == 3 else {}),
                **({"replies_to": -n} if n % 7 == 6 else {}),
            )
            for n in range(25)
        ]
        await at.batch("alice" if place % 2 else "bob", *drafts)
    low = (await at.standing()).working_tokens - MOVED * TOKENS
    target = 2 * low
    await at.configure(
        target_tokens=target, low_water=low / target, high_water=low / target + 1e-6, ceiling=4
    )


def steps_of_a_pass(size: int, reach: Reach) -> int:
    """How many steps SQLite takes for a pass that has ten items to move on a board of this size."""
    at = Table(inline_store(HandClock()))
    asyncio.run(grow(at, size))
    raw: sqlite3.Connection = at.store.engine._raw  # type: ignore[attr-defined]
    taken = 0

    def count() -> int:
        nonlocal taken
        taken += 1
        return 0

    asked = pruning.choose(0, at.board, partial(decide, steps=AFTER_SUMMARIES), lambda _: reach)
    outcome: PassOutcome
    try:
        statement, bound = next(asked)
        while True:
            raw.set_progress_handler(count, 10)
            rows = raw.execute(statement, bound).fetchall()
            raw.set_progress_handler(None, 0)
            statement, bound = asked.send(rows)
    except StopIteration as end:
        outcome = end.value.foreseen
    finally:
        raw.set_progress_handler(None, 0)
        asyncio.run(at.store.close())
    assert len(outcome.moved) >= MOVED
    return taken


@pytest.mark.parametrize("reach", [Reach.ENOUGH, Reach.ALL])
def test_a_pass_over_a_board_four_times_as_large_takes_no_more_than_it_shows(reach: Reach) -> None:
    small, large = steps_of_a_pass(SMALL, reach), steps_of_a_pass(LARGE, reach)
    shown = 1 if reach is Reach.ENOUGH else LARGE / SMALL
    assert large <= small * shown * 1.15, (small, large)
