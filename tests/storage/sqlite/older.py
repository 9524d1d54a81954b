"""What a process does with a file of an older schema: `python older.py open PATH`, or `kill PATH AFTER`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any


def kill_after(statements: int) -> None:
    """The process dies at once, at a statement of the transaction in which it migrates."""
    from blackboard_mcp.storage.sqlite import driver

    connect = driver.connect
    left, begun = statements, False

    def count(statement: str) -> None:
        nonlocal left, begun
        begun = begun or statement == "BEGIN IMMEDIATE"
        left -= begun
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def counting(location: str) -> Any:
        raw = connect(location)
        raw.set_trace_callback(count)
        return raw

    driver.connect = counting


async def use(path: Path) -> None:
    from blackboard_mcp.storage.store import SqlBoardStore
    from blackboard_mcp.storage.testing.harness import Table

    store = await SqlBoardStore.open(path)
    item = await Table(store).post("alice", f"by {os.getpid()}", "LOG")
    await store.close()
    print(item.number)


if __name__ == "__main__":
    import blackboard_mcp.storage.store  # noqa: F401 - before "ready"

    if sys.argv[1] == "kill":
        kill_after(int(sys.argv[3]))
    else:
        os.write(1, b"ready\n")
        sys.stdin.readline()
    asyncio.run(use(Path(sys.argv[2])))
