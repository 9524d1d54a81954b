"""Three servers with eight callers each on one board, killed again and again: their history is a serial one (I23).

The log is gapless, each follower sees each event once, what was acknowledged is there, and each task has one holder.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import postgres_server
import pytest
from blackboard_mcp.protocols.agenda import NewTask
from blackboard_mcp.storage.postgres.store import open_postgres_store
from blackboard_mcp.storage.testing.harness import CONFIG
from blackboard_mcp.storage.testing.walk.contending import BOARD, invariants, set_up
from blackboard_mcp.storage.testing.walk.serialising import History, Record
from patience import RUN
from profiles import NIGHTLY

SERVERS, CALLERS = 3, 8
TRANSACTIONS = 200 if NIGHTLY else 8
"""Of each caller."""
KILLS = 30 if NIGHTLY else 6
TASKS = 20


class Crew:
    """The processes of the servers, each with its journal."""

    def __init__(self, address: str, folder: Path) -> None:
        self._address = address
        self._folder = folder
        self._living: dict[str, asyncio.subprocess.Process] = {}

    async def start(self, name: str) -> None:
        program = Path(__file__).with_name("history_server.py")
        words = (self._address, name, str(self._folder / name), str(TRANSACTIONS))
        self._living[name] = await asyncio.create_subprocess_exec(sys.executable, str(program), *words)

    async def kill(self, name: str) -> None:
        victim = self._living[name]
        with contextlib.suppress(ProcessLookupError):
            victim.kill()
        assert await victim.wait() in (0, -signal.SIGKILL)

    async def end(self) -> None:
        """Kills whoever still lives."""
        for name, one in self._living.items():
            if one.returncode is None:
                await self.kill(name)

    async def finish(self) -> list[int]:
        return [await one.wait() for one in self._living.values()]

    def notes(self) -> list[dict[str, Any]]:
        return [note for name in self._living for note in self.notes_of(name)]

    def notes_of(self, name: str) -> list[dict[str, Any]]:
        file = self._folder / name
        lines = file.read_bytes().rpartition(b"\n")[0].splitlines() if file.exists() else []
        return [json.loads(line) for line in lines]

    async def grown(self, records: int) -> None:
        """Waits for so many answers."""
        while sum("record" in note for note in self.notes()) < records:
            assert all(one.returncode in (None, 0) for one in self._living.values()), "a server met an error"
            await asyncio.sleep(0.05)


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL")
async def test_I23_three_servers_that_are_killed_with_their_database_make_a_serial_history(
    tmp_path: Path,
) -> None:
    database = await asyncio.to_thread(postgres_server.Server, ("fsync=off", "full_page_writes=off"))
    crew = Crew(database.address, tmp_path)
    try:
        await _killed(database, crew)
    finally:
        await crew.end()
        await asyncio.to_thread(database.remove)


async def _killed(database: postgres_server.Server, crew: Crew) -> None:
    chance = random.Random(23)
    store = await open_postgres_store(database.address)
    began = await set_up(store)
    await store.ensure_board("agenda", "alice", CONFIG)
    await store.plan("agenda", "alice", [NewTask(title=f"task {n}") for n in range(TASKS)])
    names = [f"server{n}" for n in range(SERVERS)]
    for name in names:
        await crew.start(name)
    total = SERVERS * CALLERS * TRANSACTIONS
    async with asyncio.timeout(10 * RUN):
        for kill in range(KILLS):
            await crew.grown((kill + 1) * total // (KILLS + 2))
            victim = chance.choice(names)
            await crew.kill(victim)
            if kill % 2:
                await asyncio.to_thread(database.kill)
                await asyncio.to_thread(database.start)
            await crew.start(victim)
        assert await crew.finish() == [0] * SERVERS

    records = [_record(note["record"]) for note in crew.notes() if "record" in note]
    assert len(records) == total
    history = History(records, began)
    assert invariants(history) == []
    found = await store.find_board(BOARD)
    assert found is not None
    assert found.seq == history.seq, "something is on the board that nobody was told of"
    assert len(history.committed) > total / 10
    assert history.refused
    await store.close()

    rows = "SELECT e.seq FROM blackboard.event e JOIN blackboard.board b ON b.no = e.board WHERE b.id = '{}' ORDER BY 1"
    for board in (BOARD, "agenda"):
        seqs = [int(row) for row in database.sql(rows.format(board)).split()]
        assert seqs == list(range(1, len(seqs) + 1)), "the log has a gap"
    followers = [[seq for note in crew.notes_of(name) for seq in note.get("numbers", ())] for name in names]
    for followed in followers:
        assert followed == list(range(1, len(followed) + 1)), "a follower missed an event, or saw one twice"
    assert max(map(len, followers)) == found.seq, "the last to end saw all"
    _one_holder_each(database, crew.notes())


def _one_holder_each(database: postgres_server.Server, notes: list[dict[str, Any]]) -> None:
    """Checks that no task was taken or settled twice; leases outlast the test."""
    events = database.sql(
        "SELECT e.event, e.data::json ->> 'task' FROM blackboard.event e JOIN blackboard.board b ON b.no = e.board "
        "WHERE b.id = 'agenda' AND e.event IN ('claim.taken', 'claim.done')"
    ).splitlines()
    assert events
    assert set(Counter(events).values()) == {1}, "a task had two holders"
    known = {tuple(line.split("|")) for line in events}
    for note in notes:
        if "took" in note:
            assert ("claim.taken", f"T-{note['took']}") in known, "an acknowledged claim is lost"
        if "settled" in note:
            assert ("claim.done", f"T-{note['settled']}") in known, "an acknowledged result is lost"


def _record(said: dict[str, Any]) -> Record:
    return Record.of(json.dumps(said))
