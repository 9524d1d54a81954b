"""Options and helpers that several commands share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, cast

import click
from blackboard_mcp.protocols.errors import StoreError
from blackboard_mcp.protocols.items import DELETED, ItemType, Status

from ..settings.server import Settings, load

if TYPE_CHECKING:
    from blackboard_mcp.storage.store import SqlBoardStore

    from ..compose import Installation

Command = Callable[..., Any]
TYPES = click.Choice([str(type_) for type_ in ItemType], case_sensitive=False)
STATUSES = click.Choice([*map(str, Status), DELETED], case_sensitive=False)


def data_options(command: Command) -> Command:
    """Adds the options for a data folder, its settings file and a board, named as in `serve`."""
    for option in (
        click.option("--config", type=click.Path(path_type=Path), help="TOML file with settings."),
        click.option("--board", metavar="ID", help="The board (default: main)."),
        click.option("--data", type=click.Path(path_type=Path), help="The data folder."),
    ):
        command = option(command)
    return command


@asynccontextmanager
async def existing(
    settings: Settings, *, board: bool = True, migrates: bool = False
) -> AsyncIterator[Installation]:
    """Opens the installation in an existing data folder, and checks that the board exists; creates neither.

    With `board=False` the board is not checked; only with `migrates` an older schema is migrated.

    Raises:
        click.ClickException: there is no such folder, or no such board in it, or it has an older schema.
    """
    from .. import compose

    if settings.store is None and not settings.database.exists():
        raise click.ClickException(
            f"there is no board in {settings.folder} yet: `blackboard-mcp serve --transport http` makes it, and so "
            "does a client that `blackboard-mcp install` connects; --data names another folder"
        )
    if not migrates:
        await check_schema(settings)
    async with compose.installation(settings, eager_index=False, background=False) as opened:
        if board and await opened.store.find_board(settings.board) is None:
            there = ", ".join(known.id for known in await opened.store.boards()) or "none"
            raise click.ClickException(
                f"there is no board '{settings.board}' in {settings.folder}; there are: {there}. The first post to a "
                "board makes it."
            )
        yield opened


async def check_schema(settings: Settings) -> None:
    """Checks that the boards have the schema of this version, so that to open them does not migrate them.

    Raises:
        click.ClickException: they have an older one. An older server may run on them, which a migration would stop.
    """
    if settings.on_postgres and settings.store is not None:
        try:
            from blackboard_mcp.storage.postgres.looking import look
        except ModuleNotFoundError:  # no driver, which opening the boards says
            return
        try:
            seen = await look(settings.store)
        except StoreError:  # opening the boards waits for the database, and says what is wrong
            return
        older = seen.schema if 0 < seen.schema < seen.known else None
        first, then = "Back up the database", "`blackboard-mcp migrate` with the same --config"
    elif settings.store is None and settings.database.exists():
        from blackboard_mcp.storage.sqlite.opening import older_schema

        older, folder = older_schema(settings.database), quote(str(settings.folder))
        first = f"Back up (`blackboard-mcp backup --data {folder} FILE`)"
        then = f"`blackboard-mcp migrate --data {folder}`"
    else:
        return
    if older is not None:
        raise click.ClickException(
            f"{settings.store_shown or settings.folder} has the schema {older} of an older version, and this command "
            f"migrates nothing. {first}, then stop older servers and run {then}, or start the server anew. Nothing was "
            "changed."
        )


def check_built_in(settings: Settings, command: str) -> None:
    """Checks that the boards are in the built-in store's file.

    Raises:
        click.ClickException: the settings name a store of the operator's own.
    """
    if settings.store is not None:
        raise click.ClickException(
            f"{command} works on the file of the built-in store, and the settings name the store "
            f"{settings.store_shown}: use what that store has for this. Nothing was changed."
        )


def sql_store(opened: Installation, command: str) -> SqlBoardStore:
    """Returns the store, if it is the built-in one or is derived from it.

    Raises:
        click.ClickException: it is another.
    """
    from blackboard_mcp.storage.store import SqlBoardStore

    if not isinstance(opened.store, SqlBoardStore):
        check_built_in(opened.settings, command)
    return cast(SqlBoardStore, opened.store)


def settings_of(config: Path | None, **given: Any) -> Settings:
    """Returns the settings from a command's options, the environment and the file `config`.

    Raises:
        StoreError: this user may not look into the data folder, so it is unknown whether boards are in it.
    """
    settings = load(given, config=config)
    if settings.store is None:
        try:
            settings.database.stat()
        except PermissionError:
            raise StoreError(
                f"{settings.folder} may not be looked into by this user: run as the user that it belongs to, or name "
                "another folder with --data."
            ) from None
        except OSError:  # mostly a file that is not there yet, which each command answers in its own way
            pass
    return settings
