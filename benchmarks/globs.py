"""Measures queries by a glob of keys on a board of 1,000 entries and on one of a million.

    python benchmarks/globs.py [entries …]

Each board has the same 60 entries that are asked for among so many others, half of them in the archive.
Prints the p50 and the worst of 30 queries a glob, in milliseconds, through the store.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from blackboard_mcp.protocols.filters import ItemQuery
from blackboard_mcp.protocols.items import Zone
from blackboard_mcp.storage.sqlite import driver
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.testing.harness import CONFIG, HandClock, draft

GLOBS = ("plan:7", "plan:*", "plan:**", "**:rare", "bulk:*:rare", "pl*n:*", "bulk:**", "**", "*:none:*")
TIMES = 30
FILL = """
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
INSERT INTO item(board, number, type, key, version, status, zone, importance, author, owner, text, tags, metadata,
                 tokens, sha256, thread, created_at, updated_at, ttl, expires_at, seq, updated_by)
SELECT 1, 1000 + i, 'LOG', 'bulk:' || (i / 100) || ':' || (i % 100), 1, 'ACTIVE',
       CASE WHEN i % 2 THEN 'archive' ELSE 'working' END, 2, 'ada', '', 'one of many', '[]', '{}', 3, '', 1000 + i,
       0, 0, NULL, NULL, 1, 'ada'
FROM n
"""


async def measure(entries: int, folder: Path) -> None:
    """Fills a board with `entries` entries beside the 60 that are queried, and prints the times of the queries."""
    place = folder / f"{entries}.db"
    store = await SqlBoardStore.open(place, clock=HandClock(), synchronous="NORMAL")
    wanted = [draft("x", "LOG", key=f"plan:{n}") for n in range(40)]
    wanted += [draft("x", "LOG", key=f"bulk:{n}:rare") for n in range(20)]
    await store.post("main", "ada", wanted, config=CONFIG)
    await store.close()
    raw = driver.connect(place)
    started = time.perf_counter()
    raw.execute(FILL, (entries,))
    raw.execute("UPDATE board SET last_number = 1000 + ?1", (entries,))
    raw.commit()
    raw.close()
    print(
        f"{entries:,} entries, {place.stat().st_size / 2**20:.0f} MB, filled in {time.perf_counter() - started:.0f} s"
    )
    store = await SqlBoardStore.open(place, clock=HandClock(), synchronous="NORMAL")
    for zone in (Zone.WORKING, None):
        for key in GLOBS:
            query = ItemQuery(key=key, zone=zone)
            took = []
            for _ in range(TIMES):
                begun = time.perf_counter()
                page = await store.query("main", "ada", query)
                took.append((time.perf_counter() - begun) * 1_000)
            print(
                f"  {zone or 'all':8} {key:12} {len(page.items):3} items  p50 {statistics.median(took):7.2f}"
                f"  max {max(took):7.2f}"
            )
    await store.close()


async def main() -> None:
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as folder:
        for entries in map(int, sys.argv[1:] or ("1000", "1000000")):
            await measure(entries, Path(folder))
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    asyncio.run(main())
