"""Summaries: who may write one, what a writer is told, and a request that an agent writes one."""

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
"""Who can write: nobody (sentences of the sources are chosen), two kinds of endpoint, an agent of the board."""
ENDPOINTS = (OPENAI, OLLAMA)
AS_LAUNCHED = "default"
"""A board's word for the summariser that its server was launched with."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How the newest debate about an item ended.

    `outcome` is what became of the claim: stands, falls, amended or open; `gave_way_to`, which `successor_by` wrote,
    took its place. `state` is the debate's final state, `by` the agent whose act ended it, `reason` what that agent
    gave as one, `critiques` the ids of the critiques it was about.
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
    """A finished thread to be summarised: its name, its sources in order of posting, and the room there is.

    `limit_tokens` bounds the body; the line that lists the sources is the server's and comes on top.
    """

    board: str
    thread: str
    sources: tuple[Item, ...]
    limit_tokens: int
    endings: Mapping[int, Ending] = field(default_factory=dict)
    """How debates about sources ended, by the number of the source."""


class Summariser(Protocol):
    """Something outside that writes bodies of summaries. Called outside any transaction; may be slow or wrong.

    What it answers is held against the sources before anything is made of it.
    """

    @property
    def name(self) -> str:
        """One of `SUMMARISERS`."""
        ...

    async def write(self, task: SummaryTask) -> str:
        """The body: lines that end with the ids they rest on, as `[F-3, D-7]`.

        Raises:
            SummaryFailed: there is no answer, or none that can be read. It may take as long as it was
                given, and it may be cancelled.
        """
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class SummaryRequest:
    """A finished thread that an agent is asked to summarise.

    `thread` is its number, `name` its id. `seen` is the `seq` each source was read at: when one of them
    moves, the request is void. `holder` has it until `held_until` under the token `lease`, a sequence of
    the board, so that a later holder's is always higher; 0 while nobody took it. Nobody's after
    `due_at`: then the server writes the summary without a model.
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
    """A request that nobody met in time, or that is void because its thread `moved`."""

    board: str
    thread: int
    members: tuple[int, ...]
    moved: bool
