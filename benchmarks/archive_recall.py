"""How often the archive search finds what it should: recall among the first ten.

    python benchmarks/archive_recall.py SET.json [SET.json ...] [--weights 0,0.25,0.5]

A set is `{"docs": [{"id", "text"}], "queries": [{"q", "relevant", "exclude"}]}`. The documents become
archived items of one board, each in a thread of its own, in the set's order. Runs offline.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from blackboard_mcp.protocols.archive import ArchiveDocument, ArchiveQuery
from blackboard_mcp.storage.lance.embedders.wordllama import load_bundled_embedder
from blackboard_mcp.storage.lance.index import LanceArchiveIndex

BOARD = "bench"
FIRST = 10


async def fill(path: Path, docs: list[dict[str, str]]) -> float:
    """Index the documents; the seconds it took."""
    index = LanceArchiveIndex(path, load_bundled_embedder())
    started = time.perf_counter()
    for start in range(0, len(docs), 500):
        await index.upsert(
            [
                ArchiveDocument(
                    board=BOARD,
                    number=number,
                    seq=number,
                    type="FACT",
                    author="bench",
                    thread=number,
                    tags=(),
                    created_at=datetime(2026, 1, 1, tzinfo=UTC),
                    text=doc["text"],
                )
                for number, doc in enumerate(docs[start : start + 500], start + 1)
            ]
        )
    await index.maintain()
    await index.close()
    return time.perf_counter() - started


async def recall(path: Path, data: dict[str, Any], weight: float | None) -> tuple[float, float, str]:
    """(recall at ten, milliseconds a query, mode); `weight` None means words alone."""
    options = {} if weight is None else {"vector_weight": weight}
    index = LanceArchiveIndex(path, None if weight is None else load_bundled_embedder(), **options)
    await index.search(ArchiveQuery(BOARD, "warm up"))
    found, mode = 0.0, ""
    started = time.perf_counter()
    for query in data["queries"]:
        excluded = set(query["exclude"])
        answer = await index.search(ArchiveQuery(BOARD, query["q"], limit=FIRST + len(excluded)))
        names = [data["docs"][hit.number - 1]["id"] for hit in answer.hits]
        first = [name for name in names if name not in excluded][:FIRST]
        found += len(set(first) & set(query["relevant"])) / min(FIRST, len(query["relevant"]))
        mode = answer.mode
    took = time.perf_counter() - started
    await index.close()
    return found / len(data["queries"]), 1000 * took / len(data["queries"]), mode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("sets", nargs="+", type=Path, metavar="SET.json")
    parser.add_argument("--weights", default="0.25", help="weights of the vectors to try (default 0.25)")
    arguments = parser.parse_args()
    for path in arguments.sets:
        data = json.loads(path.read_text(encoding="utf-8"))
        with tempfile.TemporaryDirectory() as folder:
            seconds = asyncio.run(fill(Path(folder), data["docs"]))
            print(f"{path.name}: {len(data['docs'])} documents indexed in {seconds:.1f} s")
            for weight in [None, *map(float, arguments.weights.split(","))]:
                share, milliseconds, mode = asyncio.run(recall(Path(folder), data, weight))
                shown = "-" if weight is None else f"{weight:.2f}"
                print(f"  {mode:8} weight {shown:>4}  R@{FIRST} {share:.3f}  {milliseconds:6.1f} ms a query")


if __name__ == "__main__":
    main()
