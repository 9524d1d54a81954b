"""The kit sees the mistakes about runs that it is there to see: with each put in, a named check fails."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from blackboard_mcp.protocols.errors import BlackboardError
from blackboard_mcp.protocols.runs import Budget, RunState
from blackboard_mcp.storage.memory import open_memory_store
from blackboard_mcp.storage.operations.ledger import rows
from blackboard_mcp.storage.operations.ledger.ledger import Ledger
from blackboard_mcp.storage.operations.runs import finishing, starting, turning
from blackboard_mcp.storage.operations.runs import rows as run_rows
from blackboard_mcp.storage.operations.runs.rows import RunRow, TurnRow
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.harness import HandClock, Table
from blackboard_mcp.storage.testing.kit import BoardStoreKit

Mutate = Callable[[pytest.MonkeyPatch], None]


def decisions_burn_rounds(patch: pytest.MonkeyPatch) -> None:
    """A decision that was not understood takes a round."""
    honest = turning._spend

    def spend(row: RunRow, usage: Any) -> None:
        honest(row, usage)
        if row.phase == "decide":
            row.round += 1

    patch.setattr(turning, "_spend", spend)


def anybody_is_chosen(patch: pytest.MonkeyPatch) -> None:
    """A strategy gives a turn to who has no part in the run."""

    def check_eligible(ledger: Ledger, row: RunRow, chosen: Any) -> rows.Steps[None]:
        return
        yield

    patch.setattr(starting, "check_eligible", check_eligible)


def stamps_are_ignored(patch: pytest.MonkeyPatch) -> None:
    """Of two that choose at once, both give a round."""

    def find(no: int, number: int) -> rows.Steps[RunRow | None]:
        row = yield from honest(no, number)
        if row is not None and row.state == RunState.OPEN:
            row.phase, row.stamp = "choose", Anything(row.stamp)
        return row

    honest = run_rows.find
    patch.setattr(run_rows, "find", find)


class Anything(int):
    """A number that equals every other."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = int.__hash__


def nothing_is_spent(patch: pytest.MonkeyPatch) -> None:
    """What a turn cost is not counted."""
    patch.setattr(turning, "_spend", lambda row, usage: None)


def spending_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Each turn begins the account anew."""
    honest = turning._spend

    def spend(row: RunRow, usage: Any) -> None:
        row.spent = run_rows.budget_json(Budget())
        honest(row, usage)

    patch.setattr(turning, "_spend", spend)


def old_leases_count(patch: pytest.MonkeyPatch) -> None:
    """A turn ends under any lease of its agent."""
    honest = turning._turn

    def turn(ledger: Ledger, row: RunRow, agent: str, lease: int) -> rows.Steps[TurnRow]:
        return (yield from honest(ledger, row, agent, 0))

    patch.setattr(turning, "_turn", turn)


def sealed_texts_show(patch: pytest.MonkeyPatch) -> None:
    """A contribution to a sealed round is posted at once."""
    honest = run_rows.find

    def find(no: int, number: int) -> rows.Steps[RunRow | None]:
        row = yield from honest(no, number)
        if row is not None:
            row.sealed = 0
        return row

    patch.setattr(run_rows, "find", find)


def anybody_answers(patch: pytest.MonkeyPatch) -> None:
    """The answer is whoever's writes it first."""

    def may(ledger: Ledger, row: RunRow, grant: Any) -> rows.Steps[bool]:
        return True
        yield

    patch.setattr(finishing, "_may_instead", may)


MUTANTS: list[tuple[Mutate, str]] = [
    (decisions_burn_rounds, "test_I33_a_malformed_decision_takes_no_round"),
    (decisions_burn_rounds, "test_I33_an_unknown_agent_takes_no_round"),
    (anybody_is_chosen, "test_I32_only_its_agents_are_chosen"),
    (stamps_are_ignored, "test_who_chooses_on_a_run_that_moved_does_nothing"),
    (nothing_is_spent, "test_I34_a_spent_budget_stops_the_run_and_runs_nothing"),
    (spending_is_forgotten, "test_I34_a_spent_budget_stops_the_run_and_runs_nothing"),
    (old_leases_count, "test_a_turn_is_its_agents_alone"),
    (sealed_texts_show, "test_contributions_open_together"),
    (anybody_answers, "test_only_the_decider_answers"),
]


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def store(clock: HandClock) -> AsyncIterator[SqlBoardStore]:
    opened = await open_memory_store(clock=clock)
    yield opened
    await opened.close()


async def tried(store: SqlBoardStore, clock: HandClock, check: str) -> None:
    test = getattr(BoardStoreKit, check)
    given = {"at": Table(store), "clock": clock, "store": store}
    await test(
        BoardStoreKit(), **{name: given[name] for name in inspect.signature(test).parameters if name in given}
    )


@pytest.mark.parametrize(("mutate", "check"), MUTANTS, ids=lambda value: getattr(value, "__name__", None))
async def test_the_kit_sees_the_mistake(
    store: SqlBoardStore, clock: HandClock, mutate: Mutate, check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception, BlackboardError, KeyError)):
        await tried(store, clock, check)


@pytest.mark.parametrize("check", sorted({check for _, check in MUTANTS}))
async def test_without_a_mistake_the_checks_pass(store: SqlBoardStore, clock: HandClock, check: str) -> None:
    await tried(store, clock, check)
