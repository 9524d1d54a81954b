"""The archive index for platforms without LanceDB: SQLite's FTS5 finds windows, and `lance.fusion` ranks them.

It searches by words alone and says so. It is one file with a rollback journal, which is safe with several processes in
every version of SQLite; a rebuild costs little.
"""

from __future__ import annotations

import functools
import json
import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

from blackboard_mcp.protocols.archive import (
    NOTHING_WAITS,
    SUM_FACTOR,
    SUM_MODULUS,
    ArchiveAnswer,
    ArchiveDocument,
    ArchiveHit,
    ArchiveQuery,
    Sum,
    Waiting,
)
from blackboard_mcp.protocols.errors import ArchiveUnavailable
from blackboard_mcp.storage.lance import rows
from blackboard_mcp.storage.lance.counts import RARE
from blackboard_mcp.storage.lance.dates import months, within
from blackboard_mcp.storage.lance.fusion import Bm25, Corpus, FusionCandidate, Passage, fuse
from blackboard_mcp.storage.lance.pending import (
    WaitingTexts,
    candidates,
    glances,
    not_indexed,
    visible,
    with_waiting,
)
from blackboard_mcp.storage.lance.words import QUESTION_MARK, beginnings, clean, windows, words
from blackboard_mcp.storage.lance.workers import Workers
from blackboard_mcp.storage.operations.ledger.rows import statements_of
from blackboard_mcp.storage.sqlite import driver

NO_LANCE = "LanceDB is not installed here: matched by words only, with SQLite's full-text search."

_DEPTH = 200
_DEPTH_PER_HIT = 4
_ROUNDS = 5
_MOST_RARE = 400
_QUERY_WORDS = 64
_BUSY_SECONDS = 15.0


