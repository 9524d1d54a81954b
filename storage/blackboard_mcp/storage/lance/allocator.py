"""Memory that the driver freed, given back to the system.

By default glibc keeps up to eight heaps a core, and raises the size from which it returns a block as soon as one that
large is freed; Arrow brings an allocator that keeps more. The driver's threads free large buffers all the time, so the
process would keep several times what is in use.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Numbers of glibc's parameters, from malloc.h."""
_BOUNDS = ((_TRIM_THRESHOLD, 256 * 1024), (_MMAP_THRESHOLD, 128 * 1024), (_ARENA_MAX, 2))


@cache
def bound_allocator() -> None:
    """Bounds what glibc and Arrow keep, in this process from now on. Call it before Arrow is imported.

    It does nothing on other systems, and an environment that chooses Arrow's allocator wins.
    """
    if sys.platform != "linux":
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    for parameter, value in _BOUNDS:
        mallopt(parameter, value)
