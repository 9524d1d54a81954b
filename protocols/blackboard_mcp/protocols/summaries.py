"""Summaries: the kinds of summarisers, their tasks, and requests that an agent writes a summary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import Protocol

from .debates import DebateState
from .items import Item
from .values import dataclass

EXTRACTIVE, OPENAI, OLLAMA, AGENT = "extractive", "openai", "ollama", "agent"
SUMMARISERS = (EXTRACTIVE, OPENAI, OLLAMA, AGENT)
"""The kinds of summarisers: sentences chosen from the sources, two kinds of endpoint, or an agent of the board."""
ENDPOINTS = (OPENAI, OLLAMA)
AS_LAUNCHED = "default"
"""The value by which a board chooses the summariser that its server was launched with."""


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of the newest debate about an item.

    `outcome` is stands, falls, amended or open. `gave_way_to` is the id of the item that took its place, and
    `successor_by` that item's author. `state` is the debate's final state, `by` the agent whose act ended it, and
    `reason` the reason which that agent gave. `critiques` are the ids of the critiques in the debate.
    """

    outcome: str
    state: DebateState
    by: str
    reason: str = ""
    critiques: tuple[str, ...] = ()
    gave_way_to: str | None = None
    successor_by: str = ""


@dataclass(frozen=True, slots=True)
class SummaryTask:
    """A finished thread to be summarised: its name, its sources in order of posting, and the room for the summary.

    `limit_tokens` bounds the body; the server adds a line that lists the sources, which does not count.
    """

    board: str
    thread: str
    sources: tuple[Item, ...]
    limit_tokens: int
    endings: Mapping[int, Ending] = field(default_factory=dict)
    """The ends of debates about sources, by the number of the source."""


class Summariser(Protocol):
    """A program or model outside the server that writes bodies of summaries.

    It is called outside any transaction, and may be slow or wrong: its answer is checked against the sources before
    use.
    """

    @property
    def name(self) -> str:
        """One of `SUMMARISERS`."""
        ...

    async def write(self, task: SummaryTask) -> str:
        """Returns the body: lines that end with the ids they rest on, such as `[F-3, D-7]`.

        It has no time limit of its own; the caller may cancel it.

        Raises:
            SummaryFailed: there is no answer, or none that can be read.
        """
        ...

    async def close(self) -> None:
        """Closes connections that it holds open."""
        ...


@dataclass(frozen=True, slots=True)
class SummaryRequest:
    """A finished thread that an agent is asked to summarise.

    `thread` is its number, `name` its id. `seen` maps each source to the `seq` at which it was read; if a source
    changes, the request is void. `holder` holds the request until `held_until`, under the token `lease`. That is a
    sequence of the board, so a later holder's token is always higher; it is 0 until somebody takes the request. Once
    `due_at` has passed and nobody holds the request, the server writes the summary without a model.
    """

    board: str
    thread: int
    name: str
    seen: Mapping[int, int]
    sources: tuple[str, ...]
    tokens: int
    opened_at: datetime
    due_at: datetime
    holder: str | None = None
    held_until: datetime | None = None
    lease: int = 0


@dataclass(frozen=True, slots=True)
class DueSummary:
    """A summary request that nobody met in time, or that is void because its thread changed (`moved`)."""

    board: str
    thread: int
    members: tuple[int, ...]
    moved: bool
