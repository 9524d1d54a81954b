"""The course of an operation: what it asked and was told so far, so that it can begin again and take another turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from blackboard_mcp.storage.operation import Operation, Rows

_KEPT: Final = 200
"""The most statements of an operation that can begin again."""


class Astray(Exception):
    """An operation asked otherwise as it began again, though it was told the same."""


class Course:
    """One run of an operation. `rows` is what it is told next: the answer to `text` with `values`."""

    __slots__ = ("_asked", "_steps", "_told", "again", "operation", "rows", "text", "values")

    def __init__(self, operation: Operation[Any]) -> None:
        self.operation = operation
        self.again = True
        """Tells whether the operation can begin again."""
        self.rows: Rows | None = None
        self.text = ""
        self.values: Sequence[Any] = ()
        self._steps = operation()
        self._asked: list[tuple[str, Sequence[Any]]] = []
        self._told: list[Rows] = []

    @property
    def length(self) -> int:
        """The number of statements so far."""
        return len(self._asked)

    def go(self) -> Exception | None:
        """Goes on to the next statement; returns how the operation ended if there is none."""
        if self.rows is not None:
            self._told.append(self.rows)
        try:
            asked = self._steps.send(self.rows)  # type: ignore[arg-type]
        except Exception as ended:
            return ended
        self.text, self.values = asked
        self._asked.append(asked)
        return None

    def back(self, place: int, rows: Rows) -> None:
        """Begins again up to the statement at `place`, which had these rows.

        Raises:
            Astray: the operation goes by something that it was not told, such as chance.
        """
        self._steps.close()
        asked, told = self._asked[: place + 1], [*self._told[:place]]
        self._steps, self._asked, self._told, self.rows = self.operation(), [], [], None
        for (text, values), answer in zip(asked, [*told, rows], strict=True):
            if self.go() is not None or text != self.text or tuple(values) != tuple(self.values):
                raise Astray
            self.rows = answer

    def forget(self) -> None:
        """Lets go of what a long operation was told; it cannot begin again then."""
        if len(self._asked) >= _KEPT:
            self.again = False
        if not self.again:
            self._asked.clear()
            self._told.clear()
