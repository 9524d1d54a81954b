"""Notifications to subscribers of the resources that a board's events changed.

A notification is a hint to read again; a board's sequence alone causes none when it moves. Changes of private
items are announced to their author only, and changes of team items to the team's present members, so that
nobody learns from the timing of hints what others note down.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from blackboard_mcp.protocols.board import Lifecycle
from blackboard_mcp.protocols.errors import StoreClosed, StoreError
from blackboard_mcp.protocols.events import SYSTEM, Event, EventType
from blackboard_mcp.protocols.items import LETTERS, ItemType, Ref, Visibility
from blackboard_mcp.protocols.panels import panel_of
from blackboard_mcp.protocols.store import BoardStore
from blackboard_mcp.protocols.visibility import visibility_of

from ..mcp.streams import RESOURCE_LIST
from .menu import BOARDS

if TYPE_CHECKING:
    from ..mcp.server import BoardServer
    from ..tools.tool import Caller

logger = logging.getLogger(__name__)

COALESCE_SECONDS: Final = 0.02
"""Changes of one resource within this time become one notification for each reader."""
_MOST: Final = 1_000
"""The most events read for one announcement; if there are more, every resource of the board counts as changed."""
_LINKED: Final = 200
"""The most items whose edges are looked up for one announcement."""
_FORGET_SECONDS: Final = 60.0
_SLICE: Final = 2_000
_BOARDS_SECONDS: Final = 1.0
"""The time between checks for changed boards, while somebody subscribes to a list and the store changes."""
_OF_BOARDS: Final = frozenset({RESOURCE_LIST, BOARDS, f"{BOARDS}.json"})
"""The lists that change with the boards of the store."""

_LISTS: Final = {
    "agenda": ItemType.PLAN,
    "constraints": ItemType.CONSTRAINT,
    "hot-issues": ItemType.HOT_ISSUE,
    "answer": ItemType.ANSWER,
}
"""Resources that list items of one type."""
_OF_ITEMS: Final = frozenset({"working", "outline", "threads"})
_DEBATES: Final = frozenset(
    {EventType.DEBATE_OPENED, EventType.DEBATE_JOINED, EventType.DEBATE_CLOSED, EventType.BOARD_CREATED}
)
"""Events that also change how other items are shown: the rest of the debate, which they do not name."""
_OF_TASKS: Final = ("plan.", "claim.", "stage.")
"""How the names of events that change the agenda begin."""
_TYPES: Final = {letter: type_ for type_, letter in LETTERS.items()}


@dataclass(slots=True)
class Changed:
    """The changes by some events of one board, in the detail needed to tell which resources changed."""

    board: str
    numbers: set[int] = field(default_factory=set)
    types: set[ItemType] = field(default_factory=set)
    core: bool = False
    agents: bool = False
    tasks: bool = False
    panels: set[str] = field(default_factory=set)
    every_item: bool = False
    everything: bool = False
    settings: bool = False

    @classmethod
    def by(cls, board: str, events: Sequence[Event]) -> Changed:
        """Returns the changes that these events make on the board."""
        changed = cls(board)
        for event in events:
            if event.item is not None:
                changed.numbers.add(_number(event.item))
            if event.type is not None:
                changed.types.add(event.type)
            changed.panels.add(panel_of(event.tags))
            changed.core = changed.core or event.event is EventType.CORE_CHANGED
            changed.agents = changed.agents or event.agent != SYSTEM or event.event is EventType.SKILL_ENDED
            changed.tasks = changed.tasks or event.event.startswith(_OF_TASKS)
            changed.every_item = changed.every_item or event.event in _DEBATES
            changed.settings = changed.settings or event.event is EventType.BOARD_CHANGED
            changed.everything = changed.everything or event.event is EventType.BOARD_CREATED
        return changed

    def cites(self, ids: Iterable[str]) -> None:
        """Adds items that changed items cite: what a resource shows of them changes too."""
        for id_ in ids:
            self.numbers.add(_number(id_))
            self.types.add(_TYPES[id_.partition("-")[0]])

    def affects(self, uri: str) -> bool:
        """Tells whether the content of a resource changed, for a reader who may see the events."""
        path = uri.split("?", 1)[0].removesuffix(".json")
        base = f"board://{self.board}"
        if path != base and not path.startswith(base + "/"):
            return False
        section, _, rest = path[len(base) + 1 :].partition("/")
        if section == "protocols":
            return False  # protocols are fixed at launch
        if self.everything:
            return True
        if section == "items":
            rest = rest.removesuffix("/versions")
            # What protects an item and when it would be pruned may change with any event.
            return self.every_item or "/" in rest or _number(rest.split("@", 1)[0]) in self.numbers
        if section == "core":
            return self.core
        if section == "agents":
            return self.agents
        if section == "panels":
            return rest in self.panels if rest else bool(self.panels - {""}) or self.settings
        if section in _LISTS:
            return (
                _LISTS[section] in self.types
                or (section == "constraints" and self.core)
                or (section == "agenda" and self.tasks)
                or (section != "answer" and self.every_item)
            )
        return bool(self.numbers) if section in _OF_ITEMS else True


def _number(id_: str) -> int:
    """Returns the number at the end of an id in any spelling, or 0 if there is none."""
    number = id_.rsplit("-", 1)[-1]
    return int(number) if number.isascii() and number.isdecimal() and len(number) < 16 else 0


def may_hear(agent: str, uri: str) -> bool:
    """Tells whether an agent may subscribe to a URI: to all but other agents' views."""
    section, _, viewer = uri.split("?", 1)[0].removesuffix(".json").partition("/view/")
    return not viewer or "/" in section.removeprefix("board://") or viewer == agent


