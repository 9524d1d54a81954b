"""The commands `export`, `import` and `verify`: a board as a file of its history, and back."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from ..input.posts import check_board
from ..settings.server import Settings
from .files import new_file
from .options import check_schema, data_options, existing, settings_of, sql_store
from .progress import progress

if TYPE_CHECKING:
    from blackboard_mcp.storage.history.transfer import Imported

_PRIVATE = (
    "private items and agents' subscriptions are in it: share it with those who may see all, or use --public"
)
_PUBLIC = "a public copy: what is private is left out, so that it rebuilds no board"


@click.command()
@data_options
@click.option("--public", is_flag=True, help="Leave out what is private; such a file rebuilds no board.")
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@click.argument("file", default="-", metavar="[FILE|-]")
def export(
    config: Path | None, data: Path | None, board: str | None, public: bool, force: bool, file: str
) -> None:
    """Write the whole history of a board to FILE (default: standard output), one line of JSON an event.

    Servers may run and agents post meanwhile: the file is of one moment. It holds what is private too,
    and is readable for you alone.
    """
    asyncio.run(_export(settings_of(config, data=data, board=board), public, force, file))


async def _export(settings: Settings, public: bool, force: bool, file: str) -> None:
    async with existing(settings) as opened:
        if file == "-":
            await _write(opened, settings, sys.stdout.buffer, public=public)
            return
        with new_file(Path(file), force=force) as out:
            written = await _write(opened, settings, out, public=public)
    click.echo(
        f"{written:,} events of board {settings.board} in {file}; {_PUBLIC if public else _PRIVATE}", err=True
    )


async def _write(opened: Any, settings: Settings, out: BinaryIO, *, public: bool) -> int:
    from blackboard_mcp.storage.history.transfer import export_board

    written = 0
    pages = export_board(sql_store(opened, "export"), settings.board, folder=settings.folder, public=public)
    async with aclosing(pages) as lines:
        with progress("export", await _events(opened, settings)) as step:
            async for page in lines:
                # A slow reader of a pipe must not block the event loop, on which the copy's threads depend.
                await asyncio.to_thread(out.write, page)
                step(events := page.count(b"\n"))
                written += events
    await asyncio.to_thread(out.flush)
    return written


async def _events(opened: Any, settings: Settings) -> int:
    """Returns the number of the board's events now, for the end of a progress bar."""
    board = await opened.store.find_board(settings.board)
    return 0 if board is None else int(board.seq)


@click.command("import")
@click.option("--config", type=click.Path(path_type=Path), help="TOML file with settings.")
@click.option("--board", metavar="ID", help="Call the board so (default: as in the file).")
@click.option("--data", type=click.Path(path_type=Path), help="The data folder.")
@click.argument("file", metavar="FILE|-")
def import_(config: Path | None, data: Path | None, board: str | None, file: str) -> None:
    """Make a new board from FILE, the history of one: all of it, or nothing at all.

    Every line is checked; a board that is there is never touched. Servers may run meanwhile.
    """
    settings = settings_of(config, data=data)
    name = None if board is None else check_board(board)
    if file == "-":
        done = asyncio.run(_import(settings, sys.stdin.buffer, name))
    else:
        try:
            with open(file, "rb") as source:
                done = asyncio.run(_import(settings, source, name))
        except OSError as error:
            raise click.ClickException(f"cannot read {file}: {error.strerror}") from error
    click.echo(f"board {done.board}: {done.events:,} events, {done.items:,} items")
    if done.recounted:
        click.echo(
            f"{done.recounted:,} texts had other counts of tokens in the file; they were counted anew",
            err=True,
        )
    if done.parent is not None:
        click.echo(f"it lay below board {done.parent}, which is not here: it lies below none now", err=True)
    if done.owners:
        click.echo(
            f"these act for others here than where the file was written, and go on so: {', '.join(done.owners)}",
            err=True,
        )


async def _import(settings: Settings, source: BinaryIO, name: str | None) -> Imported:
    from blackboard_mcp.storage.history.transfer import import_board

    from .. import compose
    from ..settings.boards import check_kept

    size = os.fstat(source.fileno()).st_size or None  # a pipe has none
    await check_schema(settings)
    async with compose.installation(settings, eager_index=False, background=False) as opened:
        with progress("import", size) as step:

            def read_line(most: int) -> bytes:
                line = source.readline(most)
                step(len(line))
                return line

            return await import_board(
                sql_store(opened, "import"),
                read_line,
                board=name,
                folder=settings.folder,
                check_name=check_board,
                check_config=check_kept,
                counting=lambda name: getattr(opened.blackboard.tokenizers.find(name), "count", None),
            )


@click.command()
@data_options
def verify(config: Path | None, data: Path | None, board: str | None) -> None:
    """Rebuild a board from its history, on the side, and say whether it comes out equal."""
    asyncio.run(_verify(settings_of(config, data=data, board=board)))


async def _verify(settings: Settings) -> None:
    from blackboard_mcp.storage.history.transfer import verify_board

    async with existing(settings) as opened:
        # Each event is written, and read again.
        with progress("verify", 2 * await _events(opened, settings)) as step:
            unlike = await verify_board(
                sql_store(opened, "verify"), settings.board, folder=settings.folder, step=step
            )
    for difference in unlike:
        click.echo(difference)
    if unlike:
        raise click.ClickException(f"board {settings.board} is not what its history says; see above")
    click.echo(f"board {settings.board} is what its history says")
