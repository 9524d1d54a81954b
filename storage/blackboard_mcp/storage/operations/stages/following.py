"""What follows from a change of a board: stages that move, and tasks whose trigger has held.

The events of a transaction tell what changed. Stages and tasks whose conditions mention it are looked at before the
transaction ends, and again for what that changes. What goes beyond the bounds is kept for the next change.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from blackboard_mcp.protocols.agenda import TASK_OVER, parse_task
from blackboard_mcp.protocols.events import SYSTEM, EventType
from blackboard_mcp.protocols.stages import MAX_CASCADES, MAX_LOOKED, parse_stage

from ..agenda import rows as tasks
from ..ledger.ledger import Ledger
from ..ledger.rows import Steps, dumps, numbers, sql
from . import rows
from .judging import holds
from .moving import advance

_Looks = set[tuple[str, int]]
"""Stages and tasks to look at: the kind and number of each."""


def follow(ledger: Ledger) -> Steps[None]:
    """Moves stages and triggers tasks as the events of the transaction demand."""
    looks: _Looks = set((yield sql("due_take"), (ledger.no,)))
    for _ in range(MAX_CASCADES):
        looks |= yield from _touched(ledger)
        if not looks:
            return
        now = sorted(looks)[:MAX_LOOKED]
        looks -= set(now)
        yield from _trigger(ledger, [number for kind, number in now if kind == "task"])
        for row in (
            yield from rows.find_stages(ledger.no, [n for kind, n in now if kind == "stage"])
        ).values():
            fresh = (yield from rows.find_stages(ledger.no, [row.number]))[row.number]
            yield from advance(ledger, fresh)
    for kind, number in sorted(looks | (yield from _touched(ledger))):
        yield sql("due_add"), (ledger.no, kind, number)


def _trigger(ledger: Ledger, wanted: Iterable[int]) -> Steps[None]:
    """Notes that the triggers of tasks have held, if they do."""
    for row in (yield from tasks.find_tasks(ledger.no, wanted)).values():
        if not row.trigger_if or row.triggered or row.state in TASK_OVER:
            continue
        if (yield from holds(ledger, row.trigger_if)):
            row.triggered = 1
            yield from tasks.put(row)
            yield sql("terms_drop"), (ledger.no, "task", row.number)
            data: dict[str, Any] = {"task": row.id, "title": row.title, "trigger": row.trigger_if}
            if (yield from tasks.ready_by_trigger(ledger, row)):
                data["freed"] = [row.id]
            yield from ledger.emit(
                EventType.PLAN_TRIGGERED, agent=SYSTEM, data=data, concerns=[row.created_by]
            )


def _touched(ledger: Ledger) -> Steps[_Looks]:
    """Returns what mentions something that the events since the last look are about."""
    told, ledger.told = ledger.told, []
    terms, families = set[str](), set[str]()
    about, staged, looks = set[int](), set[int](), _Looks()
    for event, item, data in told:
        if event.startswith("debate."):
            terms.add("debates")
        if item is not None:
            terms |= _terms_of(item)
            families |= {"tag"} if event in (EventType.ITEM_CHANGED, EventType.ITEM_VERSIONED) else set()
        elif event is EventType.CORE_CHANGED:
            families.add("flag")
        elif event.startswith("stage."):
            number = parse_stage(data["stage"])
            terms |= {f"stage:{number}", f"milestone:{data['title']}"}
            staged.add(number)
        elif data.get("task"):
            number = parse_task(str(data["task"]))
            terms.add(f"task:{number}")
            about.add(number)
            left = data.get("changed")
            staged |= {left["stage"]} if isinstance(left, dict) and left.get("stage") else set()
            if event in (EventType.PLAN_ADDED, EventType.PLAN_CHANGED):
                looks.add(("task", number))
    if about:
        staged |= {n for (n,) in (yield sql("stages_of_tasks"), (ledger.no, numbers(about)))}
    if staged:
        looks |= {("stage", n) for (n,) in (yield sql("stages_near"), (ledger.no, numbers(staged)))}
    if terms or families:
        found = yield sql("terms_touched"), (ledger.no, dumps(sorted(terms)), dumps(sorted(families)))
        looks |= set(found)
    return looks


def _terms_of(item: Any) -> set[str]:
    """Returns what conditions mention of an item; nothing of one that not everybody sees."""
    if not item.public:
        return set()
    terms = {"items", f"items:{item.type}", f"author:{item.author}"}
    terms |= {f"tag:{tag}" for tag in json.loads(item.tags)}
    return terms | ({f"key:{item.key}"} if item.key else set())
