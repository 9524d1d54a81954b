"""Amendments in the log: each value before and after a change without a new text, as far as it is short."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from blackboard_mcp.protocols.answers import Amendment

from ..ledger.rows import Steps, event_of, sql

LONGEST = 500
"""Characters of a value's JSON that an event holds; of a longer one it holds the length and the sha256."""
LISTED = 20
"""Changes of an item that are listed, the newest ones."""


def kept(value: int | str) -> Any:
    """A column's value as an event holds it: numbers as they are, JSON as what it says."""
    if not isinstance(value, str):
        return value
    if len(value) > LONGEST:
        return {"characters": len(value), "sha256": hashlib.sha256(value.encode()).hexdigest()}
    return json.loads(value)


def amendments(no: int, item: int, agent: str) -> Steps[tuple[Amendment, ...]]:
    """The last changes of an item that an agent may see: of importance, tags, metadata and status."""
    found = []
    for row in (yield sql("amendments_of_item"), (no, item, agent, LISTED)):
        event = event_of(row)
        was, now = dict(event.data.get("was", {})), dict(event.data.get("now", {}))
        if "status" in event.data:
            was["status"], now["status"] = event.data["status"]
        found.append(Amendment(event.seq, event.agent, event.at, event.version or 0, was, now))
    return tuple(found)
