"""The command `migrate`: brings the boards' schema to this version, or prints the SQL that does."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from ..settings.server import Settings, load
from .options import existing, settings_of


@click.command()
@click.option("--config", type=click.Path(path_type=Path), help="TOML file with settings.")
@click.option("--data", type=click.Path(path_type=Path), help="The data folder.")
@click.option(
    "--print",
    "printed",
    nargs=2,
    type=int,
    default=None,
    metavar="FROM TO",
    help="Print the SQL for PostgreSQL that leads from one version of the schema (0: none) to another; run nothing.",
)
def migrate(config: Path | None, data: Path | None, printed: tuple[int, int] | None) -> None:
    """Bring the boards' schema to this version. Servers do so when they start.

    With --print, a database's administrator can run what the server's user may not.
    """
    if printed is None:
        asyncio.run(_migrate(settings_of(config, data=data)))
        return
    settings = load({"data": data}, config=config)
    from blackboard_mcp.storage.postgres.address import Address, needing_driver

    with needing_driver():
        from blackboard_mcp.storage.postgres import migrating

    first, newest = migrating.FIRST, migrating.newest()
    before, to = printed
    if not (before == 0 or first <= before < to) or not first <= to <= newest:
        raise click.ClickException(
            f"there is no way from {before} to {to}: FROM is 0 or from {first} on, and TO is above it, at most {newest}"
        )
    schema = Address.parse(settings.store).schema if settings.on_postgres and settings.store else "blackboard"
    click.echo("BEGIN;\n" + "".join(migrating.script(before, to, schema)) + "COMMIT;")


async def _migrate(settings: Settings) -> None:
    async with existing(settings, board=False, migrates=True) as opened:
        boards = len(await opened.store.boards())
    click.echo(f"{settings.store_shown or settings.database} is at the newest schema; it has {boards} boards")
