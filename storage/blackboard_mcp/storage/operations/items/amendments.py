"""Amendments in the log: values before and after a change that leaves the text, in full if they are short."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from blackboard_mcp.protocols.answers import Amendment

from ..ledger.rows import Steps, event_of, sql

LONGEST = 500
"""The most characters of a value's JSON that an event stores; for a longer one it stores length and sha256."""
LISTED = 20
"""The most changes of an item that are listed, newest first."""


def kept(value: int | str) -> Any:
    """Returns a column's value as an event stores it: a number as it is, JSON parsed.

    Instead of JSON of more than `LONGEST` characters, it returns a map with its length and sha256.
    """
    if not isinstance(value, str):
        return value
    if len(value) > LONGEST:
        return {"characters": len(value), "sha256": hashlib.sha256(value.encode()).hexdigest()}
    return json.loads(value)


def amendments(no: int, item: int, agent: str) -> Steps[tuple[Amendment, ...]]:
    """Returns the last changes to an item's importance, tags, metadata and status, if the agent may see it."""
    found = []
    for row in (yield sql("amendments_of_item"), (no, item, agent, LISTED)):
        event = event_of(row)
        was, now = dict(event.data.get("was", {})), dict(event.data.get("now", {}))
        if "status" in event.data:
            was["status"], now["status"] = event.data["status"]
        found.append(Amendment(event.seq, event.agent, event.at, event.version or 0, was, now))
    return tuple(found)
