"""The commands `install` and `uninstall`: our entry in an MCP client's configuration file."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..clients.catalogue import CLIENTS, Client
from ..settings.server import load
from .options import Command, settings_of

if TYPE_CHECKING:
    from ..clients.installation import ClientConnection, FileChange


def _common(command: Command) -> Command:
    for option in (
        click.option(
            "--dry-run", is_flag=True, help="Show what would change in the file, and change nothing."
        ),
        click.option(
            "--file",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="Another file of the client's format.",
        ),
        click.option("--project", is_flag=True, help="The file of the project in this folder, not your own."),
        click.option(
            "--name", metavar="NAME", default="blackboard", help="The entry's name (default blackboard)."
        ),
        click.argument("client", metavar="CLIENT", type=click.Choice(list(CLIENTS))),
    ):
        command = option(command)
    return command


@click.command()
@_common
@click.option("--data", type=click.Path(path_type=Path), help="The data folder, where no server is named.")
@click.option(
    "--config", type=click.Path(path_type=Path), help="TOML file with settings, for the data folder."
)
@click.option("--url", metavar="URL", help="The server to reach, say http://127.0.0.1:8420/mcp.")
@click.option(
    "--relay", is_flag=True, help="Reach it by way of `connect`, not over HTTP by the client itself."
)
@click.option("--agent", metavar="NAME", help="The agent's name on the board (default the client's).")
@click.option(
    "--token", is_flag=True, help="The server asks for a token: the client takes it from BLACKBOARD_TOKEN."
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="With a relay: the file that has the token.",
)
@click.option("--replace", is_flag=True, help="Put it in the place of another entry of that name.")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def install(
    client: str,
    name: str,
    project: bool,
    file: Path | None,
    dry_run: bool,
    data: Path | None,
    config: Path | None,
    replace: bool,
    agent: str | None,
    **given: Any,
) -> None:
    """Connect CLIENT to the boards of a folder, or of a server at --url.

    CLIENT is claude-desktop, claude-code, cursor, vscode, codex, gemini or goose. An entry is written into its
    configuration file; the file as it was is kept. A second time changes nothing. ARGUMENTS after -- go to `serve` or
    `connect`.
    """
    from ..clients import installation
    from ..clients.files import one_at_a_time

    if data is not None and given["url"]:
        raise click.UsageError(
            "--data is for the boards of a folder, --url for those of a server: give one of them."
        )
    to = CLIENTS[client]
    place = installation.place(to, file, project)
    settings = load({}, config=config) if given["url"] else settings_of(config, data=data)
    wanted = installation.ClientConnection(agent=agent or client, data=settings.folder.absolute(), **given)
    parts = installation.entry_of(to, name, wanted)
    with nullcontext() if dry_run else one_at_a_time():
        change = installation.install(to, place, name, parts, replace=replace, folder=project)
        changed = _done(
            change,
            dry_run,
            f"{to.title} has '{name}' now",
            f"Nothing to change: {to.title} has '{name}' already, in {place}.",
        )
    if changed:
        click.echo(_then(to, wanted, "Catch up on the blackboard, then post what you find."))


@click.command()
@_common
def uninstall(client: str, name: str, project: bool, file: Path | None, dry_run: bool) -> None:
    """Take out of CLIENT's file what install put into it.

    An entry that was changed since stays.
    """
    from ..clients import installation
    from ..clients.files import one_at_a_time

    to = CLIENTS[client]
    place = installation.place(to, file, project)
    with nullcontext() if dry_run else one_at_a_time():
        change = installation.uninstall(to, place, name)
        gone = f"{to.title} has no '{name}' any more"
        changed = _done(change, dry_run, gone, f"Nothing to take out: {place} has no '{name}'.")
    if changed:
        click.echo(f"{to.title} lets go of it at its next start; the boards stay as they are.")


def _done(change: FileChange | None, dry_run: bool, done: str, nothing: str) -> bool:
    """Makes the change, or prints it in a dry run, and tells whether the file was changed.

    `change` is `None` if there is nothing to change, and then `nothing` is printed; else `done`.
    """
    if change is None or change.raw == change.contents.raw:
        if change is not None and not dry_run:
            change.make()  # updates our record of the entry
        click.echo(nothing)
        return False
    if dry_run:
        click.echo(change.difference(), nl=False)
        return False
    kept = change.make()
    click.echo(f"{done}, in {change.contents.file}" + (f"; as it was: {kept}" if kept else "."))
    return True


def _then(to: Client, wanted: ClientConnection, words: str) -> str:
    """Returns the next steps for the person: what to start and say, and how the client gets its token.

    `words` is the first sentence to say to the client.
    """
    lines = [f'{to.then}, and say to it: "{words}" `blackboard-mcp doctor` tries the connection.']
    if wanted.url and not wanted.relay and to.http is None:
        lines.append(
            f"{to.title} only starts programs, so it reaches the server by way of `blackboard-mcp connect`."
        )
    if wanted.token_file:
        lines.append(f"The token stays in {wanted.token_file}: the relay reads it there each time it starts.")
    if wanted.token and "input" in to.reference:
        lines.append(
            f"No token is in the file: {to.title} asks for it once, and stores it among its own secrets."
        )
    elif wanted.token:
        lines.append(
            f"No token is in the file: {to.title} takes it from BLACKBOARD_TOKEN, in the environment it is started in."
        )
    return "\n".join(lines)
