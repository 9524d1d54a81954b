"""News of a view since the agent's last look: posts, changes, ended debates, agreements and departures, a
line each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from blackboard_mcp.protocols.board import Lifecycle
from blackboard_mcp.protocols.events import SYSTEM, Event, EventType
from blackboard_mcp.protocols.items import Status
from blackboard_mcp.protocols.values import dataclass

from ..text.debates import concession, opened_to_concede
from ..text.lines import one_line, word
from .lines import listed
from .standing import Standing

MOST_IDS = 8
_AGENTS = 4
_WHYS = 2
_WHY = 60
_ID = re.compile(r"\b[A-Z]-\d+\b")
SPARED = ("changed: ", "debates opened: ")
"""Beginnings of lines that are left out first where room is short, because other sections show the same."""
WRITTEN = (EventType.ITEM_POSTED, EventType.ITEM_VERSIONED)
"""Events on a text. A line that names only the item's id does not deliver them."""
_MOVES = {EventType.AGENT_JOINED: "joined", EventType.AGENT_LEFT: "left"}
_EXPIRED = "time ended"
_LEFT = {EventType.ITEM_ARCHIVED: "left for room", EventType.ITEM_EXPIRED: _EXPIRED}
_OUTCOMES = {"accepted": "stands", "rejected": "falls", "open": "open again"}
"""Words for the outcomes in events; older events carry the first two."""


@dataclass(frozen=True, slots=True)
class Told:
    """A line, and the sequences of the events that it delivers by naming their items."""

    text: str
    events: tuple[int, ...] = ()


def heading(standing: Standing) -> str:
    """Returns the heading of the news, which says whether all of it is there."""
    news = standing.snapshot.news
    look = min([int(standing.snapshot.look), *(event.seq - 1 for event in news.events[:1])])
    if news.whole:
        return f"new since seq {look}, not shown to you yet:"
    return f"new since seq {look}, not shown to you yet (the latest of it; all: read(since={look})):"


def news_lines(standing: Standing, most: int = MOST_IDS) -> list[Told]:
    """Returns at most eight lines of news, each with up to `most` ids; a line by agents has up to `most` ids
    for each.

    Returns an empty list when nothing happened, or when the agent's last look is not known. A line of new
    posts delivers no event, because it names their ids and their texts still have to be shown.
    """
    posted = EventType.ITEM_POSTED
    came: dict[str, list[str]] = {}
    events: list[Event] = []
    for event in standing.snapshot.news.events:
        if event.event is not posted:
            events.append(event)
        elif event.item is not None and ("to" not in event.data or standing.agent in event.concerns):
            # A request and its answer are news by the events of the request, to those whom they concern.
            came.setdefault(event.agent, []).append(event.item)
    conceding = opened_to_concede(events)
    opened = [e for e in events if e.event is EventType.DEBATE_OPENED and e.item and e.seq not in conceding]
    lines = [Told(f"came: {_grouped(came, most)}")] if came else []
    lines += _clauses("changed", [(e, told) for e in events if (told := _changed(e))], most)
    if opened:
        lines.append(_told(f"debates opened: {_grouped(_by_agent(opened), most)}", opened))
    closed = [e for e in events if e.event is EventType.DEBATE_CLOSED and e.item]
    lines += _clauses("settled", [(e, f"{e.item} {_outcome(e)}") for e in closed], most)
    given = [e for e in events if e.event is EventType.AGREEMENT_GIVEN and e.item]
    lines += _clauses("agreed to", [(e, f"{e.item} by {_actor(e.agent)}") for e in given], most)
    if moves := [e for e in events if e.event in _MOVES]:
        lines.append(_moves(moves, most))
    for kind, name in _LEFT.items():
        left = [event for event in events if event.event is kind and event.item is not None]
        if left:
            lines.append(_departures(standing, name, left, most))
    return lines


