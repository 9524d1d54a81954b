"""Sentences for events about tasks and leases."""

from __future__ import annotations

from typing import Any

from blackboard_mcp.protocols.events import Event, EventType

from ..text.lines import clip, one_line, word

_TITLE = 120
_NOTE = 200


def task_words(event: Event) -> str | None:
    """Returns a clause that says what happened to a task or lease, or `None` for other events."""
    said = event.data
    lease = f"lease {said.get('lease')}"
    task = one_line(str(said["task"])) if said.get("task") else lease
    title = f": {clip(str(said['title']), _TITLE)}" if said.get("title") else ""
    note = f" ({clip(str(said['note']), _NOTE)})" if said.get("note") else ""
    why = f" ({clip(str(said['why']), _NOTE)})" if said.get("why") else ""
    match event.event:
        case EventType.PLAN_ADDED:
            whom = f" for {word(str(said['worker']))}" if said.get("worker") else ""
            whom += f", skill {word(str(said['skill']))}" if said.get("skill") else ""
            return f"{task}{whom}{title}"
        case EventType.PLAN_CHANGED:
            freed = f"; ready now: {_listed(said, 'freed')}" if said.get("freed") else ""
            return f"{task} {', '.join(map(one_line, said.get('changed', ())))}{why}{freed}"
        case EventType.PLAN_TRIGGERED:
            begins = "may begin, " if said.get("freed") else "waits no more for its trigger: "
            return f"{task} {begins}{clip(str(said.get('trigger', '')), _NOTE)} held{title}"
        case EventType.PLAN_BUDGET:
            bounds = ", ".join(f"{name} {bound:,g}" for name, bound in said.get("budget", {}).items())
            return f"the tasks of the board may use {bounds or 'what they need'} in all"
        case EventType.BUDGET_BLOCKED if said.get("task"):
            return (
                f"{task} is kept back by the budget of the agenda, {one_line(str(said.get('spent')))}{title}"
            )
        case EventType.STAGE_DEFINED | EventType.STAGE_MOVED:
            kind = "milestone " if said.get("kind") == "milestone" else ""
            to = f" {one_line(str(said['to']))}" if said.get("to") else ""
            faulted = "; stage() says how it goes on" if said.get("to") == "FAULTED" else ""
            return f"{kind}{one_line(str(said.get('stage')))}{to}{why}{title}{faulted}"
        case EventType.PLAN_CANCELLED:
            return f"{task}{title}{why}"
        case EventType.CLAIM_TAKEN:
            where = f" on board {word(str(said['board']))}" if said.get("board") else ""
            return (
                f"{task}{where}{title}" if said.get("task") else f"{lease} reserves {_listed(said, 'paths')}"
            )
        case EventType.CLAIM_WAITING:
            return f"{task} waits{why}"
        case EventType.CLAIM_RESUMED:
            return f"{task} goes on{why}; your {lease} runs again"
        case EventType.CLAIM_RELEASED:
            return f"{task} given back{note}"
        case EventType.CLAIM_LAPSED:
            holder = word(str(said.get("holder", "")))
            call = f'claim(id="{task}", {_call(said)}, op="done", text="…")'
            until = f"; until one does, {holder} may still end it: {call}" if said.get("task") else ""
            return f"{task}: no call of {holder} came in time, others may take it{until}"
        case EventType.CLAIM_DONE:
            result = f" in {one_line(str(said['result']))}" if said.get("result") else ""
            confirm = f'; another agent confirms: claim(id="{task}", op="verify", ok=true or false, text="…")'
            freed = f"; ready now: {_listed(said, 'freed')}" if said.get("freed") else ""
            return f"{task} done{result}{why}{title}{confirm if said.get('review') else freed}"
        case EventType.CLAIM_FAILED:
            count = said.get("left")
            left = (
                f"{count} more attempt{'' if count == 1 else 's'}" if count else "FAULTED, no attempts left"
            )
            return f"{task} failed{note}; {left}"
        case EventType.CLAIM_VERIFIED:
            freed = f"; ready now: {_listed(said, 'freed')}" if said.get("freed") else ""
            return f"{task} confirmed{title}{freed}"
        case EventType.CLAIM_REJECTED:
            critique = f" in {one_line(str(said['critique']))}" if said.get("critique") else ""
            return f"{task} rejected{critique}; it is {one_line(str(said.get('state')))} again{title}"
    return None


def _call(said: dict[str, Any]) -> str:
    return f"lease={said.get('lease')}"


def _listed(said: dict[str, Any], name: str) -> str:
    found = said.get(name)
    return ", ".join(one_line(str(one)) for one in found[:8]) if isinstance(found, list) else ""
