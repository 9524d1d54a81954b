"""Sightings: who was shown which item, when, and how. For each item and agent the first and the last are kept."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum

from .values import dataclass

MOST_SIGHTED = 64
"""Most agents whose sightings of an item are kept: those that were shown it last."""
MOST_NEVER = 20
"""Most agents that are named as never shown an item: those of the last calls."""


class Way(StrEnum):
    """The kind of answer that showed an item."""

    VIEW = "view"
    READ = "read"
    QUERY = "query"
    SEARCH = "search"
    EXPLAIN = "explain"
    WAIT = "wait"
    CONSUME = "consume"
    TURN = "turn"
    CONTEXT = "context"
    RULES = "rules"
    REQUEST = "request"
    RESOURCE = "resource"


@dataclass(frozen=True, slots=True)
class Sighting:
    """The first and the last time that an agent was shown an item, given by its number."""

    item: int
    agent: str
    first_at: datetime
    first_way: str
    last_at: datetime
    last_way: str

    def joined(self, other: Sighting) -> Sighting:
        """Returns the first and the last of both, which are about the same item and agent."""
        first = min(self, other, key=lambda one: one.first_at)
        last = max(self, other, key=lambda one: one.last_at)
        return Sighting(self.item, self.agent, first.first_at, first.first_way, last.last_at, last.last_way)


@dataclass(frozen=True, slots=True)
class Readership:
    """Who was shown an item, the last first, and the first `MOST_NEVER` agents that may see it and never were.

    It names only agents that the one who asks may know of: those that take part, or did something lately that it sees.
    It leaves out the one who asks, and the one who wrote the item's present version. `never` is empty where
    `MOST_SIGHTED` agents were shown the item.
    """

    seen: tuple[Sighting, ...] = ()
    never: tuple[str, ...] = ()


def joined(sightings: Iterable[Sighting]) -> dict[tuple[int, str], Sighting]:
    """Returns one sighting for each pair of item number and agent."""
    found: dict[tuple[int, str], Sighting] = {}
    for one in sightings:
        key = (one.item, one.agent)
        found[key] = found[key].joined(one) if key in found else one
    return found
