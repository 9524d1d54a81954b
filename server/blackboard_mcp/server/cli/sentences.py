"""Sentences for people: one for each event of a board's log."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from blackboard_mcp.protocols.events import QUIET
from blackboard_mcp.protocols.items import EdgeKind

from ..text.lines import clip, one_line
from .output import DIM, ID, Part, name
from .readings import some, type_of, when

if TYPE_CHECKING:
    from blackboard_mcp.protocols.wire import WireEvent

WIDTH: Final = 100
"""The most characters of an item's text that follow the sentence of its event."""
_IDS = re.compile(r"\b([A-Z]-\d+)\b")
_REPLIED: Final = {"A": "answered", "R": "replied to"}
_MET: Final = {
    "respond": "answered",
    "acknowledge": "acknowledged",
    "agree": "agreed to",
    "confirm": "confirmed",
}
_SAID: Final = {
    "board.created": "made the board",
    "board.restored": "put the board back as it was at event {after}",
    "board.changed": "changed the board: {facts}",
    "core.changed": "changed the core, to version {version}",
    "member.changed": "made {member} {role} of the board (was {was})",
    "item.versioned": "wrote version {at} of {it}",
    "item.changed": "changed {it}: {facts}",
    "item.deleted": "deleted {it}",
    "item.superseded": "replaced {it} by {by}",
    "item.archived": "archived {it} ({why})",
    "item.expired": "archived {it}, for its time was over",
    "item.restored": "brought {it} back",
    "item.forgotten": "forgot {it}, by decision of {by} ({why})",
    "item.endorsed": "found the same as {it}",
    "item.doubted": "warned: {it} rests on {rests_on}, which fell",
    "claim.agreed": "agreed with what {by} says of {claim}",
    "agreement.asked": "asked {agents} to agree to {it}",
    "agreement.given": "agreed to {it}",
    "agreement.reached": "made the agreement to {it} complete, with {agreed}",
    "debate.opened": "opened a debate on {it} with {critique}",
    "debate.joined": "joined the debate on {it} with {critique}",
    "debate.closed": "ended the debate on {it}, {state}: it {outcome}{instead}",
    "debate.pending": "decided that {it} {outcome}{instead}, if another confirms it",
    "debate.voted": "voted on {it} ({for} for, {against} against)",
    "obligation.added": "put {it} before {watcher}",
    "obligation.met": "{met} {it}",
    "obligation.waived": "closed what {watcher} owed on {it}",
    "summary.requested": "asked for a summary of {thread}",
    "summary.taken": "began a summary of {thread}",
    "summary.closed": "closed the request for a summary of {thread} ({why})",
    "request.opened": "asked {to} in {it}",
    "request.taken": "took on {it}",
    "request.released": "gave {it} back ({why})",
    "request.answered": "answered {it} of {asker} with {answer}",
    "request.declined": "declined {it} of {asker}",
    "request.cancelled": "took {it} back",
    "request.expired": "ended {it}, for its time was over",
    "skill.offered": "offers {skills}",
    "skill.ended": "offers {skills} no more",
    "watch.began": "watches {topic}",
    "watch.ended": "watches {topic} no more",
    "prune.ended": "took {moved} off the board: {before} to {after} tokens",
    "board.pressure": "told that pressure {state}: {held_tokens} of {target_tokens} tokens are held",
    "group.created": "made the group {group}",
    "group.changed": "changed the group {group}",
    "group.ended": "ended the group {group}",
    "delivery.dead": "gave up on event {event} for the group {group}",
    "delivery.retried": "handed out {count} dead events of the group {group} again",
    "delivery.dropped": "dropped {count} dead events of the group {group}",
    "agent.joined": "takes part",
    "agent.changed": "said something new about itself",
    "agent.left": "takes part no more",
    "run.started": "began {run} on {problem}",
    "turn.given": "gave {agent} a turn in {run}, round {round}",
    "turn.ended": "ended a turn in {run}, round {round}",
    "turn.lapsed": "took the turn in {run} from {agent}, who made no call in time",
    "turn.offered": "volunteers for the next round of {run}",
    "decision.made": "decided on the next round of {run}: {verdict}",
    "run.no_contributor": "found nobody for the next round of {run}",
    "run.unknown_agent": "named {agent}, who has no part in {run}",
    "run.opened": "opened the sealed round {round} of {run}",
    "run.stalled": "saw nothing move in {run}",
    "budget.blocked": "stopped at the budget of {run}: {spent}",
    "run.settled": "ended the rounds of {run}: {reason}",
    "run.stopped": "stopped {run}: {reason}",
    "run.finished": "answered {run} in {answer}",
    "plan.added": "planned {task}: {title}",
    "plan.changed": "changed {task}",
    "plan.cancelled": "cancelled {task}",
    "plan.budget": "set the budget of the agenda",
    "plan.triggered": "lets {task} begin: {trigger} held",
    "stage.defined": "defined {kind} {stage}: {title}",
    "artifact.written": "wrote {path}, revision {revision} ({op})",
    "stage.moved": "moved {stage} to {to}: {title}",
    "claim.taken": "took {task}",
    "claim.extended": "holds {task} for longer",
    "claim.waiting": "waits with {task}: {why}",
    "claim.resumed": "let {task} go on",
    "claim.released": "gave {task} back",
    "claim.lapsed": "took {task} from {holder}, who made no call in time",
    "claim.done": "did {task}",
    "claim.failed": "failed at {task}: {note}",
    "claim.verified": "confirmed {task}",
    "claim.rejected": "rejected the result of {task}",
}


