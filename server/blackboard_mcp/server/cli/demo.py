"""The command `demo`: a story of four agents, or a recorded session, through a real server and MCP clients."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from mcp.client import Client

    from ..demo.report import ReportSection
    from ..demo.session import Session

TARGET_TOKENS = 2_000
_SETTINGS = '{"owner_held": 1}'
"""Lets one owner's debates keep everything on the board: long chains of replies in a session are no flood."""


@click.command()
@click.argument("log", required=False, metavar="[LOG]")
@click.option("--data", type=click.Path(path_type=Path), help="Folder to use and keep (default: temporary).")
@click.option(
    "--target-tokens",
    type=click.IntRange(200, 10_000_000),
    help=f"With LOG: working memory of the board (default {TARGET_TOKENS}).",
)
@click.option("--http", "transport", flag_value="http", default="http", help="One server (default).")
@click.option("--stdio", "transport", flag_value="stdio", help="A server for each agent, over stdio.")
@click.option("--keep", is_flag=True, help="Keep the temporary folder.")
@click.option("--list", "list_examples", is_flag=True, help="Name the logs that come with the package.")
def demo(
    log: str | None,
    data: Path | None,
    target_tokens: int | None,
    transport: str,
    keep: bool,
    list_examples: bool,
) -> None:
    """Watch four agents solve an incident through a real server and real MCP clients, a line a step.

    With LOG a recorded session is replayed instead: a JSON file
    ({"question": …, "history": [{"name": …, "content": …}]}) or the name of a log that comes with the package.
    Then: the board's view, what was pruned and why, what the guard holds, a search of the archive, and every
    post read back.
    """
    from ..demo.session import examples, load_session

    if list_examples:
        for name, path in examples().items():
            click.echo(f"{name}: {load_session(path).question.splitlines()[0][:90]}")
        return
    if log is None:
        if target_tokens is not None:
            raise click.UsageError("--target-tokens goes with a LOG.")
        _tell_story(data, transport, keep)
        return
    session = load_session(examples().get(log, Path(log)))
    with _folder(data, keep) as folder:
        started = time.monotonic()
        board, report = asyncio.run(_run(session, folder, target_tokens or TARGET_TOKENS, transport))
        for section in report:
            _show(section)
        click.echo(f"\n{time.monotonic() - started:.1f} s in all", err=True)
        if data is not None or keep:
            click.echo(
                f"kept in {folder}: blackboard-mcp show --data {quote(str(folder))} --board {board}", err=True
            )
    if any(section.failed for section in report):
        raise SystemExit(1)


def _tell_story(data: Path | None, transport: str, keep: bool) -> None:
    """Plays the story and prints what to do next.

    Raises:
        click.ClickException: a statement of the story did not hold.
    """
    from ..demo.story import AGENTS, TARGET_TOKENS, Story, Untrue

    def tell(who: str, what: str) -> None:
        click.echo(f"{click.style(f'{who:<6}', bold=True)} {what}")

    async def run(folder: Path) -> str:
        async with _joined(folder, AGENTS, TARGET_TOKENS, transport) as (clients, board):
            await Story(clients, board, tell).play()
        return board

    with _folder(data, keep) as folder:
        try:
            board = asyncio.run(run(folder))
        except Untrue as error:
            raise click.ClickException(f"this does not hold: {error}") from None
        command = _command()
        if data is not None or keep:
            click.echo(
                f"kept in {folder}: {command} show --data {quote(str(folder))} --board {board}", err=True
            )
    click.echo(
        f"\nNow connect your client. Start a server:\n  {command} serve --transport http\n"
        "and tell each client of it, Claude Code for one:\n"
        f"  {command} install claude-code --url http://127.0.0.1:8420/mcp\n"
        "http://127.0.0.1:8420/ shows what to give other clients."
    )


def _command() -> str:
    """Returns the name or path by which a shell in this folder finds this command."""
    name = "blackboard-mcp"
    if shutil.which(name) is not None:
        return name
    found = Path(sys.executable).with_name(name)
    beside = found.is_relative_to(Path.cwd())
    return os.path.relpath(found) if beside else str(found)


@contextmanager
def _folder(data: Path | None, keep: bool) -> Iterator[Path]:
    """Yields the folder to use: `data`, or a temporary one that is deleted at the end unless `keep`."""
    if data is not None:
        yield data
        return
    folder = Path(tempfile.mkdtemp(prefix="blackboard-demo-"))
    try:
        yield folder
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def _show(section: ReportSection) -> None:
    click.echo()
    click.secho(section.heading, bold=True)
    click.echo("-" * len(section.heading))
    for line in section.lines:
        click.echo(line)


async def _check_open(folder: Path) -> None:
    """Checks that the demo's agents, which have no tokens, can connect over HTTP.

    Raises:
        click.ClickException: the folder has access tokens.
    """
    from .. import compose
    from ..settings.server import Settings

    settings = Settings(data=folder)
    if settings.database.exists():
        async with compose.credentials(settings) as store:
            if await store.has_tokens():
                raise click.ClickException(
                    f"{folder} has access tokens, and the agents of the demo have none: use --stdio, or another folder"
                )


@asynccontextmanager
async def _joined(
    folder: Path, agents: Sequence[str], target_tokens: int, transport: str, *more: str
) -> AsyncIterator[tuple[dict[str, Client], str]]:
    """Yields a client for each agent, by name, on servers over the folder, and the name of an unused board."""
    from ..demo.process import http_clients, http_server, stdio_clients
    from ..demo.replay import connected, in_use

    if transport == "http":
        await _check_open(folder)
    options = ("--target-tokens", str(target_tokens), "--board", "demo", *more)
    async with AsyncExitStack() as stack:
        if transport == "http":
            click.echo("starting a server …", err=True)
            server = await stack.enter_async_context(http_server(folder, *options))
            click.echo(f"it serves {server.url}", err=True)
            connect = http_clients(server.url)
        else:
            click.echo(f"starting {len(agents)} servers over stdio …", err=True)
            connect = stdio_clients(folder, *options)
        clients = await stack.enter_async_context(connected(connect, agents))
        click.echo(f"{len(clients)} clients connected: {', '.join(clients)}", err=True)
        board, count = "demo", 1
        while await in_use(clients[agents[0]], board):
            count += 1
            board = f"demo-{count}"
        yield clients, board


async def _run(
    session: Session, folder: Path, target_tokens: int, transport: str
) -> tuple[str, list[ReportSection]]:
    """Replays the session, and returns the name of its board and the report."""
    from ..demo.replay import ReplayedPost, replay, settle
    from ..demo.report import ReportSection, sections

    agents = session.agents
    async with _joined(folder, agents, target_tokens, transport, "--board-settings", _SETTINGS) as (
        clients,
        board,
    ):
        observer = clients[agents[0]]
        started = time.monotonic()
        with click.progressbar(
            length=len(session.posts), label="replaying", file=sys.stderr, show_pos=True
        ) as bar:

            def on_post(_: ReplayedPost) -> None:
                bar.update(1)

            posted = await replay(session, clients, board, on_post)
        seconds = time.monotonic() - started
        stats = await settle(observer, board)
        told = sum(len(post.text) for post in session.posts)
        intro = ReportSection(
            f"Replayed {session.name}: {len(posted)} posts by {len(agents)} agents in {seconds:.2f} s",
            [
                session.question.splitlines()[0][:200],
                f"{told} characters over MCP to board {board}, {transport}, target {target_tokens} tokens",
            ],
        )
        return board, [intro, *await sections(observer, board, session, posted, stats)]
