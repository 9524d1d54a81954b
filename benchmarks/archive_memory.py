"""Measures the memory of a process that posts and searches, and the CPU of indexing, as the archive grows.

    python benchmarks/archive_memory.py [FOLDER-OF-LOGS] [--posts 50000] [--index-only | --own-process]

Posts pieces of recorded sessions of 100 characters, twenty a call, to one board of an open installation that keeps its
budget, so nearly all go to the archive and its index; after every 500 posts it searches once. Each row is 5,000 posts:
the resident memory in MiB, how much of it is not pages of files, and the CPU of a post with its indexing, of the whole
process. The last rows are the process once all is indexed, after its rest, and after twenty searches and a rest.
`--index-only` gives the same documents to the index alone, as the indexer does. `--own-process` has the index work in a
process of its own, as a server does, and tells of both. The texts are read from a file, so that they take no memory.
Runs offline with the bundled model, on Linux.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from blackboard_mcp.protocols.archive import ArchiveDocument, ArchiveQuery
from blackboard_mcp.server.compose import installation
from blackboard_mcp.server.input.posts import PostFields
from blackboard_mcp.server.input.queries import archive_query
from blackboard_mcp.server.settings.server import Settings
from blackboard_mcp.storage.lance.embedders.choice import EmbedderChoice
from blackboard_mcp.storage.lance.index import LanceArchiveIndex
from blackboard_mcp.storage.sqlite.engine import REST_SECONDS
from growth import pieces

CHARACTERS = 100
TOGETHER = 20
SEARCHED = 500
TOLD = 5_000
BATCH = 200
MAINTAINED = 32


def resident() -> str:
    """Returns the resident memory of this process and those it began, in MiB, and that without the pages of files."""
    mebi = os.sysconf("SC_PAGE_SIZE") / 2**20
    told = []
    for process in (os.getpid(), *map(int, children())):
        pages, shared = map(int, Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1:3])
        told.append(f"{pages * mebi:6.0f} MiB ({(pages - shared) * mebi:4.0f})")
    return " and ".join(told)


def children() -> list[str]:
    """Returns the numbers of the processes that this one began."""
    return [n for task in Path("/proc/self/task").iterdir() for n in (task / "children").read_text().split()]


def cpu() -> float:
    """Returns the seconds of CPU of this process and of those it began."""
    tick = os.sysconf("SC_CLK_TCK")
    begun = [
        Path(f"/proc/{n}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split() for n in children()
    ]
    return time.process_time() + sum(int(line[11]) + int(line[12]) for line in begun) / tick


def spool(logs: Path | None, count: int, file: Path) -> None:
    """Writes texts to a file, a line for each,"""
    with file.open("w", encoding="utf-8") as lines:
        lines.writelines(json.dumps(piece) + "\n" for piece in islice(pieces(logs, CHARACTERS), count))


def batches(file: Path, size: int) -> Iterator[list[tuple[str, str]]]:
    """Yields the author and text of each line of a file, `size` at once."""
    with file.open(encoding="utf-8") as lines:
        while batch := [tuple(json.loads(line)) for line in islice(lines, size)]:
            yield batch


class Rows:
    """Printer of a row for each `TOLD` items."""

    def __init__(self) -> None:
        self._began = cpu()
        print(f"{0:>7,}  {resident()}", flush=True)

    def tell(self, count: int) -> None:
        """Prints a row; `count` is the number of items so far, a multiple of `TOLD`."""
        each = (cpu() - self._began) / TOLD
        print(f"{count:>7,}  {resident()}  {1e6 * each:6.0f} µs of CPU each", flush=True)
        self._began = cpu()


async def posted(folder: Path, file: Path, *, own_process: bool) -> None:
    """Posts all texts to an installation, with searches in between."""
    opening = installation(Settings(data=folder), eager_index=True, index_process=own_process)
    async with opening as open_:

        async def search(text: str) -> None:
            query, words = archive_query(
                text=text[:60],
                type=None,
                tags=None,
                author=None,
                after=None,
                before=None,
                limit=10,
                thread=None,
                zone="archive",
            )
            await open_.blackboard.search("reader", None, query, words, restore=False)

        rows = Rows()
        count = 0
        for batch in batches(file, TOGETHER):
            fields = [PostFields(text=text, type="LOG") for _, text in batch]
            await open_.blackboard.post(f"agent-{count % 8}", None, fields)
            count += len(batch)
            if count % SEARCHED == 0:
                await search(batch[0][1])
            if count % TOLD == 0:
                rows.tell(count)
        await open_.archive.drain()
        print(f"indexed  {resident()}", flush=True)
        await asyncio.sleep(REST_SECONDS + 2)
        print(f"at rest  {resident()}", flush=True)
        for batch in islice(batches(file, TOGETHER), 20):
            await search(batch[0][1])
        print(f"searched {resident()}", flush=True)
        await asyncio.sleep(REST_SECONDS + 2)
        print(f"at rest  {resident()}")


async def indexed(folder: Path, file: Path) -> None:
    """Gives all texts to an index, with searches in between."""
    index = LanceArchiveIndex(folder, EmbedderChoice("wordllama", "", "").load())
    at = datetime(2026, 1, 1, tzinfo=UTC)
    rows = Rows()
    count = 0
    for turn, batch in enumerate(batches(file, BATCH), 1):
        await index.upsert(
            [
                ArchiveDocument("bench", number, number, "LOG", author, number, (), at, text)
                for number, (author, text) in enumerate(batch, count + 1)
            ]
        )
        count += len(batch)
        if turn % MAINTAINED == 0:
            await index.maintain()
        if count % 1_000 == 0:
            await index.search(ArchiveQuery("bench", batch[0][1][:60]))
        if count % TOLD == 0:
            rows.tell(count)
    await asyncio.sleep(REST_SECONDS + 2)
    print(f"at rest  {resident()}")
    await index.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("logs", nargs="?", type=Path, metavar="FOLDER-OF-LOGS")
    parser.add_argument("--posts", type=int, default=50_000, help="how many (default 50000)")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--index-only", action="store_true", help="give them to the index alone")
    only.add_argument("--own-process", action="store_true", help="have the index work in its own process")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "texts")
        other = multiprocessing.get_context("spawn").Process(
            target=spool, args=(given.logs, given.posts, file)
        )
        other.start()
        other.join()
        data = Path(folder, "data")
        asyncio.run(
            indexed(data, file) if given.index_only else posted(data, file, own_process=given.own_process)
        )


if __name__ == "__main__":
    main()
