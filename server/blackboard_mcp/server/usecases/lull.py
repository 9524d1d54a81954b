"""The lull that a wait stays for: events that ask nothing of the agent are collected, others end the wait at
once.

An agent pays for every call. In a busy team, members write a line every few seconds, and a wait that ended
with each line would cost each member a call a line. This module knows events and duties, but no logs, stores
or calls.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable
from dataclasses import dataclass
from typing import Final

from blackboard_mcp.protocols.answers import Owed
from blackboard_mcp.protocols.events import OF_CONTROL, WITHOUT_ITEM, Event, EventType
from blackboard_mcp.protocols.items import ItemType, parse_ref
from blackboard_mcp.protocols.matching import Matcher

MOST_LINES: Final = 15
"""Number of events that ends a lull; with more, their texts would be cut shorter to fit into an answer."""
MOST_LULLS: Final = 3
"""Lulls after its first event at which a wait ends, even if events keep coming."""
_PASSING: Final = frozenset(
    {
        EventType.AGREEMENT_GIVEN,
        EventType.ITEM_ARCHIVED,
        EventType.ITEM_ENDORSED,
        EventType.ITEM_EXPIRED,
        EventType.OBLIGATION_WAIVED,
    }
)
"""Events that ask nothing even of the agents they concern."""
_BINDING: Final = frozenset({ItemType.CONSTRAINT, ItemType.HOT_ISSUE})
"""Types of items that every agent must know at once."""
_RESTING: Final = frozenset({"supports", "derived_from"})
"""Kinds of edges to an item that ask nothing of its author."""


@dataclass(slots=True)
class Lull:
    """The rule for when the wait of one agent ends; `seconds` is the length of a lull."""

    agent: str
    seconds: float
    _first: float | None = None
    _lines: int = 0
    _owed: frozenset[Owed] = frozenset()

    @property
    def lines_left(self) -> int:
        """The number of events with which the lull ends; one before it has begun."""
        return 1 if self._first is None else MOST_LINES - self._lines

    def begin(self, owed: Iterable[Owed]) -> None:
        """Sets the duties that the agent already has at the call, when no events were there; only further
        duties are news.
        """
        self._owed = frozenset(owed)

    def hears(
        self, events: Collection[Event], owed: Collection[Owed], now: float, *, named: bool = False
    ) -> float:
        """Returns the time at which the wait ends if nothing more comes: `now` where the agent must hear at
        once.

        That is so where something is asked of it, where a text names it (`named`), or where there are many
        events by now.
        """
        self._lines += len(events)
        if self._first is None:
            self._first = now
        at_once = named or self._lines >= MOST_LINES or not self._owed.issuperset(owed)
        due = {one.id for one in owed}
        if at_once or any(asks(event, self.agent, due) for event in events):
            return now
        return min(now + self.seconds, self._first + MOST_LULLS * self.seconds)


class Listening:
    """A matcher for one wait: of the news it wants only what may end the lull, so the wait sleeps through the rest.

    `wanted` finds the news, and `clock` returns the time in seconds. The matcher may be asked about an event again.
    """

    def __init__(self, lull: Lull, wanted: Matcher, clock: Callable[[], float]) -> None:
        self._lull = lull
        self._wanted = wanted
        self._clock = clock
        self._slept: list[Event] = []
        self._last = 0
        self.room = 0
        """The number of events with which the answer is full."""
        self.heard_at = 0.0
        """When it last found news that may not end the lull."""

    def __call__(self, event: Event) -> bool:
        """Tells whether the event is news that may end the lull."""
        if not self._wanted(event):
            return False
        if not passes(event, self._lull.agent):
            return True
        if event.seq > self._last:
            self._last = event.seq
            self._slept.append(event)
            self.heard_at = self._clock()
        return len(self._slept) >= min(self.room, self._lull.lines_left)

    def news(self, woke: Iterable[Event], upto: int) -> list[Event]:
        """Returns what was found since the last call, up to a place in the log: `woke`, and what the wait slept
        through.
        """
        found = {event.seq: event for event in (*self._slept, *woke) if event.seq <= upto}
        self._slept = [event for event in self._slept if event.seq > upto]
        return [found[seq] for seq in sorted(found)]


def passes(event: Event, agent: str) -> bool:
    """Tells whether an event that is news to the agent asks nothing of it: a new item of no concern to it."""
    return (
        event.event is EventType.ITEM_POSTED
        and agent not in event.concerns
        and event.type not in _BINDING
        and _RESTING.issuperset(event.data)
    )


def asks(event: Event, agent: str, due: Container[str] = ()) -> bool:
    """Tells whether an event that is news to the agent asks something of it, or settles something of its own.

    Items that only rest on the agent's items ask something only if their texts name it; `resting` returns
    those. A debate that a critique opens asks nothing of those who only watch it, until they owe something to an
    item of it: `due` are the items to which the agent owes something.
    """
    if event.event is EventType.DEBATE_OPENED and agent in event.data.get("watchers", ()):
        critique = event.data.get("critique")
        return critique is None or event.item in due or critique in due
    if event.event in OF_CONTROL:
        return agent in event.concerns
    if event.event in WITHOUT_ITEM or (event.type in _BINDING and event.event is EventType.ITEM_POSTED):
        return True
    return agent in event.concerns and event.event not in _PASSING and not _rests(event)


def resting(events: Iterable[Event], agent: str) -> list[tuple[int, int]]:
    """Returns versions, as item number and version, that concern the agent but ask nothing of it unless their
    texts name it.
    """
    return [
        (parse_ref(event.item).number, event.version or 1)
        for event in events
        if event.item is not None and agent in event.concerns and _rests(event)
    ]


def _rests(event: Event) -> bool:
    """Tells whether an event only rests on somebody's item, or is a new version of such an item."""
    if event.event is EventType.ITEM_VERSIONED:
        return _RESTING.issuperset(event.data)
    return event.event is EventType.ITEM_POSTED and bool(event.data) and _RESTING.issuperset(event.data)
