"""Events that a store keeps for the next reader, found by what tells whether their rows are as they were."""

from __future__ import annotations

from typing import cast

from blackboard_mcp.protocols.events import Event

from ...operation import Rows
from ..ledger.rows import Steps, event_of, numbers, sql

FEW = 30
"""Most events that are read whole, without asking first whether they are kept."""
MOST = 4_096
"""Events that are kept before all of them are dropped."""

KeptEvents = dict[tuple[int | str, ...], Event]
"""Events as they were committed, by the board's number and the columns of `log_stamps` and `news_stamps`.

Whoever may not see an event is not told its columns, and so does not find it here.
"""


def events_of(no: int, agent: str, stamps: Rows, kept: KeptEvents) -> Steps[list[Event]]:
    """Returns the events of rows of stamps; reads only those that are not kept as they are, and keeps them."""
    keys = [(no, *stamp) for stamp in stamps]
    found = list(map(kept.get, keys))
    if all(found):
        return cast(list[Event], found)
    missing = [key[1] for key, event in zip(keys, found, strict=True) if event is None]
    if len(kept) > MOST:
        kept.clear()
    loaded = {raw[0]: event_of(raw) for raw in (yield sql("news_at"), (no, numbers(missing), agent))}
    for place, key in enumerate(keys):
        if (event := loaded.get(key[1])) is not None:
            found[place] = kept[key] = event
    return [event for event in found if event is not None]
