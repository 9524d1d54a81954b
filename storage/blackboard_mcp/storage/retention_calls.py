"""The calls of a board store by which archived items are forgotten."""

from __future__ import annotations

from collections.abc import Iterable

from blackboard_mcp.protocols.retention import Forgettable, Retention

from .calls import StoreCalls
from .operations.leaving import retention as forgetting


class RetentionCalls(StoreCalls):
    """The part of the store that is about retention."""

    async def anything_forgotten(self) -> bool:
        """Whether the content of any item was ever forgotten."""
        return await self.engine.read(forgetting.any_)

    async def forgettable(
        self, board: str, retention: Retention, after: int, limit: int = 200
    ) -> tuple[int | None, tuple[Forgettable, ...]]:
        now = self._now()
        return await self.engine.read(lambda: forgetting.page(board, retention, after, limit, now))

    async def forget(self, board: str, wanted: Iterable[int], retention: Retention) -> tuple[str, ...]:
        now, listed = self._now(), tuple(wanted)
        return await self._write(lambda: forgetting.forget(board, listed, retention, now))
