"""Store operations, for every engine: plain generators that yield SQL and receive rows.

An operation knows statements and values; it knows no connection, no transaction and no `await`. SQLite
runs one to its end in its connection's thread, an engine on a network awaits each statement. If a transaction
is lost, an engine may run its operation again, as a fresh generator from the same callable. So an operation must
have no effect except through its statements.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeVar

from blackboard_mcp.protocols.changes import Permit
from blackboard_mcp.protocols.grants import Grant
from blackboard_mcp.protocols.values import dataclass

T = TypeVar("T")

Rows = list[tuple[Any, ...]]
"""All rows of one statement, in order; empty if it returns none."""

Statement = tuple[str, Sequence[Any]]
"""SQL text with `?` or `?NNN` placeholders, and their values."""

Operation = Callable[[], Generator[Statement, Rows, T]]
"""A callable that returns a new generator for each run: `rows = yield sql, parameters`; the result is returned."""


@dataclass(frozen=True, slots=True)
class Write:
    """The right to write: the first argument of every operation that changes something.

    Attributes:
        now: the time of the change, in microseconds since 1970.
        grant: what the caller was authorised to do; `None` for the server itself and programs in its process.
        permit: the changes that access policies allowed; `None` if no policies judge.
    """

    now: int
    grant: Grant | None = None
    permit: Permit | None = None
