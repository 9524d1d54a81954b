"""What the agenda has for one agent, for its view."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from blackboard_mcp.protocols.agenda import MAX_WORK, TaskState, Workload

from ..ledger.principals import owners_of
from ..ledger.rows import BoardRow, Steps, sql
from . import budgets, reservations, rows, taking
from .rows import TaskRow

_REVIEWED: Final = 20
"""Most tasks in review that one look goes through."""


def workload(board: BoardRow, agent: str) -> Steps[Workload | None]:
    """Returns the tasks that an agent holds, could take or could confirm; `None` if all tasks are over."""
    no = board.no
    if not (yield sql("tasks_any"), (no,))[0][0]:
        return None
    held = [n for (n,) in (yield sql("tasks_of_holder"), (no, agent, MAX_WORK))]
    able = yield from taking.skills_of(no, agent, None)
    ready = yield from taking.candidates(no, agent, able, MAX_WORK)
    done = [n for (n,) in (yield sql("tasks_in"), (no, str(TaskState.REVIEW), _REVIEWED))]
    found = yield from rows.find_tasks(no, {*held, *ready, *done})
    ready = [row.number for row in (yield from taking.in_turn(no, agent, [found[n] for n in ready]))]
    review = yield from confirmable(agent, (found[n] for n in done))
    listed = [*held, *ready, *review[:MAX_WORK]]
    # An instant before every lease: only the sweep ends them here.
    made = yield from rows.values(board, [found[n] for n in listed], 0)
    ends = len(held), len(held) + len(ready)
    budget = yield from budgets.find(no)
    told = None if budget is None else budget.value()
    could = made[ends[0] : ends[1]]
    there = (yield from reservations.listed(no, 0)) if any(task.paths for task in could) else ()
    kept = reservations.kept(could, there, agent)
    return Workload(
        made[: ends[0]],
        tuple(sorted(could, key=lambda task: task.number in kept)),
        made[ends[1] :],
        told,
        kept,
    )


def confirmable(agent: str, done: Iterable[TaskRow]) -> Steps[list[int]]:
    """Returns those of the tasks in review that the agent may confirm."""
    others = [row for row in done if row.holder != agent]
    owners: dict[str, str] = {}
    if any(row.verify == "owner" for row in others):
        owners = yield from owners_of([agent, *(row.holder for row in others)])
    return [row.number for row in others if row.verify != "owner" or owners[row.holder] != owners[agent]]
