"""Pruning passes and expiry, by which items leave working memory, and restoring from the archive."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from blackboard_mcp.protocols.answers import (
    Once,
    Restored,
)
from blackboard_mcp.protocols.board import BoardConfig, Lifecycle
from blackboard_mcp.protocols.changes import ChangeKind
from blackboard_mcp.protocols.errors import Refused
from blackboard_mcp.protocols.events import SYSTEM, EventType
from blackboard_mcp.protocols.items import Zone, item_id
from blackboard_mcp.protocols.pruning import (
    CROWDED,
    Decide,
    Move,
    PassOutcome,
    Plan,
    Reach,
    Reaching,
    Workspace,
    may_return,
)
from blackboard_mcp.protocols.values import dataclass

from ...operation import Write
from ..items import questions
from ..ledger.idempotency import Form, repeatable
from ..ledger.ledger import (
    Ledger,
    attention,
    attention_after,
    get_board,
    load,
    load_any,
    load_visible,
    open_ledger,
    standing,
)
from ..ledger.rows import ItemRow, Steps, numbers, sql
from ..reading.item_states import values
from . import guard_index
from .candidates import staying, workspace

_NAMED = 20
"""The most ids in the event of a pass."""


PART: Final = 100
"""The most items that one transaction of a pass moves, so that others write soon after."""
ELSEWHERE: Final = PassOutcome((), 0, 0, 0, 0, (), 0, elsewhere=True)
"""The outcome if another holder has the lease."""
AHEAD: Final = 4
"""The transactions of a pass asked for at once, so that a busy board does not grow faster than it is pruned."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a pass is to move, decided on a snapshot of the board.

    Attributes:
        space: the working memory that the decision saw.
        moves: the moves of the plan that name unprotected items of working memory, in order.
        told: what the events of the pass tell of the plan.
        foreseen: the outcome if all moves are made.
    """

    space: Workspace
    moves: tuple[Move, ...]
    told: dict[str, str]
    foreseen: PassOutcome


def choose(
    now: int, board: str, decide: Decide, reaching: Reaching | None, unless: tuple[str, str] | None = None
) -> Steps[Chosen | None]:
    """Decides what to move, on one snapshot, and changes nothing; `None` if another holder has the lease `unless`."""
    row = yield from get_board(board)
    if unless is not None and (yield sql("lease_elsewhere"), (*unless, now)):
        return None
    asked = unless is not None and bool((yield sql("summaries_asked"), (row.no,)))
    reach = Reach.ALL if reaching is None else reaching(row.config)
    space = yield from workspace(row, now, reach)
    plan = decide(space)
    by_number = {c.number: c for c in space.candidates}
    named = {m.number: m for m in reversed(plan.moves)}  # a policy may name an item twice
    moves = [m for m in plan.moves if named.get(m.number) is m]
    moves = [m for m in moves if m.number in by_number and m.number not in space.protected]
    moves = [replace(m, why=f"{m.why}, {CROWDED}") if m.number in space.crowded else m for m in moves]
    held, held_tokens = yield from guard_index.protected_figures(row.no)
    gone = [by_number[move.number] for move in moves]
    foreseen = PassOutcome(
        moved=tuple((item_id(c.type, c.number), m.step, m.why) for c, m in zip(gone, moves, strict=True)),
        tokens_before=space.tokens,
        tokens_after=space.tokens - sum(c.tokens for c in gone),
        protected_items=held,
        protected_tokens=held_tokens,
        threads=plan.threads,
        seq=row.seq,
        policy=plan.policy,
        warning=plan.warning,
        private_freed=sum(c.tokens for c in gone if c.private),
        under_pressure=bool(row.pressure),
        asked=asked,
    )
    return Chosen(space, tuple(moves), _told(plan), foreseen)


def move(write: Write, board: str, chosen: Chosen, moves: Sequence[Move]) -> Steps[PassOutcome]:
    """Archives those of the chosen items that nothing has touched or protected since the decision."""
    ledger = yield from open_ledger(write, board, SYSTEM)
    seen = {c.number: c for c in chosen.space.candidates}
    rows = yield from load_any(ledger.no, [m.number for m in moves])
    stay = yield from _stay(ledger, chosen, moves, write.now)
    before = left = ledger.board.working_tokens
    leaving: list[ItemRow] = []
    told: list[tuple[EventType, ItemRow, dict[str, Any], list[str]]] = []
    moved: list[tuple[str, int, str]] = []
    for choice in moves:
        row, candidate = rows[choice.number], seen[choice.number]
        if row.number in stay or row.zone != Zone.WORKING:
            continue
        if left - row.tokens < chosen.foreseen.tokens_after and not candidate.expired:
            continue  # others made room meanwhile
        event = EventType.ITEM_EXPIRED if candidate.expired else EventType.ITEM_ARCHIVED
        data = {"pass": ledger.first_seq, "step": choice.step, "why": choice.why}
        concerns = (yield from _concerned(ledger, row)) if candidate.open_work else []
        leaving.append(row)
        told.append((event, row, data, concerns))
        moved.append((row.id, choice.step, choice.why))
        left -= row.tokens
    gone = {row.number: row for row in leaving}
    if leaving:
        seqs = yield from ledger.emit_all(told)
        yield from ledger.archive_all(list(zip(leaving, seqs, strict=True)))
        data = _public(ledger, gone.values()) | chosen.told | _crowded(gone, chosen.space)
        yield from ledger.emit(EventType.PASS_ENDED, data=data)
        yield from ledger.close()
    held, held_tokens = yield from guard_index.protected_figures(ledger.no)
    return replace(
        chosen.foreseen,
        moved=tuple(moved),
        tokens_before=before,
        tokens_after=left,
        protected_items=held,
        protected_tokens=held_tokens,
        seq=ledger.board.seq,
        private_freed=sum(row.tokens for row in gone.values() if not row.public),
        overtaken=len(moves) - len(moved),
        under_pressure=bool(ledger.board.pressure),
    )


def _stay(ledger: Ledger, chosen: Chosen, moves: Sequence[Move], now: int) -> Steps[set[int]]:
    """Returns those of the items to move that now stay.

    The guard protects them, a debate cites them, or an event since the decision changed or cited them.
    """
    among = numbers(m.number for m in moves)
    held = yield from guard_index.protected_among(ledger.no, [m.number for m in moves])
    if ledger.board.seq == chosen.foreseen.seq:
        return held
    cited = (yield from staying(ledger.board, now)).why
    due = {c.number for c in chosen.space.candidates if c.expired}
    touched = {n for (n,) in (yield sql("touched_since"), (ledger.no, chosen.foreseen.seq, among))}
    return held | (cited.keys() - due) | touched


def together(parts: Sequence[PassOutcome]) -> PassOutcome:
    """Returns the outcome of all transactions of a pass together."""
    return replace(
        parts[-1],
        moved=tuple(line for part in parts for line in part.moved),
        tokens_before=parts[0].tokens_before,
        private_freed=sum(part.private_freed for part in parts),
        overtaken=sum(part.overtaken for part in parts),
    )


def _concerned(ledger: Ledger, row: ItemRow) -> Steps[list[str]]:
    """Returns who is told that open work left: its author, agents it mentions, and authors who depend on it."""
    rows = yield sql("authors_depending"), (ledger.no, row.number)
    return [row.author, *questions.mentioned(row.text), *(name for (name,) in rows)]


def _told(plan: Plan) -> dict[str, str]:
    """Returns the policy that decided if it is not the default one, and the plan's warning."""
    said = {"policy": plan.policy} if plan.policy != BoardConfig().policy else {}
    return said | ({"warning": plan.warning} if plan.warning else {})


