"""Rows of the table: the form of a document, and of a query's filters, for the driver.

One row a window of a document, keyed by `id`; a document without words has one row all the same. Bodies
stay in the store; the row holds the window's words, its vector, its place in the text and what filters
need. Every value reaches the driver as a literal expression, never inside a string of its own language.

`lancedb` and `pyarrow` are imported inside the functions: this module costs nothing to import.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from blackboard_mcp.protocols.archive import ArchiveDocument, ArchiveQuery
from blackboard_mcp.protocols.errors import ArchiveUnavailable
from blackboard_mcp.storage.lance.words import Window, clean, words

SCHEMA_VERSION = 3
"""Raised whenever a row or a word would come out differently: older tables are then rebuilt."""

BUCKETS = 32
"""Every document is in one of so many buckets, by its number: a sample that no history changes."""

_SEPARATOR = "\x1f"
_METADATA = b"blackboard"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def row_id(board: str, number: int, part: int) -> str:
    return f"{clean(board)}{_SEPARATOR}{number}{_SEPARATOR}{part}"


def schema(model: str | None, dimension: int) -> Any:
    """The table's schema; without a model there is no column of vectors."""
    import pyarrow as pa

    fields = [
        pa.field("id", pa.string(), nullable=False),
        pa.field("board", pa.string(), nullable=False),
        pa.field("number", pa.int64(), nullable=False),
        pa.field("part", pa.int32(), nullable=False),
        pa.field("parts", pa.int32(), nullable=False),
        pa.field("start", pa.int64(), nullable=False),
        pa.field("bucket", pa.int8(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("type", pa.string(), nullable=False),
        pa.field("author", pa.string(), nullable=False),
        pa.field("thread", pa.int64(), nullable=False),
        pa.field("tags", pa.string(), nullable=False),
        pa.field("created_us", pa.int64(), nullable=False),
        pa.field("length", pa.int32(), nullable=False),
        pa.field("words", pa.string(), nullable=False),
    ]
    if model is not None:
        # Half precision finds the same (docs/discussions/benchmarks.md), and the driver searches no smaller numbers.
        fields.append(pa.field("vector", pa.list_(pa.float16(), dimension)))
    described = json.dumps({"schema": SCHEMA_VERSION, "model": model})
    return pa.schema(fields, metadata={_METADATA: described.encode()})


def described(table_schema: Any) -> tuple[int, str | None]:
    """(schema version, model name) that a table was made for; version 0 when it does not say."""
    try:
        said = json.loads((table_schema.metadata or {})[_METADATA])
        return int(said["schema"]), said["model"]
    except (KeyError, ValueError, TypeError):
        return 0, None


def check_dimension(table_schema: Any, dimension: int) -> None:
    """Raises `ArchiveUnavailable` where the table's vectors have another dimension."""
    stored = table_schema.field("vector").type.list_size
    if stored != dimension:
        raise ArchiveUnavailable(
            f"The archive index has vectors of {stored} dimensions, the model makes {dimension}: it must be "
            "rebuilt.",
            reason="model",
        )


def made(document: ArchiveDocument, cut: Sequence[Window], vectors: Any | None) -> list[dict[str, Any]]:
    """The rows of a document: `cut` are its windows, `vectors` theirs, `(len(cut), dimension) float16`.

    A window whose vector is zero has none: a zero has no direction.
    """
    shared: dict[str, Any] = {
        "board": clean(document.board),
        "number": document.number,
        "parts": max(len(cut), 1),
        "bucket": bucket(document.number),
        "seq": document.seq,
        "type": clean(document.type),
        "author": clean(document.author),
        "thread": document.thread,
        "tags": _SEPARATOR.join(["", *(_tag(t) for t in document.tags), ""]),
        "created_us": microseconds(document.created_at),
    }
    rows = []
    for part, window in enumerate(cut or (Window(0, ""),)):
        counted = words(window.text)
        row = {
            **shared,
            "id": row_id(document.board, document.number, part),
            "part": part,
            "start": window.start,
            "length": len(counted),
            "words": " ".join(counted),
        }
        if vectors is not None:
            row["vector"] = vectors[part] if part < len(vectors) and vectors[part].any() else None
        rows.append(row)
    return rows


def bucket(number: int) -> int:
    """The bucket of a document, spread evenly over runs of numbers as well."""
    return (number * 2_654_435_761 >> 16) % BUCKETS


def stored(board: str) -> str:
    """A board's name as the column has it."""
    return clean(board)


def on_board(board: str) -> Any:
    from lancedb.expr import col, lit

    return col("board") == lit(stored(board))


def matching(query: ArchiveQuery) -> Any:
    """The query's filters as one expression; always bound to its board."""
    from lancedb.expr import col, lit

    wanted = on_board(query.board)
    if query.types:
        wanted &= col("type").isin([lit(clean(t)) for t in query.types])
    for tag in query.tags:
        wanted &= col("tags").contains(lit(tagged(tag)))
    if query.author is not None:
        wanted &= col("author") == lit(clean(query.author))
    if query.thread is not None:
        wanted &= col("thread") == lit(query.thread)
    if query.after is not None:
        wanted &= col("created_us") >= lit(microseconds(query.after))
    if query.before is not None:
        wanted &= col("created_us") < lit(microseconds(query.before))
    return wanted


def holding(asked: Iterable[str]) -> Any:
    """The full-text query for windows with any of these words, as `words.py` makes them."""
    from lancedb.query import MatchQuery

    make: Any = MatchQuery
    return make(" ".join(asked), "words")


def in_bucket(chosen: int) -> Any:
    from lancedb.expr import col, lit

    return col("bucket") == lit(chosen)


def numbered(numbers: Iterable[int]) -> Any:
    from lancedb.expr import col, lit

    return col("number").isin([lit(n) for n in sorted(numbers)])


def of_documents(board: str, numbers: Iterable[int]) -> Any:
    """The rows of these documents of a board."""
    return on_board(board) & numbered(numbers)


def identified(ids: Iterable[str]) -> Any:
    from lancedb.expr import col, lit

    return col("id").isin([lit(i) for i in sorted(ids)])


def tagged(tag: str) -> str:
    """What the column of a document with this tag holds."""
    return f"{_SEPARATOR}{_tag(tag)}{_SEPARATOR}"


def _tag(tag: str) -> str:
    """`tag` without the separator, reversibly: no tag can look like two."""
    return clean(tag).replace("\x1e", "\x1e0").replace(_SEPARATOR, "\x1e1")


def microseconds(instant: datetime) -> int:
    return (instant - _EPOCH) // timedelta(microseconds=1)
