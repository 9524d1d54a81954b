"""Ids as they were written: the number decides, but a letter of another type is a sign of a mistake."""

from __future__ import annotations

from collections.abc import Mapping

from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.items import Draft, is_misnamed

from ..ledger.rows import ItemRow


def check_letters(draft: Draft, found: Mapping[int, ItemRow]) -> None:
    """Refuses an id with the letter of another type: the caller may well mean another item.

    Raises:
        InvalidInput: one has.
    """
    for ref in draft.letters:
        if ref.number in found and is_misnamed(ref, found[ref.number].type):
            row = found[ref.number]
            raise InvalidInput(
                f"There is no {ref.letter}-{ref.number}: number {ref.number} is {row.id}. Nothing was changed; "
                f'read(ids=["{row.id}"]) shows whether that is the item you mean.',
                item=row.id,
            )
