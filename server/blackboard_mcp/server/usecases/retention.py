"""Retention as an operator sets it, and the rounds in which a server keeps to it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from blackboard_mcp.protocols.errors import BlackboardError, InvalidInput
from blackboard_mcp.protocols.items import ItemType
from blackboard_mcp.protocols.retention import Forgettable, Retention

if TYPE_CHECKING:
    from blackboard_mcp.protocols.store import BoardStore

logger = logging.getLogger(__name__)

_LONGEST: Final = {"decided_by": 100, "reason": 300}
_SAID: Final = {
    "decided_by": "who decided it; readers of what was forgotten are told",
    "reason": "why; readers of what was forgotten are told",
}
MEANINGS: Final[Mapping[str, str]] = {
    "after_days": "by kind (`LOG`, `RESULT` …), so many days after the last thing that happened to an item; kinds that "
    "are not named stay for good",
    **{name: f"{said} (up to {_LONGEST[name]} characters)" for name, said in _SAID.items()},
    "boards": "the boards that it is for, a list; left out: all",
}
"""The meaning of each setting."""
_MOST_DAYS: Final = 36_500

ROUND_SECONDS: Final = 3_300.0
"""How long after the start of a round the next one begins, whichever process does it."""
_LOOK_SECONDS: Final = 300.0
_PART: Final = 50
"""Items that one transaction forgets."""
_PAUSE_SECONDS: Final = 0.05
"""Between two transactions, so that others write."""


def retention_of(table: Mapping[str, Any], where: str) -> Retention:
    """The retention of a table of settings; `where` names it in errors.

    Raises:
        InvalidInput: an unknown name, one that is missing, or a wrong value.
    """
    for name in table:
        if name not in MEANINGS:
            raise InvalidInput(f"Unknown setting '{name}' in {where}; there are: {', '.join(MEANINGS)}.")
    for name, longest in _LONGEST.items():
        said = table.get(name)
        if not isinstance(said, str) or not said.strip() or len(said) > longest or not said.isprintable():
            raise InvalidInput(
                f"{where} needs '{name}', a text of up to {longest} printable characters: {_SAID[name]}."
            )
    days = table.get("after_days")
    if not isinstance(days, Mapping) or not days:
        raise InvalidInput(f"{where} needs 'after_days', an object of days by kind, such as LOG = 90.")
    for kind, most in days.items():
        if kind not in tuple(ItemType):
            raise InvalidInput(
                f"after_days in {where} names '{kind}'; kinds are {', '.join(ItemType)}, in capitals."
            )
        if not isinstance(most, int) or isinstance(most, bool) or not 1 <= most <= _MOST_DAYS:
            raise InvalidInput(
                f"{kind} in {where} is {most!r}; it must be a whole number of days, from 1 to {_MOST_DAYS:,}."
            )
    boards = table.get("boards", [])
    if not isinstance(boards, list | tuple) or not all(isinstance(board, str) for board in boards):
        raise InvalidInput(f"boards in {where} must be a list of the boards that it is for.")
    if "boards" in table and not boards:
        raise InvalidInput(f"boards in {where} is empty; leave it out for all boards.")
    return Retention(
        {ItemType(kind): timedelta(days=most) for kind, most in days.items()},
        table["decided_by"].strip(),
        table["reason"].strip(),
        tuple(boards),
    )


class Keeper:
    """Keeps boards to a retention: forgets what is due, in small transactions, in the background."""

    def __init__(self, store: BoardStore, retention: Retention, holder: str) -> None:
        self._store = store
        self._retention = retention
        self._holders = (f"{holder}-{number}" for number in count(1))

    async def missing(self) -> list[str]:
        """Boards that the retention names and that are not there; they may be made later."""
        return self._retention.missing([board.id for board in await self._store.boards()])

    async def due(self, board: str) -> AsyncIterator[tuple[Forgettable, ...]]:
        """What may be forgotten on a board now, page by page; nothing of a board that the retention is not for."""
        place: int | None = 0 if self._retention.covers(board) else None
        while place is not None:
            place, found = await self._store.forgettable(board, self._retention, place)
            if found:
                yield found

    async def round(self, board: str) -> tuple[Forgettable, ...]:
        """Forgets what is due on a board, and returns it."""
        forgotten: list[Forgettable] = []
        async for page in self.due(board):
            for start in range(0, len(page), _PART):
                part = page[start : start + _PART]
                gone = await self._store.forget(board, [one.number for one in part], self._retention)
                forgotten += [one for one in part if one.id in gone]
                await asyncio.sleep(_PAUSE_SECONDS)
        return tuple(forgotten)

    async def look(self) -> list[str]:
        """A round on each board where one is due, which no other process has begun; those boards."""
        done: list[str] = []
        for board in await self._store.boards():
            # Held until the next round is due, also by a process that is gone by then.
            if self._retention.covers(board.id) and await self._store.lease(
                f"forget:{board.id}", next(self._holders), ROUND_SECONDS
            ):
                logger.info("%d items on %s were forgotten", len(await self.round(board.id)), board.id)
                done.append(board.id)
        return done

    async def run(self) -> None:
        """Looks again and again, until cancelled."""
        while True:
            try:
                await self.look()
            except BlackboardError as error:
                logger.warning("what is to be forgotten waits: %s", error)
            await asyncio.sleep(_LOOK_SECONDS)
