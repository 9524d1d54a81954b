"""Items as they are answered to who may write on a board and not read it."""

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
    """How the items that the call under way wrote to are answered: whole to who may read the board."""
    grant = GRANTED.get()
    return wire.wire_item if grant is None or grant.reads else partial(_unread, agent)


def readable(posted: Posted) -> Posted:
    """The same; to who may not read the board without remarks on what others wrote."""
    grant = GRANTED.get()
    if grant is None or grant.reads or not posted.remarks:
        return posted
    return replace(posted, remarks=tuple(r for r in posted.remarks if r.kind is RemarkKind.SAME))


def _unread(agent: str, item: Item) -> wire.WireItem:
    """Where the item lives and how it stands, and of its contents what the agent sent itself.

    That is all of an item of its own that nobody changed since it was posted, and nothing of any other.
    """
    hidden: dict[str, Any] = {"cited_by": {}, "retracted": []}
    hidden |= {"supporters": [], "opponents": [], "support": 0, "opposition": 0}
    fresh = item.version == 1 and item.updated_at == item.created_at
    if not fresh or {item.author, item.updated_by} != {agent}:
        hidden |= {"text": "", "tags": [], "edges": {}, "metadata": {}, "tokens": 0, "sha256": ""}
    return wire.wire_item(item).model_copy(update=hidden)
