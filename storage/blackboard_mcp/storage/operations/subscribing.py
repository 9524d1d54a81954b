"""Durable subscriptions: a filter and a place in the log."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from blackboard_mcp.protocols.errors import Refused, UnknownReference
from blackboard_mcp.protocols.store import Subscription

from .ledger import get_board
from .rows import Steps, dumps, instant, sql

MAX_SUBSCRIPTIONS = 100


def _subscription(row: Sequence[Any]) -> Subscription:
    return Subscription(row[0], row[1], row[2], json.loads(row[3]), row[4], instant(row[5]))


def subscribe(
    board: str, agent: str, id_: str, name: str, filter_: dict[str, Any], now: int
) -> Steps[Subscription]:
    """A subscription from the present end of the log; a name is used once at a time."""
    row = yield from get_board(board)
    held = yield sql("subscriptions"), (row.no, agent)
    if len(held) >= MAX_SUBSCRIPTIONS:
        raise Refused(
            f"You hold {MAX_SUBSCRIPTIONS} subscriptions on '{board}', which is the limit. Nothing was changed; "
            "subscribe(unsubscribe=id) ends one."
        )
    if name and any(name in (other[0], other[2]) for other in held):
        raise Refused(
            f"You already hold a subscription named '{name}'. Nothing was changed; "
            f'subscribe(unsubscribe="{name}") ends it.'
        )
    yield sql("subscription_add"), (row.no, id_, agent, name, dumps(filter_), row.seq, now)
    return Subscription(id_, agent, name, filter_, row.seq, instant(now))


def unsubscribe(board: str, agent: str, id_or_name: str) -> Steps[bool]:
    row = yield from get_board(board)
    held = yield sql("subscription"), (row.no, agent, id_or_name)
    if held:
        yield sql("subscription_drop"), (row.no, agent, held[0][0])
    return bool(held)


def subscriptions(board: str, agent: str) -> Steps[list[Subscription]]:
    row = yield from get_board(board)
    return [_subscription(r) for r in (yield sql("subscriptions"), (row.no, agent))]


def find_subscription(board: str, agent: str, id_or_name: str) -> Steps[Subscription | None]:
    row = yield from get_board(board)
    held = yield sql("subscription"), (row.no, agent, id_or_name)
    return _subscription(held[0]) if held else None


def move_cursor(board: str, agent: str, id_: str, cursor: int) -> Steps[None]:
    row = yield from get_board(board)
    if cursor > row.seq or cursor < 0:
        raise UnknownReference(
            f"since={cursor} is not a sequence of '{board}', which stands at {row.seq}. Nothing was changed."
        )
    yield sql("subscription_cursor"), (row.no, agent, id_, cursor)
