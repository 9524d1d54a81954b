"""An archive source over one SQLite file, for tests; run as a script it is a process of its own.

python lance_journal.py upsert INDEX COUNT SEQ   upserts documents 1..COUNT
python lance_journal.py index INDEX JOURNAL      archives and indexes until it is killed
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import time
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from blackboard_mcp.protocols.archive import ArchiveDocument, OutboxBatch, Waiting

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def document(number: int, text: str = "", **other: Any) -> ArchiveDocument:
    """Returns a document with defaults for all that is not given."""
    return ArchiveDocument(
        board=other.get("board", "main"),
        number=number,
        seq=other.get("seq", 1),
        type=other.get("type", "FACT"),
        author=other.get("author", "ann"),
        thread=other.get("thread", number),
        tags=tuple(other.get("tags", ())),
        created_at=other.get("created_at", EPOCH),
        text=text or f"finding {number} about topic{number % 7}",
    )


class SqliteJournal:
    """An archive source with archived items, an outbox and leases. `now` is the leases' clock, in seconds."""

    def __init__(self, path: Path, now: Any = time.time) -> None:
        self.now = now
        self.news = asyncio.Event()
        self.done = asyncio.Event()
        self.db = sqlite3.connect(path, isolation_level=None, timeout=20, check_same_thread=False)
        self.db.executescript(
            """
            PRAGMA journal_mode = WAL;
            CREATE TABLE IF NOT EXISTS archived (board TEXT, number INT, seq INT, text TEXT,
                PRIMARY KEY (board, number));
            CREATE TABLE IF NOT EXISTS outbox (id INTEGER PRIMARY KEY AUTOINCREMENT, board TEXT, number INT);
            CREATE TABLE IF NOT EXISTS lease (name TEXT PRIMARY KEY, holder TEXT, until REAL);
            """
        )

    def close(self) -> None:
        self.db.close()

    def archive(self, documents: Sequence[ArchiveDocument], *, outbox: bool = True) -> None:
        """Adds documents to the archive, and changes to the outbox unless `outbox` is false."""
        self.db.execute("BEGIN IMMEDIATE")
        for d in documents:
            self.db.execute("REPLACE INTO archived VALUES (?, ?, ?, ?)", (d.board, d.number, d.seq, d.text))
            if outbox:
                self.db.execute("INSERT INTO outbox (board, number) VALUES (?, ?)", (d.board, d.number))
        self.db.execute("COMMIT")
        self.news.set()

    def restore(self, keys: Sequence[tuple[str, int]], *, outbox: bool = True) -> None:
        """Removes documents from the archive, and adds changes to the outbox unless `outbox` is false."""
        self.db.execute("BEGIN IMMEDIATE")
        for key in keys:
            self.db.execute("DELETE FROM archived WHERE board = ? AND number = ?", key)
            if outbox:
                self.db.execute("INSERT INTO outbox (board, number) VALUES (?, ?)", key)
        self.db.execute("COMMIT")
        self.news.set()

    def outbox_size(self) -> int:
        """Returns the number of changes in the outbox."""
        return int(self.db.execute("SELECT count(*) FROM outbox").fetchone()[0])

    async def outbox_batch(self, limit: int) -> OutboxBatch:
        rows = self.db.execute(
            "SELECT id, board, number FROM outbox ORDER BY id LIMIT ?", (limit,)
        ).fetchall()
        keys = list(dict.fromkeys((board, number) for _, board, number in rows))
        documents = await self.documents(keys)
        there = {(d.board, d.number) for d in documents}
        return OutboxBatch(tuple(r[0] for r in rows), documents, tuple(k for k in keys if k not in there))

    async def outbox_done(self, ids: Sequence[int]) -> None:
        self.db.executemany("DELETE FROM outbox WHERE id = ?", [(i,) for i in ids])
        self.done.set()

    async def drained(self) -> None:
        """Waits until the outbox is empty."""
        async with asyncio.timeout(60):
            while self.outbox_size():
                self.done.clear()
                await self.done.wait()

    async def outbox_wait(self, seconds: float) -> None:
        await self.news.wait()
        self.news.clear()

    async def archived_keys(self) -> dict[tuple[str, int], int]:
        return {(b, n): s for b, n, s in self.db.execute("SELECT board, number, seq FROM archived")}

    async def settled_keys(self) -> dict[tuple[str, int], int]:
        rows = self.db.execute(
            "SELECT board, number, seq FROM archived a WHERE NOT EXISTS"
            " (SELECT 1 FROM outbox o WHERE o.board = a.board AND o.number = a.number)"
        )
        return {(b, n): s for b, n, s in rows}

    async def waiting(self, board: str, limit: int) -> Waiting:
        rows = self.db.execute(
            "SELECT DISTINCT number FROM outbox WHERE board = ? ORDER BY number DESC LIMIT ?",
            (board, limit + 1),
        ).fetchall()
        kept = [row[0] for row in rows[:limit]]
        documents = await self.documents([(board, n) for n in kept])
        gone = tuple(n for n in kept if n not in {d.number for d in documents})
        return Waiting(documents, gone, more=len(rows) > limit)

    async def archived_documents(self, batch: int = 500) -> AsyncIterator[tuple[ArchiveDocument, ...]]:
        keys = sorted(await self.archived_keys())
        for start in range(0, len(keys), batch):
            yield await self.documents(keys[start : start + batch])

    async def documents(self, keys: Sequence[tuple[str, int]]) -> tuple[ArchiveDocument, ...]:
        found = []
        for key in keys:
            row = self.db.execute(
                "SELECT number, text, board, seq FROM archived WHERE board = ? AND number = ?", key
            ).fetchone()
            if row:
                found.append(document(row[0], row[1], board=row[2], seq=row[3]))
        return tuple(found)

    async def lease(self, name: str, holder: str, seconds: float) -> bool:
        taken = self.db.execute(
            "INSERT INTO lease VALUES (?1, ?2, ?3 + ?4) ON CONFLICT (name) DO UPDATE SET holder = ?2, until = ?3 + ?4"
            " WHERE holder = ?2 OR until <= ?3 RETURNING 1",
            (name, holder, self.now(), seconds),
        ).fetchall()
        return bool(taken)

    async def release(self, name: str, holder: str) -> None:
        self.db.execute("DELETE FROM lease WHERE name = ? AND holder = ?", (name, holder))


