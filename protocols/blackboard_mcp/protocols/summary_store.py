"""The contract of a board store for summaries that agents write. The guarantees of `store` apply."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from .answers import (
    NewSummary,
    Once,
)
from .items import Item
from .summaries import DueSummary, Ending, SummaryRequest


class SummaryStore(Protocol):
    """A store of requests for summaries, which agents take under a lease."""

    async def thread_endings(self, board: str, members: Iterable[int]) -> dict[int, Ending]:
        """Returns the end of the newest closed debate about each of the items, by item number."""
        ...

    # Summaries that agents are asked for

    async def request_summary(
        self, board: str, thread: int, seen: Mapping[int, int], *, wait_seconds: int
    ) -> bool:
        """Asks the board's agents to summarise a finished thread within `wait_seconds`.

        Returns false, and changes nothing, if the thread changed or there is a request for it already.
        """
        ...

    async def summary_requests(self, board: str) -> tuple[list[SummaryRequest], int]:
        """Returns open requests, oldest first, without those whose thread changed, and the board's sequence."""
        ...

    async def take_summary(
        self, board: str, agent: str, number: int, *, seconds: float, once: Once | None = None
    ) -> tuple[SummaryRequest, list[Item]]:
        """Takes the request on the thread of an item for `seconds`; returns it with its sources.

        Taking it again renews it under a new token, but not beyond `due_at` and twice `seconds`.

        Raises:
            UnknownReference: there is no such request.
            Conflict: another agent holds it, or the thread changed.
        """
        ...

    async def held_summary(
        self, board: str, agent: str, number: int, lease: int
    ) -> tuple[SummaryRequest, list[Item]]:
        """Returns the request that the agent holds under the token `lease`, and its sources.

        Raises:
            UnknownReference: there is no such request.
            Conflict: another agent holds it by now, or the thread changed.
        """
        ...

    async def write_summary(
        self, board: str, summary: NewSummary, lease: int, *, once: Once | None = None
    ) -> str:
        """Stores the summary of `summary.author`, who holds the request, and returns its id.

        It replaces its sources and ends the request in one transaction. Errors as in `held_summary`.
        """
        ...

    async def close_summary(self, board: str, thread: int, why: str) -> bool:
        """Ends a request that will not be met; returns false if there is none."""
        ...

    async def summaries_due(self) -> list[DueSummary]:
        """Returns requests of all boards that nobody met in time or whose thread changed."""
        ...
