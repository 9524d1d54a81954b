"""Imports of many modules, without the collection of garbage that they set off."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Pauses the collection of garbage: during imports it takes long and finds none.

    What was made meanwhile stays, so it counts as old afterwards, and only a full collection looks at it.
    Nothing counts as old if no module was imported: whether a program froze objects takes a look at each of them.
    """
    collects = gc.isenabled()
    known = set(sys.modules)
    gc.disable()
    try:
        yield
    finally:
        if collects:
            if sys.modules.keys() - known and gc.get_freeze_count() == 0:
                gc.freeze()
                gc.unfreeze()  # to the oldest generation, without a look at any object
            gc.enable()
