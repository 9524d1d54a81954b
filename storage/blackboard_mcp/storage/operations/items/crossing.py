"""Posts that cross: an author is told about items on the same subject by others that it has not been shown."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from blackboard_mcp.protocols.answers import Attention
from blackboard_mcp.protocols.items import TALKING, TRANSITIONS, Item, ItemType
from blackboard_mcp.protocols.remarks import Remark, RemarkKind

from ..ledger.ledger import Ledger, load_any
from ..ledger.rows import Steps, dumps, numbers, sql
from ..reading.item_states import values

_MATTERS: Final = frozenset(
    {ItemType.HYPOTHESIS, ItemType.QUESTION, ItemType.PROBLEM, ItemType.PLAN, ItemType.DECISION}
)
"""Types of items that two agents are likely to write twice when neither has seen the other's."""
_OPEN: Final = dumps([str(status) for status, next_ in TRANSITIONS.items() if next_])
"""Statuses of items that may still change, as a JSON list."""
_ITEMS: Final = 20
"""Most items that are compared, the newest."""
_NAMED: Final = 3
"""Most items of others that are named for each post, the newest."""


def remarks(
    ledger: Ledger, items: Sequence[Item], attention: Attention, known: Sequence[Remark]
) -> Steps[tuple[Remark, ...]]:
    """Returns a remark on each new item that crosses with items by others, besides those that `known` names.

    `items` are those of the call, and `attention` tells what their author has not been shown.
    """
    asks = [
        (place, item) for place, item in enumerate(items) if item.number in ledger.fresh and _may_cross(item)
    ]
    fresh = {seq: number for seq, number in attention.fresh if number} if asks else {}
    if not fresh:
        return ()
    types = sorted({str(item.type) for _, item in asks} & _MATTERS)
    targets = sorted({target for _, item in asks for target in _talks_to(item)})
    name, among = ("crossing", dumps(types)) if types else ("crossing_talk", numbers(fresh.values()))
    asked = (ledger.no, ledger.agent, dumps([*fresh]), _OPEN, among, dumps(targets), _ITEMS)
    found = [row[0] for row in (yield sql(name), asked)]
    named = {one.number for remark in known for one in remark.about}
    rows = yield from load_any(ledger.no, [number for number in found if number not in named])
    others = yield from values(ledger.board, [rows[number] for number in sorted(rows)], ledger.agent)
    return tuple(_crossing(asks, others))


def _may_cross(item: Item) -> bool:
    return item.key is None and (item.type in _MATTERS or bool(_talks_to(item)))


def _talks_to(item: Item) -> set[int]:
    """Returns the numbers of the items whose conversation the item joins."""
    return {edge.target for edge in item.edges if edge.kind in TALKING}


def _crossing(asks: Sequence[tuple[int, Item]], left: Collection[Item]) -> list[Remark]:
    found: list[Remark] = []
    for place, item in asks:
        to = _talks_to(item)
        same = [
            o
            for o in left
            if (o.type is item.type and item.type in _MATTERS) or not to.isdisjoint(_talks_to(o))
        ]
        left = [o for o in left if o not in same]
        if same:
            found.append(Remark(place, RemarkKind.UNSEEN, tuple(same[-_NAMED:]), len(same[:-_NAMED])))
    return found
