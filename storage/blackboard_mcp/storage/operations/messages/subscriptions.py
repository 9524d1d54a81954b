"""Durable subscriptions: a filter and a place in the log, kept as long as somebody uses them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from blackboard_mcp.protocols.answers import (
    Once,
    Subscription,
)
from blackboard_mcp.protocols.board import BoardConfig
from blackboard_mcp.protocols.clock import new_token
from blackboard_mcp.protocols.errors import CursorExpired, QuotaExceeded, Refused

from ...operation import Write
from ..ledger.idempotency import Form, repeatable, whole
from ..ledger.ledger import get_board
from ..ledger.places import check_place
from ..ledger.rows import BoardRow, Steps, dumps, instant, sql

MAX_SUBSCRIPTIONS = 100
_BATCH = 200
_FILTER_SHOWN = 200


def _subscription(row: Sequence[Any]) -> Subscription:
    """Makes a subscription from its row."""
    expired = None if row[7] is None else instant(row[7])
    return Subscription(
        row[0], row[1], row[2], json.loads(row[3]), row[4], instant(row[5]), instant(row[6]), expired
    )


@repeatable(Subscription)
def subscribe(
    write: Write,
    board: str,
    agent: str,
    name: str,
    filter_: dict[str, Any],
    *,
    once: Once | None = None,
    most: int = MAX_SUBSCRIPTIONS,
) -> Steps[Subscription]:
    """Creates a subscription that begins at the present end of the log.

    Raises:
        UnknownReference: the board does not exist.
        QuotaExceeded: the agent has `most` subscriptions already.
        Refused: the agent has one of that name.
    """
    row = yield from get_board(board)
    held = yield sql("subscriptions"), (row.no, agent)
    most = min(most, MAX_SUBSCRIPTIONS)
    if len(held) >= most:
        raise QuotaExceeded(
            f"You hold {len(held)} subscriptions on '{board}', and {most} is the limit (subscriptions_per_agent). "
            "Nothing was changed; subscribe(unsubscribe=id) ends one.",
            limit="subscriptions_per_agent",
            most=most,
        )
    if name and any(name in (other[0], other[2]) for other in held):
        raise Refused(
            f"You already hold a subscription named '{name}'. Nothing was changed; "
            f'subscribe(unsubscribe="{name}") ends it.'
        )
    id_ = "sub-" + new_token(6)
    yield sql("subscription_add"), (row.no, id_, agent, name, dumps(filter_), row.seq, write.now)
    return Subscription(id_, agent, name, filter_, row.seq, instant(write.now), instant(write.now))


ENDED = Form(lambda done: done or None, whole(bool).again)
"""The form that stores that a subscription was ended; the answer false is not stored."""


@repeatable(ENDED)
def unsubscribe(
    write: Write, board: str, agent: str, id_or_name: str, *, once: Once | None = None
) -> Steps[bool]:
    """Ends a subscription, or forgets an expired one; returns false if there is neither."""
    row = yield from get_board(board)
    for found, dropped in (
        ("subscription", "subscription_drop"),
        ("subscription_expired", "subscription_expired_drop"),
    ):
        held = yield sql(found), (row.no, agent, id_or_name)
        if held:
            yield sql(dropped), (row.no, agent, held[0][0])
            return True
    return False


def subscriptions(board: str, agent: str) -> Steps[list[Subscription]]:
    """Returns the agent's subscriptions, oldest first, then those that expired recently, newest first."""
    row = yield from get_board(board)
    live = yield sql("subscriptions"), (row.no, agent)
    expired = yield sql("subscriptions_expired"), (row.no, agent, MAX_SUBSCRIPTIONS)
    return [_subscription(r) for r in (*live, *expired)]


