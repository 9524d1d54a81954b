"""Measures the CPU that a search of the archive takes.

    python benchmarks/archive_cost.py FOLDER-OF-LOGS [--items 1000] [--sets SET.json ...] [--cut CHARACTERS]

The items are steps of recorded sessions (`{"question", "history": [{"content"}]}`), then the documents of the sets
(`{"docs": [{"text"}], "queries": [{"q"}]}`), on one board, or with `--cut` pieces of those, in an order by lot. 80
queries, the questions and the queries of the sets, ask for ten hits each. Prints the CPU of the whole process. Runs
offline with the bundled model.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from blackboard_mcp.protocols.archive import ArchiveDocument, ArchiveQuery
from blackboard_mcp.storage.lance.embedders.choice import EmbedderChoice
from blackboard_mcp.storage.lance.index import LanceArchiveIndex

BOARD = "bench"
QUERIES = 80
CHANGED = 10


def load(logs: Path, sets: Sequence[Path]) -> tuple[list[str], list[str]]:
    """Returns the texts and the queries of the sessions, then of the sets."""
    texts: list[str] = []
    asked: list[str] = []
    for path in sorted(logs.glob("*.json")):
        session = json.loads(path.read_text(encoding="utf-8"))
        asked.append(session["question"])
        texts += [step["content"] for step in session["history"] if step["content"]]
    for path in sets:
        data = json.loads(path.read_text(encoding="utf-8"))
        asked += [query["q"] for query in data["queries"]]
        texts += [doc["text"] for doc in data["docs"]]
    return texts, random.Random(1).sample(asked, min(QUERIES, len(asked)))


def pieces(texts: Sequence[str], characters: int) -> list[str]:
    """Returns pieces of the texts, each of so many characters or the end of a text, in an order by lot."""
    found = [text[at : at + characters] for text in texts for at in range(0, len(text), characters)]
    random.Random(1).shuffle(found)
    return found


def documents(texts: Sequence[str], seq: int) -> list[ArchiveDocument]:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return [
        ArchiveDocument(BOARD, number, seq, "FACT", "bench", number, (), at, text)
        for number, text in enumerate(texts, 1)
    ]


async def cpu(index: LanceArchiveIndex, query: str) -> float:
    """Returns the milliseconds of CPU that the process takes for a search."""
    began = time.process_time()
    await index.search(ArchiveQuery(BOARD, query, limit=10))
    return 1000 * (time.process_time() - began)


async def measure(folder: Path, texts: Sequence[str], asked: Sequence[str]) -> None:
    index = LanceArchiveIndex(folder, EmbedderChoice("wordllama", "", "").load())
    made = documents(texts, 1)
    for start in range(0, len(made), 500):
        await index.upsert(made[start : start + 500])
    await index.maintain()
    first = await cpu(index, "warm up")
    once = sorted([await cpu(index, query) for query in asked])
    again = sorted([await cpu(index, query) for query in asked])
    await index.upsert(documents(texts[:CHANGED], 2))
    changed = await cpu(index, asked[0])
    await index.close()
    for name, taken in (("query", once), ("asked again", again)):
        print(f"{name}: p50 {taken[len(taken) // 2]:.0f} ms, p95 {taken[int(len(taken) * 0.95)]:.0f} ms")
    print(f"first search: {first:.0f} ms; search after {CHANGED} changes: {changed:.0f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("logs", type=Path, metavar="FOLDER-OF-LOGS")
    parser.add_argument(
        "--items", type=int, default=1000, help="the first items that are indexed (default 1000)"
    )
    parser.add_argument("--sets", nargs="*", type=Path, default=[], metavar="SET.json")
    parser.add_argument("--cut", type=int, metavar="CHARACTERS", help="index pieces of so many characters")
    arguments = parser.parse_args()
    texts, asked = load(arguments.logs, arguments.sets)
    if arguments.cut:
        texts = pieces(texts, arguments.cut)
    texts = texts[: arguments.items]
    print(f"{len(texts):,} items, {len(asked)} queries")
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(Path(folder), texts, asked))


if __name__ == "__main__":
    main()