class FtsArchiveIndex:
    """The archive index in a folder. LanceDB's may be in the same one: neither reads the other's files."""

    def __init__(self, path: Path) -> None:
        self._file = path / "words.sqlite"
        self._waiting = WaitingTexts()
        self._writing = threading.Lock()
        self._workers = Workers()

    async def upsert(self, documents: Sequence[ArchiveDocument]) -> None:
        if documents:
            await self._workers.run(lambda: self._upsert(documents))

    async def remove(self, keys: Sequence[tuple[str, int]]) -> None:
        if keys:
            await self._workers.run(lambda: self._remove(keys))

    async def search(self, query: ArchiveQuery, waiting: Waiting = NOTHING_WAITS) -> ArchiveAnswer:
        return await self._workers.run(lambda: self._search(query, waiting))

    async def life(self) -> str:
        return await self._workers.run(self._life)

    async def keys(self) -> dict[tuple[str, int], int]:
        return await self._workers.run(self._keys)

    async def sums(self, apart: Mapping[str, Sequence[int]]) -> dict[str, Sum]:
        return await self._workers.run(lambda: self._sums(apart))

    async def reset(self) -> None:
        await self._workers.run(self._reset)

    async def maintain(self) -> None:
        await self._workers.run(self._maintain)

    async def close(self) -> None:
        """Waits for calls under way; later calls raise `ArchiveUnavailable`. It may be called twice."""
        await self._workers.close()

    # Everything below runs in a worker thread.

    @contextmanager
    def _opened(self) -> Iterator[tuple[Any, str] | None]:
        """Yields a connection in a read transaction and the life of the index; `None` if nothing was written yet."""
        if not self._file.exists():
            yield None
            return
        with closing(self._connect()) as connection:
            connection.execute("BEGIN")
            found = _life_of(connection)
            yield None if found is None else (connection, found)

    @contextmanager
    def _changing(self) -> Iterator[Any]:
        """Yields a connection in a write transaction, with all tables created."""
        self._workers.check_open()
        self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._writing, closing(self._connect()) as connection:
            connection.execute("BEGIN IMMEDIATE")
            for made in ("make_life", "make_windows", "make_threads", "make_words"):
                connection.execute(_sql(made))
            if _life_of(connection) is None:
                named = {"name": secrets.token_hex(16), "layout": rows.SCHEMA_VERSION}
                connection.execute(_sql("begin_life"), named)
            yield connection
            connection.execute("COMMIT")

    def _connect(self) -> Any:
        return driver.library().connect(
            self._file, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )

    def _life(self) -> str:
        with self._opened() as opened:
            return "" if opened is None else opened[1]

    def _upsert(self, documents: Sequence[ArchiveDocument]) -> None:
        with self._changing() as connection:
            for document in documents:
                key = {"board": rows.stored(document.board), "number": document.number}
                known = connection.execute(_sql("seq"), key).fetchone()
                if known is None or known[0] <= document.seq:
                    _forget(connection, key)
                    for made in rows.made(document, windows(clean(document.text))):
                        made["words"] = _encoded(made["words"].split())
                        added = connection.execute(_sql("add"), made).lastrowid
                        connection.execute(_sql("say"), {"id": added, "words": made["words"]})

    def _remove(self, keys: Sequence[tuple[str, int]]) -> None:
        if self._file.exists():
            with self._changing() as connection:
                for board, number in keys:
                    _forget(connection, {"board": rows.stored(board), "number": number})

    def _keys(self) -> dict[tuple[str, int], int]:
        with self._opened() as opened:
            if opened is None:
                return {}
            return {(board, number): seq for board, number, seq in opened[0].execute(_sql("keys"))}

    def _sums(self, apart: Mapping[str, Sequence[int]]) -> dict[str, Sum]:
        left_out = {(board, number) for board, numbers in apart.items() for number in numbers}
        found: dict[str, list[tuple[int, int]]] = {}
        for (board, number), seq in self._keys().items():
            if (board, number) not in left_out:
                found.setdefault(board, []).append((number, seq))
        return {
            board: Sum(
                len(own),
                sum(number for number, _ in own),
                sum(seq for _, seq in own),
                sum((number % SUM_FACTOR) * (seq % SUM_FACTOR) % SUM_MODULUS for number, seq in own),
            )
            for board, own in found.items()
        }

    def _reset(self) -> None:
        """Deletes the file. Processes that have it open keep it; their later writes do not reach the next file."""
        with self._writing:
            for name in (self._file.name, f"{self._file.name}-journal"):
                self._file.with_name(name).unlink(missing_ok=True)

    def _maintain(self) -> None:
        if self._file.exists():
            with self._changing() as connection:
                connection.execute(_sql("merge"))

    def _search(self, query: ArchiveQuery, waiting: Waiting) -> ArchiveAnswer:
        self._waiting.keep(query.board, waiting.documents)
        documents = visible(waiting, query)
        with self._opened() as opened:
            connection, life = opened or (None, "")
            if (connection is None and not documents) or not query.text.strip():
                return ArchiveAnswer((), "lexical", NO_LANCE, life)
            text = clean(query.text)
            asked = list(dict.fromkeys(words(text)))[:_QUERY_WORDS]
            corpus, rare = Corpus(0, 0.0, {}), set[int]()
            if connection is not None:
                marks = _marks(connection, query)
                corpus, rare = _corpus(connection, query.board, asked, marks)
            beginning = (n for n, document in enumerate(documents) if document.number in waiting.shortened)
            cuts = self._waiting.cuts(documents[: next(beginning, len(documents))])
            cuts |= glances(documents[len(cuts) :], beginnings(text, asked))
            bm25 = Bm25(asked, with_waiting(corpus, cuts, asked))
            depth = max(_DEPTH, _DEPTH_PER_HIT * query.limit)
            found = []
            if connection is not None and asked:
                outdated = {*(document.number for document in waiting.documents), *waiting.removed}
                found = [
                    candidate
                    for candidate in _retrieved(connection, query, bm25, rare, depth, marks)
                    if candidate.number not in outdated
                ]
        found += candidates(documents, query, bm25, cuts, {}, depth)
        scored = fuse(found, bm25.weights, depth=depth)
        hits = tuple(ArchiveHit(s.number, s.score, s.start, s.beside) for s in scored[: query.limit])
        return ArchiveAnswer(hits, "lexical", f"{NO_LANCE} {not_indexed(documents, waiting)}".strip(), life)


@functools.cache
def _statements() -> dict[str, str]:
    return statements_of(resources.files(__package__).joinpath("statements.sql").read_text("utf-8"))


def _sql(name: str) -> str:
    return _statements()[name]


