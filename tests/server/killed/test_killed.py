"""Processes killed again and again in the middle of their work: nothing acknowledged is lost, nothing done twice."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from blackboard_mcp.protocols.board import BoardConfig
from blackboard_mcp.protocols.events import Event
from blackboard_mcp.protocols.items import Ref, content_hash
from blackboard_mcp.storage.store import SqlBoardStore
from patience import PATIENCE
from profiles import NIGHTLY

CHILD = Path(__file__).with_name("child.py")
KILLS = 200 if NIGHTLY else 20
WORKERS = ("ada", "ben", "cyd")
FOLLOWERS = ("eve", "fay")

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")


ENDLESS = 1_000_000


@dataclass
class Life:
    """One child over all its deaths, and the journal of what was acknowledged to it."""

    role: str
    name: str
    folder: Path
    told: asyncio.Event
    """Set when any of them said something."""
    journal: list[dict[str, Any]] = field(default_factory=list)
    process: asyncio.subprocess.Process | None = None
    due: int = 0
    """How long its journal is when it may be killed."""

    @property
    def steps(self) -> list[dict[str, Any]]:
        return [line for line in self.journal if "step" in line]

    @property
    def place(self) -> int:
        """How far a follower has got: what it has journalled is dealt with."""
        return max((line.get("seq", line.get("place", 0)) for line in self.journal), default=0)

    async def live(self, last: int = ENDLESS) -> None:
        """Goes on from its journal until it ends by itself or is killed."""
        done = len(self.steps) if self.role == "work" else self.place
        self.process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(CHILD), self.role, str(self.folder), self.name, str(done), str(last)),
            stdout=asyncio.subprocess.PIPE,
        )
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            if line.endswith(b"\n"):  # half a line is no acknowledgement
                self.journal.append(json.loads(line))
                self.told.set()
        await self.process.wait()

    def live_on(self, dice: random.Random) -> asyncio.Task[None]:
        self.due = len(self.journal) + dice.randrange(2, 14 if self.role == "work" else 60)
        self.process = None
        return asyncio.create_task(self.live())

    async def hear(self, lines: int) -> None:
        """Returns after so many more lines of the journal, or when the process ended or nobody says anything more."""
        wanted = len(self.journal) + lines
        with contextlib.suppress(TimeoutError):
            while len(self.journal) < wanted and (self.process is None or self.process.returncode is None):
                self.told.clear()
                await asyncio.wait_for(self.told.wait(), PATIENCE)

    def kill(self) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.kill()


@pytest.fixture
async def lives(tmp_path: Path) -> AsyncIterator[list[Life]]:
    store = await SqlBoardStore.open(tmp_path / "board.sqlite3")
    await store.ensure_board("main", "ada", BoardConfig())
    await store.close()
    told = asyncio.Event()
    born = [Life("work", name, tmp_path, told) for name in WORKERS]
    born += [Life("follow", name, tmp_path, told) for name in FOLLOWERS]
    yield born
    for life in born:
        life.kill()


async def test_processes_killed_at_work_lose_nothing_acknowledged_and_do_nothing_twice(
    lives: list[Life], tmp_path: Path
) -> None:
    dice = random.Random(KILLS)
    running = {life.name: life.live_on(dice) for life in lives}
    for _ in range(KILLS):
        life = await one_at_work(lives, dice)
        await asyncio.sleep(dice.random() * 0.01)  # somewhere between two acknowledgements
        life.kill()
        await running[life.name]
        assert life.process is not None
        assert life.process.returncode == -9, "it ended by itself"
        running[life.name] = life.live_on(dice)
    workers = [life for life in lives if life.role == "work"]
    followers = [life for life in lives if life.role == "follow"]
    for life in workers:
        await life.hear(2)
        life.kill()
    await asyncio.gather(*(running[life.name] for life in workers))
    assert {life.process.returncode for life in workers if life.process} == {-9}, "one ended by itself"
    # What may have been committed and not acknowledged is tried again.
    await asyncio.gather(*(life.live(len(life.steps) + 1) for life in workers))
    store = await SqlBoardStore.open(tmp_path / "board.sqlite3")
    try:
        board = await store.find_board("main")
        assert board is not None
        for life in followers:
            async with asyncio.timeout(PATIENCE):
                while life.place < board.seq:
                    await life.hear(1)
            life.kill()
            await running[life.name]
        await nothing_is_lost_or_doubled(store, workers)
        for life in followers:
            seen = [event async for event in events(store, life.name)]
            heard = [line["seq"] for line in life.journal if "seq" in line]
            assert heard == [event.seq for event in seen if event.event != "board.created"]
    finally:
        await store.close()


async def one_at_work(lives: list[Life], dice: random.Random) -> Life:
    """One that has got on for a while since it was last killed."""
    async with asyncio.timeout(PATIENCE):
        while not (ready := [life for life in lives if len(life.journal) >= life.due]):
            lives[0].told.clear()
            await lives[0].told.wait()
    return dice.choice(ready)


async def events(store: SqlBoardStore, agent: str) -> AsyncIterator[Event]:
    place, more = 0, True
    while more:
        log = await store.log("main", agent, place, 500)
        for event in log.events:
            yield event
        place, more = log.cursor, log.more


def number_of(event: Event) -> int:
    assert event.item is not None
    return int(event.item.split("-")[1])


async def nothing_is_lost_or_doubled(store: SqlBoardStore, workers: list[Life]) -> None:
    """Every acknowledged text is there once, each step once, and the log without a gap."""
    repeated = 0
    seqs: set[int] = set()
    for life in workers:
        assert [line["step"] for line in life.steps] == list(range(1, len(life.steps) + 1))
        wanted = [
            (number, version, text)
            for line in life.steps
            for (number, version), text in zip(line["items"], line["texts"], strict=True)
        ]
        assert len({(number, version) for number, version, _ in wanted}) == len(wanted)
        for start in range(0, len(wanted), 100):
            part = wanted[start : start + 100]
            found = await store.read("main", life.name, [Ref(n, v) for n, v, _ in part], [])
            assert not found.missing
            assert [item.text for item in found.items] == [text for _, _, text in part]
            assert all(item.sha256 == content_hash(item.text) for item in found.items)
        repeated += sum(line["repeated"] for line in life.steps)
        own = [e async for e in events(store, life.name)]
        seqs.update(event.seq for event in own)
        written = [e for e in own if e.agent == life.name and e.event in ("item.posted", "item.versioned")]
        assert len(written) == len(wanted), "a step was applied twice"
        told = [line["deleted"] for line in life.steps if "deleted" in line]
        deleted = [
            [number_of(e), e.version] for e in own if e.agent == life.name and e.event == "item.deleted"
        ]
        assert deleted == told
    assert seqs == set(range(1, max(seqs) + 1))
    print(f"{repeated} steps had been committed and not acknowledged")
