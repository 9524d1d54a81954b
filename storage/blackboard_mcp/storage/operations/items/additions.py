"""Additions to an entry's number: inside the transaction, a draft that adds becomes one that writes the sum."""

from __future__ import annotations

from dataclasses import replace

from blackboard_mcp.protocols.errors import RulesMoved, UnknownReference
from blackboard_mcp.protocols.items import Draft, content_hash

from ..ledger.ledger import Ledger
from ..ledger.rows import ItemRow


def nothing_there(name: str) -> UnknownReference:
    """Returns the error for an addition to an entry that does not exist."""
    return UnknownReference(
        f"There is no entry '{name}' to add to. Nothing was changed; begin it with its first value: "
        f'{{"key": "{name}", "text": "0", "expected_version": 0}}.',
        key=name,
    )


def summed(ledger: Ledger, row: ItemRow, draft: Draft) -> Draft:
    """Returns the draft with the sum as its text; a draft that adds nothing is returned unchanged.

    Raises:
        UnknownReference: the entry was deleted.
        InvalidInput: its text is not a number, or the sum has too many digits.
        RulesMoved: the board has rules of validation, which were checked against another sum.
    """
    if draft.add is None:
        return draft
    if row.deleted:
        raise nothing_there(row.key or row.id)
    text = draft.add.to(row.key or row.id, row.text)
    if ledger.board.config.validation and draft.text != text:
        raise RulesMoved(f"'{row.key}' was added to while the rules were checked. Nothing was changed.")
    return replace(draft, text=text, tokens=draft.add.count(text), sha256=content_hash(text))
