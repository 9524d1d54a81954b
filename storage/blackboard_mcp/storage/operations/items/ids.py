"""Ids as callers wrote them: only the number counts, but the letter of another type suggests a mistake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.items import Draft, is_misnamed

from ..ledger.rows import ItemRow


def earlier(placed: Sequence[int], place: int) -> int:
    """Returns the number of an earlier item of the batch; `place` is -1 for the first.

    Raises:
        InvalidInput: that item does not come earlier.
    """
    index = -place - 1
    if index >= len(placed):
        raise InvalidInput(
            f"'${index + 1}' names item {index + 1} of this batch, which does not come before the item that "
            "cites it. Nothing was changed."
        )
    return placed[index]


def check_letters(draft: Draft, found: Mapping[int, ItemRow]) -> None:
    """Refuses an id with the letter of another type, since the caller may mean another item.

    Raises:
        InvalidInput: an id has the wrong letter.
    """
    for ref in draft.letters:
        if ref.number in found and is_misnamed(ref, found[ref.number].type):
            row = found[ref.number]
            raise InvalidInput(
                f"There is no {ref.letter}-{ref.number}: number {ref.number} is {row.id}. Nothing was changed; "
                f'read(ids=["{row.id}"]) shows whether that is the item you mean.',
                item=row.id,
            )
