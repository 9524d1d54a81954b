"""The growth of a data folder as a server tells it: measured when somebody asks, beside the calls, once an hour."""

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
"""How long a measurement is told before it is made anew."""


class Gauge:
    """What `measure` said last. It reads every item and walks the folder, so that no call waits for it.

    Args:
        monotonic: seconds that only grow.
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
        """The growth as it was measured last, for whoever is an admin of every board; `None` for everybody else.

        It is `None` as well until the first measurement ended, which the first who asks begins, and where there is
        nothing to tell of (`measure`).
        """
        grant = GRANTED.get()
        if grant is not None and grant.roles.get(EVERY_BOARD) is not Role.ADMIN:
            return None  # how much there is on boards and in items that the reader may not know of
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
        """Waits for a measurement under way."""
        if self._task is not None:
            await self._task
