"""The guard's index of protected items, kept up to date by every change of edges and debates.

`protocols.guard.closure` defines what open debates protect. Only edges count whose target is seen by nobody who
does not see the source, so that hidden items protect nothing for others. The table `held` stores the result, one
row for each item with the edge over which it was first reached. New edges and debates only add rows: a walk from
the new element stops at items that are in the table already, so its cost follows the number of added rows, not the
size of the board. When a debate closes, its rows are deleted, and items that other debates still reach are added
again.

The view `protected` tells whether an item may leave; it names every reason once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress

from blackboard_mcp.protocols.guard import Hold, Protection, spread, steps
from blackboard_mcp.protocols.items import Edge, EdgeKind, item_id

from ...operation import Rows
from ..ledger.rows import Kinds, Steps, dumps, edge_of, kinds_of, numbers, sql

SHORT_CHAIN = 12
"""The edges of a chain that are shown unless somebody asks for the whole chain."""
_TO_DO = {"respond": "answer", "acknowledge": "acknowledge", "agree": "agree to"}
WHOLE_CHAIN = 1_000
"""The edges of a chain that are shown to somebody who asks for the whole chain."""


# Keeping the index


def connect(no: int, source: int, edges: Sequence[tuple[EdgeKind, int]]) -> Steps[frozenset[int]]:
    """Stores edges from an item, with everything that the board derives from them.

    Returns targets that no debate protects: all of those, if the edges led the protection of debates no further.
    """
    for kind, target in edges:
        yield sql("edge_add"), (no, source, str(kind), target)
        if kind is EdgeKind.SUPERSEDES:
            yield sql("item_superseded"), (no, target, source)
        elif kind is EdgeKind.ANALYZED_BY:
            yield sql("items_analysed"), (no, source, target)
    followed = [e for e in (Edge(source, kind, target) for kind, target in edges) if steps(e, e.source)]
    if not followed:
        return frozenset()
    known = yield from _held(no, {source, *(edge.target for edge in followed)})
    free = frozenset(edge.target for edge in followed if edge.target not in known)
    reached: list[tuple[int, int, Edge]] = []
    for edge in followed:
        for position in (edge.source, edge.target):
            other = steps(edge, position) if position in known else None
            if other is not None and other not in known:
                reached.append((position, other, edge))
    if not reached:
        return free
    shared = set((yield sql("shared_pairs"), (no, dumps([pair[:2] for pair in reached]))))
    starts: dict[int, Hold] = {}
    for position, other, edge in reached:
        if (position, other) in shared:
            debate, depth = known[position]
            starts.setdefault(other, Hold(other, debate, edge, depth + 1))
    yield from _spread(no, starts.values())
    return frozenset()


def hold(no: int, debate: int, item: int, *, free: bool = False, alone: int | None = None) -> Steps[None]:
    """Adds an item that an open debate is about, and all that it reaches.

    `free` says that no debate protects it yet; `alone` names an item that has one edge and is reached by no other.
    """
    if free or item not in (yield from _held(no, [item])):
        yield from _spread(no, [Hold(item, debate)], alone)


def release(no: int, debate: int) -> Steps[None]:
    """Removes what a closed debate protected, except for items that other debates reach."""
    dropped = yield sql("held_drop"), (no, debate)
    if any(others for _, others in dropped):
        yield from _hold_again(no, [number for number, _ in dropped])


def rebuild() -> Steps[None]:
    """Fills the index of every board anew from its open debates."""
    boards: dict[int, list[Hold]] = {}
    for no, number, debate in (yield sql("debated_anywhere"), ()):
        boards.setdefault(no, []).append(Hold(number, debate))
    yield sql("held_clear"), ()
    for no, starts in boards.items():
        yield from _spread(no, starts)


def _hold_again(no: int, dropped: Collection[int]) -> Steps[None]:
    """Adds those of the removed items again that other debates still reach, and all that they reach."""
    if not dropped:
        return
    listed = numbers(dropped)
    starts = [Hold(number, debate) for number, debate in (yield sql("debated"), (no, listed))]
    reached: list[Hold] = []
    for row in (yield sql("edges_from_held"), (no, listed)):
        edge, (origin, debate, depth) = edge_of(row), row[3:]
        other = steps(edge, origin)
        if other is not None:
            reached.append(Hold(other, debate, edge, depth + 1))
    reached.sort(key=lambda hold: hold.depth)
    yield from _spread(no, [*starts, *reached])


def _spread(no: int, starts: Iterable[Hold], alone: int | None = None) -> Steps[None]:
    """Adds the items where a walk starts, and all that they reach; `alone` as in `hold`."""
    rows: list[tuple[int | str, ...]] = []
    reached: set[int] = set()
    walk = spread(starts)
    with suppress(StopIteration):
        layer = next(walk)
        while True:
            for h in layer:
                edge = (0, "", 0) if h.edge is None else _plain(h.edge)
                rows.append((h.number, h.debate, *edge, h.depth))
            reached.update(h.number for h in layer)
            on = [h.number for h in layer if h.number != alone]
            found = (yield sql("edges_to_free"), (no, numbers(on))) if on else []
            # The rows are stored at the end, so the statement finds what was reached meanwhile.
            layer = walk.send([edge_of(row) for row in found if not {row[0], row[2]} <= reached])
    if rows:
        yield sql("held_add"), (no, dumps(rows))


def _plain(edge: Edge) -> tuple[int, str, int]:
    """Returns an edge as source, kind and target."""
    return edge.source, str(edge.kind), edge.target


def _held(no: int, wanted: Iterable[int]) -> Steps[dict[int, tuple[int, int]]]:
    """Returns, for those of the items that debates protect, the debate and the number of edges from it."""
    rows = yield sql("held"), (no, numbers(wanted))
    return {row[0]: (row[1], row[2]) for row in rows}


# Asking it


def protected_among(no: int, wanted: Iterable[int]) -> Steps[set[int]]:
    """Returns those of the items that may not leave working memory, for any reason."""
    rows = yield sql("protected_among"), (no, numbers(wanted))
    return {row[0] for row in rows}


def protected_figures(no: int, agent: str | None = None) -> Steps[tuple[int, int]]:
    """Returns the number of protected items in working memory and their tokens.

    With `agent` it counts only items that this agent may see.
    """
    if agent is None:
        rows = yield sql("protected_figures"), (no,)
    else:
        rows = yield sql("protected_figures_visible"), (no, agent)
    return rows[0][0], rows[0][1]


def protections(
    no: int,
    wanted: Collection[int],
    *,
    most: int = SHORT_CHAIN,
    kinds: Kinds | None = None,
    law: Rows | None = None,
) -> Steps[dict[int, Protection]]:
    """Returns the protection of those of the items that are protected, by number; `kinds` as for `values`.

    `law` are the rows of the statement `law`, if the caller has read them for an agent who may see all of the items.

    The reason is the first that applies of debate, duty, request, and constraint or hot issue. Its chain has at most
    `most` edges, those nearest to the item.
    """
    held: dict[int, Protection] = {}
    roots: dict[int, str] = {}
    depths: dict[int, int] = {}
    there = kinds or (yield from kinds_of(no))
    asking = law is None or there.holds or there.open_debates or there.duties or there.requests
    listed = numbers(wanted) if asking else ""
    if there.holds:
        for number, depth, root, type_ in (yield sql("held_for"), (no, listed)):
            roots[number], depths[number] = f"open debate on {item_id(type_, root)}", depth
    if there.open_debates:
        for number, root, type_ in (yield sql("debated_for"), (no, listed)):
            roots[number], depths[number] = f"open debate on {item_id(type_, root)}", 0
    chains: dict[int, list[Edge]] = {}
    deep = [number for number, depth in depths.items() if depth]
    if deep and most:
        for row in (yield sql("chains"), (no, numbers(deep), most)):
            chains.setdefault(row[0], []).append(edge_of(row[1:]))
    for number, reason in roots.items():
        chain = tuple(chains.get(number, ()))
        held[number] = Protection(reason, chain, depths[number] - len(chain))
    owed = (yield sql("obligations_outstanding"), (no, listed)) if there.duties else []
    for item, agent, duty in owed:
        held.setdefault(item, Protection(f"{agent} has yet to {_TO_DO.get(duty, duty)} it"))
    asked = (yield sql("requests_among"), (no, listed)) if there.requests else []
    for number, agent, skill, holder in asked:
        who = (
            f"{holder or agent} has yet to answer"
            if holder or agent
            else f"nobody with the skill {skill} has taken"
        )
        held.setdefault(number, Protection(f"open request, which {who}"))
    if law is None:
        law = yield sql("law_among"), (no, listed)
    for number, type_ in law:
        if number in wanted:
            what = "active constraint" if type_ == "CONSTRAINT" else "open hot issue"
            held.setdefault(number, Protection(what))
    return held
