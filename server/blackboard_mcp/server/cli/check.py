"""The command `check`: a check of the operator, run by hand on the files of a board."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click
from blackboard_mcp.protocols.items import Status
from blackboard_mcp.protocols.names import SYSTEM
from blackboard_mcp.protocols.visible import escape

from ..settings.server import Settings
from .options import data_options, existing, settings_of

if TYPE_CHECKING:
    from ..usecases.checks import Checks


@click.command(epilog="Example: blackboard-mcp check tests --config blackboard.toml")
@click.argument("name", required=False)
@click.option("--output", is_flag=True, help="Run nothing; print all that is kept of its last output.")
@click.option(
    "--end", is_flag=True, help="Run nothing; end the hot issue of a check that the settings no longer have."
)
@data_options
def check(
    config: Path | None, data: Path | None, board: str | None, name: str | None, output: bool, end: bool
) -> None:
    """Run the check NAME of the settings on a board's files as they are, or say where all checks stand.

    It prints the whole output, and ends with status 1 if the check fails. Agents are told as after a run of the
    server: a RESULT item, and a hot issue until it passes.
    """
    if name is None and (output or end):
        raise click.UsageError(f"--{'output' if output else 'end'} needs the name of a check")
    if output and end:
        raise click.UsageError("--output and --end do not go together")
    settings = settings_of(config, data=data, board=board)
    passed: list[bool] = []

    async def work() -> None:
        passed.append(await _check(settings, name, output=output, end=end))

    asyncio.run(work())
    if passed != [True]:
        raise SystemExit(1)


async def _check(settings: Settings, name: str | None, *, output: bool, end: bool) -> bool:
    from .. import compose

    if not settings.check and not end:
        raise click.ClickException(
            "the settings have no [[check]] tables; --config names the file that has them, the one of `serve --config`"
        )
    async with existing(settings) as opened:
        board = await opened.store.find_board(settings.board)
        opened.blackboard.tokenizers.see(board)
        checks = compose.checks_of(opened.blackboard, settings, f"check-{os.getpid()}")
        if name is None:
            return await _states(checks, settings.board)
        if end:
            issue = await checks.end(settings.board, name)
            debated = issue.status is Status.DEBATED
            click.echo(f"{issue.id} {'ends with the debate about it' if debated else 'is resolved'}")
            return True
        if output:
            kept = await checks.output(SYSTEM, settings.board, name)
            click.echo(escape(kept.body.decode(), keep="\n\t"))
            return True
        done = await checks.run_now(settings.board, name)
    if done.output:
        click.echo(escape(done.output, keep="\n\t"))
    how = "passed" if done.ok else f"failed ({done.why})"
    click.echo(
        f"{done.name} {how} at rev {done.revision} after {done.seconds:g} s: {done.item}", err=not done.ok
    )
    return done.ok


async def _states(checks: Checks, board: str) -> bool:
    states = await checks.states(SYSTEM, board)
    for one in states:
        if one.item is None:
            click.echo(f"{one.name}: has not run yet")
        else:
            stale = "" if one.fresh else "; files were written since"
            click.echo(
                f"{one.name}: {'passed' if one.ok else 'failed'} at rev {one.revision} ({one.item}){stale}"
            )
    if not states:
        click.echo(f"no check is for board {board}")
    return all(one.ok for one in states)
