"""What ends by time, as a board's settings say: duties of watchers who left, debates that stand still, answers awaited.

A watcher has left when it was away longer than the board's lease, counted from when it was last there or
became a watcher. What authors owe to critiques does not lapse so.
"""

from __future__ import annotations

from blackboard_mcp.protocols.board import BoardConfig, Lifecycle
from blackboard_mcp.protocols.debates import DebateState
from blackboard_mcp.protocols.events import SYSTEM

from . import agreements, debating, questions
from .ledger import Ledger, open_ledger
from .rows import Steps, sql
from .topics import end_watch

LEFT = "lease ended"
_BATCH = 200


def due(now: int) -> Steps[list[str]]:
    """Boards on which something has lapsed."""
    usual = BoardConfig()
    rows = yield (
        sql("lapsing_boards"),
        (
            now,
            usual.watch_lease_seconds,
            usual.debate_expiry_seconds,
            str(Lifecycle.CLOSED),
            usual.question_expiry_seconds,
        ),
    )
    asked = yield from agreements.boards_due(now, str(Lifecycle.CLOSED))
    return sorted({row[0] for row in rows}.union(asked))


def lapse(board: str, now: int) -> Steps[bool]:
    """Lets lapse what is due on a board, at most some hundreds of things; whether anything was."""
    ledger = yield from open_ledger(board, SYSTEM, now)
    yield from agreements.let_go(ledger, ledger.now - agreements.PRESENCE * 1_000_000, _BATCH)
    if lease := ledger.board.config.watch_lease_seconds:
        yield from _end_leases(ledger, now - lease * 1_000_000)
    if expiry := ledger.board.config.debate_expiry_seconds:
        yield from _expire(ledger, expiry)
    if patience := ledger.board.config.question_expiry_seconds:
        yield from questions.lapse(ledger, patience, _BATCH)
    if ledger.board.seq < ledger.first_seq:
        return False
    yield from ledger.close()
    return True


def _end_leases(ledger: Ledger, since: int) -> Steps[None]:
    rows = yield sql("duties_of_the_absent"), (ledger.no, since, _BATCH)
    yield from debating.waive(ledger, rows, LEFT)
    for agent, topic in (yield sql("watches_of_the_absent"), (ledger.no, since, _BATCH)):
        yield from end_watch(ledger, agent, topic, LEFT)
    for debate in (yield from debating.open_debates(ledger.no, {row[4] for row in rows})):
        yield from debating.settle(ledger, debate)


def _expire(ledger: Ledger, expiry: int) -> Steps[None]:
    rows = yield sql("debates_standing_still"), (ledger.no, ledger.now - expiry * 1_000_000, _BATCH)
    for debate in (yield from debating.open_debates(ledger.no, {row[0] for row in rows})):
        reason = f"nothing happened for {expiry} seconds"
        yield from debating.close(ledger, debate, DebateState.EXPIRED, reason)
