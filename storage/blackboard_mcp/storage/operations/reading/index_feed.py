"""The feed of the archive's indexer: the outbox, the archive in pages, and leases."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from blackboard_mcp.protocols.archive import (
    SUM_FACTOR,
    SUM_MODULUS,
    ArchiveDocument,
    Fed,
    OutboxBatch,
    Settled,
    Sum,
    Waiting,
)
from blackboard_mcp.protocols.items import Zone

from ...operation import Write
from ..ledger.ledger import find_board, load_any
from ..ledger.rows import Steps, instant, numbers, sql

WAITING_WHOLE = 4_000_000
"""The characters up to which waiting texts are read whole for a search, newest first."""
WAITING_BEGINNING = 400
"""The characters read of each further text, after `WAITING_WHOLE` is used up."""
WAITING_READ = 64_000_000
"""The characters after which no more texts are examined; the search is then told that more wait."""
_PAGE = 20
_FED: Final = "archive-fed"
"""The lease, never taken, under whose name the last index that took changes is noted."""


def _document(board: str, row: Sequence[Any]) -> ArchiveDocument:
    """Makes a document for the index from the columns of a statement."""
    number, seq, type_, author, thread, tags, created_at, text, owner = row[:9]
    return ArchiveDocument(
        board, number, seq, type_, author, thread, tuple(json.loads(tags)), instant(created_at), text, owner
    )


def outbox_batch(limit: int) -> Steps[OutboxBatch]:
    """Returns the oldest changes that wait for the index, at most `limit`: documents to add and to remove."""
    rows = yield sql("outbox_oldest"), (limit,)
    documents: dict[tuple[str, int], ArchiveDocument] = {}
    removed: dict[tuple[str, int], None] = {}
    for row in rows:
        key = (row[1], row[2])
        if row[11]:
            documents[key] = _document(row[1], row[2:11])
        else:
            removed[key] = None
    return OutboxBatch(tuple(r[0] for r in rows), tuple(documents.values()), tuple(removed))


def outbox_done(write: Write, ids: Sequence[int]) -> Steps[None]:
    """Removes changes by their ids from the outbox, after the index has taken them in."""
    yield sql("outbox_done"), (numbers(ids),)


def outbox_fed(write: Write, ids: Sequence[int], life: str) -> Steps[None]:
    """Removes changes by their ids from the outbox, and notes that the index of this life took them in.

    Another index that removed all of them before may have taken further ones, and stays noted.
    """
    if (yield sql("outbox_done"), (numbers(ids),)):
        yield sql("lease_put"), (_FED, f"{max(ids)} {life}", 0)


def fed() -> Steps[Fed | None]:
    """Returns which index took changes last, and the last of them; `None` before."""
    for holder, _ in (yield sql("lease_of"), (_FED,)):
        last, _, life = holder.partition(" ")
        return Fed(life, int(last))
    return None


def outbox_empty() -> Steps[bool]:
    """Tells whether nothing waits for the index."""
    return bool((yield sql("outbox_empty"), ())[0][0])


def archived_keys() -> Steps[dict[tuple[str, int], int]]:
    """Returns a map from board and number of each archived item to its sequence."""
    return {(r[0], r[1]): r[2] for r in (yield sql("archived_keys"), ())}


def settled_keys() -> Steps[dict[tuple[str, int], int]]:
    """Returns a map from board and number of each archived item without waiting changes to its sequence."""
    return {(r[0], r[1]): r[2] for r in (yield sql("settled_keys"), ())}


def settled(most: int) -> Steps[Settled | None]:
    """Returns checksums, by board, of the items that the index should hold, and the items that wait.

    Returns `None` if more than `most` items wait.
    """
    rows = yield sql("outbox_items"), (most + 1,)
    if len(rows) > most:
        return None
    waiting: dict[str, list[int]] = {}
    for board, number in rows:
        waiting.setdefault(board, []).append(number)
    sums = yield sql("settled_sums"), (SUM_FACTOR, SUM_MODULUS)
    return Settled({r[0]: Sum(*r[1:]) for r in sums}, {b: tuple(n) for b, n in waiting.items()})


def waiting(board: str, limit: int) -> Steps[Waiting]:
    """Returns items of a board that wait for the index, at most `limit`, newest first, so that a search includes them.

    Texts that exceed `WAITING_WHOLE` characters together are shortened; `more` tells whether items are missing.
    """
    found = yield from find_board(board)
    if found is None:
        return Waiting()
    listed = [row[0] for row in (yield sql("waiting_of_board"), (found.no, limit + 1))]
    more, numbered = len(listed) > limit, listed[:limit]
    documents: list[ArchiveDocument] = []
    removed: list[int] = []
    private: set[int] = set()
    shortened: set[int] = set()
    whole, read = WAITING_WHOLE, 0
    for start in range(0, len(numbered), _PAGE):
        page = numbers(numbered[start : start + _PAGE])
        for row in (yield sql("waiting_items"), (found.no, page, max(whole, WAITING_BEGINNING))):
            if row[9]:
                private.add(row[0])
            if not row[8]:
                removed.append(row[0])
                continue
            text, length, kept = row[7], row[10], max(whole, WAITING_BEGINNING)
            documents.append(_document(board, (*row[:7], text[:kept], row[9])))
            if length > kept:
                shortened.add(row[0])
            whole, read = max(0, whole - length), read + length
        if read > WAITING_READ:
            more = True
            break
    return Waiting(tuple(documents), tuple(removed), frozenset(private), frozenset(shortened), more=more)


Place = tuple[int, int]


def archived_page(after: Place, limit: int) -> Steps[tuple[Place | None, tuple[ArchiveDocument, ...]]]:
    """Returns the place where a page of the archive ended, `None` at the end, and the page's documents."""
    rows = yield sql("archived_page"), (after[0], after[1], limit)
    documents = tuple(_document(r[1], r[2:]) for r in rows)
    return ((rows[-1][0], rows[-1][2]) if len(rows) == limit else None), documents


def documents(keys: Sequence[tuple[str, int]]) -> Steps[tuple[ArchiveDocument, ...]]:
    """Returns the documents of those of the items, named by board and number, that are archived."""
    by_board: dict[str, list[int]] = {}
    for board, number in keys:
        by_board.setdefault(board, []).append(number)
    found: list[ArchiveDocument] = []
    for board, wanted in by_board.items():
        row = yield from find_board(board)
        if row is None:
            continue
        for item in (yield from load_any(row.no, wanted)).values():
            if item.zone == Zone.ARCHIVE and not item.deleted:
                found.append(
                    ArchiveDocument(
                        board,
                        item.number,
                        item.seq,
                        item.type,
                        item.author,
                        item.thread,
                        item.tag_list(),
                        instant(item.created_at),
                        item.text,
                        item.owner,
                    )
                )
    return tuple(found)


def lease(write: Write, name: str, holder: str, seconds: float) -> Steps[bool]:
    """Takes or renews a lease for `seconds`; returns false if another holder has it."""
    until = write.now + int(seconds * 1_000_000)
    return bool((yield sql("lease_take"), (name, holder, until, write.now)))


def release(write: Write, name: str, holder: str) -> Steps[None]:
    """Gives up a lease, if the holder has it."""
    yield sql("lease_release"), (name, holder)