def _moves(events: list[Event], most: int) -> Told:
    """Returns a line on agents that joined or left, each with its last move."""
    last = {event.agent: _MOVES[event.event] for event in events}
    named = list(last)[:most]
    text = listed([f"{word(agent)} {moved}" for agent, moved in last.items()], ", ", most)
    return Told(f"team: {text}", tuple(event.seq for event in events if event.agent in named))


def _clauses(name: str, told: list[tuple[Event, str]], most: int) -> list[Told]:
    if not told:
        return []
    return [_told(f"{name}: {listed([clause for _, clause in told], ', ', most)}", (e for e, _ in told))]


def _told(text: str, events: Iterable[Event]) -> Told:
    """Returns a line with the sequences of those events whose items it names."""
    named = set(_ID.findall(text))
    return Told(text, tuple(e.seq for e in events if e.event not in WRITTEN and e.item in named))


def _by_agent(events: Iterable[Event]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for event in events:
        if event.item is not None:
            found.setdefault(event.agent, []).append(event.item)
    return found


def _grouped(found: Mapping[str, list[str]], most: int) -> str:
    told = [f"{listed(ids, ' ', most)} by {_actor(agent)}" for agent, ids in list(found.items())[:_AGENTS]]
    rest = sum(len(set(ids)) for ids in list(found.values())[_AGENTS:])
    return "; ".join(told) + (f"; +{rest} by others" if rest else "")


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
    if conceded := concession(event):
        return conceded
    outcome = str(event.data.get("outcome") or event.data.get("state") or "closed").lower()
    return _OUTCOMES.get(outcome, outcome)


def _departures(standing: Standing, name: str, left: list[Event], most: int) -> Told:
    """Returns a line on items that left working memory.

    Items that concern the reader are named with the reason, and with the call that restores them, or that shows them
    where they would not stay.
    """
    authors = standing.snapshot.news.authors
    mine: dict[str, list[str]] = {}
    others: list[str] = []
    for event in left:
        assert event.item is not None
        if authors.get(event.item) == standing.agent or standing.agent in event.concerns:
            mine.setdefault(one_line(str(event.data.get("why") or ""))[:_WHY], []).append(event.item)
        else:
            others.append(event.item)
    parts = []
    if mine:
        all_mine = [id_ for ids in mine.values() for id_ in ids]
        whys = [
            f"{listed(ids, ' ', most)}{f' ({why})' if why and name != _EXPIRED else ''}"
            for why, ids in list(mine.items())[:_WHYS]
        ]
        rest = sum(len(ids) for ids in list(mine.values())[_WHYS:])
        gone = standing.snapshot.news.forgotten
        replaced = {event.item for event in left if event.data.get("why") == "superseded"}
        there = [id_ for id_ in all_mine if id_ not in gone | standing.snapshot.news.moot | replaced]
        back = _again(standing, there) if there else ""
        lost = [id_ for id_ in all_mine if id_ in gone]
        parts.append(f"of yours {', '.join(whys)}{f' +{rest}' if rest else ''}{back}")
        if lost:
            parts.append(f"{listed(lost, ' ', most)} forgotten by the operator's rules, gone for good")
    if others:
        parts.append(f"{'of others ' if mine else ''}{listed(others, ' ', most)}")
    return _told(f"{name}: {'; '.join(parts)}", left)


def _again(standing: Standing, ids: list[str]) -> str:
    """Returns the call that restores archived items, or the one that shows them where the board has no room."""
    large, board = standing.snapshot.news.too_large, standing.snapshot.board
    stopped = board.lifecycle is not Lifecycle.OPEN
    fits = [] if board.pressure or stopped else [id_ for id_ in ids if id_ not in large]
    if fits:
        return f' → query_archive(text="{" ".join(fits[:3])}", restore=true)'
    listed_ = ", ".join(f'"{id_}"' for id_ in ids[:3])
    why = "too large to come back" if large.issuperset(ids) else "no room to come back now"
    why = "the board takes nothing back" if stopped else why
    return f" → {why}: read(ids=[{listed_}])"
