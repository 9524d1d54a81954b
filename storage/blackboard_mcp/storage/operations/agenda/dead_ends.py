"""Dead ends: what failed or fell before under the title or text of a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from blackboard_mcp.protocols.agenda import TASK_OVER, Task, TaskState, task_id
from blackboard_mcp.protocols.findings import fingerprint
from blackboard_mcp.protocols.items import item_id

from ..ledger.rows import Steps, dumps, sql

_LISTED: Final = 20
"""Most dead ends that one call tells of."""


def dead_ends(no: int, tasks: Sequence[Task]) -> Steps[tuple[str, ...]]:
    """Returns a line for each earlier task or finding that says the same as one of these and failed or fell."""
    live = [task for task in tasks if task.state not in TASK_OVER and task.state is not TaskState.FAULTED]
    if not live:
        return ()
    titles = {task.number: fingerprint(task.title) for task in live}
    says = {task.number: {titles[task.number], fingerprint(task.text or task.title)} for task in live}
    found: dict[str, list[str]] = {}
    for said, number, state, why in (yield sql("tasks_dead"), (no, dumps(sorted({*titles.values()})))):
        found.setdefault(said, []).append(f"{task_id(number)} {state}{f': {why}' if why else ''}")
    fell: dict[str, list[str]] = {}
    wanted = dumps(sorted(set().union(*says.values())))
    for said, type_, number, status in (yield sql("findings_fallen"), (no, wanted, _LISTED)):
        fell.setdefault(said, []).append(f"{item_id(type_, number)} {status}")
    lines = [
        f"{task.id} repeats {line}"
        for task in live
        for line in [
            *found.get(titles[task.number], ()),
            *(line for said in sorted(says[task.number]) for line in fell.get(said, ())),
        ]
    ]
    return tuple(lines[:_LISTED])
