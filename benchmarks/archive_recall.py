"""Measures the recall of the archive search among the first five and the first ten hits.

    python benchmarks/archive_recall.py SET.json [SET.json ...] [--weights 0.25,1]
        [--url http://127.0.0.1:8080/v1 --model NAME]

A set is `{"docs": [{"id", "text"}], "queries": [{"q", "relevant", "exclude"}]}`. The documents become
archived items of one board, each in a thread of its own, in the set's order. Runs offline
unless an endpoint of embeddings is named.
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

from blackboard_mcp.protocols.archive import ArchiveDocument, ArchiveQuery, Embedder
from blackboard_mcp.storage.lance.embedders.choice import EmbedderChoice
from blackboard_mcp.storage.lance.index import LanceArchiveIndex

BOARD = "bench"
FIRST = (5, 10)


async def fill(path: Path, docs: list[dict[str, str]], embedder: Embedder | None) -> float:
    """Indexes the documents, and returns the seconds that it took."""
    index = LanceArchiveIndex(path, embedder)
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


async def recall(
    path: Path, data: dict[str, Any], weight: float | None, embedder: Embedder | None
) -> tuple[list[float], float, str]:
    """Returns recall at five and at ten (0 to 1), milliseconds for each query, and the search mode.

    `weight` is that of the vectors; `None` searches by words only.
    """
    options = {} if weight is None else {"vector_weight": weight}
    index = LanceArchiveIndex(path, None if weight is None else embedder, **options)
    await index.search(ArchiveQuery(BOARD, "warm up"))
    found, mode = [0.0 for _ in FIRST], ""
    started = time.perf_counter()
    for query in data["queries"]:
        excluded, relevant = set(query["exclude"]), set(query["relevant"])
        answer = await index.search(ArchiveQuery(BOARD, query["q"], limit=max(FIRST) + len(excluded)))
        names = [data["docs"][hit.number - 1]["id"] for hit in answer.hits]
        kept = [name for name in names if name not in excluded]
        for place, first in enumerate(FIRST):
            found[place] += len(set(kept[:first]) & relevant) / min(first, len(relevant))
        mode = answer.mode
    took = time.perf_counter() - started
    await index.close()
    count = len(data["queries"])
    return [hits / count for hits in found], 1000 * took / count, mode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("sets", nargs="+", type=Path, metavar="SET.json")
    parser.add_argument(
        "--weights",
        default="0.25,1",
        help="weights of the vectors to try; 1 is the vectors alone (default 0.25,1)",
    )
    parser.add_argument("--url", default="", help="base address of an OpenAI-compatible endpoint")
    parser.add_argument("--model", default="", help="the model's name there")
    arguments = parser.parse_args()
    embedder = EmbedderChoice(
        "openai" if arguments.url else "wordllama", arguments.url, arguments.model
    ).load()
    for path in arguments.sets:
        data = json.loads(path.read_text(encoding="utf-8"))
        with tempfile.TemporaryDirectory() as folder:
            seconds = asyncio.run(fill(Path(folder), data["docs"], embedder))
            print(f"{path.name}: {len(data['docs'])} documents indexed in {seconds:.1f} s")
            for weight in [None, *map(float, arguments.weights.split(","))]:
                shares, milliseconds, mode = asyncio.run(recall(Path(folder), data, weight, embedder))
                shown = "-" if weight is None else f"{weight:.2f}"
                said = "  ".join(f"R@{n} {share:.3f}" for n, share in zip(FIRST, shares, strict=True))
                print(f"  {mode:8} weight {shown:>4}  {said}  {milliseconds:6.1f} ms a query")


if __name__ == "__main__":
    main()
