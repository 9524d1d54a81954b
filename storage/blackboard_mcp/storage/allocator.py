"""Memory that libraries need no more, given back to the system.

By default glibc keeps up to eight heaps a core, and raises the size from which it returns a block as soon as one that
large is freed; Arrow brings an allocator that keeps more. LanceDB's threads free large buffers all the time, so the
process would keep several times what is in use. And a write runs through 80 MB of its code, of which a search needs a
quarter: the system maps those pages from the file when they are used, and leaves them mapped.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Numbers of glibc's parameters, from malloc.h."""
_BOUNDS = ((_TRIM_THRESHOLD, 256 * 1024), (_MMAP_THRESHOLD, 128 * 1024), (_ARENA_MAX, 2))

_DONTNEED = 4
"""The number of the advice that pages are not needed, from mman.h."""
_LIBRARY, _MODEL = ".so", ".safetensors"
_CODE = ("r-xp", "r--p")


@cache
def bound_allocator() -> None:
    """Bounds what glibc and Arrow keep, in this process from now on. Call it before Arrow is imported.

    It does nothing on other systems, and an environment that chooses Arrow's allocator wins.
    """
    mallopt = _of_libc("mallopt")
    if mallopt is None:
        return
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    for parameter, value in _BOUNDS:
        mallopt(parameter, value)


def trim() -> None:
    """Gives back what glibc keeps of what was freed. It does nothing on other systems."""
    if (release := _of_libc("malloc_trim")) is not None:
        release(0)


def give_back() -> None:
    """Gives back what glibc keeps, and unmaps the pages of libraries' code and constants, and of the model.

    A page that is used again is mapped again, from the system's cache of files. It does nothing on other systems.
    """
    trim()
    if (madvise := _of_libc("madvise")) is None:
        return
    with suppress(OSError):
        for start, end in list(_mapped()):
            madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _DONTNEED)


def _mapped() -> Iterator[tuple[int, int]]:
    """Yields the addresses of libraries' code and constants and of the model.

    None of these pages differs from the file: what the loader wrote addresses into would be lost.
    """
    span = ""
    with Path("/proc/self/smaps").open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line[0] in "0123456789abcdef":  # the names of figures begin with capitals
                span, mode, *_, path = line.rstrip("\n").split(maxsplit=5)
                if not (mode in _CODE and _LIBRARY in path) and not (
                    mode == "r--s" and path.endswith(_MODEL)
                ):
                    span = ""
            elif span and line.startswith("Anonymous:") and line.split()[1] == "0":
                start, end = span.split("-")
                yield int(start, 16), int(end, 16)


def _of_libc(name: str) -> Any | None:
    """Returns a function of the C library; `None` where it has none of that name, or the system is not Linux."""
    if sys.platform != "linux":
        return None
    try:
        return getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError):
        return None
