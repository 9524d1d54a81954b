"""Amendments in the log: values before and after a change that leaves the text."""

from __future__ import annotations

from blackboard_mcp.protocols.answers import Amendment

from ..ledger.rows import Steps, event_of, sql

LISTED = 20
"""The most changes of an item that are listed, newest first."""


def amendments(no: int, item: int, agent: str) -> Steps[tuple[Amendment, ...]]:
    """Returns the last changes to an item's importance, tags, metadata, time to live and status, if the agent may
    see it.
    """
    found = []
    for row in (yield sql("amendments_of_item"), (no, item, agent, LISTED)):
        event = event_of(row)
        was, now = dict(event.data.get("was", {})), dict(event.data.get("now", {}))
        if "status" in event.data:
            was["status"], now["status"] = event.data["status"]
        found.append(Amendment(event.seq, event.agent, event.at, event.version or 0, was, now))
    return tuple(found)
