"""Store operations, for every engine: plain generators that yield SQL and receive rows.

An operation knows statements and values; it knows no connection, no transaction and no `await`. SQLite
runs one to its end in its connection's thread, an engine on a network awaits each statement. If a transaction
is lost, an engine may run its operation again, as a fresh generator from the same callable. So an operation must
have no effect except through its statements.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, TypeVar

from blackboard_mcp.protocols.changes import Permit
from blackboard_mcp.protocols.grants import Grant
from blackboard_mcp.protocols.values import dataclass

T = TypeVar("T")

Rows = list[tuple[Any, ...]]
"""All rows of one statement, in order; empty if it returns none."""


class Many(list[Sequence[Any]]):
    """Values for several runs of one statement, one after another; the answer is the rows of each, in a list.

    Only statements that do not depend on each other's runs may be run so. One that writes returns no rows.
    """


Statement = tuple[str, Sequence[Any]]
"""SQL text with `?` or `?NNN` placeholders, and their values, or `Many` of those."""

Operation = Callable[[], Generator[Statement, Rows, T]]
"""A callable that returns a new generator for each run: `rows = yield sql, parameters`; the result is returned."""


class Outcome:
    """What became of an operation of a batch: its result, or the error that it raised; the other is `None`."""

    __slots__ = ("error", "result")

    def __init__(self, result: Any = None, error: Exception | None = None) -> None:
        self.result = result
        self.error = error


class Spoilt(Exception):
    """An operation of a batch failed after what it wrote was mixed with what others wrote: nothing of it may stay."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What operations belong to that may run together: those of an equal batch, if one waits right after the other.

    Attributes:
        together: runs operations in order as one operation; returns the outcomes of the first of them, up to one that
            has to run by itself, and raises `Spoilt` if the whole transaction has to be undone.
        key: what the operations have in common, such as their board.
    """

    together: Callable[[Sequence[Operation[Any]]], Generator[Statement, Rows, list[Outcome]]]
    key: str


class Pauses:
    """Tells in which groups operations run together: not in those of a pause, which begins where it did not go.

    Each pause is twice as many groups as the one before, until operations have run together again.
    """

    def __init__(self) -> None:
        self._left = 0
        self._next = 1
        self._missed = 0
        """The batches of this group, one after another, of which no operation could run with others."""

    def over(self) -> bool:
        """Begins a group; tells whether operations run together in it."""
        self._missed = 0
        if self._left == 0:
            return True
        self._left -= 1
        return False

    def go_on(self, ran: int) -> bool:
        """Notes how many operations of a batch ran; tells whether others of the group still run together."""
        if ran:
            self._next = 1
            self._missed = 0
            return True
        self._missed += 1
        if self._missed == 1:
            return True
        self.begin()
        return False

    def begin(self) -> None:
        """Begins a pause, with the next group."""
        self._left, self._next = self._next, min(_MOST_PAUSED, 2 * self._next)


_MOST_PAUSED = 64
"""The most groups of a pause."""


class Batched(partial[Any]):
    """An operation that may run with others of its batch: a function and its arguments."""

    batch: Batch

    def __new__(cls, batch: Batch, /, *args: Any) -> Batched:
        made = super().__new__(cls, *args)
        made.batch = batch
        return made


@dataclass(frozen=True, slots=True)
class Write:
    """The right to write: the first argument of every operation that changes something.

    Attributes:
        now: the time of the change, in microseconds since 1970.
        grant: what the caller was authorised to do; `None` for the server itself and programs in its process.
        permit: the changes that access policies allowed; `None` if no policies judge.
        opened: when this process opened the store, in microseconds since 1970.
    """

    now: int
    grant: Grant | None = None
    permit: Permit | None = None
    opened: int = 0
