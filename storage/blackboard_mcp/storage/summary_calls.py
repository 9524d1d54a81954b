"""Requests for summaries in a store over an engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from blackboard_mcp.protocols.answers import (
    NewSummary,
    Once,
)
from blackboard_mcp.protocols.items import Item
from blackboard_mcp.protocols.summaries import DueSummary, Ending, SummaryRequest

from .calls import StoreCalls
from .operations.leaving import summaries as summarising
from .operations.ledger import idempotency


class SummaryCalls(StoreCalls):
    """The part of the store that is about summaries which agents write."""

    async def thread_endings(self, board: str, members: Iterable[int]) -> dict[int, Ending]:
        wanted = tuple(members)
        return await self.engine.read(lambda: summarising.thread_endings(board, wanted))

    async def request_summary(
        self, board: str, thread: int, seen: Mapping[int, int], *, wait_seconds: int
    ) -> bool:
        now = self._now()
        return await self._write(lambda: summarising.request(board, thread, seen, wait_seconds, now))

    async def summary_requests(self, board: str) -> tuple[list[SummaryRequest], int]:
        return await self.engine.read(lambda: summarising.requests(board))

    async def take_summary(
        self, board: str, agent: str, number: int, *, seconds: float, once: Once | None = None
    ) -> tuple[SummaryRequest, list[Item]]:
        return await self._apply(
            board,
            agent,
            once,
            lambda now: summarising.take(board, agent, number, seconds, now),
            summarising.kept_taking(board, agent),
        )

    async def held_summary(
        self, board: str, agent: str, number: int, lease: int
    ) -> tuple[SummaryRequest, list[Item]]:
        now = self._now()
        return await self.engine.write(lambda: summarising.held(board, agent, number, lease, now))

    async def write_summary(
        self, board: str, summary: NewSummary, lease: int, *, once: Once | None = None
    ) -> str:
        return await self._apply(
            board,
            summary.author,
            once,
            lambda now: summarising.write(board, summary, lease, now),
            idempotency.whole(str),
        )

    async def close_summary(self, board: str, thread: int, why: str) -> bool:
        now = self._now()
        return await self._write(lambda: summarising.close(board, thread, why, now))

    async def summaries_due(self) -> list[DueSummary]:
        now = self._now()
        return await self.engine.read(lambda: summarising.due(now))
