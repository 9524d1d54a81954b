"""Use: who was there, what was read and what was shown. It changes no board, so it has no event and no sequence."""

from __future__ import annotations

import json
from collections.abc import Mapping

from blackboard_mcp.protocols.answers import MOST_SHOWN

from ..ledger.ledger import find_board, looked
from ..ledger.rows import Steps, dumps, sql


def record(
    board: str,
    seen: Mapping[str, int],
    reads: Mapping[int, tuple[int, int]],
    shown: Mapping[str, int],
) -> Steps[None]:
    """Adds up reads and what was shown, and moves instants forward; what is not there is passed over."""
    row = yield from find_board(board)
    if row is None:
        return
    if seen:
        yield sql("agents_seen"), (row.no, json.dumps(sorted(seen.items())))
    if reads:
        listed = [(number, times, at) for number, (times, at) in sorted(reads.items())]
        yield sql("items_read"), (row.no, json.dumps(listed))
    for agent, look in sorted(shown.items()):
        known = yield from looked(row.no, agent, look)
        kept = known.bounded(MOST_SHOWN)
        yield (
            sql("shown_put"),
            (row.no, agent, int(kept), dumps(sorted(kept.above)), dumps(sorted(kept.told))),
        )
