"""Rows of the table: the form of documents, and of a query's filters, for the driver.

Each window of a document is one row, keyed by `id`; a document without words has one row, too. Texts stay in the
store: a row has the window's words, its head (`heads.py`), and the columns that filters need. Every value
reaches the driver as a literal expression, never inside a string of its own language.

`lancedb` and `pyarrow` are imported inside the functions, so importing this module is cheap.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from blackboard_mcp.protocols.archive import ArchiveDocument, ArchiveQuery
from blackboard_mcp.protocols.errors import ArchiveUnavailable
from blackboard_mcp.protocols.read_rules import READ
from blackboard_mcp.protocols.visibility import Viewer
from blackboard_mcp.storage.lance import heads, vectors
from blackboard_mcp.storage.lance.words import QUESTION_MARK, Window, asks, clean, words

SCHEMA_VERSION = 8
"""The version of rows and words. It is raised whenever either changes; older tables are then rebuilt."""

BUCKETS = 32
"""The number of buckets. A document's number decides its bucket, so that a bucket is a sample that never changes."""

_SEPARATOR = "\x1f"
_METADATA = b"blackboard"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def row_id(board: str, number: int, part: int) -> str:
    """Returns the id of the row for a window, which is number `part` of its document, from 0."""
    return f"{clean(board)}{_SEPARATOR}{number}{_SEPARATOR}{part}"


