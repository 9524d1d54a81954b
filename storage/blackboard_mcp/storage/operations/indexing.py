"""What the archive's indexer works from: the outbox, the archive page by page, leases."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from blackboard_mcp.protocols.archive import (
    SUM_FACTOR,
    SUM_MODULUS,
    ArchiveDocument,
    OutboxBatch,
    Settled,
    Sum,
    Waiting,
)
from blackboard_mcp.protocols.items import Zone

from .ledger import find_board, load_any
from .rows import Steps, instant, numbers, sql


def _document(board: str, row: Sequence[Any]) -> ArchiveDocument:
    number, seq, type_, author, thread, tags, created_at, text = row[:8]
    return ArchiveDocument(
        board, number, seq, type_, author, thread, tuple(json.loads(tags)), instant(created_at), text
    )


def outbox_batch(limit: int) -> Steps[OutboxBatch]:
    rows = yield sql("outbox_oldest"), (limit,)
    documents: dict[tuple[str, int], ArchiveDocument] = {}
    removed: dict[tuple[str, int], None] = {}
    for row in rows:
        key = (row[1], row[2])
        if row[10]:
            documents[key] = _document(row[1], row[2:10])
        else:
            removed[key] = None
    return OutboxBatch(tuple(r[0] for r in rows), tuple(documents.values()), tuple(removed))


def outbox_done(ids: Sequence[int]) -> Steps[None]:
    yield sql("outbox_done"), (numbers(ids),)


def outbox_empty() -> Steps[bool]:
    return bool((yield sql("outbox_empty"), ())[0][0])


def archived_keys() -> Steps[dict[tuple[str, int], int]]:
    return {(r[0], r[1]): r[2] for r in (yield sql("archived_keys"), ())}


def settled_keys() -> Steps[dict[tuple[str, int], int]]:
    return {(r[0], r[1]): r[2] for r in (yield sql("settled_keys"), ())}


def settled(most: int) -> Steps[Settled | None]:
    rows = yield sql("outbox_items"), (most + 1,)
    if len(rows) > most:
        return None
    waiting: dict[str, list[int]] = {}
    for board, number in rows:
        waiting.setdefault(board, []).append(number)
    sums = yield sql("settled_sums"), (SUM_FACTOR, SUM_MODULUS)
    return Settled({r[0]: Sum(*r[1:]) for r in sums}, {b: tuple(n) for b, n in waiting.items()})


def waiting(board: str, limit: int) -> Steps[Waiting]:
    found = yield from find_board(board)
    if found is None:
        return Waiting()
    rows = yield sql("waiting_of_board"), (found.no, limit + 1)
    kept = rows[:limit]
    return Waiting(
        tuple(_document(board, r) for r in kept if r[8]),
        tuple(r[0] for r in kept if not r[8]),
        frozenset(r[0] for r in kept if r[9]),
        more=len(rows) > limit,
    )


Place = tuple[int, int]


def archived_page(after: Place, limit: int) -> Steps[tuple[Place | None, tuple[ArchiveDocument, ...]]]:
    """A page of the archive and the place it ended at; no place at the end."""
    rows = yield sql("archived_page"), (after[0], after[1], limit)
    documents = tuple(_document(r[1], r[2:]) for r in rows)
    return ((rows[-1][0], rows[-1][2]) if len(rows) == limit else None), documents


def documents(keys: Sequence[tuple[str, int]]) -> Steps[tuple[ArchiveDocument, ...]]:
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
                    )
                )
    return tuple(found)


def lease(name: str, holder: str, until: int, now: int) -> Steps[bool]:
    return bool((yield sql("lease_take"), (name, holder, until, now)))


def release(name: str, holder: str) -> Steps[None]:
    yield sql("lease_release"), (name, holder)
