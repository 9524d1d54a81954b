"""The commands `prune`, `forget`, `reclassify`, `rebuild-index` and `compact`, for maintenance by hand."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import closing
from pathlib import Path

import click

from ..settings.server import Settings
from .options import check_built_in, data_options, existing, settings_of, sql_store
from .progress import progress

_LISTED = 100
"""The most items of a board that a dry run lists."""
_ATTEMPTS = 120
_PAUSE = 0.5
"""Seconds between attempts while another process indexes."""


@click.command()
@click.option("--dry-run", is_flag=True, help="Only say what a pass would move.")
@data_options
def prune(config: Path | None, data: Path | None, board: str | None, dry_run: bool) -> None:
    """Run a pruning pass on a board down to its low-water mark, or say what it would move."""
    asyncio.run(_prune(settings_of(config, data=data, board=board), dry_run))


async def _prune(settings: Settings, dry_run: bool) -> None:
    from ..answers.rendering import Rendering

    async with existing(settings) as opened:
        if dry_run:
            outcomes = [await opened.pruner.preview(settings.board)]
        else:
            outcomes = await opened.pruner.run_pass(settings.board)
            if not outcomes:
                raise click.ClickException("another process is pruning this board; try again in a moment")
        say = Rendering(opened.blackboard.tokenizers.launched, opened.clock)
        click.echo(say.pruned(outcomes, dry_run=dry_run))


@click.command()
@click.option(
    "--config", type=click.Path(path_type=Path), help="TOML file with settings, [retention] among them."
)
@click.option("--data", type=click.Path(path_type=Path), help="The data folder.")
@click.option("--dry-run", is_flag=True, help="Only say what would be forgotten.")
def forget(config: Path | None, data: Path | None, dry_run: bool) -> None:
    """Forget at once what the table [retention] of the settings says, or say what that is.

    A server with that table does it by itself. What is forgotten never comes back: id, author, times and hash remain.
    """
    asyncio.run(_forget(settings_of(config, data=data), dry_run))


async def _forget(settings: Settings, dry_run: bool) -> None:
    from ..usecases.retention import Keeper

    if settings.retention is None:
        raise click.ClickException(
            "nothing is ever forgotten here: the settings have no table [retention] with decided_by, reason and "
            "after_days"
        )
    verb, total = "would forget" if dry_run else "forgot", 0
    async with existing(settings, board=False) as opened:
        keeper = Keeper(opened.store, settings.retention, "command")
        if missing := await keeper.missing():
            click.echo(
                f"boards in [retention] that are not there yet: {', '.join(missing)}; look whether the names are right",
                err=True,
            )
        for board in await opened.store.boards():
            if dry_run:
                found = [one async for page in keeper.due(board.id) for one in page]
                for one in found[:_LISTED]:
                    click.echo(f"{board.id} {one.id} by {one.author}, {one.created_at:%Y-%m-%d}")
                if len(found) > _LISTED:
                    click.echo(f"{board.id}: … {len(found) - _LISTED:,} more")
            else:
                found = list(await keeper.round(board.id))
            if found:
                size = sum(one.size for one in found)
                click.echo(f"{board.id}: {verb} {len(found):,} items, {size:,} bytes that agents wrote")
            total += len(found)
    click.echo(f"{verb} {total:,} items in all")


@click.command()
@click.option("--apply", is_flag=True, help="Do it; without this only say what would be kept.")
@click.option(
    "--leave", is_flag=True, help="Leave as it is what is part of what the whole board sees, or a team's."
)
@data_options
def reclassify(config: Path | None, data: Path | None, board: str | None, apply: bool, leave: bool) -> None:
    """Bring what stands on a board under the present read rules, or say what that would be.

    Rules keep what is written after them. This keeps what was written before: items, their versions and events are
    then for the rule's readers and their authors alone. What others have read, they know. There is no way back but
    another rule's readers.
    """
    asyncio.run(_reclassify(settings_of(config, data=data, board=board), apply, leave))


async def _reclassify(settings: Settings, apply: bool, leave: bool) -> None:
    async with existing(settings) as opened:
        standing = await opened.store.read_rules()
        rules = standing if settings.read is None else settings.read
        if not rules:
            raise click.ClickException(
                "there are no read rules; write tables [[read]] into the settings and name them with --config"
            )
        if apply and rules != standing:
            raise click.ClickException(
                "the read rules of these settings are not in force yet, so what is posted now would stay readable "
                "for all: start the servers with these settings first. Nothing was changed"
            )
        found = await opened.store.reclassify(settings.board, rules=rules, apply=apply, leave=leave)
        lines = [f"{id_} {'is' if found.done else 'would be'} kept by {rule}" for id_, rule in found.kept]
        lines += [f"{id_} stays for everybody ({why}), though {rule} fits" for id_, rule, why in found.bound]
        lines += [f"{id_} stays with its team, though {rule} fits" for id_, rule in found.teams]
        for line in lines[:_LISTED]:
            click.echo(line)
        if len(lines) > _LISTED:
            click.echo(f"… {len(lines) - _LISTED:,} more")
        teams = f", {len(found.teams):,} with their teams" if found.teams else ""
        verb = "kept" if found.done else "would keep"
        click.echo(
            f"{settings.board}: {verb} {len(found.kept):,} items, {len(found.bound):,} stay for everybody{teams}"
        )
        if not found.done and found.kept:
            click.echo(f"to do it: --apply{' --leave' if found.bound or found.teams else ''}")


@click.command("rebuild-index")
@data_options
def rebuild_index(config: Path | None, data: Path | None, board: str | None) -> None:
    """Drop the archive's search index and build it anew from the store. Nothing else is touched.

    While a server indexes, the command waits for it, for up to a minute.
    """
    asyncio.run(_rebuild(settings_of(config, data=data, board=board)))


async def _rebuild(settings: Settings) -> None:
    async with existing(settings, board=False) as opened:
        archived = sum(board.archived_items for board in await opened.store.boards())
        with progress("index", archived) as step:
            for _ in range(_ATTEMPTS):
                if (count := await opened.archive.rebuild(step)) is not None:
                    break
                await asyncio.sleep(_PAUSE)
        if count is None:
            raise click.ClickException("another process is indexing; try again in a moment")
        click.echo(f"indexed {count} archived items")


@click.command()
@click.option("--config", type=click.Path(path_type=Path), help="TOML file with settings.")
@click.option("--data", type=click.Path(path_type=Path), help="The data folder.")
def compact(config: Path | None, data: Path | None) -> None:
    """Write the boards' file anew without its gaps. Stop every server on the folder first.

    That takes twice the room of the file for a while. A file that an older version made gives room back by itself
    afterwards, as new ones do. What killed commands left in the folder is removed. Where anything was forgotten, the
    next server builds the search index anew, and repositories that have the board's history, and the whole output of a
    check is kept again from its next run on; then no file of the folder holds what was. With boards on PostgreSQL only
    the rest of the folder is cleaned, on each machine: the database vacuums its tables itself.
    """
    from blackboard_mcp.storage.sqlite import compacting

    from ..doctor.folder import left_over

    settings = settings_of(config, data=data)
    if not settings.on_postgres:
        check_built_in(settings, "compact")
    forgotten = asyncio.run(_anything_forgotten(settings))
    done = f"{settings.folder}: what was left over is removed; the database vacuums its tables itself"
    if not settings.on_postgres:
        before, after = compacting.compact(settings.database)
        done = f"{settings.database.name}: {before / 1e6:,.1f} MB before, {after / 1e6:,.1f} MB now"
    for left in left_over(settings, 0):
        _remove(left)
    if forgotten:
        # The index's files keep deleted texts for a while. The next server builds it, and the repositories, anew.
        for kept in (settings.index, settings.checking, *_with_history(settings.repositories)):
            _remove(kept)
    click.echo(done)


def _remove(kept: Path) -> None:
    """Removes a file or folder that may hold what was forgotten.

    Raises:
        ClickException: it cannot be removed.
    """
    try:
        if kept.is_dir():
            shutil.rmtree(kept)
        else:
            kept.unlink(missing_ok=True)
    except OSError as error:
        raise click.ClickException(
            f"{kept} may still hold what was forgotten, for it cannot be removed: {error.strerror}. Remove it by hand; "
            "what the server needs of it, it builds anew"
        ) from error


def _with_history(repositories: Path) -> list[Path]:
    """Returns the repositories that have the history of a board, or that cannot be read."""
    from blackboard_mcp.storage.workspace.repository import Repository

    found = list(repositories.glob("*.damaged"))
    for folder in repositories.glob("*.git"):
        try:
            with closing(Repository(folder)) as repository:
                if repository.has_history:
                    found.append(folder)
        except Exception:  # it is damaged
            found.append(folder)
    return found


async def _anything_forgotten(settings: Settings) -> bool:
    """Tells whether any item was ever forgotten. Opening the folder also migrates its file to this version."""
    async with existing(settings, board=False) as opened:
        return await sql_store(opened, "compact").anything_forgotten()