def board_of(uri: str) -> str:
    """Returns the board's id in a resource's URI; for other URIs, a text that is the id of no board."""
    return uri.split("?", 1)[0].removeprefix("board://").partition("/")[0].removesuffix(".json")


class Announcer:
    """Reads the events of boards whose resources have subscribers, and publishes which resources changed."""

    def __init__(self, store: BoardStore, server: BoardServer) -> None:
        self._store = store
        self._server = server
        self._places: dict[str, int] = {}
        self._unheard: dict[str, float] = {}
        self._boards: set[tuple[str, str, Lifecycle]] = set()
        self._looked = -_BOARDS_SECONDS
        self._to_look = False

    async def welcome(self, caller: Caller, uri: str) -> bool:
        """Tells whether the caller may subscribe to a URI.

        Announcements for a board begin at its present end when it gets its first subscriber.
        """
        if not may_hear(caller.agent, uri):
            return False
        if uri in _OF_BOARDS:
            return True
        board = board_of(uri)
        self._unheard.pop(board, None)
        if board not in self._places:
            found = await self._store.find_board(board)
            self._places.setdefault(board, 0 if found is None else found.seq)
        return True

    async def run(self) -> None:
        """Announces changes until it is cancelled."""
        seen = self._store.changes()
        while True:
            await self._until_heard()
            hurried = any(uri not in _OF_BOARDS for uri in self._server.subscribed_uris())
            patience = _BOARDS_SECONDS if self._to_look else _FORGET_SECONDS
            seen = await self._store.wait_for_change(seen, patience, hurried=hurried)
            # Changes that follow shortly are announced together.
            await asyncio.sleep(COALESCE_SECONDS)
            seen = self._store.changes()
            try:
                await self._look_for_boards()
                while await self._round():
                    pass
            except StoreClosed:
                raise
            except StoreError as error:
                # Changes that could not be read are announced with the next change.
                logger.warning("changes were not announced: %s", error.message)

    async def _until_heard(self) -> None:
        """Waits until somebody subscribes. Meanwhile changes cost nothing here, and boards are forgotten in time."""
        while not self._server.heard.is_set():
            self._forget(())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_FORGET_SECONDS if self._places else None):
                    await self._server.heard.wait()

    async def _look_for_boards(self) -> None:
        """Announces that lists of boards and resources may have changed, if the boards differ from the last check.

        Each reader is told only if what it is shown of them changed.
        """
        now = asyncio.get_running_loop().time()
        wanted = not _OF_BOARDS.isdisjoint(self._server.subscribed_uris())
        self._to_look = wanted and now - self._looked < _BOARDS_SECONDS
        if wanted and not self._to_look:
            self._looked = now
            boards = {(board.id, board.title, board.lifecycle) for board in await self._store.boards()}
            before, self._boards = self._boards, boards
            if boards != before:
                await self._server.publish(_OF_BOARDS)

    async def _round(self) -> bool:
        """Announces the changes since the last round, and tells whether more are left for another round."""
        subscribed = [uri for uri in self._server.subscribed_uris() if uri not in _OF_BOARDS]
        by_board: dict[str, list[str]] = {}
        for uri in subscribed:
            by_board.setdefault(board_of(uri), []).append(uri)
        self._forget(by_board)
        places = {board: self._places[board] for board in by_board if board in self._places}
        if not places:
            return False
        stretches = await self._store.stretches(places, _MOST)
        for board, stretch in stretches.items():
            whole = bool(stretch.events) and stretch.events[-1].seq == stretch.seq
            audiences: dict[str | None, list[Event]] = {None: []}
            for event in stretch.events:
                audiences.setdefault(event.owner, []).append(event)
            for mark, events in audiences.items():
                if mark is None and not whole:
                    await self._publish(Changed(board, everything=True), by_board[board], None)
                    continue
                for agent in await self._audience(board, mark) if events else ():
                    changed = Changed.by(board, events)
                    await self._look_up(changed, by_board[board], agent or "")
                    await self._publish(changed, by_board[board], agent)
            self._places[board] = stretch.seq
        return sum(len(stretch.events) for stretch in stretches.values()) >= _MOST

    async def _audience(self, board: str, mark: str | None) -> list[str | None]:
        """Returns the subscribers who may see events with this visibility mark; `[None]` stands for all of them."""
        if mark is None:
            return [None]
        if visibility_of(mark) is Visibility.PRIVATE:
            return [mark]
        viewers = await self._store.viewers(board, self._server.subscribed_agents())
        return [agent for agent, viewer in viewers.items() if viewer.sees(mark)]

    async def _look_up(self, changed: Changed, uris: Sequence[str], agent: str) -> None:
        """Adds the items that the changed items cite, if a subscribed resource shows such changes."""
        if changed.every_item or not changed.numbers or not any(_heeds_edges(uri) for uri in uris):
            return
        if len(changed.numbers) > _LINKED:
            changed.every_item = True
            return
        found = await self._store.read(changed.board, agent, [Ref(n) for n in sorted(changed.numbers)], [])
        for item in found.items:
            changed.cites(id_ for _, id_ in item.cites)

    async def _publish(self, changed: Changed, uris: Sequence[str], agent: str | None) -> None:
        for start in range(0, len(uris), _SLICE):
            heard = [uri for uri in uris[start : start + _SLICE] if changed.affects(uri)]
            await self._server.publish(heard, agent=agent)
            if start:
                await asyncio.sleep(0)

    def _forget(self, subscribed: Iterable[str]) -> None:
        """Drops the places of boards that had no subscriber for `_FORGET_SECONDS`."""
        now = asyncio.get_running_loop().time()
        for board in self._places.keys() - set(subscribed):
            if now - self._unheard.setdefault(board, now) > _FORGET_SECONDS:
                del self._places[board], self._unheard[board]


def _heeds_edges(uri: str) -> bool:
    _, _, path = uri.split("?", 1)[0].removesuffix(".json").removeprefix("board://").partition("/")
    return path.startswith("items/") or path in _LISTS
