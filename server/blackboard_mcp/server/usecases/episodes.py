"""Episodes: the server writes what came to an end on a board into the board's panel `episodic`.

Each end in the log becomes one item, in the order of the log and from its beginning. The newest of these items tells
how far the log is told, and an idempotency key for each keeps several servers from telling it twice, so nothing is
kept beside the board.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Final

from blackboard_mcp.protocols.board import Board, Lifecycle
from blackboard_mcp.protocols.errors import BlackboardError, Conflict, Refused
from blackboard_mcp.protocols.events import SYSTEM, Event, EventType
from blackboard_mcp.protocols.filters import ItemQuery
from blackboard_mcp.protocols.items import ItemType
from blackboard_mcp.protocols.panels import EPISODIC, PANEL, panels_of
from blackboard_mcp.protocols.stages import STAGE_OVER

from ..input.posts import PostFields
from .blackboard import Blackboard

logger = logging.getLogger(__name__)

_LULL: Final = 0.1
"""Seconds in which further changes are waited for, so that many are told with one reading of the log."""
_IDLE: Final = 300.0
"""Seconds between two looks at all boards where none has the panel and nothing has changed."""
_PAGE: Final = 500
_TAG: Final = PANEL + EPISODIC
_ENDS: Final = frozenset(
    {
        *(EventType.DEBATE_CLOSED, EventType.RUN_FINISHED, EventType.RUN_STOPPED),
        *(EventType.CLAIM_VERIFIED, EventType.PLAN_CANCELLED),
    }
)
_CALLS: Final = ("freed", "review")
"""Data of events that call for something to be done, which is over when the episode is read."""

Words = Callable[[Event], str | None]


class Episodes:
    """Writes the episodes of all boards that have the panel: `run` until cancelled.

    `words` returns a clause that says what happened in an event. `look` is the most seconds until a board that begins
    to have the panel is noticed, and between attempts after an error.
    """

    def __init__(self, board: Blackboard, words: Words, look: float = 15.0) -> None:
        self._look = look
        self._board = board
        self._store = board.store
        self._words = words
        self._told: dict[str, int] = {}
        self._forgotten: dict[str, datetime] = {}

    async def run(self) -> None:
        """Writes episodes as boards change, until cancelled."""
        while True:
            seen = self._store.changes()
            try:
                boards = await self.sweep()
            except BlackboardError as error:
                logger.warning("episodes wait: %s", error)
                await asyncio.sleep(self._look)
                continue
            if not boards:
                await asyncio.sleep(self._look)
            await self._store.wait_for_change(seen, self._look if boards else _IDLE)
            await asyncio.sleep(_LULL)

    async def sweep(self) -> int:
        """Writes the episodes that are due, and returns the number of open boards that have the panel."""
        boards = [
            board
            for board in await self._store.boards()
            if board.lifecycle is Lifecycle.OPEN and EPISODIC in panels_of(board.config.panels)
        ]
        for board in boards:
            try:
                await self._tell(board)
            except (Conflict, Refused) as error:  # a rule of this board is none of the others' business
                logger.warning("episodes of board '%s' wait: %s", board.id, error)
        return len(boards)

    async def _tell(self, board: Board) -> None:
        place = self._told.get(board.id)
        if place is None:
            place = await self._place(board.id)
        while place < board.seq:
            stretch = (await self._store.stretches({board.id: place}, _PAGE)).get(board.id)
            if stretch is None or not stretch.events:
                break
            for event in stretch.events:
                if event.owner is None and _is_end(event) and not self._is_forgotten(board.id, event):
                    await self._write(board.id, event)
                place = self._told[board.id] = event.seq

    async def _place(self, board: str) -> int:
        """Returns the sequence up to which the log is told."""
        query = ItemQuery(tags=(_TAG,), author=SYSTEM, zone=None, limit=1)
        newest = (await self._store.query(board, SYSTEM, query)).items
        query = ItemQuery(types=(ItemType.LOG,), author=SYSTEM, zone=None, deleted=True, limit=1)
        for gone in (await self._store.query(board, SYSTEM, query)).items:
            self._forgotten[board] = gone.created_at
        if newest:
            return int(newest[0].metadata["seq"])
        # Without any, the operator's rules may have removed them all.
        states = await self._store.panels(board, SYSTEM)
        return next((state.version for state in states if state.panel.name == EPISODIC), 0)

    def _is_forgotten(self, board: str, event: Event) -> bool:
        """Tells whether the episode of an event was forgotten since: one that came later was."""
        return board in self._forgotten and event.at <= self._forgotten[board]

    async def _write(self, board: str, event: Event) -> None:
        data = {name: value for name, value in event.data.items() if name not in _CALLS}
        said = self._words(replace(event, data=data)) or event.event
        if event.item is not None:
            said = f"debate on {event.item}: {said}"  # not its text, which may have to be forgotten
        metadata = {"event": str(event.event), "seq": event.seq, "by": event.agent}
        episode = PostFields(
            text=said, type="LOG", importance=1, tags=[_TAG], metadata=metadata, visibility="board"
        )
        await self._board.record(board, [episode], idempotency_key=f"episode:{event.seq}")


def _is_end(event: Event) -> bool:
    """Tells whether something came to an end with the event."""
    match event.event:
        case EventType.STAGE_MOVED:
            return event.data.get("to") in STAGE_OVER
        case EventType.CLAIM_DONE:
            return not event.data.get("review")
        case EventType.CLAIM_FAILED:
            return event.data.get("state") == "FAULTED"
        case _:
            return event.event in _ENDS