def find_subscription(board: str, agent: str, id_or_name: str) -> Steps[Subscription | None]:
    """Returns one of the agent's subscriptions, or `None`.

    Raises:
        CursorExpired: it expired unused, or its cursor is beyond the end of the log.
    """
    row = yield from get_board(board)
    held = yield sql("subscription"), (row.no, agent, id_or_name)
    if held:
        found = _subscription(held[0])
        if found.cursor > row.seq:
            raise _ahead(row, found)
        return found
    gone = yield sql("subscription_expired"), (row.no, agent, id_or_name)
    if gone:
        raise _expired(row, _subscription(gone[0]))
    return None


def _named(held: Subscription) -> str:
    """Returns the words for a subscription: its name, if it has one, and its id."""
    return f"'{held.name}' ({held.id})" if held.name else f"'{held.id}'"


def _anew(held: Subscription) -> str:
    """Returns the call that creates such a subscription again."""
    told = dumps(held.filter)
    return f"subscribe(filter={told})" if len(told) <= _FILTER_SHOWN else "subscribe(filter={…})"


def _expired(row: BoardRow, held: Subscription) -> CursorExpired:
    """Returns the error for an expired subscription."""
    return CursorExpired(
        f"Your subscription {_named(held)} expired: it was last used {held.used_at:%Y-%m-%d %H:%M}Z. Nothing is lost, "
        f"the log is kept whole: wait(since={held.cursor}) goes on from where it stood, to seq {row.seq} now; or "
        f"read() shows the board as it is. {_anew(held)} begins anew from the present end.",
        cursor=held.cursor,
        seq=row.seq,
    )


def _ahead(row: BoardRow, held: Subscription) -> CursorExpired:
    """Returns the error for a cursor beyond the end of the log."""
    return CursorExpired(
        f"Your subscription {_named(held)} stands at {held.cursor}, and the log of '{row.id}' ends at {row.seq}: it "
        f"was restored from an older copy. read() shows the board as it is; then "
        f'subscribe(unsubscribe="{held.id}") and {_anew(held)}.',
        cursor=held.cursor,
        seq=row.seq,
    )


def move_cursor(
    write: Write, board: str, agent: str, id_: str, cursor: int, *, since: int | None = None
) -> Steps[bool]:
    """Moves a subscription's cursor, which counts as a use; returns whether it was moved.

    With `since` it moves only if the cursor stands there. Without, it never moves back.

    Raises:
        CursorExpired: `cursor` is not a place of the log.
    """
    row = yield from get_board(board)
    yield from check_place(row, cursor)
    if since is not None:
        moved = yield sql("subscription_advance"), (row.no, agent, id_, cursor, write.now, since)
        return bool(moved)
    if not (yield sql("subscription"), (row.no, agent, id_)):
        return False
    yield sql("subscription_forward"), (row.no, agent, id_, cursor, write.now)
    return True


def return_cursor(write: Write, board: str, agent: str, id_: str, cursor: int) -> Steps[None]:
    """Moves a cursor back after a delivery that nobody received."""
    row = yield from get_board(board)
    yield sql("subscription_return"), (row.no, agent, id_, cursor)


def abandoned(now: int) -> Steps[list[str]]:
    """Returns the boards where subscriptions are due to expire, or where expired ones are due to be deleted."""
    usual = BoardConfig().subscription_lease_seconds
    return [row[0] for row in (yield sql("subscriptions_abandoned_somewhere"), (now, usual))]


def expire(write: Write, board: str) -> Steps[None]:
    """Expires unused subscriptions, and deletes those that expired a whole lease ago.

    One call handles some hundreds of each at most.
    """
    row = yield from get_board(board)
    if not (lease := row.config.subscription_lease_seconds):
        return
    before = write.now - lease * 1_000_000
    for agent, id_ in (yield sql("subscriptions_long_expired"), (row.no, before, _BATCH)):
        yield sql("subscription_expired_drop"), (row.no, agent, id_)
    for agent, id_ in (yield sql("subscriptions_abandoned"), (row.no, before, _BATCH)):
        yield sql("subscription_expire"), (row.no, agent, id_, write.now)
        yield sql("subscription_drop"), (row.no, agent, id_)
