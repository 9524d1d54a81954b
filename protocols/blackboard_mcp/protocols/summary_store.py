"""The contract of a board store for summaries that agents write. The bargain is that of `store`."""

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
    """Requests for summaries: asked, taken under a lease, met or ended."""

    async def thread_endings(self, board: str, members: Iterable[int]) -> dict[int, Ending]:
        """How the newest closed debate about each of the items ended, by item number."""
        ...

    # Summaries that agents are asked for

    async def request_summary(
        self, board: str, thread: int, seen: Mapping[int, int], *, wait_seconds: int
    ) -> bool:
        """Asks the board's agents to summarise a finished thread.

        False, and nothing changed, when the thread moved or is asked for already.
        """
        ...

    async def summary_requests(self, board: str) -> tuple[list[SummaryRequest], int]:
        """Open requests, oldest first, without those whose thread moved; and the board's sequence."""
        ...

    async def take_summary(
        self, board: str, agent: str, number: int, *, seconds: float, once: Once | None = None
    ) -> tuple[SummaryRequest, list[Item]]:
        """The request on the thread of an item, which the agent holds from now on, and its sources.

        Taking it again renews it, with a new token, up to twice the time after it is due.

        Raises:
            UnknownReference: nobody asks for it.
            Conflict: somebody else has it, or the thread moved.
        """
        ...

    async def held_summary(
        self, board: str, agent: str, number: int, lease: int
    ) -> tuple[SummaryRequest, list[Item]]:
        """The request that the agent holds under that token, and its sources.

        Raises:
            UnknownReference: nobody asks for it.
            Conflict: it is somebody else's by now, or the thread moved.
        """
        ...

    async def write_summary(
        self, board: str, summary: NewSummary, lease: int, *, once: Once | None = None
    ) -> str:
        """The id of the summary that `summary.author`, who holds the request, wrote.

        It takes the place of its sources and ends the request in one transaction. Errors as in
        `held_summary`.
        """
        ...

    async def close_summary(self, board: str, thread: int, why: str) -> bool:
        """Ends a request that will not be met; false when there is none."""
        ...

    async def summaries_due(self) -> list[DueSummary]:
        """Requests of all boards that nobody met in time or whose thread moved."""
        ...