def sentence(event: WireEvent, text: str = "") -> list[Part]:
    """Returns the parts of a line for an event: its time, sequence, agent, what happened, and the start of `text`."""
    said = _posted(event) if event.event == "item.posted" else _told(event)
    words: list[Part] = [(part, ID) if n % 2 else part for n, part in enumerate(_IDS.split(said))]
    if event.event in QUIET:
        words = [(said, DIM)]
    if text:
        words += [": ", clip(text, WIDTH)]
    return [(f"{when(event.at)} {event.seq:>5}  ", DIM), name(event.agent), " ", *words]


def _told(event: WireEvent) -> str:
    facts = defaultdict(str, {field: _value(value) for field, value in event.data.items()})
    facts |= {
        "it": event.item or "",
        "at": str(event.version or 1),
        "met": _MET.get(str(event.data.get("duty")), "did what was due on"),
        "facts": ", ".join(
            _fact(field, value) for field, value in event.data.items() if value not in ([], None)
        ),
    }
    if instead := facts["gave_way_to"]:
        facts["instead"] = f", replaced by {instead}"
    said = _SAID.get(event.event, f"{event.event} {{it}} {{facts}}").format_map(facts)
    said = said.removesuffix("it open") + "it stays open" if said.endswith(": it open") else said
    why = facts["reason"]
    return f"{said} ({why})" if why and why not in said else said


def _posted(event: WireEvent) -> str:
    it, data = event.item or "", event.data
    key = f" as {event.key}" if event.key else ""
    if "critiques" in data:
        return f"criticised {_value(data['critiques'])} in {it}"
    if "replies_to" in data and it[:1] in _REPLIED:
        return f"{_REPLIED[it[:1]]} {_value(data['replies_to'])} in {it}"
    if "summarises" in data:
        return f"summarised {_value(data['summarises'])} items in {it}"
    edges = [f"{kind.replace('_', ' ')} {_value(data[kind])}" for kind in EdgeKind if kind in data]
    return f"posted {type_of(it)} {it}{key}" + (f" ({', '.join(edges)})" if edges else "")


def _fact(field: str, value: Any) -> str:
    if isinstance(value, list) and len(value) == 2 and field in ("status", "importance"):
        return f"{field} {_value(value[0])} to {_value(value[1])}"
    return f"{field} {_value(value)}"


def _value(value: Any) -> str:
    if isinstance(value, list):
        return some([_value(part) for part in value])
    if isinstance(value, dict):
        return ", ".join(f"{field} {_value(part)}" for field, part in value.items())
    return one_line("none" if value is None else str(value))
