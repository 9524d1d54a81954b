"""The commands by which a person steers boards: their core, their settings, and lists of boards and agents."""

from __future__ import annotations

import json
import signal
import sys
from typing import TYPE_CHECKING, Any

import click

from .commands import act

if TYPE_CHECKING:
    from pydantic import BaseModel

    from ..board import BoardAccess


@act(
    "core",
    click.option("--objective", help="What the board is for."),
    click.option("--constraint", "constraints", multiple=True, help="One more constraint (repeat for more)."),
    click.option(
        "--drop", type=click.IntRange(min=1), multiple=True, help="Leave out the constraint of this number."
    ),
    click.option(
        "--flag", "flags", metavar="NAME=on|off", multiple=True, help="Set a flag; NAME= takes it away."
    ),
    example='blackboard-mcp core --objective "Find why the pump burst" --constraint "no tests on the live line"',
)
async def core(
    board: BoardAccess,
    objective: str | None,
    constraints: tuple[str, ...],
    drop: tuple[int, ...],
    flags: tuple[str, ...],
) -> BaseModel:
    """Print a board's core (objective, constraints, flags), which every view begins with, or change it.

    On a server it needs the tools of --tools core,admin.
    """
    now = await board.core()
    if objective is None and not (constraints or drop or flags):
        return now
    if drop and max(drop) > len(now.constraints):
        raise click.UsageError(f"there is no constraint {max(drop)}; there are {len(now.constraints)}")
    kept = [text for place, text in enumerate(now.constraints, 1) if place not in drop]
    told = {**now.flags, **dict(map(_flag, flags))}
    return await board.set_core(
        now.version,
        objective=objective,
        constraints=[*kept, *constraints] if constraints or drop else None,
        flags={name: on for name, on in told.items() if on is not None} if flags else None,
    )


def _flag(given: str) -> tuple[str, bool | None]:
    name, equals, value = given.partition("=")
    if not (name and equals) or value not in _ON:
        raise click.UsageError(f"{given!r} is no flag; write NAME=on, NAME=off or NAME=")
    return name, _ON[value]


_ON = {"on": True, "true": True, "off": False, "false": False, "": None}


@act(
    "settings",
    click.argument("settings", nargs=-1, metavar="[NAME=VALUE]..."),
    click.option("--title", help="A name for people."),
    click.option("--parent", metavar="ID", help="The board that it belongs to."),
    click.option(
        "--lifecycle",
        type=click.Choice(["open", "settled", "closed"]),
        help="Only an open board takes posts; closed is for good.",
    ),
    click.option("--yes", is_flag=True, help="Close the board without being asked."),
    example="blackboard-mcp board target_tokens=12000 --title Pumps",
)
async def board(board: BoardAccess, settings: tuple[str, ...], yes: bool, **given: Any) -> BaseModel:
    """Print a board's figures and settings, or change them: NAME=VALUE is a setting.

    On a server it needs the tools of --tools core,admin.
    """
    if given["lifecycle"] == "closed" and not yes:
        if not sys.stdin.isatty():
            raise click.UsageError(
                "closed is for good: the board never takes posts again. --yes closes it; settled can be undone"
            )
        _confirm(f"{board.name} never takes posts again, for good. Close it?")
    return await board.change(settings=dict(map(_setting, settings)) or None, **given)


def _confirm(question: str) -> None:
    """Asks a question, and aborts unless the answer is yes; an event loop would only note the first Ctrl-C."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        click.confirm(question, abort=True, err=True)
    finally:
        signal.signal(signal.SIGINT, former)


def _setting(given: str) -> tuple[str, Any]:
    name, equals, value = given.partition("=")
    if not (name and equals):
        raise click.UsageError(f"{given!r} is no setting; write NAME=VALUE, say target_tokens=12000")
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        return name, value  # a word, say of a policy


@act("boards", example="blackboard-mcp boards", any_board=True)
async def boards(board: BoardAccess) -> BaseModel:
    """List the boards, with what each is called and whether it takes posts."""
    return await board.boards()


@act("agents", example="blackboard-mcp agents")
async def agents(board: BoardAccess) -> dict[str, Any]:
    """List the agents that were ever on a board, with their posts and when they were last there."""
    from ..answers import statistics

    return statistics.agents(await board.agents())
