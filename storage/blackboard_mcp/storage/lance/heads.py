"""Heads of rows: what a search asks of every row that an engine finds, in one column of fixed length.

A value of a row costs the driver about as much to read as a few hundred bytes, so that these are kept together. What a
filter needs has a column of its own besides. A head has the row's numbers, the digest of who may see the row where, and
its vector: signs and sizes, all zero if there is none. Integers are unsigned, the lowest byte first.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from typing import Any

from blackboard_mcp.storage.lance import vectors

HEAD = "head"
"""The name of the column."""

_LONG = ("number", "thread", "seq")
"""What has five bytes: four, and a fifth for those above 4,294,967,295."""
_DIGEST = 8
_SECOND = 1_000_000
_PACKED = struct.Struct(f"<{len(_LONG) * 'IB'}II{_DIGEST}s")


def width(dimension: int) -> int:
    """Returns the bytes of a head, with a vector of this dimension; 0 for none."""
    return _PACKED.size + vectors.size(dimension)


def scope(board: str, mark: str) -> bytes:
    """Returns the digest of a board's name and of the mark of those who may see a row, as the columns have them."""
    return hashlib.blake2b(f"{len(board)} {board}{mark}".encode(), digest_size=_DIGEST).digest()


def made(row: Mapping[str, Any], vector: bytes, dimension: int) -> bytes:
    """Returns the head of a row, which has the other columns; `vector` is empty if it has none."""
    long = (part for name in _LONG for part in (row[name] & 0xFFFFFFFF, row[name] >> 32))
    created = min(max(row["created_us"] // _SECOND, 0), 0xFFFFFFFF)
    packed = _PACKED.pack(*long, created, row["start"], scope(row["board"], row["owner"]))
    return (packed + vector).ljust(width(dimension), b"\0")


def read(found: Any, dimension: int) -> dict[str, Any]:
    """Returns the heads of an Arrow table's rows by name, each `(n,)`, but `vector` is `(n, bytes) uint8`.

    `number`, `thread`, `seq` and `created_us` are `int64`, `start` is `uint32`, and `scope` what `scope` returns. The
    time is in microseconds from 1970, but whole seconds.
    """
    import numpy as np

    size = width(dimension)
    layout = np.dtype(
        [
            *((name, form) for n in _LONG for name, form in ((n, "<u4"), (f"{n}_above", "u1"))),
            ("created", "<u4"),
            ("start", "<u4"),
            ("scope", f"V{_DIGEST}"),
            ("vector", "u1", (size - _PACKED.size,)),
        ]
    )
    column = found[HEAD].combine_chunks()
    heads = np.zeros(0, dtype=layout)
    if len(column):
        heads = np.frombuffer(
            column.buffers()[1], dtype=layout, count=len(column), offset=column.offset * size
        )
    long = {n: heads[n].astype(np.int64) + (heads[f"{n}_above"].astype(np.int64) << 32) for n in _LONG}
    created = heads["created"].astype(np.int64) * _SECOND
    return long | {"created_us": created} | {name: heads[name] for name in ("start", "scope", "vector")}


def numbers(found: Any, dimension: int) -> Any:
    """Returns the numbers of the vectors of an Arrow table's rows: `(n, dimension) int8`, zero where there is none."""
    return vectors.numbers(read(found, dimension)["vector"], dimension)
