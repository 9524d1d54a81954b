"""The lull that a wait stays for: news that ask nothing of who waits are told together, the others at once.

An agent pays for every call. While a team works, its members write a line every few seconds: a wait that ended with
each line would cost each of them a call a line. Knows events and duties; refuses to know logs, stores and calls.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from blackboard_mcp.protocols.answers import Owed
from blackboard_mcp.protocols.events import WITHOUT_ITEM, Event, EventType
from blackboard_mcp.protocols.items import ItemType, parse_ref

MOST_LINES: Final = 15
"""So many news end a lull: of more the texts would be cut shorter to fit into an answer."""
MOST_LULLS: Final = 3
"""A wait ends so many lulls after its first news, whoever goes on to write."""
_PASSING: Final = frozenset(
    {
        EventType.AGREEMENT_GIVEN,
        EventType.ITEM_ARCHIVED,
        EventType.ITEM_ENDORSED,
        EventType.ITEM_EXPIRED,
        EventType.OBLIGATION_WAIVED,
    }
)
"""Events that ask nothing even of those whom they concern."""
_BINDING: Final = frozenset({ItemType.CONSTRAINT, ItemType.HOT_ISSUE})
"""What everybody has to know at once."""
_RESTING: Final = frozenset({"supports", "derived_from"})
"""Edges to an item that ask nothing of its author."""


@dataclass(slots=True)
class Lull:
    """When the wait of one agent ends that heard of something; `seconds` of quiet is what it stays for."""

    agent: str
    seconds: float
    _first: float | None = None
    _lines: int = 0
    _owed: frozenset[Owed] = frozenset()

    def begin(self, owed: Iterable[Owed]) -> None:
        """Nothing was there at the call: only what the agent owes beyond this is news to it."""
        self._owed = frozenset(owed)

    def hears(
        self, events: Collection[Event], owed: Iterable[Owed], now: float, *, named: bool = False
    ) -> float:
        """When the wait ends, if nothing more comes: `now`, where the agent must hear of the events at once.

        So it is where something is asked of it, or where it is `named`, or where there are many lines by now.
        """
        self._lines += len(events)
        if self._first is None:
            self._first = now
        at_once = named or self._lines >= MOST_LINES or not self._owed.issuperset(owed)
        if at_once or any(asks(event, self.agent) for event in events):
            return now
        return min(now + self.seconds, self._first + MOST_LULLS * self.seconds)


def asks(event: Event, agent: str) -> bool:
    """Whether an event that is news to the agent asks something of it, or settles something of its own.

    What only rests on the agent's items asks it where its text names the agent: `resting` gives these.
    """
    if event.event in WITHOUT_ITEM or (event.type in _BINDING and event.event is EventType.ITEM_POSTED):
        return True
    return agent in event.concerns and event.event not in _PASSING and not _rests(event)


def resting(events: Iterable[Event], agent: str) -> list[tuple[int, int]]:
    """Versions, by number and version, that concern the agent and ask nothing of it unless their texts name it."""
    return [
        (parse_ref(event.item).number, event.version or 1)
        for event in events
        if event.item is not None and agent in event.concerns and _rests(event)
    ]


def _rests(event: Event) -> bool:
    """Whether it only rests on somebody's item, or is a new version of it."""
    if event.event is EventType.ITEM_VERSIONED:
        return _RESTING.issuperset(event.data)
    return event.event is EventType.ITEM_POSTED and bool(event.data) and _RESTING.issuperset(event.data)
