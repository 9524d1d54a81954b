"""Measures the memory of a process that posts and searches, and the CPU of indexing, as the archive grows.

    python benchmarks/archive_memory.py [FOLDER-OF-LOGS] [--posts 50000] [--index-only]

Posts pieces of recorded sessions of 100 characters, twenty a call, to one board of an open installation that keeps its
budget, so nearly all go to the archive and its index; after every 500 posts it searches once. Each row is 5,000 posts:
the resident memory in MiB and the CPU of a post with its indexing, of the whole process. `--index-only` gives the same
documents to the index alone, as the indexer does. Runs offline with the bundled model, on Linux.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
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
from growth import pieces

CHARACTERS = 100
TOGETHER = 20
SEARCHED = 500
TOLD = 5_000
BATCH = 200
MAINTAINED = 32


def resident() -> float:
    """Returns the resident memory of this process in MiB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


class Rows:
    """Printer of a row for each `TOLD` items."""

    def __init__(self) -> None:
        self._began = time.process_time()
        print(f"{0:>7,}  {resident():6.0f} MiB", flush=True)

    def tell(self, count: int) -> None:
        """Prints a row; `count` is the number of items so far, a multiple of `TOLD`."""
        each = (time.process_time() - self._began) / TOLD
        print(f"{count:>7,}  {resident():6.0f} MiB  {1e6 * each:6.0f} µs of CPU each", flush=True)
        self._began = time.process_time()


async def posted(folder: Path, texts: list[tuple[str, str]]) -> None:
    """Posts all texts to an installation, with searches in between."""
    async with installation(Settings(data=folder), eager_index=True) as open_:
        rows = Rows()
        for start in range(0, len(texts), TOGETHER):
            batch = texts[start : start + TOGETHER]
            fields = [PostFields(text=text, type="LOG") for _, text in batch]
            await open_.blackboard.post(f"agent-{start % 8}", None, fields)
            count = start + len(batch)
            if count % SEARCHED == 0:
                query, words = archive_query(
                    text=batch[0][1][:60],
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
            if count % TOLD == 0:
                rows.tell(count)
        await open_.archive.drain()
        print(f"settled  {resident():6.0f} MiB")


async def indexed(folder: Path, texts: list[tuple[str, str]]) -> None:
    """Gives all texts to an index, with searches in between."""
    index = LanceArchiveIndex(folder, EmbedderChoice("wordllama", "", "").load())
    at = datetime(2026, 1, 1, tzinfo=UTC)
    rows = Rows()
    for start in range(0, len(texts), BATCH):
        batch = texts[start : start + BATCH]
        await index.upsert(
            [
                ArchiveDocument("bench", number, number, "LOG", author, number, (), at, text)
                for number, (author, text) in enumerate(batch, start + 1)
            ]
        )
        if (start // BATCH + 1) % MAINTAINED == 0:
            await index.maintain()
        count = start + len(batch)
        if count % 1_000 == 0:
            await index.search(ArchiveQuery("bench", batch[0][1][:60]))
        if count % TOLD == 0:
            rows.tell(count)
    await index.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("logs", nargs="?", type=Path, metavar="FOLDER-OF-LOGS")
    parser.add_argument("--posts", type=int, default=50_000, help="how many (default 50000)")
    parser.add_argument("--index-only", action="store_true", help="give them to the index alone")
    given = parser.parse_args()
    texts = list(islice(pieces(given.logs, CHARACTERS), given.posts))
    print(f"{len(texts):,} pieces")
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run((indexed if given.index_only else posted)(Path(folder), texts))


if __name__ == "__main__":
    main()
