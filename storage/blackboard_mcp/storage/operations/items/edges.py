"""Edges of an item: which are new, and what they cause in debates, questions and superseded items."""

from __future__ import annotations

from collections.abc import Iterable

from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.events import EventType
from blackboard_mcp.protocols.items import FOLLOWED_BOTH_WAYS, EdgeKind, Zone

from ..debates import agreements
from ..debates import answers as answering
from ..debates import debates as debating
from ..leaving import guard_index
from ..ledger.ledger import Ledger
from ..ledger.rows import ItemRow, Steps, sql
from ..messages import request_rows
from . import claims, questions, retraction
from .claims import Replaced


def fresh(
    ledger: Ledger, row: ItemRow, edges: tuple[tuple[EdgeKind, int], ...]
) -> Steps[tuple[tuple[EdgeKind, int], ...]]:
    """Returns those of the edges that the item does not have yet."""
    if not edges:
        return edges
    rows = yield sql("edges_touching"), (ledger.no, f"[{row.number}]")
    known = {(kind, target) for source, kind, target in rows if source == row.number}
    return tuple(edge for edge in edges if (str(edge[0]), edge[1]) not in known)


def connect(
    ledger: Ledger,
    row: ItemRow,
    edges: tuple[tuple[EdgeKind, int], ...],
    targets: dict[int, ItemRow],
) -> Steps[list[Replaced]]:
    """Stores edges and applies their effects on debates, answers and citations.

    Returns the superseded items, by their author's own word or agreement, for `supersede`.

    Raises:
        InvalidInput: an edge leads to the item itself, or closes a cycle of `depends_on`.
    """
    listed = [targets[number] for kind, number in edges if kind is EdgeKind.SUPERSEDES]
    fallen = (yield from retraction.fallen(ledger, listed)) if listed else {}
    for kind, target in edges:
        if target == row.number:
            raise InvalidInput(f"{row.id} cannot have an edge to itself. Nothing was changed.")
        if kind is EdgeKind.DEPENDS_ON and (yield sql("depends_reaches"), (ledger.no, target, row.number)):
            raise InvalidInput(
                f"{row.id} depends_on {targets[target].id} would close a cycle of depends_on. "
                "Nothing was changed."
            )
    free = yield from guard_index.connect(ledger.no, row.number, edges)
    if any(kind is EdgeKind.DEPENDS_ON or kind in FOLLOWED_BOTH_WAYS for kind, _ in edges):
        ledger.holding.add(row.number)
    yield from retraction.cite(ledger, row, edges, targets)
    for kind, number in edges:
        if kind is EdgeKind.REPLIES_TO:
            yield from questions.answered(ledger, row, targets[number])
    if not row.public:
        return []  # an item that some cannot see has no effect on what they see
    agreed: list[Replaced] = []
    for kind, number in edges:
        cited = targets[number]
        if kind is EdgeKind.SUPPORTS:
            agreed += yield from claims.agree(ledger, row, cited)
            yield from agreements.give(ledger, cited)
        if kind is EdgeKind.CRITIQUES and cited.public:
            alone = len(edges) == 1 and row.number in ledger.fresh
            yield from debating.critique(ledger, row, cited, free=number in free, alone=alone)
            free = frozenset()  # the debate may protect the other targets
        if kind in FOLLOWED_BOTH_WAYS:
            yield from answering.answer(ledger, row, cited)
        if kind is EdgeKind.REPLIES_TO:
            yield from request_rows.answered_by_post(ledger, row, cited)
    own = [target for target in listed if target.author == ledger.agent]
    return [(target, row, target.number in fallen) for target in own] + agreed


def supersede(ledger: Ledger, replaced: Iterable[Replaced]) -> Steps[None]:
    """Archives the items that `connect` returned, and notifies the items that cite them.

    It must come last in a post, when the guard knows the debates that the post opened or closed.
    """
    for target, by, fallen in replaced:
        yield from questions.over(ledger, target, f"superseded by {by.id}")
        yield from agreements.end(ledger, target, retraction.SUPERSEDED)
        yield from _supersede(ledger, by, target)
        if not fallen:
            yield from retraction.retract(ledger, target, retraction.SUPERSEDED, by.number)


def _supersede(ledger: Ledger, by: ItemRow, target: ItemRow) -> Steps[None]:
    """Archives a superseded item, unless the guard protects it."""
    if target.zone != Zone.WORKING:
        return
    if (yield from guard_index.protected_among(ledger.no, [target.number])):
        return  # a later pass archives it, when the guard no longer protects it
    yield from ledger.archive(target, EventType.ITEM_SUPERSEDED, data={"by": by.id})
