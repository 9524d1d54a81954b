"""How a document lies in the table, and how a query's filters are said to the driver.

One row a document, keyed by `id`, its windows inside it as lists: replacing a document replaces all its
windows at once. Bodies stay in the store; the row holds words, vectors and what filters need. Every
value reaches the driver as a literal expression, never inside a string of its own language.

`lancedb` and `pyarrow` are imported inside the functions: this module costs nothing to import.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from blackboard_mcp.protocols.archive import ArchiveDocument, ArchiveQuery
from blackboard_mcp.storage.lance.words import clean, words

SCHEMA_VERSION = 1
"""Raised whenever a row or a word would come out differently: older tables are then rebuilt."""

_SEPARATOR = "\x1f"
_METADATA = b"blackboard"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def row_id(board: str, number: int) -> str:
    return f"{clean(board)}{_SEPARATOR}{number}"


def schema(model: str | None, dimension: int) -> Any:
    """The table's schema; without a model there is no column of vectors."""
    import pyarrow as pa

    fields = [
        pa.field("id", pa.string(), nullable=False),
        pa.field("board", pa.string(), nullable=False),
        pa.field("number", pa.int64(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("type", pa.string(), nullable=False),
        pa.field("author", pa.string(), nullable=False),
        pa.field("thread", pa.int64(), nullable=False),
        pa.field("tags", pa.string(), nullable=False),
        pa.field("created_us", pa.int64(), nullable=False),
        pa.field("length", pa.int64(), nullable=False),
        pa.field("windows", pa.list_(pa.string())),
    ]
    if model is not None:
        fields.append(pa.field("vectors", pa.list_(pa.list_(pa.float32(), dimension))))
    described = json.dumps({"schema": SCHEMA_VERSION, "model": model})
    return pa.schema(fields, metadata={_METADATA: described.encode()})


def described(table_schema: Any) -> tuple[int, str | None]:
    """(schema version, model name) that a table was made for; version 0 when it does not say."""
    try:
        said = json.loads((table_schema.metadata or {})[_METADATA])
        return int(said["schema"]), said["model"]
    except (KeyError, ValueError, TypeError):
        return 0, None


def row(document: ArchiveDocument, cut: Sequence[str], vectors: Any | None) -> dict[str, Any]:
    """The row of a document: `cut` are its windows, `vectors` theirs, `(len(cut), dimension)`.

    Windows whose vector is zero have none: a zero has no direction, and the driver would drop the row.
    """
    counted = [words(window) for window in cut]
    made: dict[str, Any] = {
        "id": row_id(document.board, document.number),
        "board": clean(document.board),
        "number": document.number,
        "seq": document.seq,
        "type": clean(document.type),
        "author": clean(document.author),
        "thread": document.thread,
        "tags": _SEPARATOR.join(["", *(_tag(t) for t in document.tags), ""]),
        "created_us": _microseconds(document.created_at),
        "length": round(sum(map(len, counted)) / len(counted)) if counted else 0,
        "windows": [" ".join(w) for w in counted],
    }
    if vectors is not None:
        made["vectors"] = [vector for vector in vectors if vector.any()]
    return made


def on_board(board: str) -> Any:
    from lancedb.expr import col, lit

    return col("board") == lit(clean(board))


def matching(query: ArchiveQuery) -> Any:
    """The query's filters as one expression; always bound to its board."""
    from lancedb.expr import col, lit

    wanted = on_board(query.board)
    if query.types:
        wanted &= col("type").isin([lit(clean(t)) for t in query.types])
    for tag in query.tags:
        wanted &= col("tags").contains(lit(f"{_SEPARATOR}{_tag(tag)}{_SEPARATOR}"))
    if query.author is not None:
        wanted &= col("author") == lit(clean(query.author))
    if query.thread is not None:
        wanted &= col("thread") == lit(query.thread)
    if query.after is not None:
        wanted &= col("created_us") >= lit(_microseconds(query.after))
    if query.before is not None:
        wanted &= col("created_us") < lit(_microseconds(query.before))
    return wanted


def holding(asked: Iterable[str]) -> Any:
    """The full-text query for documents with any of these words, as `words.py` makes them."""
    from lancedb.query import MatchQuery

    make: Any = MatchQuery
    return make(" ".join(asked), "windows")


def numbered(numbers: Iterable[int]) -> Any:
    from lancedb.expr import col, lit

    return col("number").isin([lit(n) for n in sorted(numbers)])


def identified(keys: Iterable[tuple[str, int]]) -> Any:
    from lancedb.expr import col, lit

    return col("id").isin([lit(row_id(board, number)) for board, number in keys])


def _tag(tag: str) -> str:
    """`tag` without the separator, reversibly: no tag can look like two."""
    return clean(tag).replace("\x1e", "\x1e0").replace(_SEPARATOR, "\x1e1")


def _microseconds(instant: datetime) -> int:
    return (instant - _EPOCH) // timedelta(microseconds=1)
