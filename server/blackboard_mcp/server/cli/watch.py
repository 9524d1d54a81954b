"""The command `watch`: follows a board's log in a folder or on a server, with a sentence for each event."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from copy import copy
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from blackboard_mcp.protocols.errors import BlackboardError

from . import output
from .away import Patience
from .options import TYPES
from .target import Target, target_of, target_options

if TYPE_CHECKING:
    from blackboard_mcp.protocols.wire import WireEvent

    from ..board import BoardAccess
    from ..board.calls import EventSource

_POLL: Final = 25.0
_NEW_BOARDS: Final = 5.0
"""The seconds between looks for new boards."""
_AWAY: Final = 300.0
"""The seconds for which `watch` waits for a server that stopped answering."""
_FAREWELL: Final = 1.0
_TEXTS: Final = 20
"""The number of texts that are read in one call."""
T = TypeVar("T")
_NEW: Final = ("item.posted", "item.versioned")


@click.command(epilog="Example: blackboard-mcp watch --since 0 --seconds 0 --type critique --type decision")
@click.option("--type", "type", type=TYPES, multiple=True, help="Only what is about items of this type.")
@click.option("--by", "agent_", metavar="NAME", multiple=True, help="Only what this agent does.")
@click.option("--thread", metavar="ID", help="Only the conversation of this item, say F-3.")
@click.option(
    "--tag", "tags", metavar="TAG", multiple=True, help="Only what is about items with all these tags."
)
@click.option(
    "--event", metavar="NAME", multiple=True, help="Only events of this name, say debate.* (quoted)."
)
@click.option("--mentions", is_flag=True, help="Only what concerns you: your name, your items, what you owe.")
@click.option("--all-boards", is_flag=True, help="All boards that you may read, new ones too.")
@click.option("--since", type=click.IntRange(min=0), help="Begin after this sequence (default: now).")
@click.option("--seconds", type=click.FloatRange(min=0), help="Stop after this long (default: never).")
@target_options
@click.option("--json", "as_json", is_flag=True, help="JSON instead of text, an object a line.")
def watch(
    all_boards: bool,
    since: int | None,
    seconds: float | None,
    as_json: bool,
    agent_: Sequence[str],
    **given: Any,
) -> None:
    """Follow a board's events as they happen, whichever process causes them. Ctrl-C ends it.

    Where a server goes away it is waited for, and nothing is missed; after five minutes the exit code is 1.
    """
    target = target_of(given)
    filter_ = {field: _listed(value) for field, value in {**given, "agent": agent_}.items() if value}
    if all_boards and since:
        raise click.UsageError("--since is a place on one board; with --all-boards it can only be 0")

    from ..answers.assurance import unassured

    async def work() -> None:
        async with target.opened(any_board=all_boards) as board:
            following = _Following(target, filter_, seconds, as_json=as_json, named=all_boards)
            try:
                await (following.all(board, since) if all_boards else following.one(board, since))
            except BlackboardError as error:
                unassured(error)
                raise

    asyncio.run(work())


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


class _Following:
    """Follows boards and prints their events, until the given time is over."""

    def __init__(
        self, target: Target, filter_: dict[str, Any], seconds: float | None, *, as_json: bool, named: bool
    ) -> None:
        self._filter = filter_
        self._loop = asyncio.get_running_loop()
        self._end = None if seconds is None else self._loop.time() + seconds
        self._as_json = as_json
        self._named = named
        self._patience = Patience(target.url, _AWAY)

    def _left(self, most: float) -> float:
        return most if self._end is None else min(most, max(0.0, self._end - self._loop.time()))

    def _over(self) -> bool:
        return self._end is not None and self._loop.time() >= self._end

    async def all(self, board: BoardAccess, since: int | None) -> None:
        """Follows all boards, including those made meanwhile."""
        try:
            async with asyncio.TaskGroup() as tasks:
                await self._all(tasks, board, since)
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None

    async def _all(self, tasks: asyncio.TaskGroup, board: BoardAccess, since: int | None) -> None:
        known: set[str] = set()
        while True:
            for listed in (await self._kept(board.boards)).boards:
                if listed.id not in known and listed.lifecycle is not None:
                    known.add(listed.id)
                    other = copy(board)  # the same connection
                    other.name = listed.id
                    tasks.create_task(self.one(other, since))
            if self._over():
                return
            await asyncio.sleep(self._left(_NEW_BOARDS))
            since = 0

    async def one(self, board: BoardAccess, since: int | None) -> None:
        """Prints each event of one board after the sequence `since`, or from now on; ends with the command."""
        from blackboard_mcp.protocols.filters import parse_event_filter

        source = board._source(self._filter, parse_event_filter(self._filter), None)
        try:
            place = await self._kept(lambda: source.start(since))
            while True:
                seconds = self._left(_POLL)
                page = await self._kept(lambda: source.fetch(place, 200, seconds))  # noqa: B023
                await self._tell(board, page.events)
                place = page.cursor
                if self._over() and not page.events:
                    return
        finally:
            await _leave(source)

    async def _kept(self, call: Callable[[], Awaitable[T]]) -> T:
        return await self._patience.kept(call, self._over)

    async def _tell(self, board: BoardAccess, events: Sequence[WireEvent]) -> None:
        if self._as_json:
            for event in events:
                board_ = {"board": board.name} if self._named else {}
                output.as_json({**board_, **event.model_dump(mode="json")})
        else:
            from .sentences import sentence

            texts = await _texts(board, events)
            named: list[output.Part] = [(f"{board.name}  ", output.ID)] if self._named else []
            for event in events:
                new = texts.get(f"{event.item}@{event.version}", "") if event.event in _NEW else ""
                output.line(*named, *sentence(event, new))
        sys.stdout.flush()


async def _texts(board: BoardAccess, events: Sequence[WireEvent]) -> dict[str, str]:
    """Returns the new texts of the events, by id and version such as `H-1@2`; unreadable ones are left out."""
    wanted = [f"{e.item}@{e.version}" for e in events if e.event in _NEW]
    found: dict[str, str] = {}
    for first in range(0, len(wanted), _TEXTS):
        with suppress(BlackboardError):  # the events are printed without their texts
            items = (await board.read(wanted[first : first + _TEXTS])).items
            found |= {f"{item.id}@{item.version}": item.text for item in items}
    return found


async def _leave(source: EventSource) -> None:
    """Closes the source, if the server answers in time."""
    with suppress(BlackboardError, TimeoutError):
        async with asyncio.timeout(_FAREWELL):
            await source.close()
