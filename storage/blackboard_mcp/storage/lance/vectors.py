"""Vectors in few bits: the signs of their numbers, which the driver compares, and their sizes, which refine that.

Of a vector only the direction is kept. Each number is a bit for its sign and `SIZE_BITS` for its size, as a share of
the vector's largest number. The driver finds the rows whose signs differ least from those of a query. Their cosines
are then computed here, from signs and sizes together, against the query in full precision.
"""

from __future__ import annotations

from typing import Any

SIZE_BITS = 6

SIGNS = "signs"
SIZES = "sizes"
COLUMNS = (SIGNS, SIZES)

_AT_ONCE = 2048
"""Vectors that are unpacked together; a few megabytes are in use for so many."""

Packed = tuple[Any, bytes | None]
"""The signs and sizes of a vector as a row has them."""

NOWHERE: Packed = (None, None)
"""What a row has in place of a zero vector, which has no direction."""


def _bytes(dimension: int) -> int:
    """Returns how many bytes the sizes of a vector take: three for each four numbers."""
    return -(-dimension * SIZE_BITS // 8)


def signs(vectors: Any) -> Any:
    """Returns the signs of `(n, dimension)` numbers: `(n, bytes) uint8`."""
    import numpy as np

    return np.packbits(vectors > 0, axis=1)


def sizes(vectors: Any) -> Any:
    """Returns the sizes of `(n, dimension)` numbers: `(n, bytes) uint8`. The rows may not be zero."""
    import numpy as np

    sized = np.abs(vectors)
    sized /= sized.max(axis=1, keepdims=True)
    sized *= 1 << SIZE_BITS
    count, dimension = vectors.shape
    fours = -(-dimension // 4)
    steps = np.zeros((count, fours, 4), dtype=np.uint8)
    steps.reshape(count, 4 * fours)[:, :dimension] = np.minimum(sized, (1 << SIZE_BITS) - 1)
    one, two, three, four = np.moveaxis(steps, 2, 0)
    together = np.stack([one << 2 | two >> 4, two << 4 | three >> 2, three << 6 | four], axis=2)
    return together.reshape(count, 3 * fours)[:, : _bytes(dimension)]


def packed(vectors: Any) -> list[Packed]:
    """Returns the signs and sizes of each of `(n, dimension)` vectors."""
    there = vectors.any(axis=1)
    own = iter(zip(signs(vectors[there]), map(bytes, sizes(vectors[there])), strict=True))
    return [next(own) if is_there else NOWHERE for is_there in there.tolist()]


def unpacked(signs: Any, sizes: Any, dimension: int) -> Any:
    """Returns the numbers that `signs` and `sizes` stand for: `(n, dimension) int8`, odd numbers of -127 to 127."""
    import numpy as np

    count = len(sizes)
    together = np.zeros((count, -(-dimension // 4), 3), dtype=np.uint8)
    together.reshape(count, -1)[:, : _bytes(dimension)] = sizes
    one, two, three = np.moveaxis(together, 2, 0)
    four = [one >> 2, (one & 3) << 4 | two >> 4, (two & 15) << 2 | three >> 6, three & 63]
    steps = np.stack(four, axis=2).reshape(count, -1)[:, :dimension].view(np.int8)
    steps *= 2
    steps += 1  # the middle of a step, doubled
    steps *= np.where(np.unpackbits(signs, axis=1, count=dimension), np.int8(1), np.int8(-1))
    return steps


def directions(numbers: Any) -> Any:
    """Returns the directions of `(n, dimension)` numbers: `float32`, rows unit length, or zero where they are zero."""
    import numpy as np

    found = numbers.astype(np.float32)
    found /= np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1.0)
    return found


def kept(vectors: Any) -> Any:
    """Returns `(n, dimension)` vectors as they are once they were stored: `float32`, zero where they are zero."""
    import numpy as np

    found = np.zeros(vectors.shape, dtype=np.float32)
    there = vectors.any(axis=1)
    found[there] = directions(unpacked(signs(vectors[there]), sizes(vectors[there]), vectors.shape[1]))
    return found


def of_rows(found: Any, dimension: int) -> Any:
    """Returns the numbers of an Arrow table's rows: `(n, dimension) int8`, zero where a row has no vector."""
    import numpy as np
    import pyarrow as pa

    numbers = np.zeros((found.num_rows, dimension), dtype=np.int8)
    column = found[SIZES].combine_chunks()
    there = column.is_valid().to_numpy(zero_copy_only=False)
    if there.any():
        said = found[SIGNS].combine_chunks().drop_null().flatten().to_numpy(zero_copy_only=False)
        kept = column.drop_null().cast(pa.binary(_bytes(dimension)))
        large = np.frombuffer(kept.buffers()[1], dtype=np.uint8)
        large = large[kept.offset * _bytes(dimension) :][: len(kept) * _bytes(dimension)]
        at = np.flatnonzero(there)
        said, large = said.reshape(len(at), -1), large.reshape(len(at), -1)
        for start in range(0, len(at), _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            numbers[at[some]] = unpacked(said[some], large[some], dimension)
    return numbers
