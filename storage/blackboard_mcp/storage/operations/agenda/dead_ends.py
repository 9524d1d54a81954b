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
_PLANNED: Final = 200
_NEW: Final = 20
"""Tasks planned last, and tasks of one call, that are compared with each other."""
_LISTED: Final = 20
"""Most dead ends that one call tells of."""


def dead_ends(no: int, tasks: Sequence[Task]) -> Steps[tuple[str, ...]]:
    """Returns a line for each earlier task or finding that failed or fell, and says what one of these says."""
    live = [task for task in tasks if task.state not in TASK_OVER and task.state is not TaskState.FAULTED]
    if not live:
        return ()
    titles = {task.number: fingerprint(task.title) for task in live}
    says = {task.number: {titles[task.number], fingerprint(task.text or task.title)} for task in live}
    past: dict[str, list[tuple[int, str, str]]] = {}
    for said, number, state, why in (yield sql("tasks_dead"), (no, dumps(sorted({*titles.values()})))):
        past.setdefault(said, []).append((number, state, why))
    fell: dict[str, list[str]] = {}
    wanted = dumps(sorted(set().union(*says.values())))
    for said, type_, number, status in (yield sql("findings_fallen"), (no, wanted, _LISTED)):
        fell.setdefault(said, []).append(f"{item_id(type_, number)} {status}")
    lines = [
        f"{task.id} repeats {line}"
        for task in live
        for line in [
            *(_told(*one) for one in past.get(titles[task.number], ()) if not _only_repeats(task, *one[:2])),
            *(line for said in sorted(says[task.number]) for line in fell.get(said, ())),
        ]
    ]
    return tuple([*lines, *(yield from _close(no, live, lines))][:_LISTED])


def alike(no: int, tasks: Sequence[Task]) -> Steps[tuple[str, ...]]:
    """Returns a line for each open task that another agent planned before one of these, and that is about the same.

    It compares the first `_NEW` of these with those that are open of the `_PLANNED` planned last.
    """
    new = [task for task in tasks if task.state is TaskState.PENDING and not task.attempts]
    if not new or max(task.number for task in new) <= len(new):
        return ()
    before = yield sql("tasks_newest_open"), (no, _PLANNED)
    return tuple(
        f"{task.id} and {task_id(number)} of {author}, {state}{f' by {holder}' if holder else ''}: {title}"
        for task in new[:_NEW]
        for number, title, state, author, holder in before
        if number < task.number and author != task.created_by and are_close(title, task.title)
    )[:_LISTED]


def _close(no: int, live: Sequence[Task], known: Sequence[str]) -> Steps[list[str]]:
    """Returns a line for each task that failed and finding that fell that is close to one of these tasks.

    It compares with the newest `_COMPARED` of each. `known` are lines on those that say the same.
    """
    failed = yield sql("tasks_failed"), (no, _COMPARED)
    words = dumps(sorted({mark for task in live for said in _texts(task) for mark in word_marks(said)}))
    fell = yield sql("findings_fallen_close"), (no, words, _COMPARED)
    items = [(f"{item_id(type_, n)} {status}", text) for type_, n, status, text in fell]
    lines: list[str] = []
    for task in live:
        tasks = [
            (_told(n, state, why), title)
            for n, title, state, why in failed
            if n != task.number and not _only_repeats(task, n, state)
        ]
        for told, text in tasks + items:
            if f"{task.id} repeats {told}" not in known and any(
                are_close(text, said) for said in _texts(task)
            ):
                lines.append(f"{task.id} comes close to {told}")
    return lines


def _told(number: int, state: str, why: str) -> str:
    return f"{task_id(number)} {state}{f': {why}' if why else ''}"


def _only_repeats(task: Task, number: int, state: str) -> bool:
    """Tells whether a former task was planned after this one and cancelled: so it was too much, and shows nothing."""
    return state == TaskState.CANCELLED and number > task.number


def _texts(task: Task) -> tuple[str, ...]:
    return (task.title, task.text) if task.text else (task.title,)
