"""Eight processes work in one consumer group and are killed: nothing is lost, nothing is held twice."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import random
import signal
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.harness import Table, draft
from hypothesis import settings

WORKERS = 8
NIGHTLY = settings.get_current_profile_name() == "nightly"
EVENTS = 4_000 if NIGHTLY else 250
KILLS = 60 if NIGHTLY else 6
SLACK = 0.0005
"""Seconds by which a lease may seem to overlap the next one when times are read back from JSON."""


class Crew:
    """The processes, and the journal that they share."""

    def __init__(self, database: Path, journal: Path, chance: random.Random) -> None:
        self._database = database
        self._journal = journal
        self._chance = chance
        self._names = (f"w{n}" for n in itertools.count())
        self.living: list[asyncio.subprocess.Process] = []

    async def hire(self) -> None:
        program = Path(__file__).with_name("group_worker.py")
        words = (str(self._database), next(self._names), str(self._journal), str(self._chance.random())[2:])
        self.living.append(
            await asyncio.create_subprocess_exec(
                sys.executable, str(program), *words, stdout=asyncio.subprocess.DEVNULL, stderr=None
            )
        )

    async def kill_one(self) -> None:
        victim = self.living.pop(self._chance.randrange(len(self.living)))
        with contextlib.suppress(ProcessLookupError):  # one that found nothing left to do has ended
            victim.kill()
        assert await victim.wait() in (0, -signal.SIGKILL)

    async def finish(self) -> list[int]:
        return [await worker.wait() for worker in self.living]

    def notes(self) -> list[dict[str, Any]]:
        if not self._journal.exists():
            return []
        lines = self._journal.read_bytes().split(b"\n")
        return [json.loads(line) for line in lines[:-1]]


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL")
async def test_workers_that_are_killed_lose_no_event_and_no_two_hold_one_at_once(tmp_path: Path) -> None:
    chance = random.Random(4)
    store = await SqlBoardStore.open(tmp_path / "board.db", synchronous="NORMAL")
    at = Table(store)
    await at.configure()
    await store.create_group(at.board, "alice", "g", {"event": "item.posted"}, max_attempts=100)
    posted: list[int] = []

    async def post(count: int) -> None:
        await at.batch("alice", *(draft(f"job {len(posted) + n}") for n in range(count)))
        posted.extend(range(3 + len(posted), 3 + len(posted) + count))

    crew = Crew(tmp_path / "board.db", tmp_path / "journal", chance)
    await post(50)
    for _ in range(WORKERS):
        await crew.hire()
    async with asyncio.timeout(120 if not NIGHTLY else 1_200):
        for n in range(KILLS):
            await post((EVENTS - 50) // KILLS)
            wanted = len(posted) * (n + 1) // (KILLS + 1)
            while sum("took" in note for note in crew.notes()) < wanted:
                await store.wait_for_change(store.changes(), 0.1)
            await crew.kill_one()
            await crew.hire()
        assert await crew.finish() == [0] * WORKERS
    notes = crew.notes()

    acknowledged = Counter(handle for note in notes for handle in note.get("acked", ()))
    assert all(count == 1 for count in acknowledged.values()), "a handle settles once"
    done = Counter(int(handle.split(".")[0]) for handle in acknowledged)
    assert all(count == 1 for count in done.values()), "an event is acknowledged once"
    takes: dict[int, list[tuple[int, float, float, str]]] = defaultdict(list)
    for note in notes:
        if "took" in note:
            seq, attempt = map(int, note["took"].split("."))
            takes[seq].append((attempt, note["since"], note["until"], note["worker"]))
    # A worker may be killed between the commit and its journal: its take, and its acknowledgement, are then in the
    # store alone. Whatever it took and did not acknowledge comes again under the next attempt.
    unseen = set(posted) - done.keys()
    assert len(unseen) <= 4 * KILLS, "only what a killed worker had in its hands"
    for handle in acknowledged:
        seq, attempt = map(int, handle.split("."))
        assert max(taken for taken, *_ in takes[seq]) == attempt, "what is acknowledged is handed out no more"
    failed = {handle for note in notes for handle in note.get("failed", ())}
    for seq, held in takes.items():
        held.sort()
        assert len({attempt for attempt, *_ in held}) == len(held), (seq, held)
        for (attempt, _, until, _), (later, since, _, _) in itertools.pairwise(held):
            gave_back = f"{seq}.{attempt}" in failed or attempt + 1 < later
            assert since >= until - SLACK or gave_back, (seq, held)
    (state,), _ = await store.groups(at.board)
    assert (state.backlog, state.in_flight, state.waiting, state.dead) == (0, 0, 0, 0), "none is lost"
    assert set(takes) | unseen == set(posted)
    assert sum("late" in note for note in notes) > 0, "some were late, and told"
    await store.close()
