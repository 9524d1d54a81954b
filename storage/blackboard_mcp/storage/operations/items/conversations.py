"""The conversation that a post names."""

from __future__ import annotations

from collections.abc import Sequence

from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.items import Draft, Visibility, check_letters
from blackboard_mcp.protocols.visibility import visible_with

from ..ledger.ledger import Ledger, load_visible
from ..ledger.rows import ItemRow, Steps
from .ids import earlier


def find(ledger: Ledger, draft: Draft, placed: Sequence[int]) -> Steps[ItemRow | None]:
    """Returns the item that the draft names as one of its conversation, or `None`. `placed` are earlier items.

    Raises:
        UnknownReference: it does not exist, or the agent may not see it.
        InvalidInput: its letter is wrong.
    """
    if draft.thread is None:
        return None
    number = draft.thread if draft.thread >= 0 else earlier(placed, draft.thread)
    found = yield from load_visible(ledger.no, [number], ledger.agent, ledger.board.id)
    check_letters(draft.letters, {number: found[number].type})
    return found[number]


def check_open(joins: ItemRow, mark: str, answered: Sequence[ItemRow]) -> None:
    """Checks that a new item with this visibility mark may join the conversation of `joins`.

    `answered` are the items that it replies to or criticises.

    Raises:
        InvalidInput: some who see the new item may not see `joins`, or an answered item stands elsewhere.
    """
    if not visible_with(joins.owner, mark):
        or_so = "" if joins.visibility is Visibility.READERS else f", or give visibility='{joins.visibility}'"
        raise InvalidInput(
            f"Not everybody who would see this post may see {joins.id}. Nothing was changed; leave out thread{or_so}."
        )
    if answered and all(row.thread != joins.thread for row in answered):
        raise InvalidInput(
            f"{answered[0].id} stands in another conversation than {joins.id}, and an answer stands where the answered "
            "item does. Nothing was changed; leave out thread."
        )


def check_same(row: ItemRow, joins: ItemRow | None) -> None:
    """Checks that an existing item stands in the conversation of `joins`, if there is one.

    Raises:
        InvalidInput: it does not.
    """
    if joins is not None and joins.thread != row.thread:
        raise InvalidInput(
            f"{row.id} stands in another conversation than {joins.id}, and the conversation of an item never changes. "
            "Nothing was changed; leave out thread."
        )
