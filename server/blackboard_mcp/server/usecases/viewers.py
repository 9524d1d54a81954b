"""Agents that follow logs, each with its current team and the read rules whose reader it is.

An agent sees its team's items by its present owner, and what a read rule keeps by its present name, owner and role.
They are in the store, and any process may change them. So they are read when an agent begins to follow, and for all
followers when an event of a team or of a rule's readers comes.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from blackboard_mcp.protocols.store import BoardStore
from blackboard_mcp.protocols.visibility import Viewer


class Viewers:
    """The followers in one process."""

    def __init__(self, store: BoardStore) -> None:
        self._store = store
        self._looking: WeakKeyDictionary[Viewer, str] = WeakKeyDictionary()
        self._read_at = -1

    async def of(self, agent: str, board: str) -> Viewer:
        """Returns the agent as a present viewer of a board; `renew` updates it for as long as it is in use."""
        viewer = Viewer(agent)
        self._looking[viewer] = board
        self._update(viewer, (await self._store.viewers(board, [agent]))[agent])
        return viewer

    async def renew(self, *, known: bool = False) -> None:
        """Reads again what all viewers see.

        With `known` it skips the reading if this process has seen no change since the last one.
        """
        changes = self._store.changes()
        if known and changes == self._read_at:
            return
        by_board: dict[str, list[Viewer]] = {}
        for viewer, board in list(self._looking.items()):
            by_board.setdefault(board, []).append(viewer)
        for board, looking in by_board.items():
            found = await self._store.viewers(board, {viewer.agent for viewer in looking})
            for viewer in looking:
                self._update(viewer, found[viewer.agent])
        self._read_at = changes

    @staticmethod
    def _update(viewer: Viewer, now: Viewer) -> None:
        viewer.team, viewer.kept = now.team, now.kept
