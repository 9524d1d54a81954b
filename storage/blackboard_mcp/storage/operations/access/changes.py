"""Changes that a post makes, noted for the access policies that judge them."""

from __future__ import annotations

from collections.abc import Sequence

from blackboard_mcp.protocols.changes import ChangeKind
from blackboard_mcp.protocols.items import Draft, EdgeKind, ItemType, Visibility

from ..ledger.ledger import Ledger
from ..ledger.rows import ItemRow


def new(
    ledger: Ledger, draft: Draft, edges: Sequence[tuple[EdgeKind, int]], targets: dict[int, ItemRow]
) -> None:
    """Notes a new item, and each of its edges."""
    if ledger.changes is None or ledger.asking:
        return
    ledger.note(
        ChangeKind.POST,
        type=draft.type or ItemType.FACT,
        key=draft.key,
        author=ledger.agent,
        visibility=Visibility.READERS if draft.kept else draft.visibility or Visibility.BOARD,
        status=draft.status,
    )
    for kind, target in edges:
        ledger.note(ChangeKind.EDGE, targets[target], edge=kind)


def written(
    ledger: Ledger,
    row: ItemRow,
    draft: Draft,
    edges: Sequence[tuple[EdgeKind, int]],
    targets: dict[int, ItemRow],
) -> None:
    """Notes what a draft changes about an existing item, and each new edge."""
    if ledger.changes is None or ledger.asking:
        return
    if draft.delete:
        ledger.note(ChangeKind.DELETE, row)
        return
    if draft.text is not None:
        ledger.note(ChangeKind.VERSION, row)
    elif edges or any(
        value is not None
        for value in (draft.importance, draft.tags, draft.metadata, draft.ttl_seconds, draft.agree)
    ):
        ledger.note(ChangeKind.AMEND, row)
    if draft.status is not None and draft.status != row.status:
        ledger.note(ChangeKind.STATUS, row, status=draft.status)
    for kind, target in edges:
        ledger.note(ChangeKind.EDGE, targets[target], edge=kind)


def also(ledger: Ledger, kind: ChangeKind, row: ItemRow) -> None:
    """Notes a change that a new status implies, such as conceding; policies judge it like a direct call."""
    if not ledger.asking:
        ledger.note(kind, row)
