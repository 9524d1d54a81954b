"""The command that shows a board's plan, begins one from a file, and writes one as such a file."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from blackboard_mcp.protocols.agenda import MAX_TASKS
from blackboard_mcp.protocols.errors import UnknownReference

from .commands import act

if TYPE_CHECKING:
    from blackboard_mcp.protocols.plan_wire import WireStage, WireTask
    from pydantic import BaseModel

    from ..board import BoardAccess

_MAX_BYTES = 1_000_000
_ID = re.compile(r"(?<=done\()([TG]-[0-9]+)(?=\))")


@act(
    "plan",
    click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False), required=False),
    click.option("--export", is_flag=True, help="Print the plan as JSON that FILE may hold again."),
    example="blackboard-mcp plan release.toml",
    any_board=True,
)
async def plan(board: BoardAccess, file: Path | None, export: bool) -> BaseModel | dict[str, Any]:
    """Show a board's stages and open tasks, or plan what FILE holds: all of it, or nothing.

    FILE is TOML ([[items]] with title, after and so on) or JSON ({"items": […]}); the items are those of the tool plan,
    stages and milestones by their kind, and $1 is the first of the file. On a server it needs --tools core,plan.
    """
    if file is not None and export:
        raise click.UsageError("give FILE or --export, not both")
    if file is not None:
        return await board.plan(_items(file))
    stages = (await board.stages()).stages
    if export:
        return {"items": _definition(stages, await _tasks(board))}
    agenda = await board.agenda()
    return agenda.model_copy(update={"stages": stages})


def _items(file: Path) -> list[dict[str, Any]]:
    """Returns the items of a file.

    Raises:
        ClickException: it is no TOML or JSON with a list of items and nothing else.
    """
    with file.open("rb") as opened:
        raw = opened.read(_MAX_BYTES + 1)
    if len(raw) > _MAX_BYTES:
        raise click.ClickException(f"{file} has more than {_MAX_BYTES:,} bytes. Nothing was planned.")
    try:
        text = raw.decode("utf-8")
        found = tomllib.loads(text) if file.suffix.lower() == ".toml" else json.loads(text)
    except (ValueError, RecursionError) as error:
        kind = "TOML" if file.suffix.lower() == ".toml" else "JSON"
        raise click.ClickException(f"{file} is no {kind}: {error}. Nothing was planned.") from None
    items = found.get("items") if isinstance(found, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items) or len(found) > 1:
        raise click.ClickException(
            f"{file} has to hold a list of items and nothing else. Nothing was planned."
        )
    return items


async def _tasks(board: BoardAccess) -> list[WireTask]:
    """Returns all tasks of a board that were not cancelled.

    Raises:
        ClickException: there are more than one file may hold.
    """
    found: list[WireTask] = []
    number = 1
    while True:
        try:
            task = await board.task(f"T-{number}")
        except UnknownReference:
            return found
        if task.state != "CANCELLED":
            found.append(task)
        if len(found) > MAX_TASKS:
            raise click.ClickException(f"the plan has more than {MAX_TASKS} tasks, which no file may hold")
        number += 1


def _definition(stages: list[WireStage], tasks: list[WireTask]) -> list[dict[str, Any]]:
    """Returns items that plan the same anew; ids become places in the list."""
    kept = [stage for stage in stages if stage.state != "TERMINATED"]
    places = {
        id_: f"${place}"
        for place, id_ in enumerate([*(one.id for one in kept), *(one.id for one in tasks)], 1)
    }

    def condition(text: str) -> str:
        return _ID.sub(lambda match: places.get(match[1], match[1]), text)

    items: list[dict[str, Any]] = [
        {
            "kind": stage.kind,
            "title": stage.title,
            "parent": places.get(stage.parent or ""),
            "entry": condition(stage.entry),
            "exit": condition(stage.exit),
            "required": None if stage.required else False,
            "manual": stage.manual,
            "autocomplete": None if stage.autocomplete else False,
        }
        for stage in kept
    ]
    items += [
        {
            "title": task.title,
            "text": task.text,
            "after": [places[id_] for id_ in task.after if id_ in places],
            "skill": task.skill,
            "worker": task.worker,
            "trigger": condition(task.trigger or ""),
            "stage": places.get(task.stage or ""),
            "required": None if task.required or not task.stage else False,
            "priority": task.priority,
            "verify": task.verify,
            "retries": task.retries,
            "cost": task.cost,
            "paths": task.paths,
        }
        for task in tasks
    ]
    return [
        {name: value for name, value in item.items() if (value is False and name != "manual") or value}
        for item in items
    ]
