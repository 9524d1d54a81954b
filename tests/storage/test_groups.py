"""Consumer groups against a plain model, mistakes that the suite must see, and what a turn costs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.protocols.errors import BlackboardError
from blackboard_mcp.protocols.events import Event
from blackboard_mcp.protocols.groups import Handle, Turn
from blackboard_mcp.storage.operations.access import visibility
from blackboard_mcp.storage.operations.ledger import rows
from blackboard_mcp.storage.operations.messages import group_turns
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.harness import HandClock, Table, draft
from blackboard_mcp.storage.testing.kit import BoardStoreKit
from blackboard_mcp.storage.testing.walk.inline import InlineEngine, inline_store
from blackboard_mcp.storage.testing.walk.walks import stride
from blackboard_mcp.storage.testing.walk.workers import walk_group
from hypothesis import settings
from profiles import draw_alike_everywhere

FAR = settings.get_current_profile_name() == "nightly"
HAPPENS = {"late", "ack", "fail", "extend", "again", "dead", "retry", "drop"}


def test_a_group_does_what_a_plain_model_says() -> None:
    far = settings(stride(3_000 if FAR else 40, shrink=FAR), stateful_step_count=60)
    assert walk_group(inline_store, far) == HAPPENS


# What a turn costs


class Counting(InlineEngine):
    """Counts the statements that run and the rows that come back."""

    def __init__(self) -> None:
        super().__init__()
        self.statements = self.rows = 0

    def _transaction(self, begin: str, operation: Any, end: str) -> Any:
        def counted() -> Any:
            steps = operation()
            try:
                statement = next(steps)
                while True:
                    found = yield statement
                    self.statements, self.rows = self.statements + 1, self.rows + len(found)
                    statement = steps.send(found)
            except StopIteration as stop:
                return stop.value

        return super()._transaction(begin, counted, end)


@pytest.mark.parametrize("in_flight", [0, 900])
async def test_a_turn_costs_the_same_whatever_the_backlog_and_the_log(in_flight: int) -> None:
    costs = []
    for backlog in (1_200, 6_000):
        clock = HandClock()
        engine = Counting()
        store = SqlBoardStore(engine, clock)  # type: ignore[arg-type]
        at = Table(store)
        await at.configure()
        await store.create_group(at.board, "alice", "g", {"event": "item.posted"})
        for begin in range(0, backlog, 100):
            await at.batch("alice", *(draft(f"job {begin + n}", "LOG") for n in range(100)))
        for _ in range(in_flight // 50):
            await store.consume(at.board, "ben", "g", Turn(limit=50))
        before = engine.statements, engine.rows
        taken = await store.consume(at.board, "cyd", "g", Turn(limit=2))
        assert len(taken.deliveries) == 2
        handles = tuple(delivery.handle for delivery in taken.deliveries)
        await store.group_outlook(at.board, "g")
        await store.consume(at.board, "cyd", "g", Turn(ack=handles, limit=1))
        costs.append((engine.statements - before[0], engine.rows - before[1]))
        await store.close()
    assert costs[0] == costs[1]
    assert costs[0][0] < 40


FEW = ("SCAN json_each", "SCAN board", "SCAN b", "SCAN r", "SCAN CONSTANT", "SCAN kept")
"""Tables that stay small whatever a board holds: boards, lists given to a statement, readers of at most 32 rules."""


async def test_every_statement_about_groups_and_subscriptions_is_served_by_an_index() -> None:
    engine = InlineEngine()
    raw = engine._raw
    folder = Path(rows.__file__).parents[2] / "sqlite" / "queries"
    looked = 0
    for page in ("groups.sql", "subscriptions.sql"):
        for name in rows._NAME.findall((folder / page).read_text("utf-8")):
            statement = rows.sql(name)
            plan = raw.execute(
                f"EXPLAIN QUERY PLAN {statement}", [1] * statement_values(statement)
            ).fetchall()
            for *_, detail in plan:
                looked += 1
                assert not detail.startswith("SCAN") or detail.startswith(FEW), f"{name}: {detail}"
    assert looked > 40
    await engine.close()


def statement_values(statement: str) -> int:
    """How many values a statement binds."""
    return max((n for n in range(1, 20) if f"?{n}" in statement), default=0)


# Mistakes that are seen

Mutate = Callable[[pytest.MonkeyPatch], None]


def statement(name: str, text: str) -> Mutate:
    return lambda patch: patch.setitem(rows._statements(), name, text)


def without(name: str, words: str, instead: str = "") -> Mutate:
    """A named statement without some of its words."""
    whole = rows.sql(name)
    assert words in whole, name
    return statement(name, whole.replace(words, instead))


def never_late(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(group_turns, "_lost", lambda handle, row, ledger: None)


def late_is_good(patch: pytest.MonkeyPatch) -> None:
    """What is late holds as long as nobody else has it."""
    honest = group_turns._lost

    def lost(handle: Handle, row: Any, ledger: Any) -> str | None:
        why = honest(handle, row, ledger)
        return None if why is not None and "its lease ended" in why else why

    patch.setattr(group_turns, "_lost", lost)


def everything_wanted(patch: pytest.MonkeyPatch) -> None:
    def wants(self: group_turns.GroupRow, event: Event) -> bool:
        return True

    patch.setattr(group_turns.GroupRow, "wants", wants)


LEAK = "AND " + visibility.expanded("VISIBLE(owner, ?3)")

BY_THE_KIT: list[tuple[str, Mutate, str, bool]] = [
    ("late acknowledgements hold", never_late, "test_a_late_acknowledgement_is_refused_and_says_why", True),
    ("late while nobody has it", late_is_good, "test_of_a_call_with_something_late_nothing_is_done", True),
    (
        "leases do not exclude",
        without("deliveries_due", "AND until <= ?3", "AND ?3 = ?3"),
        "test_each_event_goes_to_one_worker_in_order",
        False,
    ),
    (
        "leases never end",
        without("deliveries_due", "AND until <= ?3", "AND until < 0 AND ?3 = ?3"),
        "test_what_is_not_acknowledged_in_time_is_handed_out_again",
        True,
    ),
    (
        "attempts are not told apart",
        without("delivery_again", "attempt = attempt + 1, "),
        "test_the_same_worker_does_not_settle_a_former_attempt",
        True,
    ),
    (
        "private events are handed out",
        without("events_after", LEAK, "AND ?3 = ?3"),
        "test_what_is_private_reaches_no_worker",
        False,
    ),
    ("filters of groups", everything_wanted, "test_only_what_matches_is_handed_out", False),
    (
        "dead letters are lost",
        statement(
            "delivery_bury",
            "DELETE FROM delivery WHERE board = ?1 AND consumers = ?2 AND seq = ?3 AND ?4 + ?5",
        ),
        "test_what_fails_too_often_is_a_dead_letter",
        True,
    ),
    (
        "two readers move one cursor",
        without("subscription_advance", "AND cursor = ?6", "AND ?6 = ?6"),
        "test_of_two_readers_one_moves_the_cursor",
        False,
    ),
    (
        "a confirmed cursor goes back",
        without("subscription_forward", "max(cursor, ?4)", "?4"),
        "test_a_cursor_that_is_confirmed_never_goes_back",
        False,
    ),
    (
        "expired without a trace",
        statement("subscription_expire", "SELECT ?1, ?2, ?3, ?4"),
        "test_what_nobody_uses_expires_and_says_where_it_stood",
        True,
    ),
]


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def store(tmp_path: Path, clock: HandClock) -> AsyncIterator[SqlBoardStore]:
    opened = await SqlBoardStore.open(tmp_path / "board.db", clock=clock)
    yield opened
    await opened.close()


@pytest.mark.parametrize(
    ("mutate", "check", "timed"), [pytest.param(m, c, t, id=f"{n} - {c}") for n, m, c, t in BY_THE_KIT]
)
@pytest.mark.parametrize("mutated", [False, True], ids=["honest", "mutant"])
async def test_the_kit_sees_the_mistake(
    monkeypatch: pytest.MonkeyPatch,
    store: SqlBoardStore,
    clock: HandClock,
    mutate: Mutate,
    check: str,
    timed: bool,
    mutated: bool,
) -> None:
    told = {"clock": clock} if timed and "clock" in getattr(BoardStoreKit, check).__code__.co_varnames else {}
    run = getattr(BoardStoreKit(), check)
    if not mutated:
        await run(at=Table(store), **told)
        return
    mutate(monkeypatch)
    with pytest.raises((AssertionError, BlackboardError, pytest.fail.Exception)):
        await run(at=Table(store), **told)


@pytest.mark.parametrize(
    "mutate",
    [
        pytest.param(never_late, id="late acknowledgements hold"),
        pytest.param(late_is_good, id="late while nobody has it"),
        pytest.param(without("deliveries_due", "AND until <= ?3", "AND ?3 = ?3"), id="leases do not exclude"),
        pytest.param(without("delivery_again", "attempt = attempt + 1, "), id="attempts are not told apart"),
        pytest.param(without("deliveries_due", "ORDER BY seq", "ORDER BY seq DESC"), id="the newest first"),
        pytest.param(
            without("delivery_retry", "tries = 0, last = 0", "last = 1"),
            id="a retried dead letter has no attempt",
        ),
    ],
)
def test_the_model_sees_the_mistake(monkeypatch: pytest.MonkeyPatch, mutate: Mutate) -> None:
    draw_alike_everywhere(monkeypatch)  # the same walks by day and at night
    mutate(monkeypatch)
    with pytest.raises((AssertionError, BlackboardError, KeyError)):
        walk_group(inline_store, settings(stride(40), stateful_step_count=60, derandomize=True))