def _life_of(connection: Any) -> str | None:
    """Returns the life of the index; `None` before its first document.

    Raises:
        ArchiveUnavailable: another version of the product made it.
    """
    if not connection.execute("PRAGMA table_info(life)").fetchall():
        return None
    row = connection.execute(_sql("life")).fetchone()
    if row is None:
        return None
    if row[1] != rows.SCHEMA_VERSION:
        raise ArchiveUnavailable(
            f"The archive index has layout {row[1]}, this version needs {rows.SCHEMA_VERSION}: it must be rebuilt.",
            reason="schema",
        )
    return str(row[0])


def _forget(connection: Any, key: Mapping[str, Any]) -> None:
    for number, said in connection.execute(_sql("words_of"), key).fetchall():
        connection.execute(_sql("unsay"), {"id": number, "words": said})
    connection.execute(_sql("forget"), key)


def _encoded(said: Sequence[str]) -> str:
    return " ".join("x" + word.encode().hex() for word in said)


def _decoded(said: str) -> tuple[str, ...]:
    return tuple(bytes.fromhex(word[1:]).decode() for word in said.split())


def _any(asked: Sequence[str]) -> str:
    return " OR ".join(_encoded([word]) for word in asked)


def _marks(connection: Any, query: ArchiveQuery) -> str:
    """Returns the marks of items that the query's viewer may see, as a JSON list."""
    found = connection.execute(_sql("marks"), {"board": rows.stored(query.board)}).fetchall()
    viewer = query.viewer
    return json.dumps([mark for (mark,) in found if viewer is None or viewer.sees(rows.owner_of(mark))])


def _corpus(connection: Any, board: str, asked: Sequence[str], marks: str) -> tuple[Corpus, set[int]]:
    """Returns the figures that BM25 needs for these words, and the documents that contain rare ones.

    Only those with one of the `marks`, a JSON list, are counted.
    """
    on_board = {"board": rows.stored(board), "marks": marks}
    count, mean = connection.execute(_sql("corpus"), on_board).fetchone()
    holding: dict[str, int] = {}
    rare: set[int] = set()
    for word in asked:
        numbers = connection.execute(_sql("holding"), {**on_board, "any": _any([word])}).fetchall()
        holding[word] = len(numbers)
        if len(numbers) <= RARE:
            rare.update(number for (number,) in numbers)
    return Corpus(count, mean, holding), rare


def _retrieved(
    connection: Any, query: ArchiveQuery, bm25: Bm25, rare: set[int], depth: int, marks: str
) -> list[FusionCandidate]:
    """Returns the best matches for the query, and documents that contain its rarest words.

    If a few long documents take all places, the search is repeated without these.
    """
    filters = {
        "any": _any(list(bm25.weights)),
        "board": rows.stored(query.board),
        "marks": marks,
        "types": json.dumps([clean(t) for t in query.types]),
        "tags": json.dumps([rows.tagged(t) for t in query.tags]),
        "author": None if query.author is None else clean(query.author),
        "thread": query.thread,
        "after": None if query.after is None else rows.microseconds(query.after),
        "before": None if query.before is None else rows.microseconds(query.before),
    }
    about: dict[int, tuple[int, bool, int]] = {}
    named = months(query.text)
    passages: dict[int, dict[int, Passage]] = {}

    def take(among: Sequence[int], beside: Sequence[int], most: int, way: str = "search") -> int:
        bound = {**filters, "among": json.dumps(among), "beside": json.dumps(beside), "most": most}
        answer = connection.execute(_sql(way), bound).fetchall()
        for number, part, thread, created, start, said in answer:
            there = _decoded(said)
            asks = QUESTION_MARK in there[-1:]
            about[number] = (thread, asks, created)
            passages.setdefault(number, {})[part] = bm25.passage(there[:-1] if asks else there, start)
        return len(answer)

    for _ in range(_ROUNDS):
        if take([], sorted(passages), depth) < depth or len(passages) >= query.limit:
            break
    if missing := sorted(rare - passages.keys())[:_MOST_RARE]:
        take(missing, [], 4 * _MOST_RARE)
    take(sorted(passages), [], 0, "beside")
    return [
        FusionCandidate(
            number, thread, tuple(own[part] for part in sorted(own)), asks, within(created, named)
        )
        for number, own in passages.items()
        for thread, asks, created in [about[number]]
    ]
