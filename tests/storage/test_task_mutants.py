"""The kit sees the mistakes about tasks that it is there to see: with each put in, a named check fails."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from blackboard_mcp.protocols.agenda import HELD, Settle, TaskState
from blackboard_mcp.protocols.errors import BlackboardError
from blackboard_mcp.storage.memory import open_memory_store
from blackboard_mcp.storage.operations.agenda import (
    budgets,
    lapses,
    planning,
    reservations,
    settling,
    sub_boards,
    taking,
)
from blackboard_mcp.storage.operations.agenda import rows as task_rows
from blackboard_mcp.storage.operations.agenda.rows import TaskRow
from blackboard_mcp.storage.operations.ledger import rows
from blackboard_mcp.storage.operations.ledger.ledger import Ledger
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.harness import HandClock, Table
from blackboard_mcp.storage.testing.kit import BoardStoreKit

Mutate = Callable[[pytest.MonkeyPatch], None]


def anybody_takes(patch: pytest.MonkeyPatch) -> None:
    """A task that somebody holds is taken from it: the check and the taking do not belong together."""

    def check_ready(ledger: Ledger, row: TaskRow, able: Any) -> rows.Steps[None]:
        return
        yield

    patch.setattr(taking, "_check_ready", check_ready)


def late_done_counts(patch: pytest.MonkeyPatch) -> None:
    """Who had the task once may still end it, though another took it."""
    honest = settling._check_lease

    def check_lease(ledger: Ledger, row: TaskRow, act: Settle) -> rows.Steps[bool]:
        if act.op == "done" and row.state in HELD:
            row.holder = ledger.agent
            return True
        return (yield from honest(ledger, row, act))

    patch.setattr(settling, "_check_lease", check_lease)


def no_fencing(patch: pytest.MonkeyPatch) -> None:
    """The holder's name is enough, whichever lease it has."""
    honest = settling._check_lease

    def check_lease(ledger: Ledger, row: TaskRow, act: Settle) -> rows.Steps[bool]:
        act = Settle(act.op, act.number, 0, act.text, act.ok, act.cites, act.paths, act.seconds)
        return (yield from honest(ledger, row, act))

    patch.setattr(settling, "_check_lease", check_lease)


def holders_are_not_told(patch: pytest.MonkeyPatch) -> None:
    """A lease ends without a word to its holder."""

    def lapse(ledger: Ledger, row: TaskRow) -> rows.Steps[None]:
        yield from task_rows.end_attempt(ledger, row, lapses.LAPSED, "")
        row.state, row.holder = "PENDING", ""
        yield from task_rows.put(row)

    patch.setattr(lapses, "lapse", lapse)


def circles_pass(patch: pytest.MonkeyPatch) -> None:
    """A task may come after itself."""

    def check_circle(ledger: Ledger, number: int) -> rows.Steps[None]:
        return
        yield

    patch.setattr(planning, "_check_circle", check_circle)


def keys_are_free(patch: pytest.MonkeyPatch) -> None:
    """Writes do not look at reservations."""

    def check_key(ledger: Ledger, key: str) -> rows.Steps[None]:
        return
        yield

    patch.setattr(reservations, "check_key", check_key)


def doers_confirm(patch: pytest.MonkeyPatch) -> None:
    """Who did a task confirms it."""

    def check_reviewer(ledger: Ledger, row: TaskRow) -> rows.Steps[None]:
        return
        yield

    patch.setattr(settling, "_check_reviewer", check_reviewer)


def bindings_are_ignored(patch: pytest.MonkeyPatch) -> None:
    """A worker holds several of its tasks at once, as far as the store asks."""
    patch.setitem(rows._statements(), "tasks_bound", "SELECT 1, 2, 3, 4 WHERE 0 AND ?1 AND ?2 AND ?3 AND ?4")


def waived_tasks_block(patch: pytest.MonkeyPatch) -> None:
    """What comes after a waived task waits for ever."""

    def released_by(ledger: Ledger, completed: int) -> rows.Steps[dict[int, str]]:
        return {}
        yield

    patch.setattr(task_rows, "released_by", released_by)


def dead_ends_stay(patch: pytest.MonkeyPatch) -> None:
    """A task that is tried again is told of as a dead end."""
    put = rows.sql("task_put").replace("dead_end = ?30", "dead_end = max(dead_end, ?30)")
    patch.setitem(rows._statements(), "task_put", put)


def anywhere_goes(patch: pytest.MonkeyPatch) -> None:
    """A task goes to any board, also to one above or beside."""

    def check(ledger: Ledger, task: Any, where: str) -> rows.Steps[None]:
        return
        yield

    patch.setattr(sub_boards, "check", check)