def _crowded(rows: Mapping[int, ItemRow], space: Workspace) -> dict[str, list[str]]:
    """Returns the ids of the first public items that left although open debates cite them."""
    ids = [rows[number].id for number in sorted(space.crowded & rows.keys()) if rows[number].public]
    return {"crowded": ids[:_NAMED]} if ids else {}


def _public(ledger: Ledger, moved: Iterable[ItemRow]) -> dict[str, Any]:
    """Returns the figures of a pass that everybody may know: those of items that everybody sees."""
    gone = [row.tokens for row in moved if row.public]
    before = ledger.board.working_tokens - ledger.board.private_tokens
    return {"pass": ledger.first_seq, "moved": len(gone), "before": before, "after": before - sum(gone)}


def expire(write: Write, board: str, wanted: Iterable[int]) -> Steps[int]:
    """Archives those of the items whose time to live is over and that nothing protects; returns how many."""
    ledger = yield from open_ledger(write, board, SYSTEM)
    rows = yield from load_any(ledger.no, wanted)
    due = [r for r in rows.values() if r.zone == Zone.WORKING and r.expires_at and r.expires_at <= write.now]
    if not due:
        return 0
    held = yield from guard_index.protected_among(ledger.no, [row.number for row in due])
    leaving = sorted((row for row in due if row.number not in held), key=lambda row: row.number)
    if leaving:
        data = {"why": "time to live ended"}
        seqs = yield from ledger.emit_all((EventType.ITEM_EXPIRED, row, data, ()) for row in leaving)
        yield from ledger.archive_all(list(zip(leaving, seqs, strict=True)))
        yield from ledger.close()
    return len(leaving)


