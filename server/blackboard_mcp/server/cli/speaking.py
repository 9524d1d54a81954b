"""The commands by which a person posts, debates and asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import click
from blackboard_mcp.protocols.items import EdgeKind, ItemType, parse_ref
from blackboard_mcp.protocols.literals import OutcomeName
from blackboard_mcp.protocols.topics import is_topic

from .commands import act
from .files import piped
from .options import STATUSES

if TYPE_CHECKING:
    from pydantic import BaseModel

    from ..board import BoardAccess


_MOST = 4_000_000
"""The most characters that are read from standard input; a board takes texts that are shorter."""


def _said(context: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Returns the text of an argument; for `-` the text on standard input."""
    if value != "-":
        return value
    text = piped(_MOST).rstrip("\r\n")
    if not text.strip():
        raise click.BadParameter("there was no text on standard input", context, param)
    return text


_item = click.argument("item", metavar="ID")
_text = click.argument("text", metavar="TEXT|-", callback=_said)
_reason = click.option("--reason", default="", help="Why, in a sentence.")
_tags = click.option("--tag", "tags", metavar="TAG", multiple=True, help="A tag (repeat for more).")
_importance = click.option("--importance", type=click.IntRange(1, 5), help="5 stays until you lower it.")
_STATUS = "Of the item: ACTIVE, RESOLVED, WITHDRAWN; DELETED for an entry."
_TYPES = click.Choice([str(t) for t in ItemType if t is not ItemType.SUMMARY], case_sensitive=False)
_KINDS = click.Choice([str(kind) for kind in EdgeKind])


async def _posted(board: BoardAccess, given: dict[str, Any]) -> BaseModel:
    sent: Any = {name: value for name, value in given.items() if value not in (None, (), [])}
    return await board.post_all([sent])


@act(
    "posted",
    click.argument("text", metavar="[TEXT|-]", callback=_said, required=False),
    click.option("--type", "type_", type=_TYPES, help="What it is (default FACT)."),
    _tags,
    _importance,
    click.option("--key", help="Write the entry of this key, say plan:step-1."),
    click.option("--id", "item", metavar="ID", help="Change this item of yours: its text, tags, status …"),
    click.option("--status", type=STATUSES, metavar="STATUS", help=_STATUS),
    click.option(
        "--edge", "edges", type=(_KINDS, str), multiple=True, metavar="KIND ID", help="Say supports F-3."
    ),
    click.option("--visibility", type=click.Choice(["board", "team", "private"]), help="Who may read it."),
    click.option("--ttl-seconds", type=click.FloatRange(min=0), help="Archive it after so long."),
    click.option("--agree", metavar="NAME", multiple=True, help="Ask an agent to agree to it, or all."),
    example='blackboard-mcp post "the pump burst at 8 bar" --tag pump --edge supports H-1',
    any_board=True,
)
async def post(
    board: BoardAccess,
    text: str | None,
    type_: str | None,
    item: str | None,
    edges: tuple[tuple[str, str], ...],
    **given: Any,
) -> BaseModel:
    """Post TEXT to a board, or change what you posted; - takes the text from standard input."""
    joined: dict[str, list[str]] = {}
    for kind, to in edges:
        joined.setdefault(kind, []).append(to)
    listed = {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}
    return await _posted(board, {"text": text, "type": type_, "id": item, "edges": joined or None, **listed})


@act("posted", _item, _text, _tags, example='blackboard-mcp reply Q-2 "after the valve was changed"')
async def reply(board: BoardAccess, item: str, text: str, tags: tuple[str, ...]) -> BaseModel:
    """Reply to the item ID: an answer where it is a question, and what answers a critique."""
    kind = ItemType.ANSWER if item[:2].upper() == "Q-" else ItemType.REPLY
    return await _posted(
        board, {"text": text, "type": kind, "edges": {"replies_to": [item]}, "tags": list(tags)}
    )


@act("posted", _item, _text, _tags, example='blackboard-mcp critique H-1 "the log says 8 bar, not 9"')
async def critique(board: BoardAccess, item: str, text: str, tags: tuple[str, ...]) -> BaseModel:
    """Object to the item ID, with what speaks against it: that opens a debate, and nothing debated is pruned."""
    return await _posted(
        board, {"text": text, "type": ItemType.CRITIQUE, "edges": {"critiques": [item]}, "tags": list(tags)}
    )


@act("debated", _item, _reason, example="blackboard-mcp acknowledge D-3")
async def acknowledge(board: BoardAccess, item: str, reason: str) -> BaseModel:
    """Agree that the answers settle the debate on the item ID, or to what its author asks you to agree to."""
    return await board.acknowledge(item, reason=reason)


