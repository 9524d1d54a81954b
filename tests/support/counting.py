"""Counts of work in place of times: lines of the product's code that a call runs, and their growth with its size."""

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
    """Counts the lines of the product, and of given packages, that this thread runs inside the context.

    Code in C counts as the line that calls it, so its input must be bounded in another way.
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
    """Returns the number of lines of the product, and of given packages, that a call runs in this thread."""
    with Lines(*packages) as run:
        call()
    return run.lines


def growth(work: Callable[[int], int], size: int) -> float:
    """Returns how much the work grows for four times the size: 4 if proportional, 16 if quadratic.

    `work` returns the count for a given size.
    """
    less, more = work(size), work(4 * size)
    assert less > 0, "nothing was counted"
    return more / less


PROPORTION = 6.0
"""The highest `growth` that still counts as proportional to the size, sorting included."""
