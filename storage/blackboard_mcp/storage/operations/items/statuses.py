"""Statuses that posts set: the allowed transitions, and their effects on debates about the item."""

from __future__ import annotations

from blackboard_mcp.protocols.changes import ChangeKind
from blackboard_mcp.protocols.errors import Conflict, Refused
from blackboard_mcp.protocols.events import EventType
from blackboard_mcp.protocols.items import FINISHED, TRANSITIONS, ItemType, Status, Zone
from blackboard_mcp.protocols.pruning import exempt

from ..access import changes as noting
from ..debates import agreements, decisions
from ..debates import debates as debating
from ..ledger.ledger import Ledger
from ..ledger.principals import behind
from ..ledger.rows import ItemRow, Steps, sql
from . import questions, retraction


def set_status(ledger: Ledger, row: ItemRow, status: Status) -> Steps[None]:
    """Moves an item to another status, with the effects on debates, agreements and citing items.

    Raises:
        Conflict: no transition leads there from the present status.
        Refused: only the author or a debate may change the status so.
    """
    current = Status(row.status)
    if status not in TRANSITIONS[current]:
        allowed = ", ".join(sorted(TRANSITIONS[current])) or "none: that status is final"
        raise Conflict(
            f"{row.id} is {current} and cannot become {status}. Allowed: {allowed}. Nothing was changed.",
            item=row.id,
            status=str(current),
        )
    if status is Status.DEBATED:
        noting.also(ledger, ChangeKind.OPEN, row)
        yield from debating.open_explicitly(ledger, row, [])
        return
    if status is Status.WITHDRAWN and row.author != ledger.agent:
        raise Refused(f"Only {row.author}, its author, may withdraw {row.id}. Nothing was changed.")
    if row.author != ledger.agent and row.type == ItemType.CONSTRAINT and not ledger.governs(row):
        raise Refused(
            f"Only {row.author}, its author, may retire the constraint {row.id}. Nothing was changed; a CRITIQUE "
            "of it opens a debate."
        )
    if (
        status is Status.INVALIDATED
        and row.type == ItemType.CRITIQUE
        and row.author != ledger.agent
        and (yield from debating.is_open(ledger, row))
    ):
        raise Refused(
            f"{row.id} is a critique in an open debate: only {row.author}, its author, may take it back. Nothing "
            "was changed; answer it with a REPLY."
        )
    debate = yield from debating.debate_about(ledger.no, row)
    if (
        status is Status.INVALIDATED
        and row.author != ledger.agent
        and debate is None
        and not ledger.appointed
        and ledger.side not in (yield from behind(row))
    ):
        raise Refused(
            f"Only {row.author}, its author, invalidates {row.id} without a debate. Nothing was changed; "
            f'post(type="CRITIQUE", edges={{"critiques": ["{row.id}"]}}, text="…") opens one.'
        )
    if (
        status in (Status.WITHDRAWN, Status.INVALIDATED)
        and debate is not None
        and debate.root.number == row.number
    ):
        if not (yield from debating.acts_for_author(ledger, debate)):
            raise Refused(
                f"{row.id} is in an open debate, where it is decided whether it falls. Nothing was changed; "
                f'debate(op="decide", id="{row.id}", outcome="falls", reason="…") decides.'
            )
        noting.also(ledger, ChangeKind.CONCEDE, row)
        yield from _restate(ledger, row, status)
        yield from decisions.give_up(ledger, debate)
        return
    argued = status is Status.INVALIDATED and debate is not None
    if row.type == ItemType.CRITIQUE and (status is Status.WITHDRAWN or argued):
        noting.also(ledger, ChangeKind.WITHDRAW, row)
        yield from debating.withdraw_critique(ledger, row, status=status)
        return
    if status in (Status.RESOLVED, Status.ACTIVE) and (yield from debating.is_open(ledger, row)):
        if row.number in ledger.fresh:  # its id goes with the post
            raise Refused(
                f"This {row.type} opens a debate, so that it cannot be {status} in the same post. Nothing was "
                "changed; leave status out."
            )
        raise Refused(
            f"{row.id} is in an open debate, which only its watchers, a decider or the critic can close. "
            f'Nothing was changed; debate(op="status", id="{row.id}") says who is missing.'
        )
    if status is Status.ACTIVE and row.zone == Zone.ARCHIVE:
        noting.also(ledger, ChangeKind.RESTORE, row)
        yield from ledger.restore(row, why="reopened")
    yield from _restate(ledger, row, status)
    if status is Status.RESOLVED:
        yield from agreements.end(ledger, row, status)
    if status in (Status.WITHDRAWN, Status.INVALIDATED):
        yield from retraction.retract(ledger, row, str(status))


def _restate(ledger: Ledger, row: ItemRow, status: Status) -> Steps[None]:
    """Writes the new status, with its event."""
    seq = yield from ledger.emit(
        EventType.ITEM_CHANGED, row, data={"status": [row.status, str(status)]}, concerns=[row.author]
    )
    row.status, row.seq, row.updated_at = str(status), seq, ledger.now
    if exempt(row.status, row.importance):
        ledger.holding.add(row.number)
    yield sql("item_status"), (ledger.no, row.number, row.status, seq, ledger.now, ledger.agent)
    if row.zone == Zone.ARCHIVE:
        yield sql("outbox_add"), (ledger.no, row.number)
    if status in FINISHED:
        yield from questions.over(ledger, row, f"{row.id} {status}")
