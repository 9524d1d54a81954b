"""An engine that has the changes of agents allowed before they are committed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, cast

from blackboard_mcp.protocols.changes import Judge, Permit
from blackboard_mcp.protocols.errors import Conflict, Unpermitted

from .operation import Operation, T
from .operations.access.permits import carried
from .sqlite.engine import SqliteEngine

_ATTEMPTS: Final = 8
"""What a change touches may move while it is judged; it does not as often as this, one after the other."""


class JudgedEngine:
    """Another engine, whose writes are repeated with what `judge` allowed."""

    def __init__(self, engine: SqliteEngine, judge: Judge, boards: Iterable[str]) -> None:
        self._engine = engine
        self._judge = judge
        self._first = Permit(frozenset(boards))
        # Not through `__getattr__`: every call of the store reads.
        self.read = engine.read

    async def write(self, operation: Operation[T]) -> T:
        """As the engine's; an operation is run again when what it changes was allowed meanwhile.

        Raises:
            Conflict: what it touches changed again and again.
            Exception: whatever the engine, the operation or the judge raised.
        """
        first = carried(self._first, operation) if self._first.boards else operation
        try:
            return await self._engine.write(first)
        except Unpermitted as error:
            wanted = error
        for _ in range(_ATTEMPTS):
            allowed = await self._judge(wanted)
            permit = Permit(self._first.boards, wanted.owner, wanted.role, wanted.access, allowed)
            try:
                return await self._engine.write(carried(permit, operation))
            except Unpermitted as error:
                wanted = error
        raise Conflict(
            "What this touches changed again and again while it was judged. Nothing was changed; try again."
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


def judging(engine: SqliteEngine, judge: Judge, boards: Iterable[str]) -> SqliteEngine:
    """The engine with its writes judged; it is closed with the engine that it stands for."""
    return cast(SqliteEngine, JudgedEngine(engine, judge, boards))
