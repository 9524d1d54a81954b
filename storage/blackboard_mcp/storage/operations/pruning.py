"""Leaving working memory: passes, summaries, expiry; and coming back from the archive."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from blackboard_mcp.protocols.board import BoardConfig
from blackboard_mcp.protocols.events import SYSTEM, EventType
from blackboard_mcp.protocols.items import EdgeKind, Item, ItemType, Status, Zone
from blackboard_mcp.protocols.pruning import Decide, PassOutcome, Plan, Reach, Reaching
from blackboard_mcp.protocols.store import NewSummary, Restored

from . import guarding, retracting
from .ledger import Ledger, attention, load_any, load_visible, open_ledger
from .rows import ItemRow, Steps, dumps, sql
from .showing import values
from .weighing import workspace


def prune(
    board: str, decide: Decide, now: int, *, apply: bool, reaching: Reaching | None = None
) -> Steps[PassOutcome]:
    """Decides and moves in one transaction; with `apply` false it only says what would go.

    Whatever `decide` answers, an item that the guard holds stays.
    """
    ledger = yield from open_ledger(board, SYSTEM, now)
    reach = Reach.ALL if reaching is None else reaching(ledger.board.config)
    space = yield from workspace(ledger.board, now, reach)
    plan = decide(space)
    by_number = {c.number: c for c in space.candidates}
    named = {m.number: m for m in reversed(plan.moves)}  # a policy may name an item twice
    moves = [m for m in plan.moves if named.get(m.number) is m]
    moves = [m for m in moves if m.number in by_number and m.number not in space.protected]
    rows = yield from load_any(ledger.no, [m.number for m in moves])
    moved: list[tuple[str, int, str]] = []
    freed = 0
    for move in moves:
        row = rows[move.number]
        if apply:
            event = EventType.ITEM_EXPIRED if by_number[move.number].expired else EventType.ITEM_ARCHIVED
            data = {"pass": ledger.first_seq, "step": move.step, "why": move.why}
            yield from ledger.archive(row, event, data=data)
        freed += row.tokens
        moved.append((row.id, move.step, move.why))
    before = space.tokens
    held, held_tokens = yield from guarding.protected_figures(ledger.no)
    if apply and moved:
        yield from ledger.emit(
            EventType.PASS_ENDED,
            data=_public(ledger, rows.values()) | _told(plan),
        )
        yield from ledger.close()
    return PassOutcome(
        moved=tuple(moved),
        tokens_before=before,
        tokens_after=before - freed,
        protected_items=held,
        protected_tokens=held_tokens,
        threads=plan.threads,
        seq=ledger.board.seq,
        policy=plan.policy,
        warning=plan.warning,
    )


def _told(plan: Plan) -> dict[str, str]:
    """Which policy decided, where it is not the one that every reader expects."""
    said = {"policy": plan.policy} if plan.policy != BoardConfig().policy else {}
    return said | ({"warning": plan.warning} if plan.warning else {})


def _public(ledger: Ledger, moved: Iterable[ItemRow]) -> dict[str, Any]:
    """What everybody may know of a pass: figures of the items that everybody sees."""
    gone = [row.tokens for row in moved if not row.owner]
    before = ledger.board.working_tokens - ledger.board.private_tokens
    return {"pass": ledger.first_seq, "moved": len(gone), "before": before, "after": before - sum(gone)}


def thread_sources(board: str, members: Iterable[int]) -> Steps[list[Item]]:
    """The members of a thread for a summariser, in order of posting, without private ones."""
    ledger = yield from open_ledger(board, SYSTEM, 0)
    rows = yield from load_any(ledger.no, members)
    return (yield from values(ledger.board, [rows[n] for n in sorted(rows) if not rows[n].owner], SYSTEM))


def apply_summary(board: str, summary: NewSummary, now: int) -> Steps[str | None]:
    """The id of the SUMMARY that took the place of its sources; `None` when the thread moved meanwhile.

    Nothing happens unless every source is as it was read, still in working memory and unprotected, and
    the thread has no unfinished newcomer.
    """
    author = summary.author or SYSTEM
    ledger = yield from open_ledger(board, author, now)
    held = yield from guarding.protected_among(ledger.no, summary.seen)
    members = {r[0]: r[1] for r in (yield sql("thread_members"), (ledger.no, summary.thread))}
    if any(members.get(n) != seq or n in held for n, seq in summary.seen.items()):
        return None
    rows = yield from load_any(ledger.no, summary.seen)
    if any(row.owner or row.type == ItemType.CONSTRAINT for row in rows.values()):
        return None
    newest = max(rows, default=0)
    later = yield from load_any(ledger.no, [number for number in members if number > newest])
    if not rows or not all(row.owner for row in later.values()):
        return None  # a private note is no news to those the summary is for
    ledger.board.last_number += 1
    number = ledger.board.last_number
    row = ItemRow(
        board=ledger.no,
        number=number,
        type=str(ItemType.SUMMARY),
        key=None,
        version=1,
        status=str(Status.ACTIVE),
        zone=str(Zone.WORKING),
        importance=summary.importance,
        author=author,
        owner="",
        text=summary.text,
        tags="[]",
        metadata=dumps({"sources": [rows[n].id for n in sorted(rows)]}),
        tokens=summary.tokens,
        sha256=summary.sha256,
        thread=summary.thread,
        created_at=now,
        updated_at=now,
        ttl=None,
        expires_at=None,
        seq=ledger.board.seq + 1,
        updated_by=author,
    )
    told: dict[str, object] = {"summarises": len(rows), "writer": summary.writer}
    if summary.refused:
        told["refused"] = summary.refused
    yield from ledger.add(row, data=told)
    yield from guarding.connect(ledger.no, number, [(EdgeKind.DERIVED_FROM, n) for n in sorted(rows)])
    for source in sorted(rows):
        data = {"pass": ledger.first_seq, "step": 3, "why": f"summarised in {row.id}"}
        yield from ledger.archive(rows[source], EventType.ITEM_ARCHIVED, agent=SYSTEM, data=data)
    cited = [(EdgeKind.DERIVED_FROM, source) for source in sorted(rows)]
    yield from retracting.cite(ledger, row, cited, rows, aware=True)
    before = ledger.board.working_tokens
    yield from ledger.emit(
        EventType.PASS_ENDED,
        agent=SYSTEM,
        data={
            "pass": ledger.first_seq,
            "moved": len(rows),
            "before": before,
            "after": before + ledger.tokens,
        },
    )
    yield from ledger.close()
    return row.id


def expire(board: str, wanted: Iterable[int], now: int) -> Steps[int]:
    """Archives those of the items whose time has come and that nothing holds; answers how many."""
    ledger = yield from open_ledger(board, SYSTEM, now)
    rows = yield from load_any(ledger.no, wanted)
    due = [r for r in rows.values() if r.zone == Zone.WORKING and r.expires_at and r.expires_at <= now]
    if not due:
        return 0
    held = yield from guarding.protected_among(ledger.no, [row.number for row in due])
    gone = 0
    for row in sorted(due, key=lambda r: r.number):
        if row.number not in held:
            yield from ledger.archive(row, EventType.ITEM_EXPIRED, data={"why": "time to live ended"})
            gone += 1
    if gone:
        yield from ledger.close()
    return gone


Due = tuple[int, int, int]
"""A place among the expired items."""


def expiring(now: int, limit: int, after: Due) -> Steps[tuple[Due | None, dict[str, list[int]]]]:
    """A page of the items of working memory whose time has come, by board, and the place it ended at.

    What the guard holds is among them, so the next call goes on after the place; no place at the end.
    """
    rows = yield sql("expiring"), (now, limit, *after)
    by_board: dict[str, list[int]] = {}
    for board, number, _at, _no in rows:
        by_board.setdefault(board, []).append(number)
    return ((rows[-1][2], rows[-1][3], rows[-1][1]) if len(rows) == limit else None), by_board


def restore(board: str, agent: str, wanted: Iterable[int], now: int, look: int) -> Steps[Restored]:
    """Brings archived items back to working memory; those already there stay as they are."""
    ledger: Ledger = yield from open_ledger(board, agent, now)
    rows = yield from load_visible(ledger.no, wanted, agent, board)
    for number in sorted(rows):
        if rows[number].zone == Zone.ARCHIVE:
            yield from ledger.restore(rows[number], why=f"restored by {agent}")
    if ledger.items:
        yield sql("agent_seen"), (ledger.no, agent, 0, now)
        yield from ledger.close()
    items = yield from values(ledger.board, [rows[n] for n in sorted(rows)], agent)
    waiting = yield from attention(ledger.no, agent, look)
    board_now = ledger.board
    return Restored(
        tuple(items), board_now.seq, board_now.working_tokens, board_now.config.high_tokens, waiting
    )
