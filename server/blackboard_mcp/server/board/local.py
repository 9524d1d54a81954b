"""A board in the program's own process: the tools' use cases, without a server."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast
from weakref import WeakSet

from blackboard_mcp.protocols.clock import Clock
from blackboard_mcp.protocols.errors import InvalidInput, StoreClosed
from blackboard_mcp.protocols.filters import EventFilter, parse_event_filter
from blackboard_mcp.protocols.grants import under
from blackboard_mcp.protocols.importing import uncollected
from blackboard_mcp.protocols.late_models import rule_wire
from blackboard_mcp.protocols.wire import EventsAnswer, wire_event

from ..input.posts import check_agent, check_board
from .calls import A, needed
from .durable import DurableSource
from .surface import BoardAccess

if TYPE_CHECKING:
    from blackboard_mcp.protocols.rule_wire import IntakeAnswer

    from ..compose import Installation
    from ..usecases.intake import Intake
    from .calls import EventSource
    from .in_process import InProcess

_LONG = 3_600.0
"""The time in seconds that one wait for news lasts; the next one follows at once."""


class Board(BoardAccess):
    """One agent's board, in this process; `Board.open` creates it.

    Several may be open on one data folder, in one process or in several, and learn of each other's changes at
    once. Pruning, expiry and the archive's index run while it is open.
    """

    def __init__(self, agent: str, name: str, opening: _Opening) -> None:
        super().__init__()
        self.agent = check_agent(needed(agent, "agent"))
        self.name = check_board(needed(name, "name"))
        self._opening = opening
        self._others: WeakSet[Board] = WeakSet()
        self._stack: AsyncExitStack | None = None
        self._intake: tuple[Installation, Intake] | None = None

    @classmethod
    def open(
        cls,
        name: str = "main",
        *,
        agent: str,
        data: Path | None = None,
        settings: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
    ) -> Board:
        """Returns a board to be entered with `async with`, which creates it if it does not exist.

        `data` is the folder that a server gets as `--data`; without it everything is in memory and ends with
        the block. `settings` are a server's settings by name, such as `{"target_tokens": 12000}`; environment
        and files are ignored. With `store` among them boards are on PostgreSQL, and `data` holds the archive's index.

        Raises:
            InvalidInput: a name or a setting is not valid.
            StoreDamaged, StoreTooNew: on entering, if the file cannot be used.
        """
        return cls(agent, name, _Opening(name, data, dict(settings or {}), clock))

    @classmethod
    def within(cls, opened: Installation, *, agent: str, name: str) -> Board:
        """Returns a board of an installation that the caller opened and will close."""
        return cls(agent, name, _Given(opened))

    def as_agent(self, agent: str, *, name: str | None = None) -> Board:
        """Returns the board for another agent, or another board of the same installation, until this one is closed.

        A board that does not exist is created by the first post.

        Raises:
            InvalidInput: the name is not valid.
        """
        other = Board(agent, name or self.name, self._opening)
        self._others.add(other)
        return other

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await self._opening.enter(stack)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes streams, queues and hooks, the boards from `as_agent`, and what `open` opened."""
        try:
            await asyncio.gather(self._leave(), *(other.aclose() for other in list(self._others)))
        finally:
            if self._stack is not None:
                stack, self._stack = self._stack, None
                await stack.aclose()

    async def _reach(
        self, tool: str, arguments: dict[str, Any], answer: type[A], *, once: str | None = None
    ) -> A:
        told = await self._opening.tools.call(tool, self.agent, {**arguments, "board": self.name}, once)
        return cast(A, told)

    async def _hand_over(self, document: str) -> IntakeAnswer:
        from ..input.intake import lines_of
        from ..input.secrets import Secrets
        from ..usecases.intake import NEEDS, Intake
        from .in_process import of_this_process

        opened = self._opening.opened
        settings, blackboard = opened.settings, opened.blackboard
        if self._intake is None or self._intake[0] is not opened:
            secrets = Secrets(settings.secrets, settings.secret_patterns)
            self._intake = opened, Intake(blackboard, secrets, opened.reader)
        grant = await blackboard.rights.enter(of_this_process(self.agent), NEEDS, self.name)
        with under(grant):
            done = await self._intake[1].hand_over(self.agent, self.name, lines_of(document))
        return rule_wire.IntakeAnswer.model_validate(done.facts)

    async def _figures(self, section: str) -> Mapping[str, Any]:
        from ..answers.statistics import agents, boards, panel, statistics

        blackboard = self._opening.opened.blackboard
        if section == "boards":
            from .in_process import of_this_process

            principal, rights = of_this_process(self.agent), blackboard.rights
            return boards(await rights.readable(principal), rights.default_board(principal))
        name = await blackboard.board_of(self.name, self.agent)
        if section == "agents":
            return agents(await blackboard.store.agents(name))
        if section == "panels":
            return {"panels": [panel(state) for state in await blackboard.store.panels(name, self.agent)]}
        gauge = self._opening.opened.gauge
        growth = None if gauge is None else gauge.latest()
        return statistics(await blackboard.store.statistics(name, self.agent), growth).model_dump()

    def _source(self, filter_: dict[str, Any], condition: EventFilter, name: str | None) -> EventSource:
        return DurableSource(self, filter_, name) if name is not None else _Log(self, filter_)


