"""The kit sees the mistakes about stages that it is there to see: with each put in, a named check fails."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable

import pytest
from blackboard_mcp.protocols.errors import BlackboardError
from blackboard_mcp.storage.memory import open_memory_store
from blackboard_mcp.storage.operations.ledger import rows
from blackboard_mcp.storage.operations.ledger.ledger import Ledger
from blackboard_mcp.storage.operations.stages import following, judging, moving
from blackboard_mcp.storage.operations.stages.rows import StageRow
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.harness import HandClock, Table
from blackboard_mcp.storage.testing.kit import BoardStoreKit

Mutate = Callable[[pytest.MonkeyPatch], None]


def change_statement(patch: pytest.MonkeyPatch, name: str, old: str, new: str) -> None:
    statement = rows.sql(name)
    assert old in statement
    patch.setitem(rows._statements(), name, statement.replace(old, new))


def faulted_tasks_wedge(patch: pytest.MonkeyPatch) -> None:
    """A waived task counts as one that its stage still waits for."""
    change_statement(
        patch, "stage_tasks", "max(required AND state NOT IN", "max(required AND attempts OR state NOT IN"
    )


def faults_hide(patch: pytest.MonkeyPatch) -> None:
    """A stage does not show that a required task is FAULTED."""
    change_statement(patch, "stage_tasks", "max(required AND state = 'FAULTED')", "0 * max(required)")


def parts_go_on(patch: pytest.MonkeyPatch) -> None:
    """What is in a suspended stage goes on."""

    def pause(ledger: Ledger, row: StageRow, why: str, *, by: str = "system") -> rows.Steps[None]:
        yield from moving._move(ledger, row, moving.StageState.SUSPENDED, why, by=by)

    patch.setattr(moving, "_pause", pause)


def entry_forgets(patch: pytest.MonkeyPatch) -> None:
    """An entry condition that held while the parent was suspended is forgotten."""

    def latch(ledger: Ledger, row: StageRow, parent: StageRow) -> rows.Steps[None]:
        return
        yield

    patch.setattr(moving, "_latch", latch)


def required_wavers(patch: pytest.MonkeyPatch) -> None:
    """Whether a stage is required is evaluated again and again."""
    honest = moving.set_needed

    def advance(ledger: Ledger, row: StageRow) -> rows.Steps[None]:
        row.needed = 2
        yield from honest(ledger, row)
        while (yield from moving._step(ledger, row)):
            pass

    patch.setattr(following, "advance", advance)


def optional_work_blocks(patch: pytest.MonkeyPatch) -> None:
    """A stage waits for tasks that it does not need."""
    change_statement(patch, "stage_tasks", "max(required AND state NOT IN", "max(state NOT IN")


def leftovers_are_lost(patch: pytest.MonkeyPatch) -> None:
    """What goes beyond the bound of a transaction is never looked at again."""
    change_statement(patch, "due_add", "VALUES (?1, ?2, ?3)", "SELECT ?1, ?2, ?3 WHERE 0")


def private_items_count(patch: pytest.MonkeyPatch) -> None:
    """A condition tells of items that not everybody sees."""
    change_statement(patch, "key_stands", "owner = '' AND", "")


def fallen_items_count(patch: pytest.MonkeyPatch) -> None:
    """Withdrawn items count."""
    patch.setattr(judging, "_STANDING", sorted(map(str, judging.Status)))


MUTANTS: list[tuple[Mutate, str]] = [
    (faulted_tasks_wedge, "test_I31_a_faulted_required_task_never_wedges_its_stage"),
    (faults_hide, "test_I31_a_faulted_required_task_never_wedges_its_stage"),
    (parts_go_on, "test_I29_I30_I31_stages_move_only_as_declared"),
    (parts_go_on, "test_what_is_in_a_stage_pauses_and_goes_on_with_it"),
    (entry_forgets, "test_entry_latches_while_the_parent_is_suspended"),
    (required_wavers, "test_required_is_evaluated_as_the_stage_becomes_available"),
    (optional_work_blocks, "test_optional_work_leaves_with_its_stage"),
    (leftovers_are_lost, "test_a_long_chain_is_taken_up_by_the_next_change_or_a_sweep"),
    (private_items_count, "test_I25_private_items_count_for_nothing"),
    (fallen_items_count, "test_archived_items_count_and_fallen_ones_do_not"),
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
    with pytest.raises((AssertionError, pytest.fail.Exception, BlackboardError)):
        await tried(store, clock, check)


@pytest.mark.parametrize("check", sorted({check for _, check in MUTANTS}))
async def test_without_a_mistake_the_checks_pass(store: SqlBoardStore, clock: HandClock, check: str) -> None:
    await tried(store, clock, check)
