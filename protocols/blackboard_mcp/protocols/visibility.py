"""Visibility: the mark on an item or event, and the viewers who may see it.

The mark is called `owner` in rows and events. It is empty for what the whole board sees, an agent's name for what is
private to that agent, and `team:` with an owner's name for what the agents of that owner share. Names contain no
colon, so a mark is never ambiguous.
"""

from __future__ import annotations

from .items import Visibility

TEAM = "team:"


def team_of(owner: str) -> str:
    """Returns the mark of what the agents of `owner` share."""
    return TEAM + owner


def visibility_of(mark: str) -> Visibility:
    """Returns the visibility that a mark stands for."""
    if not mark:
        return Visibility.BOARD
    return Visibility.TEAM if mark.startswith(TEAM) else Visibility.PRIVATE


def visible_with(mark: str, other: str) -> bool:
    """Tells whether something marked `other` may mention an item marked `mark`, which its author sees.

    Something private may mention all that its author sees. Anything else may mention only what all of its own readers
    see: items that the whole board sees, or those with the same mark.
    """
    return mark in ("", other) or visibility_of(other) is Visibility.PRIVATE


class Viewer:
    """An agent that looks at events, with its team's mark. `team` may change while the agent looks."""

    __slots__ = ("__weakref__", "agent", "team")

    def __init__(self, agent: str, owner: str | None = None) -> None:
        self.agent = agent
        self.team = team_of(agent if owner is None else owner)

    def sees(self, mark: str) -> bool:
        """Tells whether the viewer may see what has the mark."""
        return mark in ("", self.agent, self.team)
