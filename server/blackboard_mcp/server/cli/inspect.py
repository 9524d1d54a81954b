"""The commands `show`, `explain`, `query` and `archive`, which show a person the data that agents share."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

import click
from blackboard_mcp.protocols.errors import BlackboardError

from ..settings.server import Settings
from ..text.lines import visible_json
from .commands import act
from .options import STATUSES, TYPES, Command, existing, settings_of
from .target import OPERATOR, Target, target_of, target_options

if TYPE_CHECKING:
    from blackboard_mcp.protocols.wire import ExplainAnswer, ItemsAnswer, SearchAnswer

    from ..answers.rendering import Rendering
    from ..board import BoardAccess
    from ..compose import Installation

_INDEX_SECONDS: Final = 60.0
"""The time that a search waits for an index that lags behind."""
_AGAIN_SECONDS: Final = 0.2

Look = Callable[["Installation", "Rendering"], Awaitable[None]]


def _run(settings: Settings, look: Look) -> None:
    async def run() -> None:
        from ..answers.assurance import unassured
        from ..answers.rendering import Rendering

        async with existing(settings) as opened:
            tokenizers = opened.blackboard.tokenizers
            tokenizers.see(await opened.store.find_board(settings.board))
            try:
                await look(opened, Rendering(tokenizers.on(settings.board), opened.clock))
            except BlackboardError as error:
                unassured(error)
                raise

    asyncio.run(run())


@click.command()
@target_options
@click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")
@click.option(
    "--budget", type=click.IntRange(1, 200_000), default=1_500, show_default=True, help="In tokens."
)
@click.argument("ids", nargs=-1)
def show(as_json: bool, budget: int, ids: tuple[str, ...], **given: Any) -> None:
    """Show the board as one agent sees it, or the items named by IDS whole, archived ones too."""
    from blackboard_mcp.protocols.version_wire import wire_versions
    from blackboard_mcp.protocols.wire import ItemsAnswer, wire_item

    from ..text.tokens import count_lines
    from .advice import view_for_people

    target = target_of(given)
    if target.url is not None:
        asyncio.run(_from_server(target, ids, budget, as_json=as_json))
        return
    settings = settings_of(target.config, data=target.data, board=target.board)
    agent = target.agent or settings.agent or OPERATOR

    async def look(opened: Installation, say: Rendering) -> None:
        if ids:
            from .readings import end

            reading = await opened.blackboard.read(agent, None, ids, [])
            items = [wire_item(item) for item in reading.found.items]
            page = ItemsAnswer(
                items=items,
                seq=reading.found.seq,
                missing=list(reading.found.missing),
                versions=[wire_versions(listed) for listed in reading.versions],
            )
            if as_json:
                click.echo(visible_json(page.model_dump_json()))
            else:
                click.echo(_with_commands(say.whole(reading)))
            end(page)
            return
        view, snapshot = await opened.blackboard.view(agent, None, budget)
        text = say.view(view.text, view.at, lambda: budget - view.tokens)
        if as_json:
            tokens = count_lines(text.split("\n"), opened.blackboard.tokenizers.on(snapshot.board.id))
            _view_as_json(text, tokens, snapshot.board.seq)
        else:
            click.echo(view_for_people(text))

    _run(settings, look)


def _with_commands(text: str) -> str:
    """Returns the text with commands in place of the server's calls; lines quoted from agents stay unchanged."""
    from ..text.lines import QUOTE
    from .advice import for_people

    lines = text.split("\n")
    return "\n".join(line if line.startswith(QUOTE) else for_people(line) for line in lines)


def _view_as_json(text: str, tokens: int, seq: int) -> None:
    facts = {"view": text, "tokens": tokens, "seq": seq}
    click.echo(visible_json(json.dumps(facts, ensure_ascii=False)))


async def _from_server(target: Target, ids: tuple[str, ...], budget: int, *, as_json: bool) -> None:
    """Prints the view, or the items of these ids, from a server; exits with code 1 if none of the ids exists."""
    from . import output, readings
    from .advice import view_for_people

    async with target.opened() as board:
        if ids:
            found = await board.read(ids)
            output.as_json(found) if as_json else readings.whole(found)
            readings.end(found)
            return
        view = await board.view(budget)
        if as_json:
            _view_as_json(view.view, view.tokens, view.seq)
        else:
            for text in view_for_people(view.view).split("\n"):
                output.line(text)


@act(
    "explained",
    click.argument("ids", nargs=-1, required=True),
    example="blackboard-mcp explain H-1 H-5",
)
async def explain(board: BoardAccess, ids: tuple[str, ...]) -> ExplainAnswer:
    """Say why the items named by IDS are still there, what would take them and when, or why they left."""
    return await board.explain(ids)


def _limit(most: int) -> Command:
    return click.option("--limit", type=click.IntRange(1, most), default=20, show_default=True)


_text = click.argument("text", required=False)
_filters = (
    click.option("--type", "type", type=TYPES, help="Only items of this type."),
    click.option("--tag", "tags", multiple=True, help="Only items with this tag (repeat: all of them)."),
    click.option("--author", help="Only items of this agent."),
    click.option("--thread", metavar="ID", help="Only the conversation of this item, say F-3."),
)


@act(
    "listed",
    _text,
    *_filters,
    click.option(
        "--status",
        type=STATUSES,
        help="Only items with this status; DELETED: what was deleted or forgotten.",
    ),
    click.option("--key", help="Only entries whose key matches: * in a segment, ** across."),
    click.option(
        "--zone", type=click.Choice(["working", "archive", "all"]), default="working", show_default=True
    ),
    _limit(200),
    example="blackboard-mcp query release --type hypothesis",
)
async def query(board: BoardAccess, limit: int, **given: Any) -> ItemsAnswer:
    """List items of a board, newest first; TEXT: all of its words occur."""
    return await board.query(**given, page=limit).page()


@act(
    "found",
    _text,
    *_filters,
    click.option(
        "--neighbours", is_flag=True, help="Also what stands before and after each hit in its thread."
    ),
    _limit(100),
    example='blackboard-mcp archive "the valve"',
)
async def archive(board: BoardAccess, **given: Any) -> SearchAnswer:
    """Search what was pruned from a board, by meaning and words; without TEXT list it, newest first."""
    from ..usecases.searching import BEHIND, SLOW

    until = time.monotonic() + _INDEX_SECONDS
    while True:
        found = await board.query_archive(**given)
        if found.notice not in (BEHIND, SLOW) or time.monotonic() > until:
            return found
        await asyncio.sleep(_AGAIN_SECONDS)
