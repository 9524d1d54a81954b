"""Transactions as models for programs."""

from __future__ import annotations

from collections.abc import Sequence

from blackboard_mcp.protocols.answers import Committed
from blackboard_mcp.protocols.late_models import wire

from .remarks import wire_remarks


def wire_committed(done: Committed, ack: Sequence[str] | None = None) -> wire.TransactionAnswer:
    """Returns the structured answer to a transaction; `ack` are the ids that it acknowledged."""
    return wire.TransactionAnswer(
        items=[wire.wire_item(item) for item in done.items],
        debates=[wire.WireDebated(id=one.id, state=one.state, outcome=one.outcome) for one in done.debates],
        seq=done.seq,
        repeated=done.repeated,
        acknowledged=list(ack or ()),
        endorsed=[done.items[place].id for place in done.endorsed],
        remarks=wire_remarks(done),
    )
