"""Ids as callers wrote them: only the number counts, but the letter of another type suggests a mistake."""

from __future__ import annotations

from collections.abc import Mapping

from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.items import Draft, is_misnamed

from ..ledger.rows import ItemRow


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