@act(
    "debated",
    _item,
    click.argument("outcome", type=click.Choice(get_args(OutcomeName))),
    click.argument("reason"),
    click.option("--to", metavar="ID", help="With amended or falls: the item that takes its place."),
    example='blackboard-mcp decide H-1 falls "the second log settles it"',
)
async def decide(
    board: BoardAccess, item: str, outcome: OutcomeName, reason: str, to: str | None
) -> BaseModel:
    """Decide the debate on the item ID, and say why; what a critic decides waits for another to confirm it."""
    return await board.decide(item, reason, outcome=outcome, to=to)


@act("debated", _item, example="blackboard-mcp debate H-1")
async def debate(board: BoardAccess, item: str) -> BaseModel:
    """Say how the debate on the item ID stands, and whom it waits for."""
    return await board.debate(item)


@act(
    "debated",
    _item,
    click.option("--against", is_flag=True, help="It falls; without this it stands."),
    _reason,
    example='blackboard-mcp vote H-1 --reason "I ran it twice"',
)
async def vote(board: BoardAccess, item: str, against: bool, reason: str) -> BaseModel:
    """Vote in the debate on the item ID; where the board has a quorum, votes end it."""
    return await board.vote(item, approve=not against, reason=reason)


@act("debated", _item, example="blackboard-mcp confirm H-7")
async def confirm(board: BoardAccess, item: str) -> BaseModel:
    """Confirm what a critic decided on the item ID, as one who is no party."""
    return await board.confirm(item)


@act(
    "debated",
    _item,
    _reason,
    click.option("--to", metavar="ID", help="The item that takes its place."),
    example='blackboard-mcp concede H-10 --reason "the log says 8 bar"',
)
async def concede(board: BoardAccess, item: str, reason: str, to: str | None) -> BaseModel:
    """Give up the item ID, which is yours; it counts as false from then on."""
    return await board.concede(item, reason=reason, to=to)


@act("withdrawn", _item, _reason, example="blackboard-mcp withdraw C-4")
async def withdraw(board: BoardAccess, item: str, reason: str) -> BaseModel:
    """Take back the item ID of yours; a critique is taken back with its part of the debate."""
    if item[:2].upper() == "C-":
        return await board.withdraw(item, reason=reason)
    if reason:
        raise click.UsageError("--reason goes with a critique; say it in a reply to the item")
    return await _posted(board, {"id": item, "status": "WITHDRAWN"})


@act(
    "asked",
    click.argument("to", metavar="AGENT"),
    _text,
    click.option("--deadline-seconds", type=float, help="How long it may be answered (default an hour)."),
    click.option("--wait", is_flag=True, help="Stay until there is an answer, and print it."),
    example='blackboard-mcp ask ben "which log did you read?"',
)
async def ask(
    board: BoardAccess, to: str, text: str, deadline_seconds: float | None, wait: bool
) -> BaseModel:
    """Ask AGENT, or whoever has a skill (skill:sql); they owe an answer. The item says how it stands.

    On a server it needs the tools of --tools core,messages.
    """
    return await board.ask(to, text, deadline_seconds=deadline_seconds, wait=wait)


@act(
    "pinned",
    click.argument("item", metavar="ID|TOPIC"),
    click.option("--off", is_flag=True, help="Let it go again."),
    example="blackboard-mcp pin H-1",
)
async def pin(board: BoardAccess, item: str, off: bool) -> BaseModel:
    """Keep the item ID on the board, whoever wrote it, until you acknowledge it or let it go (--off).

    It is what an agent's watch is: the board waives it when you were away for long (its setting watch_lease_seconds).
    A TOPIC is tag:db, key:plan:**, type:DECISION or thread:H-3: you are asked to acknowledge the answers in each debate
    that opens on an item of it from now on.
    """
    from blackboard_mcp.protocols.debate_wire import WatchesAnswer

    if not is_topic(item):
        return await (board.unwatch(item) if off else board.watch(item))
    watches = await (board.unwatch_topic(item) if off else board.watch_topic(item))
    return WatchesAnswer(watches=watches, seq=board.seq)


@act(
    "brought_back",
    click.argument("items", metavar="ID...", nargs=-1, required=True),
    example="blackboard-mcp unarchive H-1",
)
async def unarchive(board: BoardAccess, items: tuple[str, ...]) -> BaseModel:
    """Bring the archived items ID... back to the board. (For the backup of a folder there is restore.)"""
    for item in items:
        parse_ref(item)  # refuses other words, which would restore whatever they find
    return await board.query_archive(" ".join(items), limit=len(items), restore=True)
