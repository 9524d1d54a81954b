"""Tasks as text: the agenda, a task that was taken, and what came of one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType

from blackboard_mcp.protocols.agenda import (
    HELD,
    REJECTED,
    TASK_OVER,
    Agenda,
    AgendaBudget,
    Attempt,
    Input,
    Planned,
    Reservation,
    Settled,
    Taken,
    Task,
    TaskState,
    task_id,
)
from blackboard_mcp.protocols.answers import DebateView
from blackboard_mcp.protocols.board import Lifecycle
from blackboard_mcp.protocols.rules import RuleBook
from blackboard_mcp.protocols.stages import Stages, stage_id

from ..text.debates import still_debated
from ..text.lines import clip, closed_to_posts, flat, in_quotes, one_line, quoted, relative_age, word
from ..usecases.agenda import Claimed
from ..views.tasks import budget_line, marks, result_of
from .stages import stage_lines

_LISTED = 30
_MINE = 10
_TITLE = 120
_NOTE = 200
_DEAD_END = 240
_BLOCKERS = 3
_FEW = 3
_SECONDS = 60


def left(until: datetime | None, now: datetime) -> str:
    """Returns how long a lease lasts: `4m left`, `12s left`."""
    if until is None:
        return "ended"
    seconds = max(0, round((until - now).total_seconds()))
    return f"{seconds // _SECONDS}m left" if seconds >= 2 * _SECONDS else f"{seconds}s left"


def task_line(task: Task, now: datetime, kept: Reservation | None = None) -> str:
    """Returns one line on a task: `T-5 waits for T-4 RUNNING by ann · p5 · for ben: title`.

    `kept` is another's reservation of what a ready task needs.
    """
    if kept is not None:
        said = f"ready when {word(kept.agent)}, who has reserved {flat(kept.pattern)}, gives it back"
    elif task.ready:
        said = "ready"
    elif task.state is TaskState.PENDING:
        blocked = "; ".join(one_line(one) for one in task.blocked_by[:_BLOCKERS])
        more = f" +{len(task.blocked_by) - _BLOCKERS}" if len(task.blocked_by) > _BLOCKERS else ""
        said = f"waits for {blocked}{more}"
    elif task.state in HELD:
        running = task.state is TaskState.RUNNING
        until = f", {left(task.until, now)}" if running else f" for {clip(task.waits_on, _TITLE)}"
        said = ", ".join([f"{task.state} by {word(task.holder)}{until}", *task.blocked_by])
    elif task.state is TaskState.REVIEW:
        said = f"REVIEW, done by {word(task.holder)}{result_of(task)}"
    else:
        where = result_of(task) if task.state is TaskState.COMPLETED else ""
        said = f"{task.state}{where}{f' ({clip(task.why, _NOTE)})' if task.why else ''}"
    parts = [f"{task.id} {said}"]
    parts += [f"p{task.priority}"] if task.state not in TASK_OVER else []
    parts += [f"for {word(task.worker)}"] if task.worker else []
    parts += [f"skill {word(task.skill)}"] if task.skill else []
    parts += [stage_id(task.stage)] if task.stage else []
    return f"{' · '.join(parts)}: {clip(task.title, _TITLE)}"


def agenda_lines(agenda: Agenda, agent: str, now: datetime) -> list[str]:
    """Returns the agenda: own tasks, ready ones, those to confirm, then the rest, with the calls they need."""
    stopped = closed_to_posts(agenda.lifecycle)
    if not agenda.tasks:
        over = f"{sum(agenda.over.values())} are over; " if agenda.over else ""
        plans = 'plan(items=[{"title": "…"}, {"title": "…", "after": ["$1"]}]) plans some'
        lines = [f"no open tasks: {over}{stopped or plans}"]
        results = [
            id_ for task in agenda.ended if (id_ := task.outcome.item if task.outcome else task.result)
        ]
        texts = f", texts: read(ids=[{', '.join(map(in_quotes, results))}])" if results else ""
        last = "the last " if sum(agenda.over.values()) > len(agenda.ended) else ""
        return [*lines, *_part(f"over ({last}{len(agenda.ended)}{texts}):", agenda.ended, now)]

    def heading(name: str, calls: str) -> str:
        return f"{name}:" if stopped else f"{name} ({calls}):"

    lines = [*([stopped] if stopped else []), *_budget(agenda.budget)]
    mine = {task.number for task in agenda.mine}
    review = {task.number for task in agenda.review}
    ready = [task for task in agenda.tasks if task.ready]
    rest = [t for t in agenda.tasks if not t.ready and t.number not in mine and t.number not in review]
    end = 'end them: claim(id="…", op="done", text="…")'
    if all(task.blocked_by for task in agenda.mine):
        end = 'none can be done now, keep what you have: claim(id="…", op="release", text="…")'
    verify = 'claim(id="…", op="verify", ok=true or false, text="…")'
    lines += _part(heading("yours", end), agenda.mine[:_MINE], now)
    lines += _part(heading("ready", "claim() takes the first that is for you"), ready, now, agenda.kept)
    lines += _part(heading("to confirm", verify), agenda.review[:_MINE], now)
    lines += _part("others:", rest, now)
    lines = lines[:_LISTED]
    shown = sum(line.startswith("T-") for line in lines)
    if shown < agenda.total:
        lines.append(f'{agenda.total - shown} more; plan(why="T-…") tells of one')
    return lines


def _budget(budget: AgendaBudget | None) -> list[str]:
    line = budget_line(budget)
    return [f"budget of the tasks: {line}"] if line else []


def _part(
    heading: str,
    listed: Sequence[Task],
    now: datetime,
    kept: Mapping[int, Reservation] = MappingProxyType({}),
) -> Iterable[str]:
    if listed:
        yield heading
        yield from (task_line(task, now, kept.get(task.number)) for task in listed)


def task_lines(task: Task, attempts: Sequence[Attempt], lifecycle: Lifecycle, now: datetime) -> list[str]:
    """Returns everything about one task: its line, text, order, why it waits, earlier attempts, and what can be done.

    On a board that is not open (`lifecycle`) nothing can be done.
    """
    lines = [task_line(task, now)]
    if task.outcome is not None and marks(task.outcome):
        lines.append(f"→ {task.outcome.item}: {clip(task.outcome.text, _NOTE)}")
    lines += quoted(task.text) if task.text else []
    if task.after:
        lines.append(f"after {', '.join(map(task_id, task.after))}")
    if task.paths:
        lines.append(f"reserves {', '.join(map(flat, task.paths))}")
    if task.verify:
        who = "an agent of another owner" if task.verify == "owner" else "another agent"
        lines.append(f"{who} confirms it")
    if task.sub is not None and task.sub.wait and task.state is TaskState.WAITING:
        below = task.sub.board
        lines.append(
            f'ends with a run there, turn(start={{"problem": "…"}}, board="{below}"), or when a steward settles that '
            "board: then its last ANSWER is the result"
        )
    lines += attempt_lines(attempts)
    by = f"planned by {word(task.created_by)}"
    if task.created_at is not None:
        by += f" {relative_age(task.created_at, now)}"
    lines.append(f"{by}; taken {task.attempts} times" if task.attempts != 1 else f"{by}; taken once")
    if task.state is TaskState.FAULTED:
        item = f'{{"id": "{task.id}", "state": "PENDING"}}'
        # A board that was settled would end the new attempt at once.
        below = (
            ""
            if task.sub is None
            else f' (first, if it is settled: board(board="{task.sub.board}", lifecycle="open"))'
        )
        again = f'try again{below}: plan(items=[{item}], why="…"); do without: "state": "COMPLETED"'
        lines.append(closed_to_posts(lifecycle) or again)
    return lines


def attempt_lines(attempts: Sequence[Attempt]) -> list[str]:
    """Returns a line for each earlier attempt, the last one last."""
    return [f"before: {word(one.agent)}{_ended(one)}" for one in attempts]


def _ended(attempt: Attempt) -> str:
    if attempt.how == "rejected":
        said = "" if attempt.note.startswith(REJECTED) else "rejected: "  # as older versions noted it
        return f"'s result was {said}{clip(attempt.note, _NOTE)}"
    return f" {attempt.how}{f': {clip(attempt.note, _NOTE)}' if attempt.note else ''}"


def planned_lines(planned: Planned, now: datetime) -> list[str]:
    """Returns the tasks that a call planned, changed or cancelled, with others' tasks and dead ends like them."""
    tasks = planned.tasks
    lines = [task_line(task, now) for task in tasks[:_LISTED]]
    if len(tasks) > _LISTED:
        lines.append(f"{len(tasks) - _LISTED} more; plan() lists the agenda")
    lines += _budget(planned.budget)
    if planned.stages:
        lines += stage_lines(Stages(planned.stages, planned.seq))
    if planned.alike:
        first = planned.alike[0].partition(" ")[0]
        lines.append(
            f'others planned about the same; if yours is the same work: plan(cancel=["{first}"], why="…"):'
        )
        lines += [clip(line, _DEAD_END) for line in planned.alike]
    return lines + dead_end_lines(planned.dead_ends)


