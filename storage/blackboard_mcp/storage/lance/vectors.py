"""Vectors in few bits: the signs of their numbers, which the driver compares, and their sizes, which refine that.

Of a vector only the direction is kept. Each number is a bit for its sign and `SIZE_BITS` for its size, as a share of
the vector's largest number. The driver finds the rows whose signs differ least from those of a query. Their cosines
are then computed here, from signs and sizes together, against the query in full precision.
"""

from __future__ import annotations

from typing import Any

SIZE_BITS = 5

SIGNS = "signs"
"""The name of the column that the driver compares."""

_AT_ONCE = 2048
"""Vectors that are unpacked together; a few megabytes are in use for so many."""

Packed = tuple[Any, bytes]
"""The signs of a vector, as its row has them, and signs and sizes together."""

NOWHERE: Packed = (None, b"")
"""What a row has in place of a zero vector, which has no direction."""


def size(dimension: int) -> int:
    """Returns how many bytes a vector's signs and sizes take together."""
    return _signs(dimension) + _sizes(dimension)


def _signs(dimension: int) -> int:
    return -(-dimension // 8)


def _sizes(dimension: int) -> int:
    return _halves(dimension) + _signs(dimension)


def _halves(dimension: int) -> int:
    """Returns how many bytes half a byte of each number takes."""
    return -(-dimension // 2)


def signs(vectors: Any) -> Any:
    """Returns the signs of `(n, dimension)` numbers: `(n, bytes) uint8`."""
    import numpy as np

    return np.packbits(vectors > 0, axis=1)


def sizes(vectors: Any) -> Any:
    """Returns the sizes of `(n, dimension)` numbers: `(n, bytes) uint8`. The rows may not be zero.

    The upper four bits of all numbers come first, then the last bits.
    """
    import numpy as np

    sized = np.abs(vectors)
    sized /= sized.max(axis=1, keepdims=True)
    sized *= 1 << SIZE_BITS
    count, dimension = vectors.shape
    steps = np.zeros((count, 2 * _halves(dimension)), dtype=np.uint8)
    steps[:, :dimension] = np.minimum(sized, (1 << SIZE_BITS) - 1)
    upper = steps >> 1
    return np.hstack([upper[:, ::2] << 4 | upper[:, 1::2], np.packbits(steps[:, :dimension] & 1, axis=1)])


def packed(vectors: Any) -> list[Packed]:
    """Returns the signs of each of `(n, dimension)` vectors, and its signs and sizes together."""
    there = vectors.any(axis=1)
    said = signs(vectors[there])
    own = ((each, bytes(each) + bytes(size)) for each, size in zip(said, sizes(vectors[there]), strict=True))
    return [next(own) if is_there else NOWHERE for is_there in there.tolist()]


def unpacked(signs: Any, sizes: Any, dimension: int) -> Any:
    """Returns the numbers that `signs` and `sizes` stand for: `(n, dimension) int8`, odd numbers of -63 to 63."""
    import numpy as np

    upper, last = np.split(sizes, [_halves(dimension)], axis=1)
    steps = np.stack([upper >> 4, upper & 15], axis=2).reshape(len(sizes), -1)[:, :dimension].view(np.int8)
    steps *= 2
    steps += np.unpackbits(last, axis=1, count=dimension).view(np.int8)
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


def numbers(together: Any, dimension: int) -> Any:
    """Returns the numbers of vectors from their signs and sizes: `(n, dimension) int8`.

    `together` is `(n, bytes) uint8`, as `packed` made them. Where all bytes of a row are zero, its numbers are.
    """
    import numpy as np

    found = np.zeros((len(together), dimension), dtype=np.int8)
    said, large = np.split(together, [_signs(dimension)], axis=1)
    at = np.flatnonzero(large.any(axis=1))
    for start in range(0, len(at), _AT_ONCE):
        some = at[start : start + _AT_ONCE]
        found[some] = unpacked(said[some], large[some], dimension)
    return found