def separated_boards_are_waited_for(patch: pytest.MonkeyPatch) -> None:
    """A board that was taken from below still keeps the task waiting."""

    def outcome(board: str, sub: Any, since: int) -> rows.Steps[tuple[str, int, str] | None]:
        return None
        yield

    patch.setattr(sub_boards, "_outcome", outcome)


def tasks_below_lapse(patch: pytest.MonkeyPatch) -> None:
    """A day's wait ends a task on a board below, as it ends an agent's."""
    patch.setattr(lapses, "BOUND", "nobody:")


def the_budget_is_looked_at_before(patch: pytest.MonkeyPatch) -> None:
    """A task is handed out by the budget as it was some time ago, as if it were read outside of the transaction."""
    honest, seen = budgets.find, dict[str, budgets.BudgetRow]()

    def find(no: int) -> rows.Steps[budgets.BudgetRow | None]:
        now = yield from honest(no)
        return now if now is None else seen.setdefault(f"{now.cost} {now.steps}", now)

    patch.setattr(taking.budgets, "find", find)


def held_tasks_are_free(patch: pytest.MonkeyPatch) -> None:
    """Only what ended attempts used counts, not what is at work."""
    honest = budgets.find

    def find(no: int) -> rows.Steps[budgets.BudgetRow | None]:
        row = yield from honest(no)
        if row is not None:
            row.held_steps = row.held_cost = 0
        return row

    patch.setattr(budgets, "find", find)


def lapses_are_free(patch: pytest.MonkeyPatch) -> None:
    """An attempt of which nobody tells what it used costs nothing."""
    honest = budgets.charge

    def charge(ledger: Ledger, row: TaskRow, usage: Any) -> rows.Steps[None]:
        if usage is not None:
            yield from honest(ledger, row, usage)

    patch.setattr(budgets, "charge", charge)


def budgets_forget(patch: pytest.MonkeyPatch) -> None:
    """A new budget begins the account anew."""
    statement = rows.sql("agenda_budget_put")
    patch.setitem(rows._statements(), "agenda_budget_put", statement.replace("= excluded.used_cost", "= 0"))


def budgets_are_told_of_again(patch: pytest.MonkeyPatch) -> None:
    """Each claim tells that the budget keeps something back."""
    statement = rows.sql("agenda_budget_put")
    patch.setitem(rows._statements(), "agenda_budget_put", statement.replace("= excluded.told", "= 0"))


def anybody_sets_the_budget(patch: pytest.MonkeyPatch) -> None:
    """Who is no steward may keep back everybody's tasks."""
    honest = budgets.set_bounds

    def set_bounds(ledger: Ledger, budget: Any) -> rows.Steps[None]:
        ledger.steward = True
        return (yield from honest(ledger, budget))

    patch.setattr(budgets, "set_bounds", set_bounds)


MUTANTS: list[tuple[Mutate, str]] = [
    (the_budget_is_looked_at_before, "test_I34_of_eight_who_ask_no_more_get_a_task_than_fit"),
    (held_tasks_are_free, "test_I34_of_eight_who_ask_no_more_get_a_task_than_fit"),
    (held_tasks_are_free, "test_I34_what_does_not_fit_is_not_handed_out"),
    (lapses_are_free, "test_I34_however_an_attempt_ends_it_is_charged_once"),
    (budgets_forget, "test_what_was_used_stays_used_whatever_the_bounds"),
    (budgets_are_told_of_again, "test_what_is_kept_back_is_told_once_for_each_budget"),
    (anybody_sets_the_budget, "test_stewards_alone_set_the_budget"),
    (anybody_takes, "test_I28_who_comes_second_is_told_who_has_it"),
    (late_done_counts, "test_a_lease_ends_and_its_holder_is_told"),
    (no_fencing, "test_an_old_lease_does_nothing"),
    (holders_are_not_told, "test_a_lease_ends_and_its_holder_is_told"),
    (circles_pass, "test_I16_a_circle_is_refused_and_named"),
    (keys_are_free, "test_reserved_keys_are_written_by_their_holder_alone"),
    (doers_confirm, "test_another_agent_confirms"),
    (bindings_are_ignored, "test_I28_a_binding_has_one_held_task"),
    (waived_tasks_block, "test_I31_a_waived_task_frees_what_comes_after"),
    (anywhere_goes, "test_what_may_not_go_to_a_board_is_refused"),
    (separated_boards_are_waited_for, "test_a_board_that_gives_no_answer_counts_as_configured"),
    (tasks_below_lapse, "test_a_task_below_lasts_as_long_as_it_takes"),
    (dead_ends_stay, "test_who_repeats_a_dead_end_is_told"),
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
    given = {"at": Table(store), "clock": clock, "store": store, "fail": "fault", "state": TaskState.FAULTED}
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
