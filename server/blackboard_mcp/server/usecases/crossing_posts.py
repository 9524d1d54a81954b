"""Posts that cross: an author is told about items on the same subject by others that it has not been shown."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from blackboard_mcp.protocols.answers import Posted
from blackboard_mcp.protocols.events import EventType
from blackboard_mcp.protocols.items import TALKING, TRANSITIONS, Item, ItemType, parse_ref
from blackboard_mcp.protocols.remarks import Remark, RemarkKind
from blackboard_mcp.protocols.store import BoardStore

_MATTERS: Final = frozenset(
    {ItemType.HYPOTHESIS, ItemType.QUESTION, ItemType.PROBLEM, ItemType.PLAN, ItemType.DECISION}
)
"""Types of items that two agents are likely to write twice when neither has seen the other's."""
_EVENTS: Final = 100
_ITEMS: Final = 20
"""Most items that are compared, the newest."""
_NAMED: Final = 3
"""Most items of others that are named for each post, the newest."""


async def with_crossing(
    store: BoardStore, board: str, agent: str, posted: Posted, new: Collection[int]
) -> Posted:
    """Returns the answer to a post, with a remark on each new item that crosses with items by others.

    `new` are the places of new items in the call, without amendments.
    """
    fresh = {seq for seq, number in posted.attention.fresh if number}
    asks = [place for place in new if _may_cross(posted.items[place])]
    if not fresh or not asks or posted.repeated:
        return posted
    # What is new to the author is known: from the board's last sequence on the store looks for no more of it.
    log = await store.log(board, agent, min(fresh) - 1, _EVENTS, look=posted.seq)
    written = [
        parse_ref(event.item)
        for event in log.events
        if event.seq in fresh and event.event is EventType.ITEM_POSTED and event.item is not None
    ]
    if not written:
        return posted
    found = await store.read(board, agent, written[-_ITEMS:], [], look=posted.seq)
    return replace(posted, remarks=(*posted.remarks, *_crossing(posted, asks, found.items)))


def _may_cross(item: Item) -> bool:
    return item.key is None and (item.type in _MATTERS or any(edge.kind in TALKING for edge in item.edges))


def _crossing(posted: Posted, asks: Collection[int], others: Sequence[Item]) -> list[Remark]:
    known = {one.number for remark in posted.remarks for one in remark.about}
    known |= {item.number for item in posted.items}
    left = [o for o in others if o.number not in known and o.key is None and TRANSITIONS[o.status]]
    found: list[Remark] = []
    for place in asks:
        item = posted.items[place]
        to = {edge.target for edge in item.edges if edge.kind in TALKING}
        same = [
            o
            for o in left
            if (o.type is item.type and item.type in _MATTERS)
            or any(edge.target in to for edge in o.edges if edge.kind in TALKING)
        ]
        left = [o for o in left if o not in same]
        if same:
            found.append(Remark(place, RemarkKind.UNSEEN, tuple(same[-_NAMED:]), len(same[:-_NAMED])))
    return found
