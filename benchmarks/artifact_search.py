"""Search in files: how often the right file is among the first five, and the right part of it among theirs.

    python benchmarks/artifact_search.py [--vectors WEIGHT]

The files are this repository's own source and docs. Beside it, in the same run, SQLite's full-text search (FTS5,
Porter's stems, BM25) over whole files, which names files but no lines. The first questions were also used to choose
the weights. The others were written afterwards, each for a part that was drawn by chance, and changed no weight of
a word.
`--vectors` blends in the bundled model's vectors of the parts, which the product does not.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from blackboard_mcp.protocols.board import BoardConfig
from blackboard_mcp.protocols.workspace import Edit
from blackboard_mcp.storage.lance.embedders.wordllama import load_bundled_embedder
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
LATER = (
    ("withdraw my own pending request to another agent", "protocols/asking.py", "cancel_request"),
    (
        "first line of an export file decides the board and the version of the format",
        "history/importing.py",
        "begin",
    ),
    (
        "describe message protocols with their keys and fields for agents",
        "text/protocols.py",
        "protocol_lines",
    ),
    ("what became of a claim after its debate: stands, falls, amended", "protocols/summaries.py", "Ending"),
    (
        "refuse a transaction because an owner stores too many bytes or the disk is nearly full",
        "ledger/kept_bytes.py",
        "check",
    ),
    (
        "stdio process that forwards calls to a remote server, reads its token from a file or the environment",
        "relay/stdio.py",
        "main",
    ),
    ("asgi entry point that refuses requests with bad host or origin headers", "http/gate.py", "Gate"),
    ("archive search that includes items not yet in the index", "storage/archive.py", "search"),
    (
        "deleting keys by pattern without the expected count is refused and told how many would go",
        "usecases/clearing.py",
        "_tell",
    ),
    ("changes that access policies allowed to an agent in a role", "protocols/changes.py", "Permit"),
    ("turn a task row whose lease ran out back into pending", "agenda/rows.py", "_value"),
    ("save, delete or restore a shared file and look at its syntax", "usecases/workspace.py", "write"),
    ("split a text into paragraphs and bullet points before summarising", "summaries/sentences.py", "_units"),
    ("command line options to follow events of a board", "cli/watch.py", "watch"),
    ("structured answer listing the versions of one item", "protocols/version_wire.py", "WireVersions"),
    ("record which owner an agent belongs to, once per process", "usecases/blackboard.py", "introduce"),
    ("columns of a stage in the database", "stages/rows.py", "StageRow"),
    ("a board that a token may not reach looks as if it did not exist", "access/rights.py", "absent"),
    ("call a python callback for every event and retry it when it raises", "board/following.py", "on"),
    (
        "savepoint so that one failing job does not undo the others of the group",
        "sqlite/group.py",
        "_attempt",
    ),
    ("text of the pressure warning, shortened to so many tokens", "text/pressure.py", "describe"),
    ("a validated post before it gets its number", "protocols/items.py", "Draft"),
    ("create a durable position in the event log under a name", "board/following.py", "subscribe"),
    (
        "poll the database for changes of other processes unless the wal is unchanged",
        "sqlite/wakeup.py",
        "Watcher",
    ),
    ("a number as part of a message key must not be negative", "messages/base.py", "written"),
    ("where are post, read, query and wait registered with their descriptions", "tools/core.py", "register"),
    ("an answer to a question ends the duty of whoever was asked", "items/questions.py", "answered"),
    ("write a pydantic model as json entry under its key", "board/models.py", "publish"),
    ("find posts of one call that say nearly the same", "answers/remarks.py", "nearly_alike"),
    ("why does the summariser skip a thread", "summaries/writing.py", "_sources"),
    ("which constraints do the sources of a summary mention", "summaries/checks.py", "rules_named"),
    (
        "compare versions that were read with the present ones and report a conflict",
        "ledger/read_set.py",
        "_version",
    ),
    (
        "should each client start its own process or share one server",
        "howto/connect-clients.md",
        "Shared server or own process",
    ),
    ("settings for a linter or unit tests that run after writes", "howto/check-files.md", ""),
    ("how long is a lease of a task and what renews it", "howto/plan-and-claim.md", "Take"),
    ("how to make a strict rule for keys or paths", "howto/rules-and-results.md", "Propose and make"),
    ("which models accept the tool schemas", "howto/connect-clients.md", "Models and their rules"),
    ("what does a repeated call answer the second time", "howto/repeat-calls.md", ""),
    (
        "use an embedding model from an openai compatible server",
        "howto/search-the-archive.md",
        "Choose the embedding model",
    ),
    ("restore an archived item and see its neighbours", "howto/search-the-archive.md", "Search the archive"),
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


def by_files(texts: dict[str, str], questions: Sequence[str]) -> list[list[str]]:
    """Returns the first files that FTS5 finds for each question."""
    base = sqlite3.connect(":memory:")
    base.execute("CREATE VIRTUAL TABLE f USING fts5(path, body, tokenize='porter unicode61')")
    base.executemany("INSERT INTO f VALUES (?, ?)", texts.items())
    found = []
    for question in questions:
        asked = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", question))
        rows = base.execute("SELECT path FROM f WHERE f MATCH ? ORDER BY bm25(f) LIMIT ?", (asked, FIRST))
        found.append([path for (path,) in rows])
    base.close()
    return found


def blended(
    texts: dict[str, str], question: str, hits: Sequence[ArtifactHit], weight: float
) -> list[ArtifactHit]:
    """Returns the hits of the first files after scores were blended with the cosines of the parts."""
    model = load_bundled_embedder()
    if model is None or not hits:
        return list(hits)
    parts = [
        "\n".join([h.chunk.title, *texts[h.revision.path].split("\n")[h.chunk.start - 1 : h.chunk.end]])
        for h in hits
    ]
    vectors: Any = model.embed_documents(parts)
    cosines = vectors @ model.embed_query(question)
    spread = max(float(cosines.max() - cosines.min()), 1e-9)
    best = max(hit.score for hit in hits)
    scored = [
        (1 - weight) * hit.score / best + weight * float(cosine - cosines.min()) / spread
        for hit, cosine in zip(hits, cosines, strict=True)
    ]
    chosen: dict[str, list[ArtifactHit]] = {}
    for place in sorted(range(len(hits)), key=lambda place: -scored[place]):
        path = hits[place].revision.path
        if path in chosen or len(chosen) < FIRST:
            chosen.setdefault(path, []).append(hits[place])
    return [hit for parts in chosen.values() for hit in parts[:3]]


async def by_parts(
    texts: dict[str, str], questions: Sequence[str], weight: float
) -> tuple[list[list[ArtifactHit]], float, float]:
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
        depth = 200 if weight else FIRST
        found = [(await index.search("main", q, lambda path: True, depth))[0] for q in questions]
        spent = time.process_time() - indexed
        if weight:
            found = [blended(texts, q, hits, weight) for q, hits in zip(questions, found, strict=True)]
        return found, indexed - began, spent / len(questions)
    finally:
        await store.close()


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--vectors", type=float, default=0.0)
    weight = parser.parse_args().vectors
    texts = files()
    questions = [question for question, _, _ in (*QUESTIONS, *LATER)]
    whole = by_files(texts, questions)
    parts, indexing, query = await by_parts(texts, questions, weight)
    print(f"{len(texts)} files, first {FIRST} found, weight of vectors {weight}")
    start = 0
    for name, asked in (("first questions", QUESTIONS), ("later questions", LATER)):
        ours = exact = theirs = 0
        there = slice(start, start + len(asked))
        start += len(asked)
        for (_, path, title), hits, files_found in zip(asked, parts[there], whole[there], strict=True):
            ours += any(path in hit.revision.path for hit in hits)
            exact += any(path in hit.revision.path and title in hit.chunk.title for hit in hits)
            theirs += any(path in found for found in files_found)
        print(
            f"{len(asked)} {name}: artifact_search right file {ours / len(asked):.2f}, right part "
            f"{exact / len(asked):.2f}; FTS5 over whole files right file {theirs / len(asked):.2f}"
        )
    print(f"indexing {indexing:.1f} s of CPU, a query {query * 1000:.1f} ms")


if __name__ == "__main__":
    asyncio.run(main())
