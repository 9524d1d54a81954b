"""Visibility: the mark on an item or event, and the viewers who may see it.

The mark is called `owner` in rows and events. It is empty for what the whole board sees, an agent's name for what is
private to that agent, `team:` with an owner's name for what the agents of that owner share, and `read:` with a read
rule's name for what that rule keeps. Names contain no colon, so a mark is never ambiguous.
"""

from __future__ import annotations

from collections.abc import Collection

from .items import Visibility
from .read_rules import READ

TEAM = "team:"


def team_of(owner: str) -> str:
    """Returns the mark of what the agents of `owner` share."""
    return TEAM + owner


def visibility_of(mark: str) -> Visibility:
    """Returns the visibility that a mark stands for."""
    if not mark:
        return Visibility.BOARD
    if mark.startswith(READ):
        return Visibility.READERS
    return Visibility.TEAM if mark.startswith(TEAM) else Visibility.PRIVATE


def visible_with(mark: str, other: str) -> bool:
    """Tells whether something marked `other` may mention an item marked `mark`, which its author sees.

    Something private may mention all that its author sees. Anything else may mention only what all of its own readers
    see: items that the whole board sees, or those with the same mark.
    """
    return mark in ("", other) or visibility_of(other) is Visibility.PRIVATE


class Viewer:
    """An agent that looks at a board's events, with its team's mark and the marks of the read rules whose reader it is.

    `team` and `kept` may change while the agent looks.
    """

    __slots__ = ("__weakref__", "agent", "kept", "team")

    def __init__(self, agent: str, owner: str | None = None, kept: Collection[str] = ()) -> None:
        self.agent = agent
        self.team = team_of(agent if owner is None else owner)
        self.kept = frozenset(kept)

    def sees(self, mark: str) -> bool:
        """Tells whether the viewer may see what has the mark."""
        if mark in ("", self.agent, self.team):
            return True
        if not mark.startswith(READ):
            return False
        rule, _, author = mark.removeprefix(READ).partition(":")
        return READ + rule in self.kept or (author == self.agent and author != "")
