"""Visibility: the mark that an item or event bears, and those who look.

The mark, `owner` in rows and events, is empty for what the board sees, an agent's name for what is private to it,
and `team:` with the name of somebody for what the agents who act for them share. Names have no colon, so the three
are never taken for one another.
"""

from __future__ import annotations

from .items import Visibility

TEAM = "team:"


def team_of(owner: str) -> str:
    """The mark of what the agents who act for `owner` share."""
    return TEAM + owner


def visibility_of(mark: str) -> Visibility:
    """What a mark says."""
    if not mark:
        return Visibility.BOARD
    return Visibility.TEAM if mark.startswith(TEAM) else Visibility.PRIVATE


def visible_with(mark: str, other: str) -> bool:
    """Whether who sees what bears the other mark may be told of what bears the first, which its author sees.

    What is private tells its author of all that the author sees; what others see as well, of no more than they see.
    """
    return mark in ("", other) or visibility_of(other) is Visibility.PRIVATE


class Viewer:
    """An agent who looks at events, with the team that it is of by now: `team` may change while it looks."""

    __slots__ = ("__weakref__", "agent", "team")

    def __init__(self, agent: str, owner: str | None = None) -> None:
        self.agent = agent
        self.team = team_of(agent if owner is None else owner)

    def sees(self, mark: str) -> bool:
        """Whether the viewer may learn of what bears the mark."""
        return mark in ("", self.agent, self.team)