def dead_end_lines(dead_ends: Sequence[str]) -> list[str]:
    """Returns the lines on dead ends, each cut, under a heading with the calls that tell more."""
    heading = 'dead ends (plan(why="T-…") or read(ids=["…"]) tells more):'
    return [heading, *(clip(line, _DEAD_END) for line in dead_ends)] if dead_ends else []


def rule_lines(book: RuleBook) -> list[str]:
    """Returns the revision of the rules, then those that the reader comes under, whole, a line each."""
    return [book.label, *(f"rule: {flat(rule.line)}" for rule in book.mine)] if book.rules else []


def claimed_lines(claimed: Claimed, now: datetime) -> list[str]:
    """Returns what a claim took with the calls that end it, or why there is nothing."""
    if claimed.taken is None:
        return [_nothing(claimed, now)]
    taken = claimed.taken
    if taken.task is None:
        return _reserved(taken)
    task = taken.task
    lines = [
        f"{task.id} is yours under lease {taken.lease}, {left(taken.until, now)}: {clip(task.title, _TITLE)}"
    ]
    lines += quoted(task.text) if task.text else []
    for given in taken.inputs:
        lines.append(f"{task_id(given.task)} {clip(given.title, _TITLE)} → {_result(given)}")
    lines += attempt_lines(taken.brief)
    lines += dead_end_lines(taken.dead_ends)
    lines += rule_lines(claimed.rules)
    if taken.reserved:
        lines.append(f"reserved for you: {', '.join(flat(one.pattern) for one in taken.reserved)}")
    if taken.others:
        others = [f"{t.id} (lease {t.lease}, {left(t.until, now)})" for t in taken.others[:_FEW]]
        lines.append(f"you hold as well: {', '.join(others)}")
    call = f'claim(id="{task.id}", lease={taken.lease}, op='
    used = ', usage={"tokens": …, "cost": …}' if task.cost else ""
    lines.append(
        f'done: {call}"done", text="what came out"{used}); cannot: {call}"fail" or "release", text="why")'
    )
    return lines


