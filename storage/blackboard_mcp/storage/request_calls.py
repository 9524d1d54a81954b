"""Requests in a store over an engine: each method runs one operation in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from blackboard_mcp.protocols.answers import (
    Once,
)
from blackboard_mcp.protocols.asking import AgentRequest, NewAnswer, NewRequest
from blackboard_mcp.protocols.board import BoardConfig

from .calls import StoreCalls
from .operations.ledger.idempotency import recalled, whole
from .operations.ledger.rows import Steps
from .operations.messages import requests as requesting


class RequestCalls(StoreCalls):
    """The part of the store that is about requests."""

    async def _number(
        self, board: str, agent: str, once: Once | None, work: Callable[[int], Steps[int]]
    ) -> int:
        return await self._apply(board, agent, once, work, whole(int))

    async def open_request(
        self, board: str, agent: str, new: NewRequest, *, config: BoardConfig, once: Once | None = None
    ) -> int:
        return await self._number(
            board, agent, once, lambda now: requesting.open_request(board, agent, new, config, now)
        )

    async def request(self, board: str, agent: str, number: int) -> AgentRequest:
        now = self._now()
        return await self.engine.read(lambda: requesting.request(board, agent, number, now))

    async def requests_waiting(
        self, board: str, agent: str, limit: int = 50
    ) -> tuple[list[AgentRequest], list[AgentRequest]]:
        now = self._now()
        return await self.engine.read(lambda: requesting.waiting(board, agent, limit, now))

    async def offer_skills(
        self, board: str, agent: str, skills: Sequence[str], *, once: Once | None = None
    ) -> bool:
        wanted = tuple(skills)
        return await self._apply(
            board, agent, once, lambda now: requesting.offer(board, agent, wanted, now), whole(bool)
        )

    async def skills(self, board: str) -> dict[str, tuple[str, ...]]:
        now = self._now()
        return await self.engine.read(lambda: requesting.skills(board, now))

    async def take_request(self, board: str, agent: str, number: int, *, once: Once | None = None) -> int:
        return await self._number(board, agent, once, lambda now: requesting.take(board, agent, number, now))

    async def take_next(self, board: str, agent: str, *, once: Once | None = None) -> tuple[int, int] | None:
        now = self._now()

        def look() -> Steps[bool]:
            if once is not None and (yield from recalled(board, agent, once, now)) is not None:
                return True
            return (yield from requesting.next_for(board, agent, now)) is not None

        # A look first: most who wait find nothing, and a look keeps nobody from writing.
        if not await self.engine.read(look):
            return None
        return await self._apply(
            board, agent, once, lambda now: requesting.take_next(board, agent, now), requesting.TAKEN
        )

    async def answer_request(
        self, board: str, agent: str, number: int, new: NewAnswer, *, once: Once | None = None
    ) -> int:
        return await self._number(
            board, agent, once, lambda now: requesting.answer(board, agent, number, new, now)
        )

    async def decline_request(
        self,
        board: str,
        agent: str,
        number: int,
        reason: str,
        *,
        lease: int | None = None,
        once: Once | None = None,
    ) -> int:
        return await self._number(
            board, agent, once, lambda now: requesting.decline(board, agent, number, reason, lease, now)
        )

    async def cancel_request(
        self, board: str, agent: str, number: int, reason: str = "", *, once: Once | None = None
    ) -> int:
        return await self._number(
            board, agent, once, lambda now: requesting.cancel(board, agent, number, reason, now)
        )

    async def release_request(self, board: str, agent: str, number: int, lease: int) -> bool:
        now = self._now()
        return await self.engine.write(lambda: requesting.release(board, agent, number, lease, now))

    async def sweep_requests(self) -> list[str]:
        now = self._now()
        due = await self.engine.read(lambda: requesting.due(now))
        return [board for board in due if await self._lapse_requests(board, now)]

    async def _lapse_requests(self, board: str, now: int) -> bool:
        return await self._write(lambda: requesting.lapse(board, now))