Due = tuple[int, int, int]
"""A place among expired items: the time of expiry in microseconds, board number and item number."""


def expiring(now: int, limit: int, after: Due) -> Steps[tuple[Due | None, dict[str, list[int]]]]:
    """Returns a page of items whose time to live is over and that nothing protects now, by board.

    The first value is the place where the page ended; `None` at the end.
    """
    rows = yield sql("expiring"), (now, limit, *after)
    by_no: dict[int, list[int]] = {}
    for _board, number, _at, no in rows:
        by_no.setdefault(no, []).append(number)
    by_board: dict[str, list[int]] = {}
    for no, listed in by_no.items():
        held = yield from guard_index.protected_among(no, listed)
        if free := [number for number in listed if number not in held]:
            by_board[next(row[0] for row in rows if row[3] == no)] = free
    return ((rows[-1][2], rows[-1][3], rows[-1][1]) if len(rows) == limit else None), by_board


def next_expiry(now: int) -> Steps[int | None]:
    """Returns the microseconds until the next item's time to live ends; `None` if no item has one left."""
    rows = yield sql("next_expiry"), (now,)
    return rows[0][0] - now if rows else None


@repeatable(lambda given: kept_restoring(given["board"], given["agent"], given.get("look", 0)))
def restore(
    write: Write,
    board: str,
    agent: str,
    wanted: Iterable[int],
    *,
    once: Once | None = None,
    look: int = 0,
) -> Steps[Restored]:
    """Brings archived items back to working memory; items that are there already, or are too large to stay there, are
    not changed.

    Raises:
        UnknownReference: the board or an item does not exist, or the agent may not see it.
        Conflict: one was deleted or forgotten.
        Refused: the board takes no posts.
    """
    ledger: Ledger = yield from open_ledger(write, board, agent)
    if ledger.board.lifecycle is not Lifecycle.OPEN:
        raise Refused(
            f"Board '{board}' is {ledger.board.lifecycle} and takes nothing back from the archive. Nothing was "
            'changed; read(ids=["…"]) shows items where they are, and query_archive without restore finds them.',
            lifecycle=str(ledger.board.lifecycle),
        )
    rows = yield from load_visible(ledger.no, wanted, agent, board)
    for number in sorted(rows):
        row, now = rows[number], ledger.board
        fits = may_return(now.config, now.working_tokens, row.tokens, row.importance)
        if standing(row).zone == Zone.ARCHIVE and fits:
            ledger.note(ChangeKind.RESTORE, row)
            yield from ledger.restore(row, why=f"restored by {agent}")
    if ledger.items:
        yield from ledger.was_here()
        yield from ledger.close()
    items = yield from values(ledger.board, [rows[n] for n in sorted(rows)], agent)
    waiting = yield from attention_after(ledger, look)
    board_now = ledger.board
    return Restored(
        tuple(items), board_now.seq, board_now.working_tokens, board_now.config.high_tokens, waiting
    )


def kept_restoring(board: str, agent: str, look: int) -> Form[Restored]:
    """Returns the form that stores which items came back; repeated, they are shown as they are now."""

    def keep(back: Restored) -> Any:
        return [[item.number for item in back.items], back.seq]

    def again(kept: Any) -> Steps[Restored]:
        numbers, seq = kept
        row = yield from get_board(board)
        rows = yield from load(row.no, numbers, agent)  # only items that the agent may still see
        items = yield from values(row, [rows[n] for n in numbers if n in rows], agent)
        waiting = yield from attention(row.no, agent, look)
        return Restored(tuple(items), seq, row.working_tokens, row.config.high_tokens, waiting, repeated=True)

    return Form(keep, again)
