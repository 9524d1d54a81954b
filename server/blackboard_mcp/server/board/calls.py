"""Calls to a board: tools by name, answered in wire models; the same in-process and over MCP."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from blackboard_mcp.protocols.filters import EventFilter
from blackboard_mcp.protocols.wire import EventsAnswer
from pydantic import BaseModel

A = TypeVar("A", bound=BaseModel)


class EventSource(Protocol):
    """Where a stream gets its events from, page by page. It keeps no place of its own."""

    async def start(self, since: int | None) -> int:
        """The place to begin at: `since`, else the durable cursor, else the present end of the log."""
        ...

    async def fetch(self, after: int, limit: int, seconds: float | None = None) -> EventsAnswer:
        """Events after a place as soon as there are any, at most `limit`; none after `seconds`, or a while.

        A durable source confirms `after`: what came before it is not delivered again after a crash.
        """
        ...

    async def confirm(self, place: int) -> None:
        """Tells a durable source that everything up to `place` is done; nothing happens otherwise."""
        ...

    async def close(self) -> None:
        """Gives back what the source holds; a durable subscription stays."""
        ...


class Calls(ABC):
    """One agent's way to one board.

    `agent` is the agent's name and `name` the board's. `seq` is the board's sequence as the last answer told it.
    """

    agent: str
    name: str
    seq: int = 0

    @abstractmethod
    async def _reach(
        self, tool: str, arguments: dict[str, Any], answer: type[A], *, once: str | None = None
    ) -> A:
        """What the tool answers. `once` is the idempotency key of a call that changes something."""

    @abstractmethod
    async def _figures(self, section: str) -> Mapping[str, Any]:
        """The facts of a resource of the board, say `stats` or `agents`; of `boards` those of all boards."""

    @abstractmethod
    def _source(self, filter_: dict[str, Any], condition: EventFilter, name: str | None) -> EventSource:
        """Events that `filter_` describes; durable under `name` when there is one."""

    async def _call(
        self, tool: str, arguments: Mapping[str, Any], answer: type[A], *, once: str | None = None
    ) -> A:
        """`_reach` without the arguments that are `None`."""
        given = {name: value for name, value in arguments.items() if value is not None}
        told = await self._reach(tool, given, answer, once=once)
        seq = getattr(told, "seq", None)
        if isinstance(seq, int):
            self.seq = max(self.seq, seq)
        return told
