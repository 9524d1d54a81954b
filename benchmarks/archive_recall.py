"""Measures the recall of the archive search among the first five and the first ten hits, beside SQLite's full text.

    python benchmarks/archive_recall.py [SET.json ...] [--logs FOLDER] [--dialogues] [--weights 0.25,1]
        [--url http://127.0.0.1:8080/v1 --model NAME]

A set is `{"docs": [{"id", "text", "author", "thread"}], "queries": [{"q", "relevant", "exclude"}]}`; `author` and
`thread` may be missing, and each document then is a thread of its own. The documents become archived items of one
board, in the set's order. `--logs` takes recorded sessions with their labels: a thread for each session, and a question
for each mistake, which says who made it and why it is one; half of them were used for tuning. `--dialogues` adds
made-up dialogues (`dialogues.py`), of two kinds likewise. Each row is one way of ranking; the last column is its gain
over the first row at ten hits, with the paired standard error. Runs offline unless an endpoint of embeddings is named.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from blackboard_mcp.protocols.archive import ArchiveDocument, ArchiveQuery, Embedder
from blackboard_mcp.storage.lance.embedders.choice import EmbedderChoice
from blackboard_mcp.storage.lance.fusion import SHARES, Shares
from blackboard_mcp.storage.lance.index import LanceArchiveIndex
from dialogues import made

BOARD = "bench"
FIRST = (5, 10)
Shown = list[tuple[float, ...]]
"""Recall at five and at ten (0 to 1) of each query."""


def logs(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the sets of recorded sessions, tuned and held out."""
    docs: list[dict[str, Any]] = []
    queries: list[dict[str, Any]] = []
    for thread, path in enumerate(sorted(folder.glob("*.json"))):
        log = json.loads(path.read_text(encoding="utf-8"))
        step = len(docs) + int(log["mistake_step"])
        for said in log["history"]:
            author = str(said.get("name") or said["role"])
            docs.append({"id": str(len(docs)), "author": author, "thread": thread, "text": said["content"]})
        asked = f"What did {log['mistake_agent']} get wrong? {log['mistake_reason']}"
        queries.append({"q": asked, "relevant": [str(step)], "exclude": []})
    yield "sessions, tuned", {"docs": docs, "queries": queries[::2]}
    yield "sessions, held out", {"docs": docs, "queries": queries[1::2]}


def sets(given: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the sets to measure, by name."""
    for path in given.sets:
        yield path.name, json.loads(path.read_text(encoding="utf-8"))
    if given.logs is not None:
        yield from logs(given.logs)
    if given.dialogues:
        yield "dialogues, tuned", made(0)
        yield "dialogues, held out", made(1)
        yield "dialogues with tags, tuned", made(0, tags=True)
        yield "dialogues with tags, held out", made(1, tags=True)
        yield "dialogues in months, tuned", made(0, months=True)
        yield "dialogues in months, held out", made(1, months=True)


def documents(data: dict[str, Any], *, named: bool) -> list[ArchiveDocument]:
    """Returns the documents of a set; all have one author if they are not `named`."""
    return [
        ArchiveDocument(
            board=BOARD,
            number=number,
            seq=number,
            type="FACT",
            author=doc.get("author", "bench") if named else "bench",
            thread=doc.get("thread", number),
            tags=tuple(doc.get("tags", ())),
            created_at=datetime.fromisoformat(doc.get("at", "2026-01-01T00:00:00+00:00")),
            text=doc["text"],
        )
        for number, doc in enumerate(data["docs"], 1)
    ]


async def fill(path: Path, docs: Sequence[ArchiveDocument], embedder: Embedder | None) -> None:
    """Indexes the documents."""
    index = LanceArchiveIndex(path, embedder)
    for start in range(0, len(docs), 500):
        await index.upsert(docs[start : start + 500])
    await index.maintain()
    await index.close()


def shares_of(data: dict[str, Any], query: dict[str, Any], found: Sequence[int]) -> tuple[float, ...]:
    """Returns the shares of what is relevant among the first hits, given as numbers from 1."""
    excluded, relevant = set(query["exclude"]), set(query["relevant"])
    names = [data["docs"][number - 1]["id"] for number in found]
    kept = [name for name in names if name not in excluded]
    return tuple(len(set(kept[:first]) & relevant) / min(first, len(relevant)) for first in FIRST)


async def ranked(
    path: Path, data: dict[str, Any], weight: float | None, shares: Shares, embedder: Embedder | None
) -> tuple[Shown, float]:
    """Returns the recall of each query, and milliseconds of CPU of each; `weight` as in `recall`."""
    options = {} if weight is None else {"vector_weight": weight}
    index = LanceArchiveIndex(path, None if weight is None else embedder, shares=shares, **options)
    await index.search(ArchiveQuery(BOARD, "warm up"))
    shown = []
    started = time.process_time()
    for query in data["queries"]:
        answer = await index.search(ArchiveQuery(BOARD, query["q"], limit=max(FIRST) + len(query["exclude"])))
        shown.append(shares_of(data, query, [hit.number for hit in answer.hits]))
    took = time.process_time() - started
    await index.close()
    return shown, 1000 * took / len(shown)


async def recall(
    path: Path, data: dict[str, Any], weight: float | None, embedder: Embedder | None
) -> tuple[list[float], float]:
    """Returns recall at five and at ten (0 to 1), and milliseconds of CPU for each query.

    `weight` is that of the vectors; `None` searches by words only.
    """
    shown, took = await ranked(path, data, weight, SHARES, embedder)
    return [fmean(column) for column in zip(*shown, strict=True)], took


def full_text(data: dict[str, Any], *, named: bool) -> tuple[Shown, float]:
    """Returns the same for SQLite's FTS5 with its stemmer; `named` puts the authors' names into the texts."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE doc USING fts5(text, tokenize = 'porter unicode61')")
    for number, doc in enumerate(data["docs"], 1):
        text = f"{doc.get('author', '')}: {doc['text']}" if named else doc["text"]
        connection.execute("INSERT INTO doc(rowid, text) VALUES (?, ?)", (number, text))
    shown = []
    started = time.process_time()
    for query in data["queries"]:
        any_word = " OR ".join(f'"{word}"' for word in dict.fromkeys(re.findall(r"\w+", query["q"])))
        most = max(FIRST) + len(query["exclude"])
        rows = connection.execute(
            "SELECT rowid FROM doc WHERE doc MATCH ? ORDER BY rank LIMIT ?", (any_word, most)
        )
        shown.append(shares_of(data, query, [row[0] for row in rows]))
    return shown, 1000 * (time.process_time() - started) / len(shown)


