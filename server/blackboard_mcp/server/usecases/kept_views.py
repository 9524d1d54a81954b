"""Views kept for agents that read a board again while nothing was committed since.

A view depends on nothing but what the store holds, what its reader was shown, and the reader's budget. A store that
gives stamps (`StampedStore`) tells whether anything in it moved, in whatever process: posts, but also presence,
leases, teams, roles, read rules and settings. So no list of what a view shows has to be kept in step with the views.
Other stores keep no views here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from blackboard_mcp.protocols.answers import Look, Snapshot
from blackboard_mcp.protocols.engines import StampedStore
from blackboard_mcp.protocols.store import BoardStore
from cachetools import LRUCache

from ..views import View

_ROOM: Final = 16_000_000
"""Characters and the like that all kept views take together, at most."""
_OF_EVENT: Final = 500
_OF_VIEW: Final = 4_000


class Asked(NamedTuple):
    """What a view depends on besides the store."""

    board: str
    agent: str
    look: tuple[int, frozenset[int], frozenset[int], int | None]
    budget: int
    reserve: int


Kept = tuple[View, Snapshot]


class KeptViews:
    """The views that were built since the last commit, the latest read ones as far as there is room."""

    def __init__(self, store: BoardStore, room: int = _ROOM) -> None:
        self._stamp_of = store.stamp if isinstance(store, StampedStore) else _never
        self._stamp: int | None = None
        self._views: LRUCache[Asked, Kept] = LRUCache(room, getsizeof=_size)

    def stamp(self) -> int | None:
        """Returns the store's stamp now, which `keep` takes after a view was built."""
        return self._stamp_of()

    def find(self, asked: Asked, stamp: int | None) -> Kept | None:
        """Returns the view that was kept at this stamp, with a snapshot without items and debates."""
        if stamp is None or stamp != self._stamp:
            return None
        return self._views.get(asked)

    def keep(self, asked: Asked, stamp: int | None, view: View, snapshot: Snapshot) -> Kept:
        """Keeps a view, and returns it as `find` does. `stamp` must be from before its snapshot was read."""
        kept = view, _slim(snapshot)
        if stamp is None or stamp != self._stamp_of():
            return kept
        if stamp != self._stamp:
            self._views.clear()
            self._stamp = stamp
        if _size(kept) <= self._views.maxsize:
            self._views[asked] = kept
        return kept


def asked_for(board: str, agent: str, look: Look, budget: int, reserve: int) -> Asked:
    """Returns the name under which a view is kept."""
    return Asked(board, agent, (int(look), look.above, look.told, look.viewed), budget, reserve)


def _never() -> None:
    return None


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


def _size(kept: Kept) -> int:
    view, snapshot = kept
    return _OF_VIEW + len(view.text) + _OF_EVENT * len(snapshot.news.events)
