"""Sentences for events about runs and turns."""

from __future__ import annotations

from blackboard_mcp.protocols.events import Event, EventType

from ..text.lines import clip, in_quotes, one_line, word

_NOTE = 200
_NAMED = 8
_CALLS = {
    "contribute": "turn() says what to do",
    "decide": "turn() asks who is next",
    "answer": 'finalize(text="…", cites=[…]) answers',
}


def run_words(event: Event) -> str | None:
    """Returns a clause that says what happened in a run, or `None` for other events."""
    said = event.data
    run = one_line(str(said.get("run", "")))
    place = f"{run} round {said.get('round')}"
    agent = word(str(said.get("agent", "")))
    why = f": {clip(str(said['reason']), _NOTE)}" if said.get("reason") else ""
    match event.event:
        case EventType.RUN_STARTED:
            rounds = f"at most {said.get('max_rounds')} rounds"
            return f"{run} on {one_line(str(said.get('problem')))}, {rounds}; turn() takes part"
        case EventType.TURN_GIVEN:
            chosen = f" ({clip(str(said['why']), _NOTE)})" if said.get("why") else ""
            on = f" on {one_line(str(said['task']))}" if said.get("task") else ""
            return f"{place}: {agent}'s turn{on}{chosen}; {_CALLS.get(str(said.get('kind')), _CALLS['contribute'])}"
        case EventType.TURN_ENDED:
            item = f" in {one_line(str(said['item']))}" if said.get("item") else ", sealed"
            return f"{place}: contributed{item}"
        case EventType.TURN_LAPSED:
            return f"{place}: {agent} made no call in time, and its turn went on without it"
        case EventType.TURN_OFFERED:
            return f"{run}: volunteers with {said.get('offer')}"
        case EventType.DECISION_MADE:
            return f"{place}: {_decided(event)}"
        case EventType.RUN_NO_CONTRIBUTOR:
            return f"{place}: nobody can go on{why}"
        case EventType.RUN_UNKNOWN_AGENT:
            return f"{run}: {agent or 'nobody'} is no agent of it"
        case EventType.RUN_OPENED:
            items = ", ".join(one_line(str(one)) for one in said.get("items", ())[:_NAMED])
            return f"{place} opened: {items or 'nothing'}; {said.get('alone')} that only one had"
        case EventType.RUN_STALLED:
            then = one_line(str(said.get("then")))
            goes_on = "it is stopped" if then == "stopped" else f"{then} chooses from now on"
            return f"{run}: {said.get('stalls')} rounds changed nothing; {goes_on}"
        case EventType.BUDGET_BLOCKED:
            return f"{run}: its budget is spent, {one_line(str(said.get('spent')))}"
        case EventType.RUN_SETTLED:
            return f"{run} has no more rounds{why}; {word(str(said.get('decider', '')))} answers"
        case EventType.RUN_STOPPED:
            return f"{run} stopped{why}"
        case EventType.RUN_FINISHED:
            return f"{run} is answered in {one_line(str(said.get('answer')))}"
    return None


def _decided(event: Event) -> str:
    said = event.data
    if said.get("verdict") != "accepted":
        problem = f" ({clip(str(said['problem']), _NOTE)})" if said.get("problem") else ""
        return f"the decision was not understood{problem}"
    what = in_quotes(clip(str(said["instruction"]), _NOTE)) if said.get("instruction") else ""
    if said.get("terminate"):
        return f"ended the rounds{f': {what}' if what else ''}"
    return f"{word(str(said.get('next_agent', '')))} is next{f': {what}' if what else ''}"
