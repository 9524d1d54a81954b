"""The kit sees the mistakes about files that it is there to see: with each put in, a named check fails."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from blackboard_mcp.protocols import workspace
from blackboard_mcp.protocols.errors import BlackboardError
from blackboard_mcp.storage.memory import open_memory_store
from blackboard_mcp.storage.operations.ledger import rows
from blackboard_mcp.storage.operations.workspace import writing
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.harness import HandClock, Table
from blackboard_mcp.storage.testing.kit import BoardStoreKit
from blackboard_mcp.storage.testing.kit.filing import HOSTILE

Mutate = Callable[[pytest.MonkeyPatch], None]


def _nothing(*_: Any, **__: Any) -> rows.Steps[None]:
    return
    yield


def revisions_unchecked(patch: pytest.MonkeyPatch) -> None:
    """A write on an old revision goes through."""
    patch.setattr(writing, "_check_expected", lambda *_: None)


def reservations_unchecked(patch: pytest.MonkeyPatch) -> None:
    """Who reserved a file is not asked."""
    patch.setattr(writing, "check_file", _nothing)


def leases_unchecked(patch: pytest.MonkeyPatch) -> None:
    """A write under a lease that has ended goes through."""
    patch.setattr(writing, "_check_lease", _nothing)


def spellings_mixed(patch: pytest.MonkeyPatch) -> None:
    """Two paths may differ in case only."""
    patch.setattr(writing, "fold", lambda path: path)


def names_unchecked(patch: pytest.MonkeyPatch) -> None:
    """Any path is a path."""
    patch.setattr(workspace, "_fault", lambda name: "")


def deleted_forgotten(patch: pytest.MonkeyPatch) -> None:
    """The revisions of a deleted file are gone with it."""
    statement = rows.sql("artifact_then")
    patch.setitem(
        rows._statements(),
        "artifact_then",
        statement.replace("ORDER BY", "AND path IN (SELECT path FROM artifact WHERE gone = 0) ORDER BY"),
    )


MUTANTS: list[tuple[Mutate, str]] = [
    (revisions_unchecked, "test_a_write_on_another_revision_is_a_conflict"),
    (reservations_unchecked, "test_I28_nobody_writes_what_another_reserved"),
    (leases_unchecked, "test_I28_nobody_writes_what_another_reserved"),
    (spellings_mixed, "test_paths_are_told_apart_as_every_file_system_does"),
    (names_unchecked, "test_I39_no_path_escapes"),
    (deleted_forgotten, "test_a_deleted_file_comes_back"),
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
    given = {"at": Table(store), "clock": clock, "path": HOSTILE[1]}
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
