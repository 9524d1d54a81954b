"""A worker of a consumer group, as a process of its own: `group_worker.py DATABASE NAME JOURNAL SEED`.

Writes a line of JSON to its journal for each delivery before it works on it, and one for each
acknowledgement after it was told that it holds. Says "idle" and ends when there is nothing to do any more.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from pathlib import Path

from blackboard_mcp.protocols.errors import Conflict
from blackboard_mcp.protocols.groups import Handle, Turn
from blackboard_mcp.storage.store import SqlBoardStore

LEASE = 1.0
LONG = 1.2
"""Seconds that a worker sometimes takes: longer than its lease."""


async def work(database: Path, name: str, journal: int, seed: int) -> None:
    def note(**facts: object) -> None:
        os.write(journal, (json.dumps({"worker": name, **facts}) + "\n").encode())

    chance = random.Random(seed)
    store = await SqlBoardStore.open(database, synchronous="NORMAL")
    done: tuple[Handle, ...] = ()
    fail: dict[Handle, str] = {}
    while True:
        seen = store.changes()
        limit = chance.randint(1, 4)
        try:
            taken = await store.consume(
                "main", name, "g", Turn(ack=done, fail=fail, limit=limit, lease_seconds=LEASE)
            )
        except Conflict as late:
            named = late.facts["late"]
            if not named:
                raise
            done = tuple(handle for handle in done if str(handle) not in named)
            fail = {handle: why for handle, why in fail.items() if str(handle) not in named}
            note(late=sorted(named))
            continue
        note(acked=[str(handle) for handle in done], failed=[str(handle) for handle in fail])
        done, fail = (), {}
        for delivery in taken.deliveries:
            until = delivery.until.timestamp()
            note(took=str(delivery.handle), since=until - LEASE, until=until)
        if not taken.deliveries:
            if not taken.in_flight and not taken.waiting:
                break
            await store.wait_for_change(seen, 0.05)
            continue
        if chance.random() < 0.05:
            await asyncio.sleep(LONG)
        settled = [delivery.handle for delivery in taken.deliveries]
        failing = {handle for handle in settled if chance.random() < 0.05}
        done = tuple(handle for handle in settled if handle not in failing)
        fail = dict.fromkeys(failing, "chance")
    await store.close()
    print("idle", flush=True)


if __name__ == "__main__":
    descriptor = os.open(sys.argv[3], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    asyncio.run(work(Path(sys.argv[1]), sys.argv[2], descriptor, int(sys.argv[4])))