async def _upsert(folder: Path, count: int, seq: int) -> None:
    from blackboard_mcp.storage.lance.index import LanceArchiveIndex

    index = LanceArchiveIndex(folder, None)
    await index.keys()
    print("ready", flush=True)
    sys.stdin.readline()
    for start in range(1, count + 1, 10):
        await index.upsert([document(n, seq=seq) for n in range(start, min(start + 10, count + 1))])
    await index.close()


async def _index(folder: Path, journal: Path) -> None:
    from blackboard_mcp.storage.lance.index import LanceArchiveIndex
    from blackboard_mcp.storage.lance.indexer import Indexer

    source = SqliteJournal(journal)
    indexer = Indexer(source, LanceArchiveIndex(folder, None), "doomed", batch=7)
    number = 0
    while True:
        source.archive([document(number + i, seq=number + i) for i in range(1, 21)])
        number += 20
        if number > 60:
            source.restore([("main", number - 50)])
        await indexer.drain()
        print(number, flush=True)


async def _rebuild(folder: Path, journal: Path) -> None:
    """Rebuilds the index in steps, and stops after each until a line comes."""
    from blackboard_mcp.storage.lance import indexer as module
    from blackboard_mcp.storage.lance.index import LanceArchiveIndex

    module._REBUILD_BATCH = 5
    indexer = module.Indexer(SqliteJournal(journal), LanceArchiveIndex(folder, None), "doomed", batch=5)

    def told(count: int) -> None:
        print(count, flush=True)
        sys.stdin.readline()

    await indexer.rebuild(told)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["upsert", folder, count, seq]:
            asyncio.run(_upsert(Path(folder), int(count), int(seq)))
        case ["index", folder, journal]:
            asyncio.run(_index(Path(folder), Path(journal)))
        case ["rebuild", folder, journal]:
            asyncio.run(_rebuild(Path(folder), Path(journal)))
