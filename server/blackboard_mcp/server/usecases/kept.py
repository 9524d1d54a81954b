"""Views and changes kept for agents that read a board again while nothing was committed since.

They depend on nothing but what the store holds, what their reader was shown, and what it asks for. A store that gives
stamps (`StampedStore`) tells whether anything in it moved, in whatever process: posts, but also presence, leases,
teams, roles, read rules and settings. So no list of what they show has to be kept in step with them. Nothing is kept
of other stores here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Final, Generic, NamedTuple, TypeVar

from blackboard_mcp.protocols.answers import Look, Snapshot
from blackboard_mcp.protocols.engines import StampedStore
from blackboard_mcp.protocols.store import BoardStore
from cachetools import LRUCache

from ..views import View

A = TypeVar("A")

KEPT_SECONDS: Final = 0.005
"""Seconds of work that what is kept counts as, so that few of one caller's run at once: most of what it takes is done
outside of its turn, by the wire.
"""
OF_EVENT: Final = 500
"""The characters that an event takes the room of, about."""
OF_UNSEEN: Final = 64
"""The same of the place of an event that the reader was not shown."""
_ROOM: Final = 16_000_000
_OF_VIEW: Final = 4_000


class Kept(Generic[A]):
    """Answers that were made since the last commit, the latest read ones as far as there is room.

    Args:
        room: the characters and the like that all answers take together, at most.
        size: returns those of an answer.
    """

    def __init__(self, store: BoardStore, room: int, size: Callable[[A], int]) -> None:
        self._stamp_of = store.stamp if isinstance(store, StampedStore) else _never
        self._stamp: int | None = None
        self._answers: LRUCache[Hashable, A] = LRUCache(room, getsizeof=size)

    def stamp(self) -> int | None:
        """Returns the store's stamp now, which `keep` takes after an answer was made."""
        return self._stamp_of()

    def find(self, asked: Hashable, stamp: int | None) -> A | None:
        """Returns the answer that was kept at this stamp."""
        if stamp is None or stamp != self._stamp:
            return None
        return self._answers.get(asked)

    def keep(self, asked: Hashable, stamp: int | None, answer: A) -> A:
        """Keeps an answer, and returns it. `stamp` must be from before anything of it was read."""
        if stamp is None or stamp != self._stamp_of():
            return answer
        if stamp != self._stamp:
            self._answers.clear()
            self._stamp = stamp
        if self._answers.getsizeof(answer) <= self._answers.maxsize:
            self._answers[asked] = answer
        return answer


def shown(look: Look) -> tuple[int, frozenset[int], frozenset[int], int | None]:
    """Returns all that a look says of what an agent was shown."""
    return int(look), look.above, look.told, look.viewed


def _never() -> None:
    return None


class Asked(NamedTuple):
    """The values, besides the store, on which a view depends."""

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
    unseen = OF_UNSEEN * len(snapshot.attention.fresh)
    return _OF_VIEW + len(view.text) + OF_EVENT * len(snapshot.news.events) + unseen
