"""Imports of many modules, without the collection of garbage that they set off, or only when they are needed."""

from __future__ import annotations

import gc
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any


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


@cache
def put_off(name: str) -> None:
    """Has a package run its own code only when somebody asks it for a name; its modules are imported as ever.

    It does nothing for a package that runs already, or that is not installed.
    """
    spec = importlib.util.find_spec(name)
    if name in sys.modules or spec is None or spec.loader is None:
        return
    module, loader = importlib.util.module_from_spec(spec), spec.loader

    def run(wanted: str) -> Any:
        if wanted.startswith("__"):
            raise AttributeError(f"module {name!r} has no attribute {wanted!r}")
        del module.__getattr__
        loader.exec_module(module)
        return getattr(module, wanted)

    module.__getattr__ = run  # type: ignore[method-assign]
    sys.modules[name] = module
