"""Changes inside a transaction: noted when they are made, and compared with what was allowed before the commit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from blackboard_mcp.protocols.access import Role
from blackboard_mcp.protocols.changes import Change, ChangeKind, Permit, Proposal
from blackboard_mcp.protocols.errors import Unpermitted
from blackboard_mcp.protocols.events import SYSTEM
from blackboard_mcp.protocols.items import ItemType

from ..ledger.principals import owners_of
from ..ledger.rows import BoardRow, ItemRow, Steps, sql


class Noted:
    """The changes that an agent makes on a board in one transaction, in order."""

    def __init__(self, board: BoardRow, permit: Permit | None) -> None:
        self._board = board.id
        self._access = board.config.access
        self._permit = permit
        self._made: list[Change] = []
        self.place = 0
        """The position of the present post or write, from 1; 0 if there is only one."""

    def add(self, kind: ChangeKind, item: ItemRow | None, *, known: bool, **more: Any) -> None:
        """Notes a change. `known` is false for an item that this transaction created, whose id is then left out."""
        if item is not None:
            more = {
                "type": ItemType(item.type),
                "key": item.key,
                "item": item.id if known else None,
                "author": item.author,
                "visibility": item.visibility,
                **more,
            }
        self._made.append(Change(self._board, kind, place=self.place, **more))

    def prove(self, agent: str) -> Steps[None]:
        """Checks that all noted changes were allowed by the board's present policies.

        Raises:
            Unpermitted: one was not; the error carries the proposal for the judge.
        """
        if not self._made:
            return
        owners = yield from owners_of({agent, *(change.author for change in self._made)} - {""})
        changes = [replace(change, owner=owners.get(change.author, "")) for change in self._made]
        given = yield sql("member_role"), (self._board, agent)
        role = Role(given[0][0]) if given else None
        if self._permit is not None and self._permit.covers(
            owners[agent], role, self._access, frozenset(changes)
        ):
            return
        raise Unpermitted(
            f"'{self._board}' has access policies, and this was not put before them. Nothing was changed.",
            Proposal(agent, owners[agent], role, self._access, tuple(changes)),
        )


def judged_here(board: BoardRow, agent: str, permit: Permit | None) -> Noted | None:
    """Returns where to note the agent's changes; `None` for a board without policies and for the server itself."""
    if agent == SYSTEM:
        return None
    if board.config.access or (permit is not None and permit.concerns(board.id)):
        return Noted(board, permit)
    return None
