"""The consensus guard: which items may not leave working memory, and by which chain of edges.

It is pure: it gets the starting points and a way to ask for edges, and knows nothing of stores. The rule: everything
reachable from an open debate is protected. `replies_to`, `critiques`, `supports` and `refutes` are followed in both
directions, and `depends_on` away from the item, any number of steps. `derived_from`, `analyzed_by` and `supersedes`
are not followed, so that a board can shrink. A caller that hides items from some readers must give it only edges whose
target is seen by nobody who does not see the source.

`closure` defines the result. `spread` updates an index of it: it goes from newly protected items to those that they
reach, and never over items that are protected already.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping

from .items import FOLLOWED_BOTH_WAYS, Edge, EdgeKind
from .values import dataclass


@dataclass(frozen=True, slots=True)
class Protection:
    """The reason why an item is protected: a sentence, and the edges from the item of that reason to this one.

    Of a long chain only the end at the item may be present; `omitted` counts the edges before it.
    """

    reason: str
    chain: tuple[Edge, ...] = ()
    omitted: int = 0


@dataclass(frozen=True, slots=True)
class Hold:
    """The way in which the guard reached an item: the debate, the edge, and the number of edges from the debate.

    The root of a debate and its critiques are held without an edge.
    """

    number: int
    debate: int
    edge: Edge | None = None
    depth: int = 0


def steps(edge: Edge, position: int) -> int | None:
    """Returns the item that the closure reaches from `position` over `edge`, or `None` if it does not follow it."""
    if edge.source == position and (edge.kind is EdgeKind.DEPENDS_ON or edge.kind in FOLLOWED_BOTH_WAYS):
        return edge.target
    if edge.target == position and edge.kind in FOLLOWED_BOTH_WAYS:
        return edge.source
    return None


def closure(starts: Mapping[int, str]) -> Generator[frozenset[int], Iterable[Edge], dict[int, Protection]]:
    """Walks the closure of `starts` (item number to reason), breadth first.

    Yields each frontier and expects the edges that touch it. Returns every item reached, with its shortest chain. It
    ends when nothing new is reached, so its cost depends on the debates, not on the board.
    """
    reached = {number: Protection(reason) for number, reason in starts.items()}
    frontier = frozenset(reached)
    while frontier:
        edges = sorted((yield frontier), key=lambda e: (e.source, e.target, e.kind))
        fresh: set[int] = set()
        for edge in edges:
            for position in (edge.source, edge.target):
                if position not in frontier:
                    continue
                other = steps(edge, position)
                if other is not None and other not in reached:
                    origin = reached[position]
                    reached[other] = Protection(origin.reason, (*origin.chain, edge))
                    fresh.add(other)
        frontier = frozenset(fresh)
    return reached


def spread(starts: Iterable[Hold]) -> Generator[tuple[Hold, ...], Iterable[Edge], None]:
    """Yields the items to protect layer by layer, beginning with `starts`.

    For each layer it expects the edges from it to items that neither it nor an earlier layer holds. So an item is held
    over the first edge that reaches it, by the debate of the item at the edge's other end. The items of one debate
    thus form a forest, in which every chain ends at that debate.
    """
    layer = tuple({hold.number: hold for hold in reversed(tuple(starts))}.values())
    while layer:
        origins = {hold.number: hold for hold in layer}
        fresh: dict[int, Hold] = {}
        for edge in sorted((yield layer), key=lambda e: (e.source, e.target, e.kind)):
            for position in (edge.source, edge.target):
                origin = origins.get(position)
                other = None if origin is None else steps(edge, position)
                if origin is not None and other is not None and other not in origins:
                    fresh.setdefault(other, Hold(other, origin.debate, edge, origin.depth + 1))
        layer = tuple(fresh.values())


def closure_of(starts: Mapping[int, str], edges: Iterable[Edge]) -> dict[int, Protection]:
    """Returns `closure` for edges that are all known, as a map from item number to protection."""
    touching: dict[int, list[Edge]] = {}
    for edge in edges:
        touching.setdefault(edge.source, []).append(edge)
        touching.setdefault(edge.target, []).append(edge)
    walk = closure(starts)
    try:
        frontier = next(walk)
        while True:
            frontier = walk.send({e for number in frontier for e in touching.get(number, ())})
    except StopIteration as end:
        result: dict[int, Protection] = end.value
        return result
