"""Measures writes to files of a board that has many files, beside writes on a board that has few.

    python benchmarks/artifact_writes.py [--files 10000] [--writes 300]

Writes go through `artifact_write` of a board in this process, on a database on disk, while the commits to its Git
repository follow in the same process, as a server makes them. Files are new, changed as a whole, appended to, and
changed in one place, in turn; what is written is a page of text.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path

from blackboard_mcp.protocols.board import BoardConfig
from blackboard_mcp.protocols.workspace import Edit
from blackboard_mcp.server.board import Board
from blackboard_mcp.storage.store import SqlBoardStore
from blackboard_mcp.storage.workspace.committer import Committer

FEW = 10
PAGE = "".join(f"Line {n} of a page of text that somebody wrote.\n" for n in range(40))


async def furnished(folder: Path, files: int) -> None:
    """Makes a board with so many files, whose repository is up to date."""
    store = await SqlBoardStore.open(folder / "board.sqlite3")
    await store.ensure_board("main", "ann", BoardConfig())
    for n in range(files):
        edit = Edit(content=f"{n}\n{PAGE}".encode())
        await store.write_artifact("main", "ann", f"d{n % 100:02}/f{n:05}.md", edit)
    await Committer(store, folder / "workspaces").update("main")
    await store.close()


async def measured(folder: Path, files: int, writes: int) -> list[float]:
    """Returns milliseconds that writes took, each."""
    taken = []
    async with Board.open(data=folder, agent="ben", settings={"tools": ("core", "workspace")}) as board:
        for n in range(writes):
            path = f"d{n % min(100, files):02}/f{n % min(100, files):05}.md"
            begun = time.perf_counter()
            match n % 4:
                case 0:
                    await board.artifact_write(f"new/{n}.md", PAGE)
                case 1:
                    await board.artifact_write(path, f"{n} by ben\n{PAGE}")
                case 2:
                    await board.artifact_write(path, append=f"and {n}\n")
                case _:
                    await board.artifact_write(path, replace=("Line 7 ", "Line 7  "))
            taken.append((time.perf_counter() - begun) * 1_000)
    return taken


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--writes", type=int, default=300)
    given = parser.parse_args()
    for files in (FEW, given.files):
        # A commit that begins as the board closes still ends.
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            await furnished(Path(folder), files)
            taken = await measured(Path(folder), files, given.writes)
            cuts = statistics.quantiles(taken, n=100)
            print(f"{files:,} files: p50 {cuts[49]:.1f} ms, p95 {cuts[94]:.1f}, p99 {cuts[98]:.1f}")


if __name__ == "__main__":
    asyncio.run(main())
