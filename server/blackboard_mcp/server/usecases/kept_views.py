"""Views kept for agents that read a board again while nothing was committed since (see `kept`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from blackboard_mcp.protocols.answers import Look, Snapshot
from blackboard_mcp.protocols.store import BoardStore

from ..views import View
from .kept import OF_EVENT, Kept, shown

_ROOM: Final = 16_000_000
_OF_VIEW: Final = 4_000


class Asked(NamedTuple):
    """What a view depends on besides the store."""

    board: str
    agent: str
    look: tuple[int, frozenset[int], frozenset[int], int | None]
    budget: int
    reserve: int


class KeptViews(Kept[tuple[View, Snapshot]]):
    """The views that were built since the last commit, each with its snapshot as far as that is of use then."""

    def __init__(self, store: BoardStore, room: int = _ROOM) -> None:
        super().__init__(store, room, _size)

    def keep_view(
        self, asked: Asked, stamp: int | None, view: View, snapshot: Snapshot
    ) -> tuple[View, Snapshot]:
        """Keeps a view, and returns it as `find` does; see `keep`."""
        return self.keep(asked, stamp, (view, _slim(snapshot)))


def asked_for(board: str, agent: str, look: Look, budget: int, reserve: int) -> Asked:
    """Returns the name under which a view is kept."""
    return Asked(board, agent, shown(look), budget, reserve)


def _slim(snapshot: Snapshot) -> Snapshot:
    """Returns the snapshot without what is of no use once the view is built, and takes most of the memory."""
    return replace(
        snapshot,
        items=(),
        debates=(),
        ended=(),
        protected={},
        answered={},
        asked={},
        replaced={},
        summaries=(),
    )


def _size(kept: tuple[View, Snapshot]) -> int:
    view, snapshot = kept
    return _OF_VIEW + len(view.text) + OF_EVENT * len(snapshot.news.events)
