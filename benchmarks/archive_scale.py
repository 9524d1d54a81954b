"""Measures the archive search as the archive grows: recall, latency, size on disk.

    python benchmarks/archive_scale.py FOLDER SIZE [SIZE ...] --sets SET.json [SET.json ...]

A set is `{"docs": [{"id", "text"}], "queries": [{"q", "relevant", "exclude"}]}`. An archive of SIZE items
holds what some of the sets' queries look for, then the other documents, then made-up ones: halves of
sentences, drawn at random from documents that no query looks for. All of them lie in random order on one
board of a real store, which is filled in bulk; the index is built by the product's own rebuild. Queries
go through `SearchableArchive`, one at a time. With `--exact` they are asked again of the whole board in
memory, where every window is compared: what the engines lose shows, the rest is the collection's ambiguity.
Runs offline; a folder that is already filled is used again, so a size may be measured twice, and a run that
was killed while it built the index goes on there. A million items take about 4 GB of disk.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import random
import re
import resource
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

from blackboard_mcp.protocols.archive import ArchiveQuery
from blackboard_mcp.protocols.board import BoardConfig
from blackboard_mcp.protocols.clock import SystemClock
from blackboard_mcp.protocols.errors import ArchiveUnavailable
from blackboard_mcp.storage.archive import SearchableArchive
from blackboard_mcp.storage.lance import counts
from blackboard_mcp.storage.sqlite import driver
from blackboard_mcp.storage.store import SqlBoardStore

BOARD = "bench"
FIRST = (5, 10)
QUERIES_OF_A_SET = 150
TOLD = 20_000
_ITEM = """
    INSERT INTO item(board, number, type, key, version, status, zone, importance, author, owner, text, tags,
                     metadata, tokens, sha256, thread, created_at, updated_at, ttl, expires_at, seq, updated_by)
    VALUES (?1, ?2, 'FACT', NULL, 1, 'ACTIVE', 'archive', 3, 'bench', '', ?3, '[]', '{}', ?4, ?5, ?2, ?6, ?6,
            NULL, NULL, ?2, 'bench')
"""


class Corpus:
    """The documents and queries of the sets, and made-up documents. A document's name is (set, id)."""

    def __init__(self, paths: list[Path]) -> None:
        chance = random.Random(1)
        self.real: dict[tuple[str, str], str] = {}
        self.queries: list[tuple[str, dict[str, Any]]] = []
        sought: dict[tuple[str, str], None] = {}
        wanted: dict[tuple[str, str], None] = {}
        for path in paths:
            data = json.loads(path.read_text(encoding="utf-8"))
            self.real.update({(path.stem, doc["id"]): doc["text"] for doc in data["docs"]})
            drawn = chance.sample(data["queries"], min(QUERIES_OF_A_SET, len(data["queries"])))
            self.queries += [(path.stem, query) for query in drawn]
            for query in data["queries"]:
                sought.update(dict.fromkeys((path.stem, n) for n in query["relevant"] + query["exclude"]))
            for query in drawn:
                wanted.update(dict.fromkeys((path.stem, n) for n in query["relevant"] + query["exclude"]))
        others = [name for name in self.real if name not in wanted]
        chance.shuffle(others)
        self.order = [name for name in wanted if name in self.real] + others
        self.halves: list[str] = []
        for name, text in self.real.items():
            if name not in sought:
                for sentence in re.split(r"(?<=[.!?\n])\s+", text):
                    said = sentence.split()
                    if 4 <= len(said) <= 60:
                        middle = len(said) // 2
                        self.halves += [" ".join(said[:middle]), " ".join(said[middle:])]

    def documents(self, size: int) -> Iterator[tuple[tuple[str, str] | None, str]]:
        """Yields the name and text of `size` documents in random order; made-up ones have no name."""
        chance = random.Random(size)
        real = set(chance.sample(range(size), min(size, len(self.order))))
        names = iter(chance.sample(self.order[:size], len(real)))
        for place in range(size):
            if place in real:
                name = next(names)
                yield name, self.real[name]
            else:
                yield None, " ".join(chance.choices(self.halves, k=chance.randint(6, 16)))


