"""One process of several that run transactions on one file; prints a record of each, one a line."""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path

from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.walk.contending import Contender


async def contend(path: Path, name: str, transactions: int) -> None:
    """Two callers, so that groups of one process hold several transactions."""
    store = await SqlBoardStore.open(path, synchronous="NORMAL")
    lines: list[str] = []
    try:
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        await asyncio.gather(
            *(
                Contender(
                    store, f"{name}{n}", random.Random(f"{name}{n}"), lambda r: lines.append(r.line())
                ).run(transactions)
                for n in "xy"
            )
        )
    finally:
        await store.close()
    print("\n".join(lines))


if __name__ == "__main__":
    asyncio.run(contend(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
