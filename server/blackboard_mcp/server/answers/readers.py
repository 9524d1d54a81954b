"""Who was shown an item, in words and as a structured answer."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from blackboard_mcp.protocols.answers import DebateView
from blackboard_mcp.protocols.items import Item
from blackboard_mcp.protocols.late_models import wire
from blackboard_mcp.protocols.sightings import MOST_SIGHTED, Readership, Sighting

from ..text.lines import one_line, relative_age

_NAMED = 8


def seen_line(item: Item, readers: Readership, now: datetime) -> str:
    """Returns `seen by coder 3m (view); not by tester`; empty if the board knows nobody to name."""
    said = []
    if readers.seen:
        said.append("seen by " + _some([_sighting(item, one, now) for one in readers.seen]))
    if readers.never:
        names = _some([one_line(name) for name in readers.never])
        age = relative_age(_written_at(item), now)
        said.append(f"not by {names}" if readers.seen else f"not seen by {names}, posted {age} ago")
    return "; ".join(said)


def critiques_line(view: DebateView, readers: Mapping[int, Readership], now: datetime) -> str:
    """Returns a line on which of the critiques in `readers` the author of the debated item was shown."""
    author = one_line(view.root.author)
    said = []
    for number, one in by_author(view, readers).items():
        item = view.items[number]
        if one is None:
            said.append(
                f"{author} was not shown {item.id}, posted {relative_age(_written_at(item), now)} ago"
            )
        else:
            said.append(f"{author} was shown {item.id} {relative_age(one.last_at, now)} ago ({one.last_way})")
    more = f"; +{len(said) - _NAMED}" if len(said) > _NAMED else ""
    return "; ".join(said[:_NAMED]) + more


def by_author(view: DebateView, readers: Mapping[int, Readership]) -> dict[int, Sighting | None]:
    """Returns for each of these critiques when the author of the debated item was shown it; `None` for never.

    Leaves out the author's own critiques, and those that too many agents were shown for all of them to be kept.
    """
    author = view.root.author
    return {
        number: next((one for one in of.seen if one.agent == author), None)
        for number, of in readers.items()
        if view.items[number].author != author and len(of.seen) < MOST_SIGHTED
    }


def wire_sightings(readers: Readership) -> list[wire.WireSighting]:
    """Returns the sightings of an item, the last first."""
    return [
        wire.WireSighting(
            agent=one.agent,
            first_at=one.first_at,
            first_way=one.first_way,
            last_at=one.last_at,
            last_way=one.last_way,
        )
        for one in readers.seen
    ]


def _sighting(item: Item, one: Sighting, now: datetime) -> str:
    older = f", before version {item.version}" if one.last_at < _written_at(item) else ""
    return f"{one_line(one.agent)} {relative_age(one.last_at, now)} ({one.last_way}{older})"


def _written_at(item: Item) -> datetime:
    return item.written_at or item.created_at


def _some(names: list[str]) -> str:
    more = f" +{len(names) - _NAMED}" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
