"""An index of the archive in a dict, written from the protocol alone: words, ranked by BM25.

It is for one server process, and keeps nothing: each start fills it from the store. A search looks at every document of
the board, which is fine for some thousands.

    PYTHONPATH=docs/examples blackboard-mcp kit --archive dict_index:DictIndex
    PYTHONPATH=docs/examples blackboard-mcp serve --archive dict_index:DictIndex
"""

from __future__ import annotations

import asyncio
import heapq
import math
import re
import secrets
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from blackboard_mcp.protocols.archive import (
    NOTHING_WAITS,
    ArchiveAnswer,
    ArchiveDocument,
    ArchiveHit,
    ArchiveQuery,
    Waiting,
)

WORD = re.compile(r"\w+")
SATURATION, LENGTH = 1.2, 0.75
"""BM25's k1 and b: how little a word's repetitions count, and how much the length of the text."""


class Entry:
    """A document with its words counted."""

    def __init__(self, document: ArchiveDocument) -> None:
        self.document = document
        self.words = Counter(words(document.text))
        self.length = self.words.total()


class DictIndex:
    """An index of the archive, which lasts as long as its process."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, int], Entry] = {}
        self._life = ""

    @classmethod
    async def open(cls, folder: Path) -> DictIndex:
        """Returns an empty index; the server fills it from its store."""
        return cls()

    async def upsert(self, documents: Sequence[ArchiveDocument]) -> None:
        if documents and not self._life:
            self._life = secrets.token_hex(16)
        for document in documents:
            key = document.board, document.number
            known = self._entries.get(key)
            if known is None or known.document.seq <= document.seq:
                self._entries[key] = Entry(document)

    async def remove(self, keys: Sequence[tuple[str, int]]) -> None:
        for key in keys:
            self._entries.pop(key, None)

    async def search(self, query: ArchiveQuery, waiting: Waiting = NOTHING_WAITS) -> ArchiveAnswer:
        # What the index has not received yet counts in place of what it has.
        later = {document.number for document in waiting.documents} | set(waiting.removed)
        entries = [e for (board, n), e in self._entries.items() if board == query.board and n not in later]
        # In a thread: while it ranks, the server answers others.
        hits = await asyncio.to_thread(ranked, query, entries, waiting.documents)
        return ArchiveAnswer(hits, "lexical", "This index searches by words only.", self._life)

    async def life(self) -> str:
        return self._life

    async def keys(self) -> dict[tuple[str, int], int]:
        return {key: entry.document.seq for key, entry in self._entries.items()}

    async def reset(self) -> None:
        self._entries, self._life = {}, ""

    async def maintain(self) -> None:
        """There is nothing to clean up."""

    async def close(self) -> None:
        """There is nothing to close."""


def words(text: str) -> Iterable[str]:
    """The words of a text, as they are compared."""
    return WORD.findall(text.casefold())


def ranked(
    query: ArchiveQuery, entries: Iterable[Entry], waiting: Iterable[ArchiveDocument]
) -> tuple[ArchiveHit, ...]:
    """The best hits of a query. What its viewer may not see counts for nothing, not even in the frequency of words."""
    entries = [*entries, *map(Entry, waiting)]
    viewer = query.viewer
    seen = [entry for entry in entries if viewer is None or viewer.sees(entry.document.owner)]
    wanted = set(words(query.text))
    holding = Counter(word for entry in seen for word in wanted if word in entry.words)
    rare = {word: math.log(1 + (len(seen) - n + 0.5) / (n + 0.5)) for word, n in holding.items()}
    average = sum(entry.length for entry in seen) / max(1, len(seen))
    hits = []
    for entry in seen:
        found = [word for word in rare if word in entry.words]
        if found and fits(query, entry.document):
            long = SATURATION * (1 - LENGTH + LENGTH * entry.length / average)
            score = sum(rare[w] * entry.words[w] * (SATURATION + 1) / (entry.words[w] + long) for w in found)
            start = place(entry.document.text, max(found, key=lambda word: (rare[word], word)))
            hits.append(ArchiveHit(entry.document.number, score, start))
    return tuple(heapq.nsmallest(query.limit, hits, key=lambda hit: (-hit.score, hit.number)))


def fits(query: ArchiveQuery, document: ArchiveDocument) -> bool:
    """Whether a document passes the filters of a query."""
    return (
        (not query.types or document.type in query.types)
        and set(query.tags) <= set(document.tags)
        and query.author in (None, document.author)
        and query.thread in (None, document.thread)
        and (query.after is None or query.after <= document.created_at)
        and (query.before is None or document.created_at < query.before)
    )


def place(text: str, word: str) -> int:
    """The offset in characters of the first place where a text has a word."""
    return next((match.start() for match in WORD.finditer(text) if match.group().casefold() == word), 0)
