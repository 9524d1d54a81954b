"""Counts of open things such as calls and streams, in all and for each account."""

from __future__ import annotations

from typing import Literal

from blackboard_mcp.protocols.access import Principal


class Counted:
    """Counter of open things with two bounds. An account with nothing open takes no memory.

    Args:
        most: bound for all accounts together.
        most_each: bound for one account.
    """

    def __init__(self, most: int, most_each: int) -> None:
        self.most = most
        self.most_each = most_each
        self.open = 0
        self._each: dict[str, int] = {}

    def __len__(self) -> int:
        """Returns the number of accounts that have something open."""
        return len(self._each)

    def of(self, who: str) -> int:
        """Returns how many things the account `who` has open."""
        return self._each.get(who, 0)

    def enter(self, who: str) -> Literal["each", "all"] | None:
        """Counts one more open thing and returns `None`, or names the bound that was reached and counts
        nothing.

        `leave` takes the count back.
        """
        mine = self._each.get(who, 0)
        if mine >= self.most_each:
            return "each"
        if self.open >= self.most:
            return "all"
        self._each[who] = mine + 1
        self.open += 1
        return None

    def leave(self, who: str) -> None:
        """Counts one open thing less; call it once for each `enter` that returned `None`."""
        self.open -= 1
        if self._each[who] == 1:
            del self._each[who]
        else:
            self._each[who] -= 1


def counted_as(principal: Principal) -> str:
    """Returns the account that a principal's calls are charged to: its owner, so that an owner's agents share
    one.
    """
    return principal.owner
