"""Retention: the rounds in which a server forgets items by its operator's rules."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from itertools import count
from typing import TYPE_CHECKING, Final

from blackboard_mcp.protocols.errors import BlackboardError
from blackboard_mcp.protocols.retention import Forgettable, Retention

if TYPE_CHECKING:
    from blackboard_mcp.protocols.store import BoardStore

logger = logging.getLogger(__name__)

ROUND_SECONDS: Final = 3_300.0
"""Seconds from the start of a round to the start of the next, whichever process runs it."""
_LOOK_SECONDS: Final = 300.0
_PART: Final = 50
"""Items that one transaction forgets."""
_PAUSE_SECONDS: Final = 0.05
"""Seconds between two transactions, so that others can write."""


class Keeper:
    """Applies a retention: it forgets items that are due, in small transactions in the background."""

    def __init__(self, store: BoardStore, retention: Retention, holder: str) -> None:
        self._store = store
        self._retention = retention
        self._holders = (f"{holder}-{number}" for number in count(1))

    async def missing(self) -> list[str]:
        """Returns boards that the retention names but that do not exist; they may be created later."""
        return self._retention.missing([board.id for board in await self._store.boards()])

    async def due(self, board: str) -> AsyncIterator[tuple[Forgettable, ...]]:
        """Yields the items that may be forgotten on a board now, page by page; none for a board outside the
        retention.
        """
        place: int | None = 0 if self._retention.covers(board) else None
        while place is not None:
            place, found = await self._store.forgettable(board, self._retention, place)
            if found:
                yield found

    async def round(self, board: str) -> tuple[Forgettable, ...]:
        """Forgets the items that are due on a board, and returns them."""
        forgotten: list[Forgettable] = []
        async for page in self.due(board):
            for start in range(0, len(page), _PART):
                part = page[start : start + _PART]
                gone = await self._store.forget(board, [one.number for one in part], self._retention)
                forgotten += [one for one in part if one.id in gone]
                await asyncio.sleep(_PAUSE_SECONDS)
        return tuple(forgotten)

    async def look(self) -> list[str]:
        """Runs a round on each board where one is due and no other process has begun it; returns the ids of
        those boards. A round that fails is due again at once, and keeps no other board waiting.

        Raises:
            BlackboardError: a round failed; it is the first error.
        """
        done: list[str] = []
        failure: BlackboardError | None = None
        for board in await self._store.boards():
            lease, holder = f"forget:{board.id}", next(self._holders)
            # It is not released after the round: it ends when the next one is due, even if this process is gone.
            if self._retention.covers(board.id) and await self._store.lease(lease, holder, ROUND_SECONDS):
                try:
                    forgotten = await self.round(board.id)
                except BaseException as error:
                    with contextlib.suppress(BlackboardError):
                        await self._store.release(lease, holder)
                    if not isinstance(error, BlackboardError):
                        raise
                    failure = failure or error
                    continue
                logger.info("%d items on %s were forgotten", len(forgotten), board.id)
                done.append(board.id)
        if failure is not None:
            raise failure
        return done

    async def run(self) -> None:
        """Looks for due rounds again and again, until cancelled."""
        while True:
            try:
                await self.look()
            except BlackboardError as error:
                logger.warning("what is to be forgotten waits: %s", error)
            await asyncio.sleep(_LOOK_SECONDS)
