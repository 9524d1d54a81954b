"""`show`, `explain`, `query` and `archive`: a person's look at the same data that agents share."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from blackboard_mcp.protocols.archive import ArchiveQuery
from blackboard_mcp.protocols.filters import ItemQuery
from blackboard_mcp.protocols.items import ItemType, Status, Zone, parse_ref
from blackboard_mcp.protocols.keys import check_glob

from ..settings import Settings
from ..text import visible_json
from .options import Command, data_options, existing, interruptible, settings_of
from .target import OPERATOR, Target, target_of, target_options

if TYPE_CHECKING:
    from ..compose import Installation
    from ..rendering import Rendering

_TYPES = click.Choice([str(t) for t in ItemType], case_sensitive=False)
_STATUSES = click.Choice([str(s) for s in Status], case_sensitive=False)

_INDEX_SECONDS = 60.0
"""How long a search waits for an index that is behind: nobody else waits for it here."""
_AGAIN_SECONDS = 0.2

_agent = click.option("--agent", default=OPERATOR, show_default=True, help="Whose view of the board.")
_json = click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")


def _filters(command: Command) -> Command:
    for option in (
        click.option("--type", "type_", type=_TYPES, help="Only items of this type."),
        click.option("--tag", "tags", multiple=True, help="Only items with this tag (repeat: all of them)."),
        click.option("--author", help="Only items of this agent."),
        click.option("--thread", help="Only the conversation of this item, say F-3."),
        click.option("--limit", type=click.IntRange(1, 200), default=20, show_default=True),
    ):
        command = option(command)
    return command


Look = Callable[["Installation", "Rendering"], Awaitable[None]]


def _run(settings: Settings, look: Look) -> None:
    async def run() -> None:
        from ..rendering import Rendering

        async with existing(settings) as opened:
            tokenizers = opened.blackboard.tokenizers
            tokenizers.see(await opened.store.find_board(settings.board))
            await look(opened, Rendering(tokenizers.on(settings.board), opened.clock))

    asyncio.run(run())


@click.command()
@target_options
@_json
@click.option(
    "--budget", type=click.IntRange(1, 200_000), default=1_500, show_default=True, help="In tokens."
)
@click.argument("ids", nargs=-1)
def show(as_json: bool, budget: int, ids: tuple[str, ...], **given: Any) -> None:
    """Show the board as one agent sees it, or the items named by IDS whole, archived ones too."""
    from blackboard_mcp.protocols.wire import ItemsAnswer, wire_item

    target = target_of(given)
    if target.url is not None:
        interruptible(lambda: _from_server(target, ids, budget, as_json=as_json))
        return
    settings = settings_of(target.config, data=target.data, board=target.board)
    agent = target.agent or settings.agent or OPERATOR

    async def look(opened: Installation, say: Rendering) -> None:
        if ids:
            reading = await opened.blackboard.read(agent, None, ids, [])
            if as_json:
                items = [wire_item(item) for item in reading.found.items]
                page = ItemsAnswer(items=items, seq=reading.found.seq, missing=list(reading.found.missing))
                click.echo(visible_json(page.model_dump_json()))
            else:
                click.echo(say.whole(reading))
            return
        view, snapshot = await opened.blackboard.view(agent, None, budget)
        if as_json:
            _view_as_json(view.text, view.tokens, snapshot.board.seq)
        else:
            click.echo(view.text)

    _run(settings, look)


def _view_as_json(text: str, tokens: int, seq: int) -> None:
    facts = {"view": text, "tokens": tokens, "seq": seq}
    click.echo(visible_json(json.dumps(facts, ensure_ascii=False)))


async def _from_server(target: Target, ids: tuple[str, ...], budget: int, *, as_json: bool) -> None:
    """The same from a server."""
    from . import output, readings

    async with target.opened() as board:
        if ids:
            found = await board.read(ids)
            output.as_json(found) if as_json else readings.whole(found)
            return
        view = await board.view(budget)
        if as_json:
            _view_as_json(view.view, view.tokens, view.seq)
        else:
            for text in view.view.splitlines():
                output.line(text)


@click.command()
@data_options
@_agent
@_json
@click.argument("ids", nargs=-1, required=True)
def explain(
    config: Path | None, data: Path | None, board: str | None, agent: str, as_json: bool, ids: tuple[str, ...]
) -> None:
    """Say why the items named by IDS are still there, what would take them and when, or why they left."""

    async def look(opened: Installation, say: Rendering) -> None:
        from ..explaining import wire_explained

        explained = await opened.blackboard.explain(agent, None, ids)
        if as_json:
            click.echo(visible_json(wire_explained(explained, say.now()).model_dump_json()))
        else:
            click.echo(say.explained(explained))

    _run(settings_of(config, data=data, board=board), look)


@click.command()
@data_options
@_agent
@_json
@_filters
@click.option("--status", type=_STATUSES, help="Only items with this status.")
@click.option("--key", help="Only entries whose key matches: * in a segment, ** across.")
@click.option(
    "--zone", type=click.Choice(["working", "archive", "all"]), default="working", show_default=True
)
@click.argument("text", required=False)
def query(
    config: Path | None,
    data: Path | None,
    board: str | None,
    agent: str,
    as_json: bool,
    text: str | None,
    **given: Any,
) -> None:
    """List items of a board, newest first; TEXT: all of its words occur."""
    from blackboard_mcp.protocols.wire import ItemsAnswer, wire_item

    wanted = _query(text, given, None if given["zone"] == "all" else Zone(given["zone"]))

    async def look(opened: Installation, say: Rendering) -> None:
        page = await opened.blackboard.query(agent, None, wanted)
        if as_json:
            items = [wire_item(item) for item in page.items]
            click.echo(visible_json(ItemsAnswer(items=items, seq=page.seq).model_dump_json()))
        else:
            click.echo(say.page(page))

    _run(settings_of(config, data=data, board=board), look)


def _query(text: str | None, given: dict[str, Any], zone: Zone | None) -> ItemQuery:
    key, status = given.get("key"), given.get("status")
    return ItemQuery(
        text=text,
        types=() if given["type_"] is None else (ItemType(given["type_"].upper()),),
        key=None if key is None else check_glob(key),
        tags=tuple(given["tags"]),
        author=given["author"],
        statuses=() if status is None else (Status(status.upper()),),
        thread=None if given["thread"] is None else parse_ref(given["thread"]).number,
        zone=zone,
        limit=given["limit"],
    )


@click.command()
@data_options
@_agent
@_json
@_filters
@click.option("--neighbours", is_flag=True, help="Also what stands before and after each hit in its thread.")
@click.argument("text", required=False)
def archive(
    config: Path | None,
    data: Path | None,
    board: str | None,
    agent: str,
    as_json: bool,
    neighbours: bool,
    text: str | None,
    **given: Any,
) -> None:
    """Search what was pruned from a board, by meaning and words; without TEXT list it, newest first."""
    from ..searching import BEHIND, wire_found

    words = _query(text, given, Zone.ARCHIVE)
    asked = ArchiveQuery(
        board="",
        text=text or "",
        limit=words.limit,
        types=tuple(str(t) for t in words.types),
        tags=words.tags,
        author=words.author,
        thread=words.thread,
    )

    async def look(opened: Installation, say: Rendering) -> None:
        until = time.monotonic() + _INDEX_SECONDS
        while True:
            found, waiting, seq = await opened.blackboard.search(
                agent, None, asked, words, restore=False, neighbours=neighbours
            )
            if found.notice != BEHIND or time.monotonic() > until:
                break
            await asyncio.sleep(_AGAIN_SECONDS)
        if as_json:
            why = {number: say.why(event) for number, event in found.left.items()}
            answer = wire_found(found, seq, why)
            click.echo(visible_json(answer.model_dump_json()))
        else:
            click.echo(say.found(found, waiting, seq, restored=False))

    _run(settings_of(config, data=data, board=board), look)
