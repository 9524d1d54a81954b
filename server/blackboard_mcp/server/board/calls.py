"""Calls to a board: tools by name, answered with wire models; the same in-process and over MCP."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol, TypeVar

from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.filters import EventFilter
from blackboard_mcp.protocols.wire import EventsAnswer
from pydantic import BaseModel

A = TypeVar("A", bound=BaseModel)
F = TypeVar("F")

_SHOWN: Final = 10**15
"""Whole numbers beyond this are not shown: Python turns none of some thousand digits into text."""


def listed(values: Iterable[Any] | None) -> list[Any] | None:
    """Returns the values as a list, or `None`. A text is no list of its letters, though it is a sequence of texts.

    Raises:
        InvalidInput: a single text was given, or what is no list.
    """
    if isinstance(values, str | bytes):
        raise InvalidInput(f"A list of texts is wanted, not the text {values[:40]!r}. Nothing was changed.")
    if values is not None and not isinstance(values, Iterable):
        raise _wrong("A list", values)
    return None if values is None else list(values)


def mapped(values: Mapping[Any, Any] | None) -> dict[Any, Any] | None:
    """Returns the map as a dict, or `None`.

    Raises:
        InvalidInput: it is no map.
    """
    if values is not None and not isinstance(values, Mapping):
        raise _wrong("A map", values)
    return None if values is None else dict(values)


def maps(values: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns the maps as dicts.

    Raises:
        InvalidInput: it is no list of maps.
    """
    given = listed(values)
    if given is None or None in given:
        raise _wrong("A list of maps", values)
    return [mapped(one) or {} for one in given]


def needed(value: str, name: str) -> str:
    """Returns the text of the argument `name`, without which a call would do something else.

    Raises:
        InvalidInput: it is no text.
    """
    if not isinstance(value, str):
        raise _wrong(f"A text as {name}", value)
    return value


def bounded(value: float, name: str, least: float, most: float) -> float:
    """Returns the number of the argument `name`, which is from `least` to `most`.

    Raises:
        InvalidInput: it is no number, or out of bounds.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise InvalidInput(f"{name} is {least:,g} to {most:,g}, not {_shown(value)}. Nothing was changed.")
    return value


def counted(value: int, name: str, least: int, most: int) -> int:
    """Returns the whole number of the argument `name`, which is from `least` to `most`.

    Raises:
        InvalidInput: it is no whole number, or out of bounds.
    """
    if isinstance(value, float):
        raise _wrong(f"A whole number as {name}", value)
    return int(bounded(value, name, least, most))


def callable_(value: F, name: str) -> F:
    """Returns the function of the argument `name`.

    Raises:
        InvalidInput: it cannot be called.
    """
    if not callable(value):
        raise InvalidInput(f"{name} is a function, not {_shown(value)}. Nothing was changed.")
    return value


def _shown(value: object) -> str:
    """Returns a number as it is, and the type of anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return type(value).__name__
    return (
        f"{value:,}"
        if -_SHOWN < value < _SHOWN or isinstance(value, float)
        else "a number of more than 15 digits"
    )


def _wrong(wanted: str, value: object) -> InvalidInput:
    return InvalidInput(f"{wanted} is wanted, not {type(value).__name__}. Nothing was changed.")


class EventSource(Protocol):
    """A source of events for a stream, read page by page. The stream keeps the place, not the source."""

    async def start(self, since: int | None) -> int:
        """Returns the sequence to begin after.

        A durable source returns its stored cursor; others return `since`, or the present end of the log
        without one.
        """
        ...

    async def fetch(self, after: int, limit: int, seconds: float | None = None) -> EventsAnswer:
        """Returns at most `limit` events after the sequence `after`, waiting until there are some.

        The list is empty if none came within `seconds`, or within the source's own time limit. A durable
        source also confirms `after`: earlier events are not delivered again after a crash.
        """
        ...

    async def confirm(self, place: int) -> None:
        """Tells a durable source that events up to the sequence `place` are done; other sources ignore it."""
        ...

    async def close(self) -> None:
        """Releases what the source holds; a durable subscription stays."""
        ...


class Calls(ABC):
    """One agent's access to one board, by calls of tools.

    `agent` is the agent's name and `name` the board's. `seq` is the board's highest sequence in any answer so
    far.
    """

    agent: str
    name: str
    seq: int = 0

    @abstractmethod
    async def _reach(
        self, tool: str, arguments: dict[str, Any], answer: type[A], *, once: str | None = None
    ) -> A:
        """Calls a tool and returns its answer. `once` is the idempotency key of a call that changes something."""

    @abstractmethod
    async def _figures(self, section: str) -> Mapping[str, Any]:
        """Returns the facts of a resource of the board, such as `stats`, as a map.

        The section `boards` gives the list of all boards.
        """

    @abstractmethod
    def _source(self, filter_: dict[str, Any], condition: EventFilter, name: str | None) -> EventSource:
        """Returns a source of the events that `filter_` describes; durable if it has a `name`.

        `condition` is the parsed `filter_`.
        """

    async def _call(
        self, tool: str, arguments: Mapping[str, Any], answer: type[A], *, once: str | None = None
    ) -> A:
        """Calls `_reach` without arguments that are `None`, and updates `seq` from the answer."""
        given = {name: value for name, value in arguments.items() if value is not None}
        told = await self._reach(tool, given, answer, once=once)
        seq = getattr(told, "seq", None)
        if isinstance(seq, int):
            self.seq = max(self.seq, seq)
        return told
