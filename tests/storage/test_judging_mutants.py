"""A store that commits what was not allowed fails the kit, whichever part of the proof is taken out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from blackboard_mcp.protocols.changes import ChangeKind, Permit
from blackboard_mcp.storage.memory import open_memory_store
from blackboard_mcp.storage.operations.access import changes as noting
from blackboard_mcp.storage.operations.access import permits
from blackboard_mcp.storage.operations.debates import calls
from blackboard_mcp.storage.operations.ledger.ledger import Ledger
from blackboard_mcp.storage.operations.ledger.rows import Steps
from blackboard_mcp.storage.testing.harness import HandClock, Table
from blackboard_mcp.storage.testing.kit.judging import JudgingTests

Mutate = Callable[[pytest.MonkeyPatch], None]
KIT = JudgingTests()


@pytest.fixture
async def at() -> AsyncIterator[Table]:
    store = await open_memory_store(clock=HandClock())
    yield Table(store)
    await store.close()


def _covers(check: Callable[[Permit, str, Any, Any, Any], bool]) -> Mutate:
    return lambda monkeypatch: monkeypatch.setattr(Permit, "covers", check)


def _says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ledger, "note", lambda *_, **__: None)


def _proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def prove(self: Any, agent: str) -> Steps[None]:
        return
        yield

    monkeypatch.setattr(permits.Noted, "prove", prove)


def _forgets_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noting, "written", lambda *_: None)


def _forgets_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    def unproven(self: Ledger) -> Steps[None]:
        return
        yield

    monkeypatch.setattr(Ledger, "prove", unproven)


def _takes_votes_for_watching(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = dict.fromkeys(calls._KINDS, ChangeKind.WATCH)
    monkeypatch.setattr(calls, "_KINDS", kinds)


CASES: dict[str, tuple[Mutate, Callable[[Table], Any]]] = {
    "whatever was allowed covers everything": (
        _covers(lambda self, owner, role, access, changes: self.access is not None),
        KIT.test_what_is_committed_is_what_was_allowed,
    ),
    "the board's choice is not looked at again": (
        _covers(lambda self, owner, role, access, changes: owner == self.owner and changes <= self.changes),
        KIT.test_who_acts_for_whom_and_which_policies_count_as_of_the_commit,
    ),
    "the owner is not looked at again": (
        _covers(lambda self, owner, role, access, changes: access == self.access and changes <= self.changes),
        KIT.test_who_acts_for_whom_and_which_policies_count_as_of_the_commit,
    ),
    "the member's role is not looked at again": (
        _covers(
            lambda self, owner, role, access, changes: (
                owner == self.owner and access == self.access and changes <= self.changes
            )
        ),
        KIT.test_a_role_that_the_board_gives_counts_as_of_the_commit,
    ),
    "nothing is noted": (
        _says_nothing,
        lambda at: KIT.test_nothing_is_committed_that_was_not_allowed(at, "post"),
    ),
    "nothing is proved": (
        _proves_nothing,
        lambda at: KIT.test_a_board_that_chose_policies_takes_nothing_unjudged(at, "set_core"),
    ),
    "versions are forgotten": (
        _forgets_versions,
        lambda at: KIT.test_nothing_is_committed_that_was_not_allowed(at, "transact"),
    ),
    "turns without events are not proved": (
        _forgets_turns,
        lambda at: KIT.test_nothing_is_committed_that_was_not_allowed(at, "consume"),
    ),
    "a vote is taken for watching": (
        _takes_votes_for_watching,
        lambda at: KIT.test_nothing_is_committed_that_was_not_allowed(at, "debate_vote"),
    ),
}


@pytest.mark.parametrize("name", CASES)
async def test_a_mutant_fails_its_check(at: Table, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    mutate, check = CASES[name]
    mutate(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        await check(at)
