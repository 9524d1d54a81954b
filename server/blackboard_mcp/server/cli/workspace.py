"""The command `workspace`: a board's files as a Git repository that is up to date."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from shlex import quote

import click

from ..settings.server import Settings
from .options import data_options, existing, settings_of, sql_store


@click.command()
@data_options
@click.option("--history", is_flag=True, help="Write the board's public history beside the files, too.")
def workspace(config: Path | None, data: Path | None, board: str | None, history: bool) -> None:
    """Bring the Git repository of a board's files up to date, and say where it is.

    Each write of an agent is one commit. A server does the same by itself soon after each write. Clone it to read or
    build the files; it refuses pushes.
    """
    asyncio.run(_workspace(settings_of(config, data=data, board=board), history))


async def _workspace(settings: Settings, history: bool) -> None:
    from blackboard_mcp.storage.history.transfer import export_board
    from blackboard_mcp.storage.workspace.committer import Committer, folder_of

    async with existing(settings) as opened:
        last = await opened.store.artifact_history(settings.board, "", 0, 1)
        if not last and not history:
            raise click.ClickException(
                f"board {settings.board} has no files yet: agents write them with artifact_write, which "
                "`blackboard-mcp serve --tools core,workspace` gives them"
            )

        def lines() -> AsyncIterator[bytes]:
            return export_board(
                sql_store(opened, "workspace --history"), settings.board, folder=settings.folder, public=True
            )

        committer = Committer(opened.store, settings.repositories)
        head = await committer.update(settings.board, lines if history else None, whole=True)
    where = folder_of(settings.repositories, settings.board)
    click.echo(
        f"{where} has revision {last[0].number if last else 0} of board {settings.board}, commit {head[:12]}"
    )
    click.echo(f"git clone {quote(str(where))}")
