"""Eight processes work off one agenda and are killed: each task has one holder and is done once (I28, F70)."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import random
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.protocols.agenda import NewTask, TaskState
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.harness import Table
from hypothesis import settings

WORKERS = 8
NIGHTLY = settings.get_current_profile_name() == "nightly"
TASKS = 1_000 if NIGHTLY else 150
KILLS = 200 if NIGHTLY else 12
LEASE = 1.0
"""Seconds of the workers' leases."""
SLACK = 0.0005
"""Seconds by which times may differ when they are read back from JSON."""


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL")
async def test_I28_workers_that_are_killed_do_each_task_once_and_no_two_hold_one_at_once(
    tmp_path: Path,
) -> None:
    chance = random.Random(14)
    database, journal = tmp_path / "board.db", tmp_path / "journal"
    store = await SqlBoardStore.open(database, synchronous="NORMAL")
    at = Table(store)
    await at.configure()
    for begin in range(0, TASKS, 50):
        tasks = [NewTask(title=f"task {n}", after=(-n,) if n % 7 == 6 else ()) for n in range(50)]
        await store.plan(at.board, "alice", tasks[: TASKS - begin])
    names = (f"w{n}" for n in itertools.count())
    living: list[asyncio.subprocess.Process] = []

    async def hire() -> None:
        program = Path(__file__).with_name("task_worker.py")
        words = (str(database), next(names), str(journal), str(chance.random())[2:])
        living.append(await asyncio.create_subprocess_exec(sys.executable, str(program), *words))

    def notes() -> list[dict[str, Any]]:
        lines = journal.read_bytes().split(b"\n") if journal.exists() else []
        return [json.loads(line) for line in lines[:-1]]

    for _ in range(WORKERS):
        await hire()
    for kill in range(KILLS):
        seen = store.changes()
        while sum("took" in line for line in notes()) < (kill + 1) * TASKS // (2 * KILLS):
            seen = await store.wait_for_change(seen, 1)
        victim = living.pop(chance.randrange(len(living)))
        with contextlib.suppress(ProcessLookupError):
            victim.kill()
        assert await victim.wait() in (0, -signal.SIGKILL)
        await hire()
    assert [await worker.wait() for worker in living] == [0] * len(living)

    agenda = await store.agenda(at.board, "alice")
    assert agenda.over == {TaskState.COMPLETED: TASKS}, "a task was lost"
    told = notes()
    leases = [line["lease"] for line in told if "took" in line]
    assert len(set(leases)) == len(leases), "two takings had one lease"
    done = Counter(line["done"] for line in told if "done" in line)
    assert set(done.values()) <= {1}, "a task was done twice"
    events = await at.events()
    completed = [event for event in events if event.event == "claim.done"]
    assert Counter(event.data["task"] for event in completed) == Counter(
        f"T-{n}" for n in range(1, TASKS + 1)
    )
    held: dict[str, tuple[int, str, float]] = {}
    newest: dict[str, int] = {}
    for event in events:
        task, lease = event.data.get("task", ""), event.data.get("lease")
        if event.event == "claim.taken":
            assert task not in held, f"{task} had two holders"
            assert event.seq > newest.get(task, 0), "a lease did not rise"
            newest[task] = event.seq
            held[task] = event.seq, event.agent, event.at.timestamp()
        elif event.event == "claim.lapsed":
            seq, _, since = held.pop(task)
            assert lease == seq
            assert event.at.timestamp() >= since + LEASE - SLACK, f"{task} lapsed before its lease ended"
        elif event.event == "claim.done":
            assert lease == newest[task], "done under an old lease"
            if not event.data.get("late"):
                seq, holder, _ = held.pop(task)
                assert (lease, event.agent) == (seq, holder)
    assert not held
    await store.close()
