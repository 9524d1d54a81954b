"""A worker on an agenda, as a process of its own: `task_worker.py DATABASE NAME JOURNAL SEED`.

Writes a line of JSON to its journal for each task that it took and for each that it was told to have done. Ends when
every task is over.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from pathlib import Path

from blackboard_mcp.protocols.agenda import Settle
from blackboard_mcp.protocols.errors import Conflict, Refused
from blackboard_mcp.protocols.tokens import CountedText
from blackboard_mcp.storage.store import SqlBoardStore

LEASE = 1.0
LONG = 1.2
"""Seconds that a worker sometimes takes: longer than its lease."""


async def work(database: Path, name: str, journal: int, seed: int) -> None:
    def note(**facts: object) -> None:
        os.write(journal, (json.dumps({"worker": name, **facts}) + "\n").encode())

    chance = random.Random(seed)
    store = await SqlBoardStore.open(database, synchronous="NORMAL")
    while True:
        seen = store.changes()
        taken = await store.take_task("main", name, seconds=LEASE)
        if taken is None:
            if not (await store.agenda("main", name, limit=1)).total:
                break
            await store.wait_for_change(seen, 0.05)
            continue
        assert taken.task is not None
        number, until = taken.task.number, taken.until.timestamp()
        note(took=number, lease=taken.lease, since=until - LEASE, until=until)
        if chance.random() < 0.05:
            await asyncio.sleep(LONG)
        text = CountedText(f"{name} under {taken.lease}", 3)
        try:
            done = await store.settle_task("main", name, Settle("done", number, taken.lease, text))
        except (Conflict, Refused) as error:
            note(refused=number, lease=taken.lease, why=type(error).__name__)
        else:
            assert done.item is not None
            note(done=number, lease=taken.lease, item=done.item.number, late=done.late)
    await store.close()


if __name__ == "__main__":
    _, database, name, journal, seed = sys.argv
    file = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    asyncio.run(work(Path(database), name, file, int(seed)))
