"""Items in answers to callers who may write on a board but not read it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from blackboard_mcp.protocols.answers import Posted
from blackboard_mcp.protocols.grants import GRANTED
from blackboard_mcp.protocols.items import Item
from blackboard_mcp.protocols.late_models import wire
from blackboard_mcp.protocols.remarks import RemarkKind


def wire_for(agent: str) -> Callable[[Item], wire.WireItem]:
    """Returns the function that turns items written by the current call into models.

    Callers who may read the board get whole items, others only what they sent themselves.
    """
    grant = GRANTED.get()
    return wire.wire_item if grant is None or grant.reads else partial(_unread, agent)


def readable(posted: Posted) -> Posted:
    """Returns the answer to a post; without remarks on others' items for callers who may not read the board."""
    grant = GRANTED.get()
    if grant is None or grant.reads or not posted.remarks:
        return posted
    return replace(posted, remarks=tuple(r for r in posted.remarks if r.kind is RemarkKind.SAME))


def _unread(agent: str, item: Item) -> wire.WireItem:
    """Returns an item's id and status, with its contents only if the agent sent them and nobody changed them
    since.
    """
    hidden: dict[str, Any] = {"cited_by": {}, "retracted": []}
    hidden |= {"supporters": [], "opponents": [], "support": 0, "opposition": 0}
    fresh = item.version == 1 and item.updated_at == item.created_at
    if not fresh or {item.author, item.updated_by} != {agent}:
        hidden |= {"text": "", "tags": [], "edges": {}, "metadata": {}, "tokens": 0, "sha256": ""}
    return wire.wire_item(item).model_copy(update=hidden)
