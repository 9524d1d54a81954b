"""Activity: who was present, what was read, and what was shown. It causes no event and no sequence."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime

from blackboard_mcp.protocols.answers import MOST_SHOWN

from ...operation import Write
from ..ledger.ledger import find_board, looked
from ..ledger.rows import Steps, dumps, micros, sql


def record(
    write: Write,
    board: str,
    seen: Mapping[str, datetime],
    reads: Mapping[int, tuple[int, datetime]],
    shown: Mapping[str, int] | None = None,
) -> Steps[None]:
    """Records when agents were active, which items were read, and what agents were shown.

    `seen` maps agents to their last activity. `reads` maps item numbers to a number of reads, which is added, and the
    last one. `shown` maps agents to the place up to which they were shown the board. Times only move forward. Unknown
    boards, agents and items are ignored.
    """
    row = yield from find_board(board)
    if row is None:
        return
    if seen:
        yield (
            sql("agents_seen"),
            (row.no, json.dumps(sorted((agent, micros(at)) for agent, at in seen.items()))),
        )
    if reads:
        listed = [(number, times, micros(at)) for number, (times, at) in sorted(reads.items())]
        yield sql("items_read"), (row.no, json.dumps(listed))
    for agent, look in sorted((shown or {}).items()):
        known = yield from looked(row.no, agent, look)
        kept = known.bounded(MOST_SHOWN)
        yield (
            sql("shown_put"),
            (row.no, agent, int(kept), dumps(sorted(kept.above)), dumps(sorted(kept.told))),
        )
