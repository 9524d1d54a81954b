"""Heads of rows: what a search asks of every row that an engine finds, in one column of fixed length.

A value of a row costs the driver about as much to read as a few hundred bytes, so that these are kept together. What
filters and images need has a column of its own besides. A head has the row's numbers, a digest of who may see it where,
and its vector: signs and sizes, all zero if there is none. The lowest byte of a number comes first.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from typing import Any

from blackboard_mcp.storage.lance import vectors

HEAD = "head"
"""The name of the column."""

_BYTES = {"number": 5, "thread": 5, "seq": 7}
"""The bytes of each whole number; a sequence may be 2**53, as in JSON."""
_DIGEST = 8
_MINUTE = 60_000_000
_LATEST = 2**31 - 1
_REST = struct.Struct(f"<iI{_DIGEST}s")
_SIZE = sum(_BYTES.values()) + _REST.size


def width(dimension: int) -> int:
    """Returns the bytes of a head with a vector of this dimension; the dimension is 0 if rows have none."""
    return _SIZE + vectors.size(dimension)


def scope(board: str, mark: str) -> bytes:
    """Returns the digest of a board's name and of the mark of those who may see a row, as the columns have them."""
    return hashlib.blake2b(f"{len(board)} {board}{mark}".encode(), digest_size=_DIGEST).digest()


def made(row: Mapping[str, Any], vector: bytes, dimension: int) -> bytes:
    """Returns the head of a row, which has the other columns; `vector` is empty if it has none."""
    whole = b"".join(row[name].to_bytes(size, "little") for name, size in _BYTES.items())
    minute = min(max(row["created_us"] // _MINUTE, -_LATEST), _LATEST)
    rest = _REST.pack(minute, row["start"], scope(row["board"], row["owner"]))
    return (whole + rest + vector).ljust(width(dimension), b"\0")


def read(found: Any, dimension: int) -> dict[str, Any]:
    """Returns the heads of an Arrow table's rows by name, each `(n,)`, but `vector` is `(n, bytes) uint8`.

    `number`, `thread`, `seq` and `created_us` are `int64`, `start` is `uint32`, and `scope` what `scope` returns. The
    time is in microseconds from 1970, but whole minutes.
    """
    import numpy as np

    size = width(dimension)
    layout = np.dtype(
        [
            *((name, "u1", (bytes_,)) for name, bytes_ in _BYTES.items()),
            ("minute", "<i4"),
            ("start", "<u4"),
            ("scope", f"V{_DIGEST}"),
            ("vector", "u1", (size - _SIZE,)),
        ]
    )
    column = found[HEAD].combine_chunks()
    heads = np.zeros(0, dtype=layout)
    if len(column):
        heads = np.frombuffer(
            column.buffers()[1], dtype=layout, count=len(column), offset=column.offset * size
        )
    whole = {name: heads[name].astype(np.int64) @ (1 << 8 * np.arange(n)) for name, n in _BYTES.items()}
    created = heads["minute"].astype(np.int64) * _MINUTE
    return whole | {"created_us": created} | {name: heads[name] for name in ("start", "scope", "vector")}


def numbers(found: Any, dimension: int) -> Any:
    """Returns the numbers of the vectors of an Arrow table's rows: `(n, dimension) int8`, zero where there is none."""
    return vectors.numbers(read(found, dimension)["vector"], dimension)
