"""What the agenda has for one agent, for its view."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from blackboard_mcp.protocols.agenda import MAX_WORK, TaskState, Workload

from ..ledger.principals import owners_of
from ..ledger.rows import BoardRow, Steps, sql
from . import budgets, reservations, rows, taking
from .rows import TaskRow

_LOOKED_AT: Final = 20
"""Most tasks in review, and most that failed, that one look goes through."""


def workload(board: BoardRow, agent: str) -> Steps[Workload | None]:
    """Returns the tasks that an agent holds, could take, could confirm, or planned and has to mend.

    `None` if all tasks are over.
    """
    no = board.no
    if not (yield sql("tasks_any"), (no,))[0][0]:
        return None
    held = [n for (n,) in (yield sql("tasks_of_holder"), (no, agent, MAX_WORK))]
    able = yield from taking.skills_of(no, agent, None)
    ready = yield from taking.candidates(no, agent, able, MAX_WORK)
    left = [n for (n,) in (yield sql("tasks_to_settle"), (no, _LOOKED_AT))]
    found = yield from rows.find_tasks(no, {*held, *ready, *left})
    ready = [row.number for row in (yield from taking.in_turn(no, agent, [found[n] for n in ready]))]
    review = yield from confirmable(agent, (found[n] for n in left if found[n].state == TaskState.REVIEW))
    failed = [n for n in left if found[n].state == TaskState.FAULTED and found[n].created_by == agent]
    parts = held, ready, review[:MAX_WORK], failed[:MAX_WORK]
    listed = [number for part in parts for number in part]
    # An instant before every lease: only the sweep ends them here.
    made = yield from rows.values(board, [found[n] for n in listed], 0)
    made = yield from taking.with_outcomes(no, agent, [found[n] for n in review[:MAX_WORK]], made)
    tasks = iter(made)
    mine, could, confirm, mend = (tuple(islice(tasks, len(part))) for part in parts)
    budget = yield from budgets.find(no)
    told = None if budget is None else budget.value()
    there = (yield from reservations.listed(no, 0)) if any(task.paths for task in could) else ()
    kept = reservations.kept(could, there, agent)
    return Workload(
        mine,
        tuple(sorted(could, key=lambda task: task.number in kept)),
        confirm,
        told,
        kept,
        mend,
    )


def confirmable(agent: str, done: Iterable[TaskRow]) -> Steps[list[int]]:
    """Returns those of the tasks in review that the agent may confirm."""
    others = [row for row in done if row.holder != agent]
    owners: dict[str, str] = {}
    if any(row.verify == "owner" for row in others):
        owners = yield from owners_of([agent, *(row.holder for row in others)])
    return [row.number for row in others if row.verify != "owner" or owners[row.holder] != owners[agent]]
