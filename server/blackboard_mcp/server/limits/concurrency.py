"""Counts of open things: in all, and for each account."""

from __future__ import annotations

from typing import Literal

from blackboard_mcp.protocols.access import Principal


class Counted:
    """Counts what is open against two bounds. Who has nothing open takes no memory.

    Args:
        most: bound of all together.
        most_each: bound of each one's.
    """

    def __init__(self, most: int, most_each: int) -> None:
        self.most = most
        self.most_each = most_each
        self.open = 0
        self._each: dict[str, int] = {}

    def __len__(self) -> int:
        """How many have something open."""
        return len(self._each)

    def of(self, who: str) -> int:
        """How many `who` has open."""
        return self._each.get(who, 0)

    def enter(self, who: str) -> Literal["each", "all"] | None:
        """Counts one more; or the bound that is reached, and counts nothing. `leave` takes it back."""
        mine = self._each.get(who, 0)
        if mine >= self.most_each:
            return "each"
        if self.open >= self.most:
            return "all"
        self._each[who] = mine + 1
        self.open += 1
        return None

    def leave(self, who: str) -> None:
        self.open -= 1
        if self._each[who] == 1:
            del self._each[who]
        else:
            self._each[who] -= 1


def counted_as(principal: Principal) -> str:
    """The account that a principal's calls are charged to: one for all agents of an owner."""
    return principal.owner
