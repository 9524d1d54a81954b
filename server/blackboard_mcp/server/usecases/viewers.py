"""Agents that follow logs, each with its current team.

An agent sees its team's items by its present owner, which is in the store and which any process may change.
So the owner is read when an agent begins to follow, and for all followers when an event of a team comes.
"""

from __future__ import annotations

from weakref import WeakSet

from blackboard_mcp.protocols.store import BoardStore
from blackboard_mcp.protocols.visibility import Viewer, team_of


class Viewers:
    """The followers in one process."""

    def __init__(self, store: BoardStore) -> None:
        self._store = store
        self._looking: WeakSet[Viewer] = WeakSet()
        self._read_at = -1

    async def of(self, agent: str) -> Viewer:
        """Returns the agent as a viewer with its current team; `renew` updates the team for as long as the
        viewer is in use.
        """
        viewer = Viewer(agent)
        self._looking.add(viewer)
        viewer.team = team_of(await self._store.owner_of(agent))
        return viewer

    async def renew(self, *, known: bool = False) -> None:
        """Reads the teams of all viewers again.

        With `known` it skips the reading if this process has seen no change since the last one.
        """
        changes = self._store.changes()
        if known and changes == self._read_at:
            return
        looking = list(self._looking)
        owners = await self._store.owners_of({viewer.agent for viewer in looking})
        for viewer in looking:
            viewer.team = team_of(owners[viewer.agent])
        self._read_at = changes
