"""Calls of a store over an engine: each is one operation in one transaction."""

from __future__ import annotations

from collections.abc import Callable

from blackboard_mcp.protocols.answers import (
    Once,
)
from blackboard_mcp.protocols.clock import Clock
from blackboard_mcp.protocols.grants import GRANTED

from .operation import Operation
from .operations.access import members
from .operations.ledger import idempotency as repeating
from .operations.ledger.rows import Steps, T, micros
from .sqlite.engine import SqliteEngine


class StoreCalls:
    """The engine, the clock, and how a mutation with an idempotency key is run."""

    def __init__(self, engine: SqliteEngine, clock: Clock) -> None:
        self.engine = engine
        self._clock = clock

    def _now(self) -> int:
        return micros(self._clock.now())

    async def _write(self, operation: Operation[T]) -> T:
        """What the operation returns, after its commit; made under a grant, it is done while that still holds.

        Raises:
            Forbidden: the grant does not hold any more; nothing was changed.
        """
        grant = GRANTED.get()
        if grant is None:
            return await self.engine.write(operation)
        return await self.engine.write(lambda: members.under(grant, operation))

    async def _apply(
        self,
        board: str,
        agent: str,
        once: Once | None,
        work: Callable[[int], Steps[T]],
        form: repeating.Form[T],
    ) -> T:
        """Runs a mutation, given the time, in one transaction; with a key that was used it answers as then."""
        now = self._now()
        return await self._write(
            lambda: repeating.apply_once(board, agent, once, now, lambda: work(now), form)
        )
