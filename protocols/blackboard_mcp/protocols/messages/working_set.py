"""Working-set state: what each agent works on, so that no two do the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import Field

from .base import AGENT, Body, KeyShape, Line, MessageProtocol, Name


class Focus(Body):
    """The focus of an agent: items, keys or files, and what it does with them."""

    doing: Line
    items: Annotated[tuple[Name, ...], Field(max_length=64)] = ()
    paths: Annotated[tuple[Line, ...], Field(max_length=64)] = ()
    exclusive: bool = False
    """True if other agents should not work on the same."""


class WorkingSet(MessageProtocol):
    """Show what you are working on, so that nobody does it twice or in your way.

    Each agent writes its own key alone, whenever its focus changes, with a `ttl_seconds` within which it
    will say so again: what an agent that died had in its focus is free when its entry expires.
    """

    name: ClassVar[str] = "working-set"
    shapes: ClassVar[tuple[KeyShape, ...]] = (
        KeyShape("focus", (AGENT,), Focus, "the agent itself, with ttl_seconds, renewed while it lasts"),
    )
    TTL_SECONDS: ClassVar[float] = 300.0
    """A time to live in seconds that leaves room for a slow step."""

    def focus_key(self, agent: str) -> str:
        return self.key("focus", agent=agent)

    @staticmethod
    def clashes(mine: Focus, others: Mapping[str, Focus]) -> dict[str, tuple[str, ...]]:
        """Returns the items and paths in both `mine` and another focus, by agent, if either of the two is exclusive.

        `others` maps agents to their focus.
        """
        wanted = {*mine.items, *mine.paths}
        shared = {
            agent: tuple(sorted(wanted & {*focus.items, *focus.paths}))
            for agent, focus in others.items()
            if mine.exclusive or focus.exclusive
        }
        return {agent: things for agent, things in shared.items() if things}
