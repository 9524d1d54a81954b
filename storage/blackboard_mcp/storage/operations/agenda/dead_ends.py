"""Dead ends: what failed or fell before, and says the same as a task or about the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from blackboard_mcp.protocols.agenda import TASK_OVER, Task, TaskState, task_id
from blackboard_mcp.protocols.closeness import are_close
from blackboard_mcp.protocols.findings import fingerprint
from blackboard_mcp.protocols.items import item_id

from ..items.endorsements import word_marks
from ..ledger.rows import Steps, dumps, sql

_COMPARED: Final = 100
_LISTED: Final = 20
"""Most dead ends that one call tells of."""


def dead_ends(no: int, tasks: Sequence[Task]) -> Steps[tuple[str, ...]]:
    """Returns a line for each earlier task or finding that failed or fell, and says what one of these says."""
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
    return tuple([*lines, *(yield from _close(no, live, lines))][:_LISTED])


def _close(no: int, live: Sequence[Task], known: Sequence[str]) -> Steps[list[str]]:
    """Returns a line for each task that failed and finding that fell that is close to one of these tasks.

    It compares with the newest `_COMPARED` of each. `known` are lines on those that say the same.
    """
    failed = yield sql("tasks_failed"), (no, _COMPARED)
    words = dumps(sorted({mark for task in live for said in _texts(task) for mark in word_marks(said)}))
    fell = yield sql("findings_fallen_close"), (no, words, _COMPARED)
    past = [(task_id(n), title, f"{state}{f': {why}' if why else ''}") for n, title, state, why in failed]
    past += [(item_id(type_, n), text, status) for type_, n, status, text in fell]
    return [
        line
        for task in live
        for id_, text, how in past
        if id_ != task.id and any(are_close(text, said) for said in _texts(task))
        for line in [f"{task.id} comes close to {id_} {how}"]
        if f"{task.id} repeats {id_} {how}" not in known
    ]


def _texts(task: Task) -> tuple[str, ...]:
    return (task.title, task.text) if task.text else (task.title,)