async def fill(folder: Path, corpus: Corpus, size: int) -> None:
    """Fills a store with `size` items, and notes the number of each named document."""
    await asyncio.to_thread(folder.mkdir, parents=True)
    store = await SqlBoardStore.open(folder / "board.sqlite3", clock=SystemClock())
    await store.ensure_board(BOARD, "bench", BoardConfig(target_tokens=6_000))
    await store.close()

    started = time.perf_counter()
    places: dict[str, int] = {}
    raw = driver.library().connect(str(folder / "board.sqlite3"), isolation_level=None)
    try:
        raw.execute("PRAGMA synchronous=OFF")
        raw.execute("BEGIN IMMEDIATE")
        board = raw.execute("SELECT no FROM board WHERE id = ?", (BOARD,)).fetchone()[0]
        for number, (name, text) in enumerate(corpus.documents(size), 1):
            if name is not None:
                places["/".join(name)] = number
            digest = hashlib.sha256(text.encode()).hexdigest()
            raw.execute(_ITEM, (board, number, text, len(text) // 4, digest, number * 1_000_000))
        raw.execute(
            "UPDATE board SET seq = ?2, last_number = ?2, archived_items = ?2 WHERE no = ?1", (board, size)
        )
        raw.execute("COMMIT")
    finally:
        raw.close()
    facts = {"places": places, "stored": time.perf_counter() - started, "built": 0, "cpu": 0, "whole": False}
    (folder / "facts.json").write_text(json.dumps(facts), encoding="utf-8")


async def build(folder: Path, facts: dict[str, Any]) -> None:
    """Builds the index, or goes on building it, and notes the seconds and the CPU that all attempts took."""
    before, spent = facts["built"], facts["cpu"]
    began, cpu = time.perf_counter(), time.process_time()
    added = 0

    def note() -> None:
        facts["built"], facts["cpu"] = before + time.perf_counter() - began, spent + time.process_time() - cpu
        (folder / "facts.json").write_text(json.dumps(facts), encoding="utf-8")

    def step(count: int) -> None:
        nonlocal added
        added += count
        if added % TOLD == 0:
            note()
            print(f"{added:>9,} items in {facts['built']:.0f} s, {facts['cpu']:.0f} s of CPU", flush=True)

    store = await SqlBoardStore.open(folder / "board.sqlite3", clock=SystemClock())
    archive = SearchableArchive(store, folder / "archive.lance", "bench", eager=False)
    if await archive.rebuild(step) is None:
        raise SystemExit("A process that was killed has the lease for half a minute: try again then.")
    await archive.close()
    await store.close()
    facts["whole"] = True
    note()


async def measure(folder: Path, corpus: Corpus, size: int, way: str = "engines") -> None:
    """Searches an archive of `size` items, and prints recall, latency and sizes. Fills the folder if it is new."""
    if not (folder / "facts.json").exists():
        await fill(folder, corpus, size)
    facts = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
    if not facts["whole"]:
        await build(folder, facts)
    names = {number: name for name, number in facts["places"].items()}
    store = await SqlBoardStore.open(folder / "board.sqlite3", clock=SystemClock())
    archive = SearchableArchive(store, folder / "archive.lance", "bench", eager=False)
    started = time.perf_counter()
    while True:
        try:
            await archive.search(ArchiveQuery(BOARD, "warm up"))
            break
        except ArchiveUnavailable:
            await asyncio.sleep(0.1)
    first = time.perf_counter() - started
    found: dict[str, list[list[float]]] = {}
    took: list[float] = []
    spent: list[float] = []
    for group, query in corpus.queries:
        excluded = {f"{group}/{n}" for n in query["exclude"]}
        relevant = {f"{group}/{n}" for n in query["relevant"]}
        asked = ArchiveQuery(BOARD, query["q"], limit=max(FIRST) + len(excluded))
        began, cpu = time.perf_counter(), time.process_time()
        answer = await archive.search(asked)
        took.append(1000 * (time.perf_counter() - began))
        spent.append(1000 * (time.process_time() - cpu))
        kept = [n for hit in answer.hits if (n := names.get(hit.number, "")) not in excluded]
        found.setdefault(group, []).append(
            [len(set(kept[:n]) & relevant) / min(n, len(relevant)) for n in FIRST]
        )
    again = []
    for _, query in corpus.queries[:100]:
        began = time.perf_counter()
        await archive.search(ArchiveQuery(BOARD, query["q"]))
        again.append(1000 * (time.perf_counter() - began))
    await archive.close()
    await store.close()
    for group, shares in found.items():
        said = "  ".join(f"R@{n} {statistics.mean(s[i] for s in shares):.3f}" for i, n in enumerate(FIRST))
        print(f"{size:>9,} items  {way:7} {group:24} {said}")
    print(
        f"{size:>9,} items  {way:7} CPU p50 {_part(spent, 0.5):.0f} ms  p95 {_part(spent, 0.95):.0f} ms; "
        f"query p50 {_part(took, 0.5):.0f} ms  p95 {_part(took, 0.95):.0f} ms  max {max(took):.0f} ms"
        f"  again p50 {_part(again, 0.5):.0f} ms  p95 {_part(again, 0.95):.0f} ms  first {first:.1f} s"
    )
    index = [p.stat().st_size for p in (folder / "archive.lance").rglob("*") if p.is_file()]
    print(
        f"{size:>9,} items  stored in {facts['stored']:.0f} s, indexed in {facts['built']:.0f} s "
        f"({1000 * facts['cpu'] / size:.2f} ms of CPU an item); store "
        f"{(folder / 'board.sqlite3').stat().st_size / 1e6:.0f} MB, index {sum(index) / 1e6:.0f} MB in "
        f"{len(index)} files; peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f} MB",
        flush=True,
    )


def _part(values: list[float], share: float) -> float:
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("sizes", nargs="+", type=int, metavar="SIZE")
    parser.add_argument("--sets", nargs="+", type=Path, required=True, metavar="SET.json")
    parser.add_argument("--exact", action="store_true", help="ask again with every window compared")
    arguments = parser.parse_args()
    corpus = Corpus(arguments.sets)
    for size in arguments.sizes:
        asyncio.run(measure(arguments.folder / str(size), corpus, size))
        if arguments.exact:
            with patch.object(counts, "LARGE", 10**9):
                asyncio.run(measure(arguments.folder / str(size), corpus, size, "exact"))


if __name__ == "__main__":
    main()
