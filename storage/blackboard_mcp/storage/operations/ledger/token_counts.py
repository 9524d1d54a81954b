"""Token counts of all texts of a board, made anew: in pages before the transaction, and the rest within it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from blackboard_mcp.protocols.tokens import Count

from ...operation import Rows
from .ledger import Ledger, get_board
from .rows import Steps, dumps, sql

Place = tuple[str, int, int]
"""A table, and the number and version of the last row read from it."""

START: Final[Place] = ("items", 0, 0)
_PAGE: Final = 256
_LISTED: Final = {"items": "counted_items", "versions": "counted_versions"}
_TAKEN: Final = {"items": "count_items", "versions": "count_versions"}


def page(board: str, place: Place) -> Steps[tuple[dict[str, str], Place | None]]:
    """Returns a page of texts of items and their former versions by hash, and the next place; `None` at the end."""
    rows = yield from _page((yield from get_board(board)).no, place)
    return {sha256: text for _, _, sha256, _, text in rows}, _next(place, rows)


def counts(texts: Mapping[str, str], count: Count) -> dict[str, int]:
    """Returns a map from each hash to the number of tokens of its text."""
    return {sha256: count(text) for sha256, text in texts.items()}


def recount(ledger: Ledger, count: Count, counted: Mapping[str, int]) -> Steps[bool]:
    """Counts all texts of the board anew, adjusts its totals, and tells whether any count changed."""
    changed = yield from renew(ledger.no, count, counted)
    ((tokens, private),) = yield sql("counted_working"), (ledger.no,)
    ledger.tokens = tokens - ledger.board.working_tokens
    ledger.private_tokens = private - ledger.board.private_tokens
    return changed > 0


def renew(no: int, count: Count, counted: Mapping[str, int]) -> Steps[int]:
    """Gives every version of every item a new count, and returns how many changed.

    `counted` maps hashes to known counts; other texts are counted with `count`.
    """
    changed = 0
    place: Place | None = START
    while place is not None:
        rows = yield from _page(no, place)
        fresh = {
            f"{number}@{version}": tokens
            for number, version, sha256, was, text in rows
            if (tokens := counted[sha256] if sha256 in counted else count(text)) != was
        }
        if fresh:
            changed += len(fresh)
            yield sql(_TAKEN[place[0]]), (no, dumps(fresh))
        place = _next(place, rows)
    return changed


def _page(no: int, place: Place) -> Steps[Rows]:
    """Returns the rows of a page: number, version, hash, old count and text of each version."""
    table, number, version = place
    return (yield sql(_LISTED[table]), (no, number, version, _PAGE))


def _next(place: Place, rows: Rows) -> Place | None:
    """Returns the place after these rows, or `None` if they were the last."""
    if len(rows) == _PAGE:
        return place[0], rows[-1][0], rows[-1][1]
    return ("versions", 0, 0) if place[0] == "items" else None
