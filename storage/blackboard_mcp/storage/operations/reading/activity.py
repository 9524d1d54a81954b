"""Activity: who was present, what was read, and who was shown what. It causes no event and no sequence."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime

from blackboard_mcp.protocols.answers import MOST_SHOWN
from blackboard_mcp.protocols.events import SYSTEM
from blackboard_mcp.protocols.sightings import MOST_NEVER, MOST_SIGHTED, Readership, Sighting, joined
from blackboard_mcp.protocols.visibility import Viewer

from ...operation import Write
from ..ledger.ledger import find_board, looked
from ..ledger.principals import viewers
from ..ledger.rows import Steps, dumps, instant, micros, numbers, sql

_RECENT = 2_000
"""Number of events at the end of the log whose agents may be named."""


def record(
    write: Write,
    board: str,
    seen: Mapping[str, datetime],
    reads: Mapping[int, tuple[int, datetime]],
    shown: Mapping[str, int] | None = None,
    sightings: Iterable[Sighting] = (),
) -> Steps[None]:
    """Records when agents were active, which items were read, what agents were shown, and who was shown each item.

    `seen` maps agents to their last activity. `reads` maps item numbers to a number of reads, which is added, and the
    last one. `shown` maps agents to the place up to which they were shown the board. Times only move forward. Unknown
    boards, agents and items are ignored, and so are times of agents that the board lets only read. Of an item's
    `sightings` the last `MOST_SIGHTED` agents are kept.
    """
    row = yield from find_board(board)
    if row is None:
        return
    if seen:
        yield (
            sql("agents_seen"),
            (row.no, json.dumps(sorted((agent, micros(at)) for agent, at in seen.items())), row.presence),
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
    rows = [
        (one.item, one.agent, micros(one.first_at), one.first_way, micros(one.last_at), one.last_way)
        for _, one in sorted(joined(sightings).items())
    ]
    if rows:
        yield sql("items_sighted"), (row.no, json.dumps(rows))
        yield sql("sightings_trim"), (row.no, numbers(number for number, *_ in rows), MOST_SIGHTED)


def readers(
    board: str, agent: str, wanted: Iterable[int], noted: Iterable[Sighting] = ()
) -> Steps[dict[int, Readership]]:
    """Returns who was shown each of the items that the agent may see; `noted` are sightings not recorded yet."""
    row = yield from find_board(board)
    if row is None:
        return {}
    listed = numbers(wanted)
    items = yield sql("sighted"), (row.no, listed, agent)
    rows = yield sql("sightings_of"), (row.no, listed)
    stored = [Sighting(r[0], r[1], instant(r[2]), r[3], instant(r[4]), r[5]) for r in rows]
    of_agents = yield sql("agents_known"), (row.no, agent, row.seq - _RECENT)
    known = [Viewer(name, owner) for name, owner in of_agents]
    if row.read_rules:
        viewing = yield from viewers(board, [viewer.agent for viewer in known])
        known = [viewing[viewer.agent] for viewer in known]
    seen: dict[int, dict[str, Sighting]] = {}
    for (number, name), one in joined((*stored, *noted)).items():
        seen.setdefault(number, {})[name] = one
    found: dict[int, Readership] = {}
    for number, mark, writer in items:
        of = seen.get(number, {})
        others = [viewer for viewer in known if viewer.agent not in (agent, writer, SYSTEM)]
        told = [of[viewer.agent] for viewer in others if viewer.agent in of]
        never = [viewer.agent for viewer in others if viewer.agent not in of and viewer.sees(mark)]
        found[number] = Readership(
            tuple(sorted(told, key=lambda one: one.last_at, reverse=True)),
            () if len(of) >= MOST_SIGHTED else tuple(never[:MOST_NEVER]),
        )
    return found
