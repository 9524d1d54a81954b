"""Store operations, for every engine: plain generators that yield SQL and receive rows.

An operation knows statements and values; it knows no connection, no transaction and no await. SQLite
runs one to its end in the thread of its connection, an engine on a network awaits each statement. An
engine may run an operation a second time (a fresh generator from the same callable) when the
transaction around the first run was lost, so it must have no effect outside its statements.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeVar

from blackboard_mcp.protocols.changes import Permit
from blackboard_mcp.protocols.grants import Grant
from blackboard_mcp.protocols.values import dataclass

T = TypeVar("T")

Rows = list[tuple[Any, ...]]
"""All rows of one statement, in its order; empty when it returns none."""

Statement = tuple[str, Sequence[Any]]
"""SQL text with `?` or `?NNN` placeholders, and their values."""

Operation = Callable[[], Generator[Statement, Rows, T]]
"""Called once per run: `rows = yield sql, parameters`; its return value is the operation's."""


@dataclass(frozen=True, slots=True)
class Write:
    """The right to write: the first argument of every operation that changes something.

    Attributes:
        now: the time of the change, in microseconds since 1970.
        grant: what the caller was let in for; `None` for the server itself and for programs in its process.
        permit: the changes that access policies allowed; `None` where nobody judges.
    """

    now: int
    grant: Grant | None = None
    permit: Permit | None = None
