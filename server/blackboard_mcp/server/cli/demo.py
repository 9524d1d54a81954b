"""`demo`: a recorded session of agents, replayed through a real server and real MCP clients."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ..demo.report import Section
    from ..demo.session import Session

TARGET_TOKENS = 2_000
_SETTINGS = '{"owner_held": 1}'
"""The agents of a recorded session work for one person: however long one's chain of replies is, it is no flood."""


@click.command()
@click.argument("log", required=False, metavar="[LOG]")
@click.option("--data", type=click.Path(path_type=Path), help="Folder to use and keep (default: temporary).")
@click.option(
    "--target-tokens",
    type=click.IntRange(200, 10_000_000),
    default=TARGET_TOKENS,
    show_default=True,
    help="Working memory of the board.",
)
@click.option("--http", "transport", flag_value="http", default="http", help="One server (default).")
@click.option("--stdio", "transport", flag_value="stdio", help="A server for each agent, over stdio.")
@click.option("--keep", is_flag=True, help="Keep the temporary folder.")
@click.option("--list", "list_examples", is_flag=True, help="Name the logs that come with the package.")
def demo(
    log: str | None, data: Path | None, target_tokens: int, transport: str, keep: bool, list_examples: bool
) -> None:
    """Replay a recorded multi-agent session through a real server and real MCP clients.

    LOG is a JSON file ({"question": …, "history": [{"name": …, "content": …}]}) or the name of a log that
    comes with the package. Then: the board's view, what was pruned and why, what the guard holds, a search
    of the archive, and every post read back.
    """
    from ..demo.session import DEFAULT_EXAMPLE, examples, load_session

    if list_examples:
        for name, path in examples().items():
            click.echo(f"{name}: {load_session(path).question.splitlines()[0][:90]}")
        return
    named = examples().get(log or DEFAULT_EXAMPLE)
    session = load_session(Path(log) if named is None and log is not None else named or Path())
    with _folder(data, keep) as folder:
        started = time.monotonic()
        board, report = asyncio.run(_run(session, folder, target_tokens, transport))
        for section in report:
            _show(section)
        click.echo(f"\n{time.monotonic() - started:.1f} s in all", err=True)
        if data is not None or keep:
            click.echo(f"kept in {folder}: blackboard-mcp show --data {folder} --board {board}", err=True)
    if any(section.failed for section in report):
        raise SystemExit(1)


@contextmanager
def _folder(data: Path | None, keep: bool) -> Iterator[Path]:
    if data is not None:
        yield data
        return
    folder = Path(tempfile.mkdtemp(prefix="blackboard-demo-"))
    try:
        yield folder
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def _show(section: Section) -> None:
    click.echo()
    click.secho(section.heading, bold=True)
    click.echo("-" * len(section.heading))
    for line in section.lines:
        click.echo(line)


async def _check_open(folder: Path) -> None:
    """See that the replayed agents, which have no tokens, may come in over HTTP."""
    from .. import compose
    from ..settings import Settings

    settings = Settings(data=folder)
    if settings.database.exists():
        async with compose.credentials(settings) as store:
            if await store.has_tokens():
                raise click.ClickException(
                    f"{folder} has access tokens, and the agents of the demo have none: use --stdio, or another folder"
                )


async def _run(
    session: Session, folder: Path, target_tokens: int, transport: str
) -> tuple[str, list[Section]]:
    """The board that the session was replayed on, and the report."""
    from ..demo.process import http_clients, http_server, stdio_clients
    from ..demo.replay import Posted, connected, in_use, replay, settle
    from ..demo.report import Section, sections

    agents = session.agents
    if transport == "http":
        await _check_open(folder)
    options = ("--target-tokens", str(target_tokens), "--board", "demo", "--board-settings", _SETTINGS)
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
        observer = clients[agents[0]]
        board, count = "demo", 1
        while await in_use(observer, board):
            count += 1
            board = f"demo-{count}"
        started = time.monotonic()
        with click.progressbar(
            length=len(session.posts), label="replaying", file=sys.stderr, show_pos=True
        ) as bar:

            def on_post(_: Posted) -> None:
                bar.update(1)

            posted = await replay(session, clients, board, on_post)
        seconds = time.monotonic() - started
        stats = await settle(observer, board)
        told = sum(len(post.text) for post in session.posts)
        intro = Section(
            f"Replayed {session.name}: {len(posted)} posts by {len(agents)} agents in {seconds:.2f} s",
            [
                session.question.splitlines()[0][:200],
                f"{told} characters over MCP to board {board}, {transport}, target {target_tokens} tokens",
            ],
        )
        return board, [intro, *await sections(observer, board, session, posted, stats)]
