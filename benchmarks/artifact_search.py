"""Search in files: how often the right file is among the first five, and the right part of it among theirs.

    python benchmarks/artifact_search.py [--vectors WEIGHT]

The files are this repository's own source and docs. Beside it, in the same run, SQLite's full-text search (FTS5,
Porter's stems, BM25) over whole files, which names files but no lines. The first questions were also used to choose
the weights. The later ones were written afterwards, each for a part that was drawn by chance, and changed no weight of
a word. The held-out and the fresh ones, for other parts drawn by chance, changed nothing. Those that are otherwise
worded avoid, on purpose, the words of the part that they ask for: they show what a search by words cannot find.
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
HELD_OUT = (
    (
        "how does a tool invocation get checked against the caller's rights before it runs",
        "tools/tool.py",
        "call",
    ),
    (
        "command to bring the database schema up to date or print the SQL for PostgreSQL",
        "reference/cli.md",
        "migrate",
    ),
    (
        "demo agents connect to the server over HTTP with their name in a header",
        "demo/process.py",
        "http_clients",
    ),
    (
        "lines under one heading of a view with minimum and maximum share of tokens",
        "views/budget.py",
        "Section",
    ),
    ("run a pruning pass and archive what the policy picked in one transaction", "storage/store.py", "prune"),
    (
        "client shuts down its links to the server, later calls raise StoreClosed",
        "board/connection.py",
        "close",
    ),
    (
        "in-process Python API for one agent's blackboard, in memory or on a data folder",
        "board/local.py",
        "Board",
    ),
    (
        "store interface: get events after a sequence number, CursorExpired if the place is gone",
        "protocols/store.py",
        "log",
    ),
    ("delete expired idempotency keys together with their stored answers", "ledger/idempotency.py", "sweep"),
    (
        "python client: get lines of a workspace file as of an earlier revision",
        "board/workspace.py",
        "artifact_read",
    ),
    (
        "what an agent is shown of requests to it, its own requests and offered skills",
        "usecases/requests.py",
        "WaitingRequests",
    ),
    (
        "look up which item each key belongs to for an agent, private before shared",
        "reading/items.py",
        "entries",
    ),
    ("worker reports that its current job went wrong so it gets delivered again", "board/groups.py", "fail"),
    ("how do I look up keys with a glob, * versus ** across segments", "howto/entries.md", "Find by pattern"),
    ("where is a depends_on cycle refused when edges of a post are stored", "items/edges.py", "connect"),
    (
        "yield to the event loop between pieces of a long call and count its time",
        "limits/turns.py",
        "one_more_turn",
    ),
    (
        "JSON for each board of a server: title, lifecycle and which is the default",
        "answers/statistics.py",
        "boards",
    ),
    ("confirm that an event taken from a durable queue has been processed", "board/streams.py", "done"),
    (
        "vector for an archive search text from an embedding endpoint that failed a moment ago",
        "embedders/endpoint.py",
        "embed_query",
    ),
    ("what must a database engine do with pending calls when it shuts down", "storage/engine.py", "close"),
    ("python call to get the whole history of an entry by key, oldest first", "board/items.py", "versions"),
    (
        "adapter that passes the MCP SDK's resource updated events to our own hub",
        "mcp/subscriptions.py",
        "HubBus",
    ),
    (
        "read all keys under a glob inside a transaction so new ones cause a conflict",
        "board/transactions.py",
        "matching",
    ),
    ("events store only length and sha256 of a changed value that is too long", "ledger/rows.py", "kept"),
    (
        "validate that a column in an imported history file has one of the allowed values",
        "history/forms.py",
        "word",
    ),
    ("python calls for consumer workers and dead letters, retry or drop them", "board/groups.py", "Groups"),
    (
        "store protocol: which archived items may be permanently removed under the retention rules now",
        "protocols/store.py",
        "forgettable",
    ),
    ("consumer group that nobody used for the lease time gets ended", "messages/groups.py", "abandon"),
    ("terminal command to answer a question or a critique", "cli/speaking.py", "reply"),
    ("how to save a copy of all boards to one file while servers run", "reference/cli.md", "backup"),
    (
        "autocomplete of prompt and resource arguments in MCP, capped number of values",
        "mcp/prompts.py",
        "Completions",
    ),
    (
        "start the SQLite database at the newest schema, running migration scripts and fills",
        "sqlite/engine.py",
        "open",
    ),
    (
        "hide file and driver details of a database error from clients, log a reference instead",
        "sqlite/driver.py",
        "for_callers",
    ),
    (
        "bring saved boards back into a data folder, what happens to access tokens",
        "reference/cli.md",
        "restore",
    ),
    (
        "base class whose on_KIND methods get the messages of one protocol in one scope",
        "board/handlers.py",
        "ProtocolHandlers",
    ),
    ("list who has joined a board, those present first", "participants/joining.py", "participants"),
    (
        "find the event by which an archived item was pruned from working memory",
        "reading/items.py",
        "why_left",
    ),
    (
        "which live items does get_context pick as relevant, scoring rare query words higher",
        "views/context.py",
        "relevant_live",
    ),
    ("python API to start a debate on an item and name its watchers", "board/debates.py", "open_debate"),
    (
        "write to stdout without blocking the event loop when the stdio client stops reading",
        "mcp/lines.py",
        "LineWriter",
    ),
)
FRESH = (
    (
        "text of a debate with what an agent still owes in it and when the others last called",
        "answers/rendering.py",
        "debate",
    ),
    (
        "test that a run in which nothing happens for a minute settles",
        "kit/running.py",
        "test_an_idle_run_settles",
    ),
    ("why PostgreSQL executes SQL written for SQLite and how statements are translated", "adr/0057", ""),
    ("which roles can an agent have on a board", "protocols/access.py", "Role"),
    (
        "name the wrong argument as a path like items[2].tags from a pydantic error location",
        "input/arguments.py",
        "_locate",
    ),
    (
        "random walk: read all keys under a glob in a transaction and compare store with model",
        "walk/interleaving.py",
        "match",
    ),
    ("extra SQL condition over items with its bound values and a zone", "reading/globs.py", "Conditions"),
    (
        "write the server's entry into the configuration of Claude Desktop, Cursor or VS Code from the command line",
        "reference/cli.md",
        "install",
    ),
    (
        "what players in group games misread and how messages were mended",
        "discussions/games.md",
        "Five groups",
    ),
    (
        "refuse imported board settings that no board can have but allow unknown policies",
        "settings/boards.py",
        "check_kept",
    ),
    (
        "kit test: another agent may not change importance, tags or ttl of a keyless item",
        "kit/posting.py",
        "test_only_the_author_changes_an_item_without_key",
    ),
    (
        "convert Python values for PostgreSQL: escaped zero characters, booleans to integers, decimals",
        "postgres/session.py",
        "_given",
    ),
    ("contending writer reads keys and records the versions it saw", "walk/contending.py", "_read"),
    ("fields of the answer to a subscription", "reference/tools.md", "SubscriptionAnswer"),
    (
        "checksums of the archive index for each board leaving some numbers out",
        "protocols/archive.py",
        "sums",
    ),
    (
        "how much score a document gets from its neighbours in the thread and from a month named in the query",
        "lance/fusion.py",
        "Shares",
    ),
    ("model of the walk: active constraints and hot issues in working memory", "walk/model.py", "law"),
    (
        "store interface: open a debate on an item or join with watchers",
        "protocols/debate_store.py",
        "debate_open",
    ),
    (
        "explain that two board settings contradict each other, like low water above high water",
        "protocols/board.py",
        "clash",
    ),
    (
        "post the result of a check at a revision and open or close its hot issue",
        "usecases/checks.py",
        "_post",
    ),
    (
        "repair the archive index after a start: rebuild if the embedding model changed, else compare sums and keys",
        "lance/indexer.py",
        "_repair",
    ),
    ("hide the output of a check that contains secrets", "usecases/checks.py", "_shown"),
    ("copy the database to a new private file as of one moment", "storage/engine.py", "backup"),
    ("does the HTTP server let everybody in without a token", "server/compose.py", "open_to_all"),
    ("fetch one stage by number or fail with unknown reference", "stages/rows.py", "get_stage"),
    ("parse read rules of the settings from a list of tables or JSON", "access/reading.py", "read_rules"),
    (
        "find items that supersede or refute the given ones as far as an agent may see",
        "items/claims.py",
        "contests",
    ),
    (
        "duties that wait for an agent in the plain model, no agreement needed while it objects",
        "walk/model.py",
        "owed_by",
    ),
    ("count how many tokens the JSON schemas of tools cost", "input/arguments.py", "schema_tokens"),
    (
        "run a function in a transaction and retry it on conflict up to a number of attempts",
        "board/transactions.py",
        "transact",
    ),
    (
        "one post of a recorded demo session with its edges to earlier posts",
        "demo/session.py",
        "RecordedPost",
    ),
    (
        "kit test: a transaction repeated with the same idempotency key is applied once",
        "kit/transacting.py",
        "test_I24",
    ),
    ("serialisability checker: live cells under a glob at a sequence number", "walk/serialising.py", "_live"),
    (
        "group commit on PostgreSQL: run waiting jobs in one transaction and rerun some alone after an error",
        "postgres/writing.py",
        "_attempt",
    ),
    (
        "format the header of an item with id, type, author, age, importance and claims against it",
        "text/lines.py",
        "head",
    ),
    (
        "test that recounting tokens with another tokenizer writes a single board changed event",
        "kit/counting.py",
        "test_one_event_tells_of_it",
    ),
    (
        "test: summary is marked if one of its sources gets withdrawn later",
        "kit/retracting.py",
        "test_a_summary_is_marked",
    ),
    (
        "see what a revision of a file changed and bring an older version back",
        "howto/workspace.md",
        "See who changed what",
    ),
    (
        "arguments of the tool that takes a task, finishes it or extends the lease",
        "reference/tools.md",
        "claim",
    ),
    (
        "serve a listen stream of the modern protocol and refuse too many resource URIs",
        "mcp/subscriptions.py",
        "_listen",
    ),
)
IN_OTHER_WORDS = (
    (
        "which permission checks are consulted for a given board, and in what sequence",
        "server/access/registry.py",
        "on",
    ),
    (
        "search match shown together with the neighbouring messages of its conversation",
        "server/usecases/searching.py",
        "Around",
    ),
    ("how can I tell if content has ever been erased here at all", "operations/leaving/retention.py", "any_"),
    ("what does a worker get to see of the outcomes its job depends on", "protocols/agenda.py", "Input"),
    (
        "summarise for a reader which other participants still have to respond in an argument",
        "text/debates.py",
        "awaited_words",
    ),
    (
        "client keeps track of the latest position on the board after each request",
        "server/board/calls.py",
        "_call",
    ),
    ("connecting to the Postgres database, and refusing a read-only replica", "postgres/session.py", "open"),
    ("stop broken unicode from crashing the index when text gets stored", "lance/words.py", "clean"),
    (
        "how are huge incoming messages on stdin truncated instead of filling memory",
        "mcp/lines.py",
        "LineSplitter",
    ),
    ("how does double star in a file pattern match zero directories", "protocols/workspace.py", "_skipping"),
    ("cleanup of half-sent replies when a question is over", "messages/request_rows.py", "drop_partial"),
    (
        "turn a logged multi-agent conversation into sample board entries, command output included",
        "demo/session.py",
        "_posts",
    ),
    (
        "remember that an agent only saw the opening of a long text in its notifications",
        "usecases/last_seen.py",
        "read",
    ),
    ("human readable list of who may post in a section of the board", "protocols/panels.py", "writers_of"),
    (
        "when erasing entries, also wipe explanations, votes and rulings that mention them",
        "operations/leaving/retention.py",
        "_forget_reasons",
    ),
    (
        "from my Python script, find out why an entry disappeared or is being kept",
        "server/board/items.py",
        "explain",
    ),
    (
        "message format for arguing over a claim until a neutral party rules",
        "messages/critique_exchange.py",
        "CritiqueExchange",
    ),
    (
        "what comes back after handing in test output: duplicates, redacted passwords, failing checks",
        "protocols/rule_wire.py",
        "IntakeAnswer",
    ),
    (
        "dropping a project rule should clear the failure alarm its check had raised",
        "usecases/rules.py",
        "_write",
    ),
    (
        "can a second round-based problem solving begin while one is still going",
        "protocols/runs.py",
        "start_run",
    ),
    (
        "is a temporary event feed cancelled when my program stops listening",
        "server/board/durable.py",
        "close",
    ),
    (
        "how is the summary above an entry's full text put together for agents",
        "answers/rendering.py",
        "_head",
    ),
    (
        "why is my custom message format rejected when I add it to the server",
        "messages/registry.py",
        "_check",
    ),
    (
        "background job that takes overdue turns away from agents and moves on",
        "usecases/conducting.py",
        "sweep",
    ),
    (
        "telling apart item numbers, wildcards and panels in what a commit depends on",
        "protocols/transactions.py",
        "parse_name",
    ),
    (
        "paged edit history of a single entry, including changes that left its text alone",
        "protocols/answers.py",
        "Versions",
    ),
    ("let other clients proceed while a slow request just sits idle", "limits/turns.py", "CallTurn"),
    (
        "convention for giving jobs to one worker and passing them on if it stops responding",
        "messages/work_assignment.py",
        "WorkAssignment",
    ),
    ("command to test whether my own database backend behaves as required", "cli/kit.py", "kit"),
    (
        "startup error when the vector service is configured only halfway",
        "settings/server.py",
        "check_embedder",
    ),
    (
        "when was each of these participants most recently active on a board",
        "usecases/blackboard.py",
        "last_seen",
    ),
    ("detect that somebody else already reported the identical fact", "items/endorsements.py", "find"),
    (
        "which ways are there to change a shared file: overwrite, add, substitute, roll back",
        "protocols/workspace.py",
        "Edit",
    ),
    (
        "commit several posts atomically only if nothing I looked at has changed",
        "usecases/transactions.py",
        "Transactions",
    ),
    (
        "which groups of tools get enabled, and what happens with an unknown group name",
        "settings/server.py",
        "_tool_sets",
    ),
    ('does asking for something "from last March" recognise the calendar period', "lance/dates.py", "months"),
    (
        "use a remote OpenAI style service for vectors, and what if it is down",
        "embedders/endpoint.py",
        "EndpointEmbedder",
    ),
    (
        "what can a token do if it was made only for posting",
        "docs/howto/roles-and-members.md",
        "Scopes bound every role",
    ),
    (
        "where does a tool get the retry token that prevents applying a request twice",
        "tools/tool.py",
        "once_key",
    ),
    (
        "data structure answering why things stay or get evicted, with board-wide forecast",
        "protocols/explain.py",
        "Explained",
    ),
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
    sets = {
        "first": QUESTIONS,
        "later": LATER,
        "held-out": HELD_OUT,
        "fresh": FRESH,
        "otherwise worded": IN_OTHER_WORDS,
    }
    questions = [question for asked in sets.values() for question, _, _ in asked]
    whole = by_files(texts, questions)
    parts, indexing, query = await by_parts(texts, questions, weight)
    print(f"{len(texts)} files, first {FIRST} found, weight of vectors {weight}")
    start = 0
    for name, asked in sets.items():
        ours = exact = theirs = 0
        there = slice(start, start + len(asked))
        start += len(asked)
        for (_, path, title), hits, files_found in zip(asked, parts[there], whole[there], strict=True):
            ours += any(path in hit.revision.path for hit in hits)
            exact += any(path in hit.revision.path and title in hit.chunk.title for hit in hits)
            theirs += any(path in found for found in files_found)
        print(
            f"{len(asked)} {name} questions: artifact_search right file {ours / len(asked):.2f}, right part "
            f"{exact / len(asked):.2f}; FTS5 over whole files right file {theirs / len(asked):.2f}"
        )
    print(f"indexing {indexing:.1f} s of CPU, a query {query * 1000:.1f} ms")


if __name__ == "__main__":
    asyncio.run(main())
