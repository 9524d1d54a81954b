"""Places in the log of a board: which sequences are valid, and the errors for those that another copy used.

A copy of a board does not know what the original did later. The sequences that it would use next may already
stand for other events. So the first change of a copy skips a random number of them and says so in an event
(see `Ledger.emit`). A sequence inside such a gap belongs to another copy.
"""

from __future__ import annotations

from blackboard_mcp.protocols.errors import CursorExpired, InvalidInput, StoreDamaged

from ...operation import Write
from .ledger import find_board
from .rows import BoardRow, Steps, sql


def is_place(no: int, end: int, place: int) -> Steps[bool]:
    """Tells whether a reader of this log can have read up to `place`: 0, an event, or the sequence just before one.

    `end` is the sequence of the last event.
    """
    if place in (0, end):
        return True
    rows = yield sql("event_from"), (no, place)
    return bool(rows) and rows[0][0] <= place + 1


def end_of_log(board: str, place: int | None = None) -> Steps[int]:
    """Returns the sequence of the board's last event; 0 if the board does not exist.

    Raises:
        CursorExpired: `place` is given, and the log has no such place.
        InvalidInput: `place` is below 0.
    """
    row = yield from find_board(board)
    if row is not None and place is not None:
        yield from check_place(row, place)
    elif place:
        raise _ahead(board, 0, place)
    return 0 if row is None else row.seq


def check_place(board: BoardRow, place: int) -> Steps[None]:
    """Checks that the log has such a place.

    Raises:
        CursorExpired: it has none.
        InvalidInput: `place` is below 0.
        StoreDamaged: events are missing from the log.
    """
    if place < 0:
        raise InvalidInput(f"{place} is no sequence: they begin with 1. Nothing was changed.")
    if (yield from is_place(board.no, board.seq, place)):
        return
    rows = yield sql("event_from"), (board.no, place)
    if not rows:
        raise _ahead(board.id, board.seq, place)
    after = rows[0][1]
    if after is None:
        raise StoreDamaged(f"The log of '{board.id}' lacks events: `blackboard-mcp doctor` says more.")
    raise CursorExpired(
        f"seq {place} was given before '{board.id}' was restored from a copy as of seq {after}: what came after that "
        f"then is gone, and ids may name other things. Nothing was changed; read() shows the board as it is, and "
        f"since={board.seq} goes on from there; since={after} gives all that came since it was restored.",
        cursor=place,
        seq=board.seq,
        restored_after=after,
    )


def _ahead(board: str, end: int, place: int) -> CursorExpired:
    """Returns the error for a place beyond the end of the log."""
    return CursorExpired(
        f"seq {place} is ahead of '{board}', which stands at seq {end}: it is of another board, or this one was "
        f"restored from an older copy. Nothing was changed; read() shows the board as it is, and since={end} goes on "
        "from there.",
        cursor=place,
        seq=end,
    )


def mark_copies(write: Write) -> Steps[None]:
    """Notes that all boards were restored from a copy."""
    yield sql("boards_copied"), ()