def tell(name: str, shown: Shown, took: float, before: Shown | None) -> None:
    """Prints a row."""
    means = "  ".join(
        f"R@{n} {fmean(column):.3f}" for n, column in zip(FIRST, zip(*shown, strict=True), strict=True)
    )
    gain = ""
    if before is not None:
        differences = [new[-1] - old[-1] for new, old in zip(shown, before, strict=True)]
        error = stdev(differences) / len(differences) ** 0.5
        gain = f"  {100 * fmean(differences):+5.1f} ± {100 * error:.1f} points"
    print(f"  {name:42} {means}  {took:5.1f} ms{gain}")


def measure(data: dict[str, Any], weights: Sequence[float], embedder: Embedder | None) -> None:
    """Prints all rows of a set."""
    authors = any("author" in doc for doc in data["docs"])
    threads = any("thread" in doc for doc in data["docs"])
    plain, took = full_text(data, named=authors)
    tell("FTS5" + (" with authors' names" if authors else ""), plain, took, None)
    if authors:
        tell("FTS5 without names", *full_text(data, named=False), plain)
    alone = Shares(0, 0, 0, 0, 0)
    ways: list[tuple[str, bool, float | None, Shares]] = []
    if authors:
        ways.append(("neither names nor threads", False, weights[0], alone))
    if threads:
        ways += [
            ("names" if authors else "no threads", True, weights[0], alone),
            ("and neighbours", True, weights[0], Shares(SHARES.forward, SHARES.forward, SHARES.back, 0, 0)),
            ("and questions", True, weights[0], Shares(SHARES.forward, SHARES.question, SHARES.back, 0, 0)),
        ]
    if any("at" in doc for doc in data["docs"]):
        ways += [("without months", True, weights[0], replace(SHARES, dated=0.0))]
    ways += [
        ("words alone", True, None, SHARES),
        *((f"as the server ranks, vectors {weight:.2f}", True, weight, SHARES) for weight in weights),
    ]
    for named in (False, True):
        chosen = [(name, weight, shares) for name, with_names, weight, shares in ways if with_names is named]
        if not chosen:
            continue
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(fill(Path(folder), documents(data, named=named), embedder))
            for name, weight, shares in chosen:
                shown, took = asyncio.run(ranked(Path(folder), data, weight, shares, embedder))
                tell(name, shown, took, plain)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("sets", nargs="*", type=Path, metavar="SET.json")
    parser.add_argument("--logs", type=Path, help="a folder of recorded sessions")
    parser.add_argument("--dialogues", action="store_true", help="made-up dialogues as well")
    parser.add_argument(
        "--weights",
        default="0.25,1",
        help="weights of the vectors to try; 1 is the vectors alone (default 0.25,1)",
    )
    parser.add_argument("--url", default="", help="base address of an OpenAI-compatible endpoint")
    parser.add_argument("--model", default="", help="the model's name there")
    given = parser.parse_args()
    embedder = EmbedderChoice("openai" if given.url else "wordllama", given.url, given.model).load()
    for name, data in sets(given):
        print(f"{name}: {len(data['docs'])} documents, {len(data['queries'])} queries")
        measure(data, [float(weight) for weight in given.weights.split(",")], embedder)


if __name__ == "__main__":
    main()
