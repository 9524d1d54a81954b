"""Search in files: how often the right file and the right part of it are among the first five hits.

    python benchmarks/artifact_search.py

The files are this repository's own source and docs. Beside it, in the same run, SQLite's full-text search (FTS5,
Porter's stems, BM25) over whole files, which names files but no lines. The questions were also used to choose the
weights, so the figures say how well the search can do here, not how well it does elsewhere.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
import time
from pathlib import Path

from blackboard_mcp.protocols.board import BoardConfig
from blackboard_mcp.protocols.workspace import Edit
from blackboard_mcp.storage.memory import open_memory_store
from blackboard_mcp.storage.workspace.search import ArtifactHit, ArtifactIndex

ROOT = Path(__file__).resolve().parents[1]
KINDS = {".py", ".md", ".sql"}
FIRST = 5
QUESTIONS = (
    ("where is the low-water mark applied when pruning", "pruning/ordering.py", ""),
    ("how is a repeated idempotency key recognised", "ledger/idempotency.py", ""),
    ("check that a path has no dot dot and no reserved name", "protocols/workspace.py", "check_path"),
    ("where do two reservations overlap", "agenda/reservations.py", "overlap"),
    ("how long may a text be cut on one line between words", "text/lines.py", "clip"),
    ("stem of a word by porter", "lance/stemming.py", "stem"),
    ("where does a request between agents expire", "messages/requests.py", ""),
    ("lock left behind by a killed process removed", "workspace/committer.py", "_unlock"),
    ("the footer of an answer with seq and what you owe", "answers/rendering.py", "footer"),
    ("refuse bad tokens count and slow them", "http/auth", ""),
    ("which stages complete when required items are over", "stages/moving.py", "_is_complete"),
    ("parser of conditions done milestone flag", "protocols/conditions.py", ""),
    ("propose rules from a user's message imperatives", "input/capture.py", ""),
    ("restore a backup into a data folder", "sqlite/restoring.py", ""),
    ("weighted fair turns between callers", "limits/turns.py", ""),
    ("convert visible control characters to escapes", "protocols/visible.py", ""),
    ("names that look alike confusable skeleton", "protocols/names.py", ""),
    ("when is a debate closed by consensus", "debates", ""),
    ("compare two boards row by row", "history/comparing.py", "differences"),
    ("seal rounds text not shown until all are in", "runs/turning.py", ""),
    ("migration of the schema to a new version", "sqlite/migrate.py", ""),
    ("compress archived texts with a dictionary", "history", ""),
    ("budget of tokens for each section of a view", "views", ""),
    ("rate limit in bytes per owner", "limits/rates.py", ""),
    ("start the http server with uvicorn", "http", ""),
    ("write a claude desktop configuration file", "clients", ""),
    ("encode board names differing in case into folders", "workspace/committer.py", "folder_of"),
    ("chunk python source at definitions", "workspace/chunks.py", "_python"),
    ("how to back up and move boards", "howto/back-up-and-move.md", ""),
    ("how do I reserve files", "howto/plan-and-claim.md", "Reserve"),
    ("what happens to private notes of a team", "howto/private-and-team-notes.md", ""),
    ("summaries written by a model endpoint", "pruning/summaries/endpoint.py", ""),
    ("count tokens with tiktoken", "text/tokens.py", ""),
)
"""Question, a part of the path of the right file, and a part of the title of the right part (empty: any)."""


def files() -> dict[str, str]:
    """Returns the texts of the files that are searched, by path."""
    found = {}
    for top in ("server", "storage", "protocols", "docs"):
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix in KINDS and "__pycache__" not in path.parts:
                found[path.relative_to(ROOT).as_posix()] = path.read_text("utf-8")
    return found


def by_files(texts: dict[str, str]) -> list[list[str]]:
    """Returns the first files that FTS5 finds for each question."""
    base = sqlite3.connect(":memory:")
    base.execute("CREATE VIRTUAL TABLE f USING fts5(path, body, tokenize='porter unicode61')")
    base.executemany("INSERT INTO f VALUES (?, ?)", texts.items())
    found = []
    for question, _, _ in QUESTIONS:
        asked = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", question))
        rows = base.execute("SELECT path FROM f WHERE f MATCH ? ORDER BY bm25(f) LIMIT ?", (asked, FIRST))
        found.append([path for (path,) in rows])
    base.close()
    return found


async def by_parts(texts: dict[str, str]) -> tuple[list[list[ArtifactHit]], float, float]:
    """Returns the first parts for each question, the seconds of CPU to index, and those of a query."""
    store = await open_memory_store()
    try:
        await store.ensure_board("main", "bench", BoardConfig())
        for path, text in texts.items():
            await store.write_artifact("main", "bench", path, Edit(content=text.encode()))
        index = ArtifactIndex(store)
        began = time.process_time()
        await index.search("main", "nothing", lambda path: True, FIRST)
        indexed = time.process_time()
        found = [(await index.search("main", q, lambda path: True, FIRST))[0] for q, _, _ in QUESTIONS]
        return found, indexed - began, (time.process_time() - indexed) / len(QUESTIONS)
    finally:
        await store.close()


async def main() -> None:
    texts = files()
    whole = by_files(texts)
    parts, indexing, query = await by_parts(texts)
    ours = exact = theirs = 0
    for (_, path, title), hits, files_found in zip(QUESTIONS, parts, whole, strict=True):
        ours += any(path in hit.revision.path for hit in hits)
        exact += any(path in hit.revision.path and title in hit.chunk.title for hit in hits)
        theirs += any(path in found for found in files_found)
    asked = len(QUESTIONS)
    print(f"{len(texts)} files, {asked} questions, first {FIRST} hits")
    print(f"artifact_search: right file {ours / asked:.2f}, right part {exact / asked:.2f}")
    print(f"FTS5 over whole files: right file {theirs / asked:.2f}")
    print(f"indexing {indexing:.1f} s of CPU, a query {query * 1000:.1f} ms")


if __name__ == "__main__":
    asyncio.run(main())
