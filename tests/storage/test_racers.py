"""Two processes race on tasks, stages and runs of one board, on every store: I28 to I35 hold in its log."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import postgres_server
import pytest
from blackboard_mcp.protocols.events import Event
from blackboard_mcp.protocols.store import BoardStore
from blackboard_mcp.storage.memory import open_memory_store
from blackboard_mcp.storage.operations.agenda import budgets, settling, taking
from blackboard_mcp.storage.operations.runs import starting, turning
from blackboard_mcp.storage.operations.stages import moving
from blackboard_mcp.storage.testing.harness import Table
from blackboard_mcp.storage.testing.walk.racing import (
    AGENTS,
    BOARD,
    Racer,
    opened,
    problems,
    set_up,
    spent_as_told,
)
from profiles import NIGHTLY

CHILD = Path(__file__).with_name("racer.py")
CALLS = 400 if NIGHTLY else 60
"""Of each of the five agents of a process."""
EXPECTED = {
    *("claim.taken", "claim.done", "claim.failed", "claim.released", "stage.moved"),
    *("turn.given", "turn.ended", "decision.made", "run.finished"),
}


async def log_of(store: BoardStore) -> list[Event]:
    return await Table(store, BOARD).events()


async def judged(store: BoardStore) -> list[str]:
    events = await log_of(store)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    return problems(events) + await spent_as_told(store, events)


def race(address: str, seed: str) -> None:
    """Runs two processes on a board at once."""
    words = [sys.executable, str(CHILD), address]
    processes = [
        subprocess.Popen(
            [*words, name, str(CALLS), seed], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for name in ("one", "two")
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        for process in processes:
            done, _ = process.communicate(timeout=600)
            assert process.returncode == 0
            assert int(done) > CALLS, "most calls were refused"
    finally:
        for process in processes:
            process.kill()
            process.communicate()


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
async def test_I28_to_I35_hold_while_two_processes_race(tmp_path: Path, engine: str) -> None:
    address = str(tmp_path / "board.db") if engine == "sqlite" else postgres_server.address(tmp_path)
    store = await opened(address)
    try:
        await set_up(store)
        await asyncio.to_thread(race, address, "1")
        assert await judged(store) == []
        seen = Counter(str(event.event) for event in await log_of(store))
        assert seen.keys() >= EXPECTED, seen
    finally:
        await store.close()
        if engine == "postgres":
            postgres_server.give_back(tmp_path)


async def in_one(seed: str) -> list[str]:
    """Returns what a race of five agents in one process shows, in memory."""
    store = await open_memory_store()
    await set_up(store)
    racers = [Racer(store, agent, random.Random(f"{seed} {agent}")) for agent in (*AGENTS, "eve")]
    await asyncio.gather(*(racer.run(2 * CALLS) for racer in racers))
    found = await judged(store)
    await store.close()
    return found


@pytest.mark.parametrize("seed", ["a", "b"])
async def test_I28_to_I35_hold_in_memory(seed: str) -> None:
    assert await in_one(seed) == []


def check_then_claim(patch: pytest.MonkeyPatch) -> None:
    def check_ready(ledger: object, row: object, able: object) -> taking.Steps[None]:
        return
        yield

    patch.setattr(taking, "_check_ready", check_ready)


def late_done_accepted(patch: pytest.MonkeyPatch) -> None:
    def check_lease(ledger: taking.Ledger, row: taking.TaskRow, act: object) -> taking.Steps[bool]:
        return False
        yield

    patch.setattr(settling, "_check_lease", check_lease)


def parts_outlive_their_stage(patch: pytest.MonkeyPatch) -> None:
    def pause(ledger: taking.Ledger, row: moving.StageRow, why: str, *, by: str = "") -> taking.Steps[None]:
        yield from moving._move(ledger, row, moving.StageState.SUSPENDED, why)

    patch.setattr(moving, "_pause", pause)


def decisions_burn_rounds(patch: pytest.MonkeyPatch) -> None:
    honest = turning._spend

    def spend(row: turning.RunRow, usage: turning.Usage | None) -> None:
        honest(row, usage)
        row.round += row.phase == "decide"

    patch.setattr(turning, "_spend", spend)


def spending_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(turning, "_spend", lambda row, usage: None)


def strangers_have_turns(patch: pytest.MonkeyPatch) -> None:
    def check_eligible(ledger: object, row: object, chosen: object) -> taking.Steps[None]:
        return
        yield

    patch.setattr(starting, "check_eligible", check_eligible)


def budgets_are_not_asked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(budgets.BudgetRow, "lacks", lambda self, cost=0: "")


MUTANTS = {
    check_then_claim: "I28",
    late_done_accepted: "I28",
    parts_outlive_their_stage: "I30",
    strangers_have_turns: "I32",
    decisions_burn_rounds: "I33",
    spending_is_forgotten: "I34",
    budgets_are_not_asked: "I34",
}


@pytest.mark.parametrize("mutate", MUTANTS, ids=lambda mutate: mutate.__name__)
async def test_the_race_sees_the_mistake(mutate: object, monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch)  # type: ignore[operator]
    for seed in "abc":
        if any(found.startswith(MUTANTS[mutate]) for found in await in_one(seed)):  # type: ignore[index]
            return
    pytest.fail(f"no race shows that {MUTANTS[mutate]} does not hold")  # type: ignore[index]