def _result(given: Input) -> str:
    marked = f" ({', '.join(told)})" if (told := marks(given)) else ""
    return f"{given.item or 'no result'}{marked}{f': {clip(given.text, _NOTE)}' if given.text else ''}"


def _reserved(taken: Taken) -> list[str]:
    named = ", ".join(flat(one.pattern) + ("?shared" if one.shared else "") for one in taken.reserved)
    return [
        f"reserved under lease {taken.lease} until {taken.until:%H:%M:%SZ}: {named}",
        f'give back: claim(lease={taken.lease}, op="release")',
    ]


def _nothing(claimed: Claimed, now: datetime) -> str:
    if not claimed.total:
        return "nothing to claim: no open tasks; plan() plans some"
    if claimed.mine:
        return f"nothing else is ready for you, {claimed.total} open; {_held(claimed.mine)}"
    shown = (claimed.review or claimed.waits)[:1]
    line = "".join(task_line(task, now, claimed.kept.get(task.number)) for task in shown)
    if claimed.review:
        then = _confirm(claimed.review[0])
    elif shown and shown[0].state is TaskState.FAULTED:
        then = f'plan(why="{shown[0].id}") says what can be done'
    else:
        then = "claim() waits; stopping is fine"
    return f"nothing ready for you, {claimed.total} open; first {line}. {then}"


def _held(mine: Sequence[Task]) -> str:
    first = mine[0]
    held = ", ".join(f"{task.id} (lease {task.lease})" for task in mine[:_FEW])
    call = f'claim(id="{first.id}", lease={first.lease}, op="done" or "release", text="…")'
    return f"you hold {held}: end it first, {call}"


def _confirm(task: Task) -> str:
    return f'confirm it: claim(id="{task.id}", op="verify", ok=true or false, text="…")'


def _instead(left: Agenda, now: datetime) -> str:
    """Returns what an agent does for which nothing is ready."""
    if left.mine:
        return _held(left.mine)
    if left.review:
        return f"first {task_line(left.review[0], now)}. {_confirm(left.review[0])}"
    return "wait() tells what comes"


def _whom(worker: str, agent: str) -> str:
    return "you" if worker == agent else word(worker)


def settled_lines(
    done: Settled, op: str, agent: str, now: datetime, debate: DebateView | None, rest: Agenda | None
) -> list[str]:
    """Returns what became of a task by a call of an agent's, and what to do next.

    `debate` is the open one on the result that the agent confirmed, `rest` the agenda if nothing is ready for it.
    """
    task = done.task
    if task is None:
        return [f"lease {done.lease} extended" if op == "extend" else f"lease {done.lease} given back"]
    said = f"{task.id} {task.state}"
    match task.state:
        case TaskState.COMPLETED:
            said += f", result {task.result}" if task.result and op == "done" else ""
            said += ", though your lease had ended" if done.late else ""
        case TaskState.REVIEW:
            said += f": another agent confirms {task.result}"
        case TaskState.RUNNING:
            said += f" under lease {task.lease}, {left(task.until, now)}"
        case TaskState.WAITING:
            said += f" for {clip(task.waits_on, _TITLE)}: its clock stands, 24 h at most; extend without text goes on"
        case TaskState.FAULTED:
            said += f': no attempts left; plan(why="{task.id}") says what can be done'
        case TaskState.PENDING:
            said += ", for the next who takes it"
        case TaskState.CANCELLED:
            pass
    if done.item is not None and op == "verify":
        said += f"; {done.item.id} criticises {task.result or 'the result'}"
    lines = [said]
    if debate is not None:
        lines.append(still_debated(debate))
    if done.freed:
        meant = [
            f"{task_id(number)}{f' for {_whom(worker, agent)}' if worker else ''}"
            for number, worker in done.freed.items()
        ]
        lines.append(f"ready now: {', '.join(meant[:_MINE])}")
    if op in ("done", "fail", "release", "verify"):
        again = (
            f", which takes {task.id} again only if nothing else is ready for you" if op == "release" else ""
        )
        none = "" if rest is None else f"nothing else is ready for you now; {_instead(rest, now)}"
        lines.append(none or f"next: claim(){again}")
    return lines
