"""The kit sees the mistakes about requests that it is there to see: with each put in, a named check fails.

And what requests add to the paths that every call takes is served by an index.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from blackboard_mcp.protocols.errors import BlackboardError
from blackboard_mcp.protocols.messages.base import States
from blackboard_mcp.storage.memory import open_memory_store
from blackboard_mcp.storage.operations.ledger import rows
from blackboard_mcp.storage.operations.ledger.ledger import Ledger
from blackboard_mcp.storage.operations.messages import request_rows
from blackboard_mcp.storage.operations.messages import requests as requesting
from blackboard_mcp.storage.operations.messages.request_rows import RequestRow
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.harness import CONFIG, HandClock, Table
from blackboard_mcp.storage.testing.kit import BoardStoreKit
from blackboard_mcp.storage.testing.kit.asking import Asking

Mutate = Callable[[pytest.MonkeyPatch], None]


def statement(name: str, text: str) -> Mutate:
    return lambda patch: patch.setitem(rows._statements(), name, text)


def anybody_answers(patch: pytest.MonkeyPatch) -> None:
    """Who holds a request is not looked at."""

    def check_mine(ledger: Ledger, row: RequestRow, lease: int | None) -> rows.Steps[None]:
        request_rows.check_live(row)
        return
        yield  # a generator

    patch.setattr(requesting, "check_mine", check_mine)


def no_fencing(patch: pytest.MonkeyPatch) -> None:
    """The holder's name is enough, whichever lease it has."""
    honest = requesting.check_mine

    def check_mine(ledger: Ledger, row: RequestRow, lease: int | None) -> rows.Steps[None]:
        yield from honest(ledger, row, row.lease if row.holder == ledger.agent else None)

    patch.setattr(requesting, "check_mine", check_mine)


def late_answers(patch: pytest.MonkeyPatch) -> None:
    """What has ended is answered once more."""
    open_ended = {
        state: frozenset(request_rows.REQUEST_STATES.moves) for state in request_rows.REQUEST_STATES.moves
    }
    patch.setattr(request_rows, "check_live", lambda row: None)
    patch.setattr(requesting, "check_live", lambda row: None)
    patch.setattr(request_rows, "REQUEST_STATES", States(frozenset({"OPEN"}), open_ended))


def no_release(patch: pytest.MonkeyPatch) -> None:
    """What is held stays held when the lease has ended."""

    def release(*_: Any) -> rows.Steps[None]:
        return
        yield  # a generator

    patch.setattr(requesting, "_release", release)


def open_keys(patch: pytest.MonkeyPatch) -> None:
    """Anybody writes under the keys of requests."""

    def keep_off(*_: Any) -> rows.Steps[None]:
        return
        yield  # a generator

    patch.setattr(request_rows, "keep_off", keep_off)


MUTANTS: list[tuple[Mutate, str]] = [
    (anybody_answers, "test_one_of_many_with_the_skill_holds_it_under_a_token"),
    (anybody_answers, "test_only_whom_it_is_for_answers"),
    (no_fencing, "test_one_of_many_with_the_skill_holds_it_under_a_token"),
    (late_answers, "test_a_cancelled_request_takes_no_late_answer"),
    (late_answers, "test_a_request_expires_visibly_at_its_deadline"),
    (no_release, "test_a_part_renews_the_lease_and_silence_ends_it"),
    (open_keys, "test_requests_are_written_by_asking_alone"),
    (
        statement(
            "protected_among", "SELECT item FROM obligation WHERE board = ?1 AND item = ?2 AND state = 'no'"
        ),
        "test_I4_an_open_request_and_its_parts_stay_until_it_ends",
    ),
    (
        statement(
            "requests_by_skill",
            "SELECT number FROM request WHERE board = ?1 AND ?2 <> '' AND ?3 AND ?4 AND live",
        ),
        "test_of_many_who_take_at_once_each_request_goes_to_one",
    ),
    (
        statement(
            "requests_by_skill",
            "SELECT number FROM request WHERE board = ?1 AND ?2 <> '' AND ?3 AND ?4 AND live",
        ),
        "test_declining_ends_it_by_name_and_hands_it_on_by_skill",
    ),
]


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def store(clock: HandClock) -> AsyncIterator[SqlBoardStore]:
    opened = await open_memory_store(clock=clock)
    yield opened
    await opened.close()


@pytest.mark.parametrize(("mutate", "check"), MUTANTS)
@pytest.mark.parametrize("mutated", [False, True], ids=["honest", "mutant"])
async def test_the_kit_sees_the_mistake(
    monkeypatch: pytest.MonkeyPatch,
    store: SqlBoardStore,
    clock: HandClock,
    mutate: Mutate,
    check: str,
    mutated: bool,
) -> None:
    await store.ensure_board("main", "alice", CONFIG)
    run = getattr(BoardStoreKit(), check)
    given: dict[str, Any] = {"asking": Asking(Table(store))}
    if "clock" in inspect.signature(run).parameters:
        given["clock"] = clock
    if not mutated:
        await run(**given)
        return
    mutate(monkeypatch)
    with pytest.raises((AssertionError, BlackboardError, pytest.fail.Exception)):
        await run(**given)


HOT: dict[str, tuple[Any, ...]] = {
    "standing_of": (1, "bob"),
    "owing": (1, "bob"),
    "requests_owed": (1, "bob"),
    "board_kinds": (1,),
    "requests_among": (1, "[1,2]"),
    "requests_for": (1, "bob", 1),
    "requests_held": (1, "bob", 1),
    "requests_by_skill": (1, "bob", 1, 0),
    "requests_asked": (1, "bob", 1),
    "requests_live": (1, 1_000),
    "requests_due": (0, "closed"),
    "requests_due_on": (1, 0, 100),
    "request_get": (1, 1),
    "offering": (1, "sql", 0, 64),
    "protected_among": (1, "[1,2]"),
    "pressure_owing": (1, 0, "system", 50),
}


@pytest.mark.parametrize("name", HOT)
async def test_nothing_about_requests_looks_through_a_table(store: SqlBoardStore, name: str) -> None:
    def plan() -> rows.Steps[list[str]]:
        found = yield f"EXPLAIN QUERY PLAN {rows.sql(name)}", HOT[name]
        return [row[3] for row in found]

    told = await store.engine.read(plan)
    assert told
    scans = [line.split()[1] for line in told if line.startswith("SCAN")]
    assert not {"request", "skill", "r", "s", "o", "i", "obligation", "item", "held"} & set(scans), told
