"""The command `members`: the roles that a board gives to agents, listed and changed by an operator."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click
from blackboard_mcp.protocols.access import Role
from blackboard_mcp.protocols.board import BoardChange
from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.events import SYSTEM

from ..input.posts import check_member
from ..settings.server import Settings
from .options import data_options, existing, settings_of


@click.command()
@data_options
@click.argument("changes", nargs=-1, metavar="[AGENT=ROLE]...")
def members(config: Path | None, data: Path | None, board: str | None, changes: tuple[str, ...]) -> None:
    """List the agents to whom a board itself gives a role; bob=observer gives one, bob= takes it away.

    Roles: observer, summariser, contributor, decider, steward, admin. Servers may run meanwhile.
    """
    asyncio.run(_members(settings_of(config, data=data, board=board), dict(map(_change, changes))))


def _change(given: str) -> tuple[str, Role | None]:
    agent, equals, role = given.partition("=")
    if not equals or (role and role not in set(Role)):
        raise InvalidInput(
            f"{given[:80]!r} is no AGENT=ROLE; roles are {', '.join(Role)}, or nothing to take one away. Nothing was "
            "changed."
        )
    return check_member(agent, Role(role) if role else None)


async def _members(settings: Settings, changes: dict[str, Role | None]) -> None:
    async with existing(settings) as opened:
        if changes:
            await opened.store.change_board(settings.board, SYSTEM, BoardChange(members=changes))
        listed = await opened.store.members(settings.board)
        for agent, role in listed.items():
            click.echo(f"{agent} {role}")
        if not listed:
            click.echo(f"board {settings.board} gives nobody a role; credentials say what each agent may")
