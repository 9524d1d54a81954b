"""Lines on whose turn it is, and on the tasks that the reader holds, could take, could confirm or has to mend."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from blackboard_mcp.protocols.agenda import MAX_WORK, AgendaBudget, Input, Reservation, Task, TaskState
from blackboard_mcp.protocols.board import Lifecycle
from blackboard_mcp.protocols.items import Status
from blackboard_mcp.protocols.runs import Budget, Run, RunState, RunTurn

from ..text.lines import clip, word
from .standing import Standing

_LISTED: Final = MAX_WORK - 1
_TITLE: Final = 80
_MINUTE: Final = 60
_MINE: Final = "your tasks"
_FAILED: Final = "planned by you, and failed"


def work_sections(standing: Standing) -> list[tuple[bool, list[str]]]:
    """Returns sections of lines on the run and the tasks, each led by its heading with the next call.

    Each comes with whether it is the reader's own turn or tasks. Empty ones are left out.
    """
    run, takes_posts = standing.snapshot.run, standing.snapshot.board.lifecycle is Lifecycle.OPEN
    mine = takes_posts and run is not None and run.turn_of(standing.agent) is not None
    owned = [(mine, run_section(standing))] if run is not None else []
    if not takes_posts:  # nor the calls by which tasks are taken and ended
        return owned
    return owned + [(lines[0].startswith((_MINE, _FAILED)), lines) for lines in _task_sections(standing)]


def _task_sections(standing: Standing) -> list[list[str]]:
    work = standing.snapshot.work
    if work is None:
        return []
    budget = budget_line(work.budget)
    found = [["budget of the tasks:", budget]] if budget else []
    if work.held:
        first = next((task for task in work.held if not task.blocked_by), work.held[0])
        call = f'claim(id="{first.id}", lease={first.lease}, op='
        to_do = f'end each: {call}"done", text="…")'
        if first.blocked_by:
            to_do = f'none can be done now, keep what you have: {call}"release", text="…")'
        found.append(_section(f"{_MINE} ({to_do}):", work.held, map(_held, work.held)))
    if work.failed:
        again = f'plan(items=[{{"id": "{work.failed[0].id}", "state": "PENDING"}}], why="…")'
        heading = f'{_FAILED} (try again: {again}; do without: "state": "COMPLETED"):'
        found.append(_section(heading, work.failed, map(_failed, work.failed)))
    if work.ready:
        kept = work.kept
        told = (
            "(claim() takes the first)"
            if work.ready[0].number not in kept
            else "once what it needs is free (claim() waits for that)"
        )
        lines = [_ready(task, kept.get(task.number)) for task in work.ready]
        found.append(_section(f"ready for you {told}:", work.ready, lines))
    if work.review:
        call = f'claim(id="{work.review[0].id}", op="verify", ok=true or false, text="…")'
        found.append(_section(f"to confirm ({call}):", work.review, map(_done, work.review)))
    return found


def budget_line(budget: AgendaBudget | None) -> str:
    """Returns the bounds of the agenda's budget with what is used and held; an empty string without bounds."""
    if budget is None:
        return ""
    amounts = map(_amounts, (budget.bounds, budget.used, budget.held))
    named = [
        f"{name} {used:,g}{f' + {held:,g} held' if held else ''} of {bound:,g}"
        for name, bound, used, held in zip(("steps", "tokens", "cost", "seconds"), *amounts, strict=True)
        if bound
    ]
    more = '; spent, nothing is handed out until a steward raises it: plan(budget={"steps": …})'
    return ", ".join(named) + (more if budget.spent else "")


def _amounts(of: Budget) -> tuple[float, ...]:
    return of.steps, of.tokens, of.cost, of.seconds


def run_section(standing: Standing) -> list[str]:
    """Returns a heading with the run that is not over, and whose turn it is; an empty list without a run."""
    run = standing.snapshot.run
    if run is None:
        return []
    turn = run.turn_of(standing.agent)
    lifecycle = standing.snapshot.board.lifecycle
    place = "rounds over" if run.state is RunState.SETTLED else f"round {run.round} of {run.max_rounds}"
    if lifecycle is not Lifecycle.OPEN:
        line = f"stands still: the board is {lifecycle}"
    else:
        line = _whose(run) if turn is None else _yours(turn)
    return [f"{run.id} on {run.problem}, {place}:", line]


def _yours(turn: RunTurn) -> str:
    if turn.kind == "answer":
        return f'you answer, lease {turn.lease}: finalize(text="…", cites=["…"])'
    return f"your turn to {turn.kind}, lease {turn.lease}: turn() says what to do"


def unanswered(run: Run) -> str:
    """Returns what may be done about a settled run whose decider let its turn lapse."""
    decider = word(run.decider or run.started_by)
    return f'{decider} let its turn to answer lapse: finalize(text="…", cites=["…"]) may answer'


def _whose(run: Run) -> str:
    names = [word(turn.agent) for turn in run.turns if turn.state == "given"]
    more = f" +{len(names) - _LISTED}" if len(names) > _LISTED else ""
    named = ", ".join(names[:_LISTED])
    if not names:
        return unanswered(run) if run.state is RunState.SETTLED else "nobody has the turn"
    return f"{named}{more} {'have' if len(names) > 1 else 'has'} the turn"


def _section(heading: str, tasks: Sequence[Task], lines: Iterable[str]) -> list[str]:
    listed = [f"{line}: {clip(task.title, _TITLE)}" for task, line in zip(tasks, lines, strict=True)]
    return [heading, *listed[:_LISTED], *(["more tasks: plan()"] if len(listed) > _LISTED else [])]


def _held(task: Task) -> str:
    if task.blocked_by:
        return f"{task.id} lease {task.lease}, {'; '.join(task.blocked_by)}"
    if task.state is TaskState.WAITING:
        return f"{task.id} lease {task.lease}, waiting"
    # The call that shows the view renews the lease.
    seconds = round(task.lease_seconds)
    left = f"{seconds // _MINUTE}m" if seconds >= 2 * _MINUTE else f"{seconds}s"
    return f"{task.id} lease {task.lease}, {left} left"


def _ready(task: Task, kept: Reservation | None) -> str:
    needs = f", {word(kept.agent)} has reserved {clip(kept.pattern, _TITLE)}" if kept is not None else ""
    return f"{task.id} p{task.priority}{' for you alone' if task.worker else ''}{needs}"


def _failed(task: Task) -> str:
    return f"{task.id}{f' ({clip(task.why, _TITLE)})' if task.why else ''}"


def _done(task: Task) -> str:
    return f"{task.id} done by {word(task.holder)}{result_of(task)}"


def result_of(task: Task) -> str:
    """Returns ` in E-4 (in place of E-1)`: the result of a task as it stands now; empty without one."""
    if task.outcome is None:
        return f" in {task.result}" if task.result else ""
    marked = f" ({', '.join(told)})" if (told := marks(task.outcome)) else ""
    return f" in {task.outcome.item}{marked}"


def marks(given: Input) -> list[str]:
    """Returns what sets a result apart from the one that a task ended with: that it is another, and its status."""
    told = [f"in place of {given.instead_of}"] if given.instead_of else []
    return told + ([given.status] if given.status not in ("", Status.ACTIVE) else [])
