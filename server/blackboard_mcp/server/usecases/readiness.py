"""Readiness of a server, which includes its store and not only the process."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from blackboard_mcp.protocols.credentials import CredentialStore
from blackboard_mcp.protocols.engines import HealthStore
from blackboard_mcp.protocols.errors import StoreError
from blackboard_mcp.protocols.store import BoardStore

logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 1.0
"""Seconds for which an answer is used again, because anybody may ask as often as they like."""
_PATIENCE_SECONDS: Final = 2.0


class Readiness:
    """Check of whether a store can serve.

    The answer is `None` or one word. "low": it accepts only calls that finish work, until there is room.
    "full": it can only be read, until there is room. "stopped": it can only be read, until a restart.
    "failing": it cannot be read. "slow": it did not answer in time.

    Args:
        board: the board that most calls use.
        monotonic: returns seconds that never go back.
    """

    def __init__(
        self, store: BoardStore, board: str, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._board = board
        self._monotonic = monotonic
        self._found: tuple[float, str | None] | None = None
        self._looking = asyncio.Lock()

    async def trouble(self) -> str | None:
        """Returns what keeps the store from serving, or `None`. The store is read at most once in
        `LOOK_SECONDS`.
        """
        met = self._store.health if isinstance(self._store, HealthStore) else None
        if met is not None and met != "low":
            return met
        async with self._looking:
            now = self._monotonic()
            if self._found is None or now - self._found[0] >= LOOK_SECONDS:
                was = None if self._found is None else self._found[1]
                found = await self._read()
                if found != was:
                    logger.warning("readiness: %s", found or "ok")
                self._found = now, found
            return self._found[1] or met

    async def _read(self) -> str | None:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                # These are the reads that every call makes first.
                if isinstance(self._store, CredentialStore):
                    await self._store.has_tokens()
                await self._store.find_board(self._board)
        except TimeoutError:
            return "slow"
        except StoreError:
            return "failing"
        return None
