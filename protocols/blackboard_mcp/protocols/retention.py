"""Retention: which types of archived items lose their content after a while, by whose decision and why."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

from .items import ItemType
from .values import dataclass


@dataclass(frozen=True, slots=True)
class Retention:
    """An operator's decision to forget archived items. `after` maps types to the time since an item's last event.

    Items of other types are kept for good.
    """

    after: Mapping[ItemType, timedelta]
    decided_by: str
    reason: str
    boards: tuple[str, ...] = ()
    """Boards to which the decision applies; empty for all."""

    def covers(self, board: str) -> bool:
        """Tells whether the decision applies to the board."""
        return not self.boards or board in self.boards

    def missing(self, there: Collection[str]) -> list[str]:
        """Returns the boards it names that are not among `there`; they may be created later."""
        return [board for board in self.boards if board not in there]


@dataclass(frozen=True, slots=True)
class Forgettable:
    """An item that may be forgotten now. `size` is the bytes of texts, tags and metadata in all its versions."""

    number: int
    id: str
    author: str
    created_at: datetime
    size: int
