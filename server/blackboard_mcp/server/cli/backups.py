"""The commands `backup` and `restore`, which write a data folder's boards to one file and back."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click
from blackboard_mcp.protocols.errors import StoreDamaged, StoreError, StoreTooNew

from ..settings.server import Settings
from .files import landing
from .options import check_built_in, existing, settings_of, sql_store
from .progress import growing, size_of

if TYPE_CHECKING:
    from blackboard_mcp.protocols.credentials import AccessToken

_config = click.option("--config", type=click.Path(path_type=Path), help="TOML file with settings.")
_data = click.option("--data", type=click.Path(path_type=Path), help="The data folder.")


@click.command()
@_config
@_data
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@click.argument("file", type=click.Path(path_type=Path))
def backup(config: Path | None, data: Path | None, force: bool, file: Path) -> None:
    """Write all boards of a data folder to FILE, as of one moment, while servers go on.

    The archive's search index is not in it: it is built from the boards. FILE is readable for you alone,
    and holds what is private too. Boards of an older version keep their schema, there and in FILE.
    """
    asyncio.run(_backup(settings_of(config, data=data), file, force))


async def _backup(settings: Settings, file: Path, force: bool) -> None:
    try:
        with landing(file, force=force) as place:
            async with growing("backup", place, size_of(settings.database)):
                try:
                    await _copy(settings, place)
                except StoreError as error:
                    raise type(error)(error.message.replace(str(place), str(file))) from error
    except OSError as error:
        raise click.ClickException(f"cannot write {file}: {error.strerror or error}") from error
    click.echo(f"all boards are in {file}; what is private too", err=True)


async def _copy(settings: Settings, place: Path) -> None:
    from blackboard_mcp.storage.sqlite.opening import older_schema
    from blackboard_mcp.storage.store import SqlBoardStore

    if settings.store is None and settings.database.exists() and older_schema(settings.database) is not None:
        await asyncio.to_thread(SqlBoardStore.back_up_older, settings.database, place)
        return
    async with existing(settings, board=False) as opened:
        await sql_store(opened, "backup").backup(place)


@click.command()
@_config
@_data
@click.option("--force", is_flag=True, help="Set aside what is in the data folder.")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
def restore(config: Path | None, data: Path | None, force: bool, file: Path) -> None:
    """Put the backup FILE in the place of a data folder's boards; what was there is kept beside it.

    Stop every server on the folder first. FILE is checked before anything is touched, and stays as it is. The access
    tokens of the folder stay in force: what was revoked since the backup stays revoked.
    """
    from blackboard_mcp.storage.sqlite.opening import APPLICATION_ID, migrations
    from blackboard_mcp.storage.sqlite.restoring import restore as put_back

    settings = settings_of(config, data=data)
    check_built_in(settings, "restore")
    with file.open("rb") as opened:
        if opened.read(1) == b"{":
            raise click.ClickException(
                f"{file} is no backup. A board's history, as `blackboard-mcp export` writes it, is read by "
                f"`blackboard-mcp import {quote(str(file))}`. Nothing was changed."
            )
    if settings.database.exists() and not force:
        raise click.ClickException(
            f"there are boards in {settings.folder}; --force sets them aside for those of {file}"
        )
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    aside = first = settings.database.with_name(f"{settings.database.name}.before-{stamp}")
    again = count(2)
    while aside.exists():  # an earlier restore within the same second made it
        aside = first.with_name(f"{first.name}-{next(again)}")
    kept = put_back(
        file,
        settings.database,
        aside,
        application_id=APPLICATION_ID,
        newest=len(migrations()),
        finish=lambda copy: asyncio.run(_finish(copy, settings)),
    )
    # The index is of the former boards; the next server builds one of the restored boards.
    shutil.rmtree(settings.index, ignore_errors=True)
    click.echo(f"{settings.folder} has the boards of {file}")
    if kept:
        click.echo(f"what was there is in {aside}")


async def _tokens_there(settings: Settings) -> Sequence[AccessToken]:
    """Returns the tokens of the folder; prints a note and returns none if its database cannot be read."""
    from blackboard_mcp.storage.sqlite.opening import older_schema
    from blackboard_mcp.storage.store import SqlBoardStore

    from .. import compose

    if not settings.database.exists():
        return ()
    try:
        if older_schema(settings.database) is None:
            async with compose.credentials(settings) as store:
                return await store.tokens()
        # The boards that are set aside keep their schema.
        with TemporaryDirectory(prefix="blackboard-") as folder:
            copy = replace(settings, data=Path(folder))
            SqlBoardStore.back_up_older(settings.database, copy.database)
            async with compose.credentials(copy) as store:
                return await store.tokens()
    except (StoreDamaged, StoreTooNew) as error:
        click.echo(
            f"note: which access tokens {settings.folder} has cannot be read ({error.message}) Those of the backup are "
            "in force, also what was revoked since: look at token list.",
            err=True,
        )
        return ()


async def _finish(copy: Path, settings: Settings) -> None:
    """Keeps the folder's tokens in the restored copy, and marks its boards as copies.

    A marked board goes on with numbers that the replaced one has not used.
    """
    from blackboard_mcp.storage.store import SqlBoardStore

    tokens = await _tokens_there(settings)
    store = await SqlBoardStore.open(copy)
    try:
        await store.mark_copies()
        if tokens:
            await store.keep_tokens(tokens)
    finally:
        await store.close()
