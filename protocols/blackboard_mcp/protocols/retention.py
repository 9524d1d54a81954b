"""Retention: which kinds of archived items lose their content after a while, by whose decision and why."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

from .items import ItemType
from .values import dataclass


@dataclass(frozen=True, slots=True)
class Retention:
    """The decision of an operator. Each kind has the time that must have passed since anything happened to an item.

    Kinds that are not named are kept for good.
    """

    after: Mapping[ItemType, timedelta]
    decided_by: str
    reason: str
    boards: tuple[str, ...] = ()
    """Boards that it is for; empty: all."""

    def covers(self, board: str) -> bool:
        return not self.boards or board in self.boards

    def missing(self, there: Collection[str]) -> list[str]:
        """Boards that it names and that are not `there`; they may be made later."""
        return [board for board in self.boards if board not in there]


@dataclass(frozen=True, slots=True)
class Forgettable:
    """An item that may be forgotten now. `size` is the bytes of its texts, tags and metadata, former versions too."""

    number: int
    id: str
    author: str
    created_at: datetime
    size: int