def schema(model: str | None, dimension: int) -> Any:
    """Returns the table's schema; without a model it has no column of signs, and heads have no vectors."""
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
        pa.field("owner", pa.string(), nullable=False),
        pa.field("thread", pa.int64(), nullable=False),
        pa.field("tags", pa.string(), nullable=False),
        pa.field("created_us", pa.int64(), nullable=False),
        pa.field("length", pa.int32(), nullable=False),
        pa.field("words", pa.string(), nullable=False),
        pa.field(heads.HEAD, pa.binary(heads.width(dimension)), nullable=False),
    ]
    if model is not None:
        fields.append(pa.field(vectors.SIGNS, pa.list_(pa.uint8(), -(-dimension // 8))))
    described = json.dumps({"schema": SCHEMA_VERSION, "model": model, "dimension": dimension})
    return pa.schema(fields, metadata={_METADATA: described.encode()})


def described(table_schema: Any) -> tuple[int, str | None]:
    """Returns the schema version and the model name that a table was made for; version 0 if it names none."""
    try:
        said = json.loads((table_schema.metadata or {})[_METADATA])
        return int(said["schema"]), said["model"]
    except (KeyError, ValueError, TypeError):
        return 0, None


def check_layout(table_schema: Any) -> None:
    """Checks that this version of the product made the table.

    Raises:
        ArchiveUnavailable: another did.
    """
    version, _ = described(table_schema)
    if version != SCHEMA_VERSION:
        raise ArchiveUnavailable(
            f"The archive index has layout {version}, this version needs {SCHEMA_VERSION}: it must be rebuilt.",
            reason="schema",
        )


def dimension(table_schema: Any) -> int:
    """Returns the dimension of the table's vectors; 0 if it has none."""
    return int(json.loads(table_schema.metadata[_METADATA])["dimension"])


def check_dimension(table_schema: Any, wanted: int) -> None:
    """Checks that the table's vectors have this dimension.

    Raises:
        ArchiveUnavailable: they have another.
    """
    stored = dimension(table_schema)
    if stored != wanted:
        raise ArchiveUnavailable(
            f"The archive index has vectors of {stored} dimensions, the model makes {wanted}: it must be "
            "rebuilt.",
            reason="model",
        )


def made(document: ArchiveDocument, cut: Sequence[Window]) -> list[dict[str, Any]]:
    """Returns the rows of a document, whose windows are `cut`, without vectors and heads.

    Its labels count as words of each window.
    """
    shared: dict[str, Any] = {
        "board": clean(document.board),
        "number": document.number,
        "parts": max(len(cut), 1),
        "bucket": bucket(document.number),
        "seq": document.seq,
        "type": clean(document.type),
        "author": clean(document.author),
        "owner": mark(document.owner),
        "thread": document.thread,
        "tags": _SEPARATOR.join(["", *(_tag(t) for t in document.tags), ""]),
        "created_us": microseconds(document.created_at),
    }
    rows = []
    names = labels(document)
    asking = [QUESTION_MARK] if asks(document.text) else []
    for part, window in enumerate(cut or (Window(0, ""),)):
        counted = [*names, *words(window.text)]
        rows.append(
            {
                **shared,
                "id": row_id(document.board, document.number, part),
                "part": part,
                "start": window.start,
                "length": len(counted),
                "words": " ".join([*counted, *asking]),
            }
        )
    return rows


def labels(document: ArchiveDocument) -> list[str]:
    """Returns the words of the author's name and of the tags."""
    return words(" ".join((document.author, *document.tags)))


def bucket(number: int) -> int:
    """Returns the bucket of a document; consecutive numbers are spread evenly, too."""
    return (number * 2_654_435_761 >> 16) % BUCKETS


def stored(board: str) -> str:
    """Returns a board's name as the column stores it."""
    return clean(board)


def on_board(board: str) -> Any:
    """Returns the filter for rows of the board."""
    from lancedb.expr import col, lit

    return col("board") == lit(stored(board))


def matching(query: ArchiveQuery) -> Any:
    """Returns the query's filters as one expression, always limited to its board."""
    from lancedb.expr import col, lit

    wanted = on_board(query.board)
    if query.viewer is not None:
        wanted &= seen_by(query.viewer)
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


def mark(owner: str) -> str:
    """Returns the mark of those who may see an item as the column has it: with an end, so that none begins another."""
    return f"{clean(owner)}{_SEPARATOR}" if owner else ""


def owner_of(stored_mark: str) -> str:
    """Returns the mark that `mark` stored."""
    return stored_mark.removesuffix(_SEPARATOR)


def plain_marks(viewer: Viewer) -> list[str]:
    """Returns whole marks of rows that the viewer may see; it may see rows with other marks, too."""
    return ["", mark(viewer.agent), mark(viewer.team), *map(mark, sorted(viewer.kept))]


def seen_by(viewer: Viewer) -> Any:
    """Returns the filter for rows that the viewer may see, as `Viewer.sees` decides."""
    from lancedb.expr import col, lit

    seen = col("owner").isin([lit(each) for each in plain_marks(viewer)])
    for rule in sorted(viewer.kept):
        seen |= col("owner").contains(lit(f"{rule}:"))
    if viewer.agent:
        own = col("owner").contains(lit(f":{mark(viewer.agent)}"))
        # A rule of the agent's name is none of the agent's own.
        seen |= own & col("owner").contains(lit(READ)) & (col("owner") != lit(mark(READ + viewer.agent)))
    return seen


def holding(asked: Iterable[str]) -> Any:
    """Returns the full-text query for windows with any of these words, as `words.py` makes them."""
    from lancedb.query import MatchQuery

    make: Any = MatchQuery
    return make(" ".join(asked), "words")


def in_bucket(chosen: int) -> Any:
    """Returns the filter for rows in a bucket."""
    from lancedb.expr import col, lit

    return col("bucket") == lit(chosen)


def numbered(numbers: Iterable[int]) -> Any:
    """Returns the filter for rows of documents with these numbers, on any board."""
    from lancedb.expr import col, lit

    return col("number").isin([lit(n) for n in sorted(numbers)])


def first_of(numbers: Iterable[int]) -> Any:
    """Returns the filter for the first rows of documents with these numbers."""
    return numbered(numbers) & first()


def first() -> Any:
    """Returns the filter for the first rows of documents."""
    from lancedb.expr import col, lit

    return col("part") == lit(0)


def in_threads(threads: Iterable[int]) -> Any:
    """Returns the filter for rows of documents of these threads."""
    from lancedb.expr import col, lit

    return col("thread").isin([lit(n) for n in sorted(set(threads))])


def of_documents(board: str, numbers: Iterable[int]) -> Any:
    """Returns the filter for rows of these documents of a board."""
    return on_board(board) & numbered(numbers)


def identified(ids: Iterable[str]) -> Any:
    """Returns the filter for rows with these ids."""
    from lancedb.expr import col, lit

    return col("id").isin([lit(i) for i in sorted(ids)])


def tagged(tag: str) -> str:
    """Returns the text that the column of tags contains if a document has this tag."""
    return f"{_SEPARATOR}{_tag(tag)}{_SEPARATOR}"


def _tag(tag: str) -> str:
    """Returns `tag` with the separator replaced reversibly, so that no tag looks like two."""
    return clean(tag).replace("\x1e", "\x1e0").replace(_SEPARATOR, "\x1e1")


def microseconds(instant: datetime) -> int:
    """Returns the microseconds from 1970 to `instant`."""
    return (instant - _EPOCH) // timedelta(microseconds=1)
