"""`prune`, `rebuild-index` and `compact`: what an operator does by hand."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from ..settings import Settings
from .options import data_options, existing, settings_of
from .progress import progress


@click.command()
@click.option("--dry-run", is_flag=True, help="Only say what a pass would move.")
@data_options
def prune(config: Path | None, data: Path | None, board: str | None, dry_run: bool) -> None:
    """Run a pruning pass on a board down to its low-water mark, or say what it would move."""
    asyncio.run(_prune(settings_of(config, data=data, board=board), dry_run))


async def _prune(settings: Settings, dry_run: bool) -> None:
    from ..rendering import Rendering

    async with existing(settings) as opened:
        if dry_run:
            outcomes = [await opened.pruner.preview(settings.board)]
        else:
            outcomes = await opened.pruner.run_pass(settings.board)
            if not outcomes:
                raise click.ClickException("another process is pruning this board; try again in a moment")
        say = Rendering(opened.blackboard.tokenizers.launched, opened.clock)
        click.echo(say.pruned(outcomes, dry_run=dry_run))


@click.command("rebuild-index")
@data_options
def rebuild_index(config: Path | None, data: Path | None, board: str | None) -> None:
    """Drop the archive's search index and build it anew from the store. Nothing else is touched."""
    asyncio.run(_rebuild(settings_of(config, data=data, board=board)))


async def _rebuild(settings: Settings) -> None:
    async with existing(settings, board=False) as opened:
        archived = sum(board.archived_items for board in await opened.store.boards())
        with progress("index", archived) as step:
            count = await opened.archive.rebuild(step)
        if count is None:
            raise click.ClickException("another process is indexing; try again in a moment")
        click.echo(f"indexed {count} archived items")


@click.command()
@click.option("--config", type=click.Path(path_type=Path), help="TOML file with settings.")
@click.option("--data", type=click.Path(path_type=Path), help="The data folder.")
def compact(config: Path | None, data: Path | None) -> None:
    """Write the boards' file anew without its gaps. Stop every server on the folder first.

    That takes twice the room of the file for a while. A file that an older version made gives room back by itself
    afterwards, as new ones do.
    """
    from blackboard_mcp.storage.sqlite import compacting

    settings = settings_of(config, data=data)
    asyncio.run(_migrate(settings))
    before, after = compacting.compact(settings.database)
    click.echo(f"{settings.database.name}: {before / 1e6:,.1f} MB before, {after / 1e6:,.1f} MB now")


async def _migrate(settings: Settings) -> None:
    async with existing(settings, board=False):
        pass
