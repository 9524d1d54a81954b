"""Use: who was there and what was read. It changes no board, so it has no event and no sequence."""

from __future__ import annotations

import json
from collections.abc import Mapping

from .ledger import find_board
from .rows import Steps, sql


def record(board: str, seen: Mapping[str, int], reads: Mapping[int, tuple[int, int]]) -> Steps[None]:
    """Adds up reads and moves instants forward; agents, items and boards that are not there are passed over."""
    row = yield from find_board(board)
    if row is None:
        return
    if seen:
        yield sql("agents_seen"), (row.no, json.dumps(sorted(seen.items())))
    if reads:
        listed = [(number, times, at) for number, (times, at) in sorted(reads.items())]
        yield sql("items_read"), (row.no, json.dumps(listed))
