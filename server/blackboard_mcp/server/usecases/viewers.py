"""Agents who look at logs that are read once for everybody, each with the team that it is of by now.

What may be seen follows whom an agent acts for at present; that is in the store, and any process may change it.
So it is read anew for whoever begins to look, and for all who look when something came that a team shares.
"""

from __future__ import annotations

from weakref import WeakSet

from blackboard_mcp.protocols.store import BoardStore
from blackboard_mcp.protocols.visibility import Viewer, team_of


class Viewers:
    """The viewers of one process."""

    def __init__(self, store: BoardStore) -> None:
        self._store = store
        self._looking: WeakSet[Viewer] = WeakSet()
        self._read_at = -1

    async def of(self, agent: str) -> Viewer:
        """The agent as a viewer, of the team that it is of now; `renew` keeps it so for as long as somebody has it."""
        viewer = Viewer(agent)
        self._looking.add(viewer)
        viewer.team = team_of(await self._store.owner_of(agent))
        return viewer

    async def renew(self, *, known: bool = False) -> None:
        """Reads anew of which team all are who look; where it is to be `known`, if this process heard of no change
        since, it is taken to be as it was."""
        changes = self._store.changes()
        if known and changes == self._read_at:
            return
        looking = list(self._looking)
        owners = await self._store.owners_of({viewer.agent for viewer in looking})
        for viewer in looking:
            viewer.team = team_of(owners[viewer.agent])
        self._read_at = changes
