"""The growth of a data folder on a running server: measured in the background when asked for, at most once an
hour.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from blackboard_mcp.protocols.access import EVERY_BOARD, Role
from blackboard_mcp.protocols.grants import GRANTED

if TYPE_CHECKING:
    from .growth import Growth

logger = logging.getLogger(__name__)

HOLDS_SECONDS: Final = 3_600.0
"""Seconds for which a measurement is used before the next one."""


class Gauge:
    """The latest measurement of growth. Measuring reads every item and walks the folder, so no call waits for
    it.

    Args:
        monotonic: returns seconds that never go back.
    """

    def __init__(
        self, measure: Callable[[], Growth | None], *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._measure = measure
        self._monotonic = monotonic
        self._due = float("-inf")
        self._known: Growth | None = None
        self._task: asyncio.Task[None] | None = None

    def latest(self) -> Growth | None:
        """Returns the latest growth for callers who are admins of every board; `None` for all others.

        Also `None` until the first measurement ends, which the first such call starts, and where there is
        nothing to report.
        """
        grant = GRANTED.get()
        if grant is not None and grant.roles.get(EVERY_BOARD) is not Role.ADMIN:
            return None  # the figures would reveal boards and items that the reader may not know of
        if self._monotonic() >= self._due and self._task is None:
            self._task = asyncio.create_task(self._renew(), name="growth")
        return self._known

    async def _renew(self) -> None:
        try:
            self._known = await asyncio.to_thread(self._measure)
        except Exception:
            logger.exception("the growth of the data folder was not measured")
        finally:
            self._due = self._monotonic() + HOLDS_SECONDS
            self._task = None

    async def close(self) -> None:
        """Waits for a running measurement."""
        if self._task is not None:
            await self._task
