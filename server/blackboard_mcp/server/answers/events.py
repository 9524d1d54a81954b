"""Sentences for events whose data alone would not explain them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from blackboard_mcp.protocols.debates import CONCEDED, DebateState, Outcome
from blackboard_mcp.protocols.events import OF_CONTROL, Event, EventType

from ..text.debates import concession
from ..text.lines import clip, fate, in_quotes, one_line, solved, stands_no_more, unmarked, word
from .run_events import run_words
from .task_events import task_words
from .versions import is_whole, value_words

_TO_DO = {
    "respond": "answer it",
    "answer": "answer it",
    "agree": "agree to it",
    "confirm": "confirm a decision on it",
    "acknowledge": "judge it",
}
_ENDED = {
    DebateState.CONSENSUS: "by consensus",
    DebateState.DECIDED: "decided",
    DebateState.WITHDRAWN: "the objections were withdrawn",
    DebateState.EXPIRED: "nobody decided in time",
}
_NAMED = 8
_REASON = 300
"""Characters of a reason that are shown."""
_KEY = 40
"""Characters of a key of metadata that are shown."""


def plainly(event: Event) -> str | None:
    """Returns a clause that says what happened, or `None` for an event whose data is clear enough."""
    said = event.data
    match event.event:
        case EventType.ITEM_CHANGED:
            return "; ".join(_changes(said)) or None
        case EventType.DEBATE_CLOSED if said.get("state") in _ENDED:
            return f"{concession(event) or _end(said)}{taken_back(event)}"
        case EventType.DEBATE_PENDING:
            return f"decides that it {_fate(said)} once another owner confirms it{taken_back(event)}"
        case EventType.DEBATE_VOTED:
            side = Outcome.STANDS if said.get("approve") else Outcome.FALLS
            return f"votes that it {side} ({said.get('for')} for, {said.get('against')} against){taken_back(event)}"
        case EventType.OBLIGATION_WAIVED if "watcher" in said:
            duty = str(said.get("duty", ""))
            reason = one_line(str(said.get("reason", "")))
            why = f" ({'its debate is over' if reason.startswith('debate ') else reason})" if reason else ""
            return f"{word(str(said['watcher']))} need not {_TO_DO.get(duty, f'{duty} it')} any more{why}"
        case EventType.ITEM_DOUBTED if said.get("rests_on"):
            named = _listed([stands_no_more(str(one)) for one in said["rests_on"]])
            way = unmarked(str(event.item), event.key)
            return (
                f"it rests on {named}; look whether it still holds; if so, nothing is to do; the mark {way}"
            )
        case EventType.ITEM_FORGOTTEN:
            by, why = one_line(str(said.get("by"))), one_line(str(said.get("why")))
            return f"its text was removed for good by decision of {by}: {why}"
        case EventType.BOARD_RESTORED:
            return (
                f"it is a copy as of seq {said.get('after')}. What came after that elsewhere is not here, and its ids "
                "may name other things now: read() shows the board"
            )
        case EventType.AGREEMENT_GIVEN:
            return "agreed to it" + (f": {said['reason']}" if said.get("reason") else "")
        case EventType.AGREEMENT_REACHED if said.get("agreed"):
            closes = solved([one_line(str(id_)) for id_ in said.get("problems", ())])
            return f"agreed by {_listed(said['agreed'])}; settled: nobody is missing{f'; {closes}' if closes else ''}"
        case EventType.AGREEMENT_ASKED if said.get("agents"):
            more = f" +{said['more']}" if said.get("more") else ""
            return f"asks {_listed(said['agents'])}{more} to agree"
        case EventType.AGENT_JOINED | EventType.AGENT_CHANGED:
            role = [in_quotes(clip(str(said["role"]), _REASON))] if said.get("role") else []
            skills = [f"skills {_listed(said['skills'])}"] if said.get("skills") else []
            spoken = [f"speaks {_listed(said['protocols'])}"] if said.get("protocols") else []
            return "; ".join([*role, *skills, *spoken]) or "takes part"
        case EventType.AGENT_LEFT:
            waived = [f"waived {_listed(said['waived'])}"] if said.get("waived") else []
            released = [f"released {_listed(said['released'])}"] if said.get("released") else []
            told = "; ".join([*waived, *released]) or "takes part no more"
            return f"{told}{_in_brackets(str(said.get('note', '')))}"
        case EventType.ARTIFACT_WRITTEN:
            size = "" if said.get("op") == "deleted" else f", {said.get('size')} B"
            return f"{one_line(str(said.get('path')))} rev {said.get('revision')}, {said.get('op')}{size}"
        case _ if event.event in OF_CONTROL:
            return task_words(event) or run_words(event)
    return None


def taken_back(event: Event) -> str:
    """Returns the reason of a withdrawal, concession or decision in brackets, after a space; empty without one."""
    reason = str(event.data.get("reason", ""))
    if event.event is EventType.DEBATE_CLOSED and reason.startswith(CONCEDED):
        reason = reason.removeprefix(CONCEDED).removeprefix(": ")
    return _in_brackets(reason)


def _end(said: dict[str, Any]) -> str:
    """Returns how a debate ended: `stands, the objections were withdrawn`, `falls, replaced by F-9, decided by ann`."""
    outcome = "open again" if said.get("outcome") == Outcome.OPEN else str(said.get("outcome", ""))
    by = f" by {word(str(said['decided_by']))}, confirmed" if said.get("decided_by") else ""
    return f"{fate(outcome, str(said.get('gave_way_to', '')))}, {_ENDED[said['state']]}{by}"


def _fate(said: dict[str, Any]) -> str:
    """Returns what a decision makes of an item, as a verb: `falls`, `is amended to F-9`."""
    told = fate(str(said.get("outcome", "")), str(said.get("gave_way_to", "")))
    return f"is {told}" if said.get("outcome") == Outcome.AMENDED else told


def _in_brackets(reason: str) -> str:
    return f" ({in_quotes(clip(reason, _REASON))})" if reason else ""


def _changes(said: dict[str, Any]) -> list[str]:
    """Returns each change: `status ACTIVE → WITHDRAWN ("units mixed")`, `metadata: owner, port`."""
    told = []
    if isinstance(status := said.get("status"), list):
        told.append(f"status {' → '.join(map(str, status))}{_in_brackets(str(said.get('reason', '')))}")
    was, now = said.get("was", {}), said.get("now", {})
    for name in said.get("changed", ()):
        former, new = was.get(name), now.get(name)
        if name == "metadata" and is_whole(former) and is_whole(new):
            keys = [key for key in {**former, **new} if former.get(key) != new.get(key)]
            told.append(f"metadata: {', '.join(clip(word(key), _KEY) for key in keys[:_NAMED])}{_more(keys)}")
        elif name in now and name != "metadata":
            told.append(f"{name} {value_words(former)} → {value_words(new)}")
        else:
            told.append(str(name))
    if edges := said.get("edges"):
        told.append(f"edges added: {_listed(edges)}")
    return told


def _more(named: Sequence[object]) -> str:
    return f" +{len(named) - _NAMED}" if len(named) > _NAMED else ""


def _listed(names: Iterable[object]) -> str:
    return ", ".join(one_line(str(name)) for name in list(names)[:_NAMED])
