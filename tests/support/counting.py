"""Counting work in the place of timing it: lines of the product's code that a call runs, calls, growth."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any

import blackboard_mcp.protocols
import blackboard_mcp.server
import blackboard_mcp.storage

PRODUCT = (blackboard_mcp.protocols, blackboard_mcp.server, blackboard_mcp.storage)


class Lines:
    """Lines of the product, and of packages beside it, that this thread runs within `with`.

    What is written in C counts as the line that calls it: bound what that is handed.
    """

    def __init__(self, *packages: ModuleType) -> None:
        self.lines = 0
        self._folders = tuple(folder for package in (*PRODUCT, *packages) for folder in package.__path__)
        self._before: Any = None

    def __enter__(self) -> Lines:
        self._before = sys.gettrace()
        sys.settrace(self._enter)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _enter(self, frame: FrameType, event: str, _: Any) -> Any:
        return self._line if frame.f_code.co_filename.startswith(self._folders) else None

    def _line(self, frame: FrameType, event: str, _: Any) -> Any:
        self.lines += event == "line"
        return self._line


def lines_of(call: Callable[[], object], *packages: ModuleType) -> int:
    """How many lines of the product, and of packages beside it, a call runs in this thread."""
    with Lines(*packages) as run:
        call()
    return run.lines


def growth(work: Callable[[int], int], size: int) -> float:
    """How much more a piece of work four times as large costs: 4 when its cost is in proportion, 16 by the square.

    `work` counts that of one size.
    """
    less, more = work(size), work(4 * size)
    assert less > 0, "nothing was counted"
    return more / less


PROPORTION = 6.0
"""`growth` up to which a cost counts as one in proportion to the size, sorting included."""