class _Opening:
    """Opens an installation for a board and holds it while it is open; boards of other agents on it share it."""

    def __init__(self, name: str, data: Path | None, settings: dict[str, Any], clock: Clock | None) -> None:
        self._name = name
        self._data = data
        self._settings = settings
        self._clock = clock
        self._opened: tuple[Installation, InProcess] | None = None
        self._entered = False

    async def enter(self, stack: AsyncExitStack) -> None:
        """Opens the installation; it is closed with `stack`.

        Raises:
            StoreClosed: it is open already.
            InvalidInput: a setting is unknown or has a wrong value.
        """
        with uncollected():
            from ..compose import installation
            from ..settings.server import NAMES, load
            from .in_process import InProcess

        if self._entered:
            raise StoreClosed("This board is open already; as_agent() gives another agent's.")
        self._entered = True
        stack.callback(self._left)
        unknown = [name for name in self._settings if name not in NAMES]
        if unknown:
            raise InvalidInput(f"Unknown setting {unknown[0]!r}; there are: {', '.join(NAMES)}.")
        for name in ("data", "board", "agent"):
            if name in self._settings:
                raise InvalidInput(
                    f"{name} is an argument of Board.open, not one of its settings. Nothing was opened."
                )
        if self._data is None and self._settings.get("store"):
            raise InvalidInput(
                "The setting store needs data=, the folder of the archive's index; without it a board is in memory. "
                "Nothing was opened."
            )
        given = {**self._settings, "board": self._name, "data": self._data}
        settings = load(given, {})
        opened = await stack.enter_async_context(
            installation(settings, eager_index=False, clock=self._clock, memory=self._data is None)
        )
        self._opened = opened, InProcess(opened)
        stack.callback(self._close)

    def _close(self) -> None:
        self._opened = None

    def _left(self) -> None:
        self._entered = False

    @property
    def opened(self) -> Installation:
        """The open installation. Raises `StoreClosed` while it is not open."""
        if self._opened is None:
            raise StoreClosed("The board is not open: use it within `async with Board.open(…)`.")
        return self._opened[0]

    @property
    def tools(self) -> InProcess:
        """The tools of the open installation. Raises `StoreClosed` while it is not open."""
        self.opened  # noqa: B018
        assert self._opened is not None
        return self._opened[1]


class _Given(_Opening):
    """An installation that somebody else opened, and that stays open when the board is closed."""

    def __init__(self, opened: Installation) -> None:
        from .in_process import InProcess

        self._opened = opened, InProcess(opened)

    async def enter(self, stack: AsyncExitStack) -> None:
        """Does nothing: the installation is open already."""


class _Log:
    """The board's log through a filter, as a source of events."""

    def __init__(self, board: Board, filter_: dict[str, Any]) -> None:
        self._board = board
        self._filter = filter_
        self._condition = EventFilter()

    async def start(self, since: int | None) -> int:
        """Checks the filter and the place, and returns the sequence to begin after.

        Raises:
            CursorExpired: `since` is no place of the log.
        """
        from ..usecases.following import with_threads

        board, store = self._board, self._board._opening.opened.store
        if since is None:
            await board.subscriptions()  # updates `board.seq`, and marks no news as seen
        else:
            await board.wait(since=since, seconds=0, limit=1)
        self._condition = parse_event_filter(await with_threads(store, board.name, board.agent, self._filter))
        return board.seq if since is None else since

    async def fetch(self, after: int, limit: int, seconds: float | None = None) -> EventsAnswer:
        """Returns at most `limit` matching events after the sequence `after`; waits up to `seconds` for one."""
        board = self._board
        news = await board._opening.opened.blackboard.following.watch(
            board.agent,
            board.name,
            self._condition,
            after,
            seconds=_LONG if seconds is None else seconds,
            limit=limit,
        )
        return EventsAnswer(
            events=[wire_event(event) for event in news.events], cursor=news.cursor, seq=news.seq
        )

    async def confirm(self, place: int) -> None:
        """Does nothing: no later stream continues from the place."""

    async def close(self) -> None:
        """Does nothing: the source holds nothing."""
