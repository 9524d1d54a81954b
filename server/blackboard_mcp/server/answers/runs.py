"""Runs as text: whose turn it is, what an agent is to do at its turn, and the answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from blackboard_mcp.protocols.items import parse_ref
from blackboard_mcp.protocols.runs import MAX_MALFORMED, Run, RunState, RunTurn
from blackboard_mcp.protocols.runs import Final as Finalized

from ..strategies.decisions import FORM
from ..text.lines import clip, closed_to_posts, flat, one_line, quoted, word
from ..usecases.runs import Standing
from ..views.tasks import unanswered
from .participants import said_of
from .tasks import left, rule_lines

_PROBLEM: Final = 1_000
_SAID: Final = 400
_ANSWER: Final = 2_000
_NAMED: Final = 5
_LISTED: Final = 20
_PATIENT: Final = 3
"""Calls in a row without a turn, after which the answer says that stopping is fine."""


def standing_lines(standing: Standing, now: datetime) -> list[str]:
    """Returns what an agent is told by `turn`."""
    run = standing.run
    if run is None:
        start = 'turn(start={"problem": "…", "agents": ["ann", "ben"]}) starts one'
        return [f"no run here: {closed_to_posts(standing.lifecycle) or start}"]
    lines = _done(standing)
    if standing.turn is not None:
        return [*lines, *_yours(standing, run, standing.turn, now)]
    if run.state is RunState.FINISHED:
        return [*lines, f"{run.id} is finished: no more turns", *_final(standing.final)]
    if run.state is RunState.STOPPED:
        partial = _final(standing.final)
        call = 'finalize(text="…", cites=[…]) may still answer'
        whose = closed_to_posts(run.lifecycle) or f"{word(run.decider or run.started_by)}: {call}"
        return [*lines, f"{run.id} stopped, no more turns: {clip(run.reason, _SAID)}", *partial, whose]
    return [*lines, _waiting(standing, run, now)]


def _done(standing: Standing) -> list[str]:
    """Returns what the call itself did."""
    done, run = standing.done, standing.run
    lines = []
    if standing.started and run is not None:
        lines.append(f"{run.id} started on {run.problem}; its agents are told. turn() goes on")
    if done is None:
        return lines
    if done.problem:
        left_over = MAX_MALFORMED - done.run.malformed
        if done.verdict == "fallback":
            lines.append(
                f"not understood: {flat(done.problem)}. That was the third time: {done.run.strategy} chooses now"
            )
        else:
            lines.append(f"not understood: {flat(done.problem)}. No round was used; tries left: {left_over}")
    elif done.items:
        lines.append(f"posted {', '.join(item.id for item in done.items[:_LISTED])}")
    elif any(turn.agent == standing.agent and _is_kept(turn) for turn in done.run.turns):
        lines.append("kept; it is posted when all have contributed")
    if standing.turn is None:
        lines += _had_by_one(done.alone)
    return lines


def _is_kept(turn: RunTurn) -> bool:
    """Tells whether a turn brought a contribution that is sealed."""
    return turn.kind == "contribute" and turn.state == "ended" and not turn.item


def _had_by_one(alone: Sequence[tuple[str, str]]) -> Iterable[str]:
    if alone:
        yield "only one had:"
        yield from (f"{word(agent)}: {clip(line, _SAID)}" for agent, line in alone[:_LISTED])


def _waiting(standing: Standing, run: Run, now: datetime) -> str:
    """Returns one short line for whoever has no turn now."""
    whose = [word(turn.agent) for turn in run.turns if turn.state == "given"]
    names = ", ".join(whose[:_NAMED]) + (f" +{len(whose) - _NAMED}" if len(whose) > _NAMED else "")
    place = f"{run.id} round {run.round} of {run.max_rounds}"
    if run.state is RunState.SETTLED and not whose:
        return f"{run.id} settled; {unanswered(run)}"
    if run.state is RunState.SETTLED:
        said = f"{run.id} settled: {names or word(run.decider or run.started_by)} answers"
    elif whose:
        ends = max(turn.until for turn in run.turns if turn.state == "given")
        said = f"{place}: {names}'s turn, {left(ends, now)}"
    elif run.reason:
        said = f"{place}: {clip(run.reason, _SAID)}"
    else:
        said = f"{place}: who is next is being chosen"
    if not standing.takes_part:
        return (
            f'{said}; you are no agent of it: join(role="…") takes part'
            if not run.agents or standing.agent in run.agents
            else f"{said}; you are no agent of it: post(text=…) tells them what you know, wait() follows it"
        )
    if standing.misses >= _PATIENT:
        return f"{said}. wait() wakes you too; stopping is fine: it goes on"
    return f"{said}. turn() waits for {'it' if run.state is RunState.SETTLED else 'yours'}"


def _yours(standing: Standing, run: Run, turn: RunTurn, now: datetime) -> list[str]:
    lease = f"lease {turn.lease}, {left(turn.until, now)}"
    problem = standing.texts.get(parse_ref(run.problem).number, "")
    match turn.kind:
        case "contribute":
            lines = [f"{run.id} round {run.round} of {run.max_rounds}: your turn, {lease}"]
        case "decide":
            lines = [f"{run.id}: decide who has round {run.round + 1} of {run.max_rounds}, {lease}"]
        case "answer":
            lines = [f"{run.id} settled ({clip(run.reason, _SAID)}): you answer, {lease}"]
    lines += [
        f"{run.problem} {clip(problem, _PROBLEM)}" if problem else f'problem: read(ids=["{run.problem}"])'
    ]
    if turn.instruction:
        lines.append("do:")
        lines += quoted(turn.instruction)
    if turn.kind == "decide":
        lines += _agents(standing)
    lines += _had_by_one(standing.alone)
    lines += _said(standing)
    lines += rule_lines(standing.rules) if standing.rules is not None else []
    if standing.claims:
        held = [
            f"{task.id} (lease {task.lease}, {left(task.until, now)})" for task in standing.claims[:_NAMED]
        ]
        lines.append(f"you hold {', '.join(held)}")
    lines.append(_call(standing, run, turn))
    return lines


def _call(standing: Standing, run: Run, turn: RunTurn) -> str:
    """Returns the exact call that ends a turn."""
    if turn.kind == "contribute":
        sealed = " (unseen until all have contributed)" if run.sealed else ""
        return f'end it: turn(text="what you found or did", lease={turn.lease}){sealed}'
    if turn.kind == "decide":
        form = FORM.replace("NAME", standing.eligible[0] if standing.eligible else "NAME")
        return f'decide: turn(decision={form}, lease={turn.lease}); {{"terminate": true}} ends the rounds'
    final = standing.final
    against = [*final.unresolved, *final.dissent] if final is not None else []
    names = f"; open against it: {', '.join(against[:_LISTED])}" if against else ""
    return f'answer: finalize(text="…", cites=["ids it rests on"]){names}'


def _agents(standing: Standing) -> Iterable[str]:
    known = {one.agent: one for one in standing.roster}
    yield "agents:"
    for name in standing.eligible[:_LISTED]:
        one = known.get(name)
        away = " (away)" if one is not None and not one.present else ""
        yield f"{word(name)}{away}{'' if one is None else said_of(one)}"
    if len(standing.eligible) > _LISTED:
        yield f"{len(standing.eligible) - _LISTED} more: join() lists them"


def _said(standing: Standing) -> list[str]:
    lines = []
    for one in standing.said:
        text = standing.texts.get(parse_ref(one.item).number)
        if text is not None:
            lines.append(f"{one.item} {word(one.agent)}: {clip(text, _SAID)}")
    return lines


def final_lines(final: Finalized) -> list[str]:
    """Returns the answer of a run, or what it would be now and how to post it."""
    run = final.run
    if final.posted:
        return [f"{run.id} is finished", *_final(final)]
    lines = [f"{run.id} is {run.state}; its answer now would be {_SOURCES[final.source]}", *_final(final)]
    lines.append(
        closed_to_posts(run.lifecycle)
        or f'{word(run.decider or run.started_by)} answers: finalize(text="…", cites=["ids it rests on"])'
    )
    return lines


_SOURCES: Final = {
    "decider": "its decider's",
    "answer": "the last ANSWER",
    "contribution": "the last contribution",
    "empty": "empty",
}


def _final(final: Finalized | None) -> list[str]:
    if final is None or not final.text:
        return []
    where = final.item.id if final.item is not None else ""
    lines = [f"{where} by {word(final.item.author)}:" if final.item is not None else "answer:"]
    lines += quoted(clip_long(final.text, where))
    lines += _listed("cites", final.cites)
    lines += _listed("open critiques", final.unresolved)
    lines += _listed("against it", final.dissent)
    return lines


def clip_long(text: str, where: str) -> str:
    """Returns the text, or its beginning with the call that reads the rest."""
    return text if len(text) <= _ANSWER else f'{text[:_ANSWER]}… read(ids=["{one_line(where)}"]) has the rest'


def _listed(label: str, ids: Sequence[str]) -> Iterable[str]:
    if ids:
        more = f" +{len(ids) - _LISTED}" if len(ids) > _LISTED else ""
        yield f"{label}: {', '.join(ids[:_LISTED])}{more}"
