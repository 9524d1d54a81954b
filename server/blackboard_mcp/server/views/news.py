"""What happened since the reader looked last: what came, changed, was settled and left, a line each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from blackboard_mcp.protocols.events import SYSTEM, Event, EventType
from blackboard_mcp.protocols.items import Status

from ..text import word
from .lines import listed, more
from .standing import Standing

_IDS = 8
_AGENTS = 4
_LEFT = (EventType.ITEM_ARCHIVED, EventType.ITEM_EXPIRED)
_OUTCOMES = {"accepted": "stands", "rejected": "falls", "open": "open again"}
"""Words of events; the first two are of older ones."""


def heading(standing: Standing) -> str:
    look = standing.snapshot.look
    if standing.snapshot.news.whole:
        return f"since you looked at seq {look}:"
    return f"since you looked at seq {look} (the latest of it; all: read(since={look})):"


def news_lines(standing: Standing) -> list[str]:
    """At most five lines; none when nothing happened or it is not known when the reader looked last."""
    events = standing.snapshot.news.events
    came = _by_agent(e for e in events if e.event is EventType.ITEM_POSTED)
    changed = [told for event in events if (told := _changed(event))]
    settled = [f"{e.item} {_outcome(e)}" for e in events if e.event is EventType.DEBATE_CLOSED and e.item]
    opened = _by_agent(e for e in events if e.event is EventType.DEBATE_OPENED)
    lines = []
    if came:
        lines.append(f"came: {_grouped(came)}")
    if changed:
        lines.append(f"changed: {listed(changed, ', ', _IDS)}")
    if opened:
        lines.append(f"debates opened: {_grouped(opened)}")
    if settled:
        lines.append(f"settled: {listed(settled, ', ', _IDS)}")
    left = [event for event in events if event.event in _LEFT and event.item is not None]
    if left:
        lines.append(_departures(standing, left))
    return lines


def _by_agent(events: Iterable[Event]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for event in events:
        if event.item is not None:
            found.setdefault(event.agent, []).append(event.item)
    return found


def _grouped(found: Mapping[str, list[str]]) -> str:
    told = [f"{listed(ids, ' ', _IDS)} by {_actor(agent)}" for agent, ids in list(found.items())[:_AGENTS]]
    return "; ".join(told) + more(list(found), _AGENTS)


def _actor(agent: str) -> str:
    return "the server" if agent == SYSTEM else word(agent)


def _changed(event: Event) -> str:
    if event.item is None:
        return ""
    if event.event is EventType.ITEM_VERSIONED:
        return f"{event.item}@{event.version} by {_actor(event.agent)}"
    if event.event is EventType.ITEM_DELETED:
        return f"{event.item} deleted by {_actor(event.agent)}"
    if event.event is EventType.ITEM_RESTORED:
        return f"{event.item} back by {_actor(event.agent)}"
    status = event.data.get("status") if event.event is EventType.ITEM_CHANGED else None
    became = status[-1] if isinstance(status, list) else status
    if became in (None, Status.DEBATED):
        return ""
    return f"{event.item} {str(became).lower()} by {_actor(event.agent)}"


def _outcome(event: Event) -> str:
    outcome = str(event.data.get("outcome") or event.data.get("state") or "closed").lower()
    return _OUTCOMES.get(outcome, outcome)


def _departures(standing: Standing, left: list[Event]) -> str:
    """What left working memory; what concerns the reader is named with the call that brings it back."""
    authors = standing.snapshot.news.authors
    mine: list[str] = []
    others: list[str] = []
    for event in left:
        assert event.item is not None
        concerned = authors.get(event.item) == standing.agent or standing.agent in event.concerns
        (mine if concerned else others).append(event.item)
    told = [listed(others, " ", _IDS)] if others else []
    if mine:
        back = f'query_archive(text="{" ".join(mine[:3])}", restore=true)'
        told.insert(0, f"of yours {listed(mine, ' ', _IDS)} → {back}")
    return f"left for room: {'; '.join(told)}"
