"""Lapses by time, as a board's settings say: duties of absent agents, idle debates, unanswered questions.

An agent that owes something in a debate counts as gone if it made no call for `presence_seconds` while another
participant was there, with no longer gap between calls: who comes back first after a night waits for the others. Its
duties are waived, even that of an answer; the critique then stays unanswered. A watcher of an item counts as gone after
the board's lease. Both times count from its last call, or from when it was asked. Nobody counts as gone soon after the
store was started: before, nobody could call.
"""

from __future__ import annotations

from blackboard_mcp.protocols.board import BoardConfig, Lifecycle
from blackboard_mcp.protocols.debates import DebateState, Outcome
from blackboard_mcp.protocols.events import SYSTEM

from ...operation import Rows, Write
from ..debates import agreements, decisions
from ..debates import answers as answering
from ..debates import debates as debating
from ..debates.standing_watches import end_watch
from ..items import questions
from ..ledger import serving
from ..ledger.ledger import Ledger, open_ledger
from ..ledger.rows import Steps, sql

LEFT = "lease ended"
_BATCH = 200


def due(now: int, opened: int) -> Steps[list[str]]:
    """Returns the boards on which something has lapsed; `opened` is when this process opened the store."""
    usual = BoardConfig()
    began = yield from serving.since(opened, now)
    rows = yield (
        sql("lapsing_boards"),
        (
            *(now, usual.watch_lease_seconds, usual.debate_expiry_seconds, str(Lifecycle.CLOSED)),
            *(usual.question_expiry_seconds, usual.presence_seconds, began),
        ),
    )
    asked = yield from agreements.boards_due(now, str(Lifecycle.CLOSED), began)
    return sorted({row[0] for row in rows}.union(asked))


def lapse(write: Write, board: str) -> Steps[bool]:
    """Ends what has lapsed on a board, at most a few hundred things; tells whether anything was."""
    ledger = yield from open_ledger(write, board, SYSTEM)
    presence, lease = ledger.board.presence, ledger.board.config.watch_lease_seconds * 1_000_000
    served_for = write.now - (yield from serving.since(write.opened, write.now))
    if presence and served_for >= presence:
        since = ledger.now - presence
        yield from let_go(ledger, (yield sql("awaited_and_absent"), (ledger.no, since, _BATCH, ledger.now)))
        yield from agreements.let_go(ledger, since, _BATCH)
    if lease and served_for >= min(presence or lease, lease):
        yield from _end_leases(ledger, write.now - lease)
    if expiry := ledger.board.config.debate_expiry_seconds:
        yield from _expire(ledger, expiry)
    if patience := ledger.board.config.question_expiry_seconds:
        yield from questions.lapse(ledger, patience, _BATCH)
    if ledger.board.seq < ledger.first_seq:
        return False
    yield from ledger.close()
    return True


def let_go(ledger: Ledger, rows: Rows) -> Steps[None]:
    """Waives duties in debates of agents who are away; the debates go on without them."""
    for number in sorted({row[4] for row in rows}):
        # The end of one debate may close others, so each is looked up only now.
        for debate in (yield from debating.open_debates(ledger.no, {number})):
            names = [row[0] for row in (yield sql("parties"), (ledger.no, debate.id))]
            left = [row for row in rows if row[4] == debate.id]
            yield from debating.waive(ledger, left, debating.AWAY, names)
            yield from answering.summon(ledger, debate.id, debate.root.number)
            yield from decisions.ask_the_others(ledger, debate)
            yield from debating.settle(ledger, debate)


def _end_leases(ledger: Ledger, since: int) -> Steps[None]:
    """Waives duties and ends standing watches of agents who are away since a time."""
    rows = yield sql("duties_of_the_absent"), (ledger.no, since, _BATCH)
    yield from debating.waive(ledger, rows, LEFT)
    for agent, topic in (yield sql("watches_of_the_absent"), (ledger.no, since, _BATCH)):
        yield from end_watch(ledger, agent, topic, LEFT)
    for debate in (yield from debating.open_debates(ledger.no, {row[4] for row in rows})):
        yield from debating.settle(ledger, debate)


def _expire(ledger: Ledger, expiry: int) -> Steps[None]:
    """Closes debates without any change for `expiry` seconds."""
    rows = yield sql("debates_standing_still"), (ledger.no, ledger.now - expiry * 1_000_000, _BATCH)
    for debate in (yield from debating.open_debates(ledger.no, {row[0] for row in rows})):
        reason = f"nothing happened for {expiry} seconds"
        yield from debating.close(ledger, debate, DebateState.EXPIRED, reason, Outcome.OPEN)
