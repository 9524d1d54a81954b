"""Activity of agents, recorded in memory and written in the background, so that no caller waits for it.

It informs policies that go by use, leases of watchers, and footers. It is not part of any board: a crash
loses what was not written yet.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from blackboard_mcp.protocols.access import Action
from blackboard_mcp.protocols.answers import Look
from blackboard_mcp.protocols.clock import Clock
from blackboard_mcp.protocols.errors import BlackboardError
from blackboard_mcp.protocols.grants import GRANTED, Grant
from blackboard_mcp.protocols.sightings import Sighting, Way
from blackboard_mcp.protocols.store import BoardStore

logger = logging.getLogger(__name__)

FLUSH_SECONDS = 5.0
MAX_NOTED = 20_000
"""Most agents and items recorded between two writes; further ones are ignored."""
MAX_SIGHTED = 100_000
"""Most items that all answers between two writes are recorded to have shown; further answers are ignored."""
_WRITTEN_AT_ONCE = 5_000
"""Most sightings in one transaction, so that no caller waits long for it."""

_LOOKING_ON = frozenset({Action.READ, Action.SUMMARISE})
"""The actions of those who cannot do what others wait for."""

_Shown = tuple[str, Collection[int], datetime, Way]
"""An answer: the agent that got it, the items in it by number, when, and its kind."""


@dataclass(slots=True)
class _Notes:
    seen: dict[str, datetime] = field(default_factory=dict)
    readers: dict[str, Grant] = field(default_factory=dict)
    reads: dict[int, tuple[int, datetime]] = field(default_factory=dict)
    shown: dict[str, Look] = field(default_factory=dict)
    sighted: list[_Shown] = field(default_factory=list)


class Activity:
    """What agents of this process did since the last write. The store adds up the records of all processes."""

    def __init__(self, store: BoardStore, clock: Clock) -> None:
        self._store = store
        self.clock = clock
        self._boards: dict[str, _Notes] = {}
        self._room = MAX_NOTED
        self._sights = MAX_SIGHTED
        self._some = asyncio.Event()

    def seen(self, board: str, agent: str) -> None:
        """Records that the agent did something on the board now.

        It counts as being there unless the agent may only look on, by its credential or by the board.
        """
        notes = self._notes(board)
        grant = GRANTED.get()
        if grant is None or not grant.powers[grant.member] <= _LOOKING_ON:
            notes.readers.pop(agent, None)
        elif agent not in notes.seen:
            notes.readers[agent] = grant
        if agent in notes.seen or self._take_room():
            notes.seen[agent] = self.clock.now()

    def noted(self, board: str) -> dict[str, datetime]:
        """Returns the unwritten times at which agents last did something on the board, by name."""
        notes = self._boards.get(board)
        return {} if notes is None else dict(notes.seen)

    def read(self, board: str, numbers: Iterable[int]) -> None:
        """Records that the items with these numbers were read now."""
        notes = self._notes(board)
        now = self.clock.now()
        for number in numbers:
            noted = notes.reads.get(number)
            if noted is not None:
                notes.reads[number] = (noted[0] + 1, now)
            elif self._take_room():
                notes.reads[number] = (1, now)

    def shown(self, board: str, agent: str, look: Look, before: Look | None = None) -> None:
        """Records how much of the board the agent has been shown; `look` takes the place of `before`."""
        notes = self._notes(board)
        noted = notes.shown.get(agent)
        if noted is not None or self._take_room():
            notes.shown[agent] = look if noted is None or noted is before else noted.joined(look)

    def sighted(self, board: str, agent: str, numbers: Collection[int], way: Way) -> None:
        """Records that the agent was shown the items with these numbers now."""
        if len(numbers) <= self._sights:
            self._sights -= len(numbers)
            self._notes(board).sighted.append((agent, numbers, self.clock.now(), way))

    def sightings(self, board: str, numbers: Collection[int]) -> list[Sighting]:
        """Returns the unwritten sightings of these items."""
        notes = self._boards.get(board)
        return [] if notes is None else _joined(notes.sighted, frozenset(numbers))

    def _notes(self, board: str) -> _Notes:
        self._some.set()
        return self._boards.setdefault(board, _Notes())

    def _take_room(self) -> bool:
        if self._room == 0:
            return False
        self._room -= 1
        return True

    async def flush(self) -> None:
        """Writes all records, in one small transaction for each board."""
        self._room, self._sights = MAX_NOTED, MAX_SIGHTED
        self._some.clear()
        for board in list(self._boards):
            notes = self._boards.pop(board)
            if not (notes.seen or notes.reads or notes.shown or notes.sighted):
                continue
            try:
                for agent, grant in notes.readers.items():
                    if grant.powers[await self._store.role_of(board, agent)] <= _LOOKING_ON:
                        del notes.seen[agent]
                sightings = await asyncio.to_thread(_joined, notes.sighted)
                some = sightings[:_WRITTEN_AT_ONCE]
                await self._store.record_activity(board, notes.seen, notes.reads, notes.shown, some)
                for at in range(_WRITTEN_AT_ONCE, len(sightings), _WRITTEN_AT_ONCE):
                    some = sightings[at : at + _WRITTEN_AT_ONCE]
                    await self._store.record_activity(board, {}, {}, sightings=some)
            except BlackboardError as error:
                logger.warning("use of %s was not recorded: %s", board, error)

    async def run(self) -> None:
        """Writes every few seconds while there is something to write, until cancelled."""
        while True:
            await self._some.wait()
            await asyncio.sleep(FLUSH_SECONDS)
            await self.flush()

    async def close(self, seconds: float = 2.0) -> None:
        """Writes the remaining records, unless that takes longer than `seconds`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.flush()


def _joined(shown: Iterable[_Shown], wanted: frozenset[int] | None = None) -> list[Sighting]:
    """Returns one sighting for each item and agent; `wanted` are the items to return, without it all."""
    spans: dict[tuple[int, str], tuple[datetime, Way, datetime, Way]] = {}
    for agent, numbers, at, way in shown:
        for number in numbers:
            if wanted is None or number in wanted:
                first_at, first_way, *_ = spans.get((number, agent), (at, way))
                spans[number, agent] = (first_at, first_way, at, way)
    return [Sighting(number, agent, *span) for (number, agent), span in spans.items()]
