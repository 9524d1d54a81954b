"""Read rules: their store, and the mark that a rule gives what an agent writes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from blackboard_mcp.protocols.access import Role
from blackboard_mcp.protocols.errors import InvalidInput, Refused
from blackboard_mcp.protocols.items import Draft, ItemType, Visibility
from blackboard_mcp.protocols.read_rules import ReadRule, rules_json, rules_of

from ...operation import Write
from ..ledger.ledger import Ledger
from ..ledger.principals import principals
from ..ledger.rows import ItemRow, Steps, dumps, sql

_NOBODY = ":"


def read_rules() -> Steps[tuple[ReadRule, ...]]:
    """Returns the read rules of the installation, in their order."""
    rows = yield sql("read_rules"), ()
    return rules_of(rows[0][0]) if rows else ()


def set_read_rules(write: Write, rules: Iterable[ReadRule]) -> Steps[None]:
    """Sets the read rules of the installation: the first that an item meets keeps it, if it is written from now on.

    Readers count at once for all that rules of the same names keep. Consumer groups hand out what everybody sees, and
    let go of what everybody saw until now.
    """
    listed = list(rules)
    yield sql("read_rules_drop"), ()
    yield sql("rule_readers_drop"), ()
    if listed:
        yield sql("read_rules_set"), (rules_json(listed),)
        readers = [(rule.mark, reader) for rule in listed for reader in rule.readers or (_NOBODY,)]
        yield sql("rule_readers_add"), (dumps(readers),)
    yield sql("deliveries_hide"), ("",)


def shown_role(board: str, agent: str) -> Steps[Role | None]:
    """Returns the role that was recorded last for the agent on the board, or `None`."""
    rows = yield sql("shown_role"), (board, agent)
    return Role(rows[0][0]) if rows else None


def set_shown_role(write: Write, board: str, agent: str, role: Role) -> Steps[bool]:
    """Records the role that the agent's credential gives it on the board; returns whether the board exists."""
    return bool((yield sql("shown_role_set"), (board, agent, str(role))))


def kept(ledger: Ledger, draft: Draft, row: ItemRow | None) -> Steps[Draft]:
    """Returns the draft with the mark of the first rule that keeps what it makes of `row`, or of a new item.

    What is private stays so: its author alone reads it.

    Raises:
        Refused: a rule keeps it, and the draft says that the whole board or a team may see it.
        InvalidInput: the draft's tags would bring an item that exists under a rule.
    """
    rules = rules_of(ledger.board.read_rules)
    if not rules or draft.visibility is Visibility.PRIVATE or draft.delete:
        return draft
    if row is not None and (row.visibility not in (Visibility.BOARD, Visibility.TEAM) or draft.tags is None):
        return draft
    kind = (draft.type or ItemType.FACT) if row is None else ItemType(row.type)
    key = draft.key if row is None else row.key
    author = ledger.agent if row is None else row.author
    of = yield from principals(ledger.no, author)
    for rule in rules:
        if not rule.keeps(ledger.board.id, kind, key, draft.tags or (), of):
            continue
        if row is not None:
            if not rule.tags:
                return draft
            raise InvalidInput(
                f"With these tags the read rule '{rule.name}' would keep {row.id} for its readers, and who may see an "
                "item never changes. Nothing was changed; post a new item with them, and withdraw this one."
            )
        if draft.visibility is not None:
            raise Refused(
                f"The read rule '{rule.name}' keeps this for its readers, so it cannot be for the {draft.visibility}. "
                "Nothing was changed; post it without visibility, or as private, or with another key, type or tags."
            )
        return replace(draft, kept=rule.of(ledger.agent, of))
    return draft
