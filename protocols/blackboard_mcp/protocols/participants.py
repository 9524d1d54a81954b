"""Taking part: what agents say about themselves on a board, and whether they are there.

An agent takes part from its `join` until it leaves. It is present while it made a call lately (`presence_seconds`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from .answers import Once
from .values import dataclass

MAX_ROLE = 160
MAX_INTERESTS = 10
MAX_INTERESTS_LENGTH = 4_000
"""Most characters of one agent's interests as JSON."""
MAX_SPOKEN = 32
"""Most protocols that one agent speaks."""
PROTOCOL_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}\Z")
MAX_NOTE = 300
MAX_WAIVED = 500
"""Most duties that leaving waives; further ones end as those of any absent agent do."""
PRESENCE_SECONDS = 900
"""An agent counts as present for so long after a call, on boards that set no `presence_seconds`."""
MAX_PARTICIPANTS = 500
"""Most agents that take part on one board at a time."""


@dataclass(frozen=True, slots=True)
class Participant:
    """An agent that takes part: one line on its role in its own words, its skills, the filters of its interests, and
    the names of the protocols that it speaks.

    `left_at` is `None` while it takes part. `present` says whether it made a call within the board's
    `presence_seconds`.
    """

    agent: str
    role: str
    skills: tuple[str, ...]
    interests: tuple[Mapping[str, Any], ...]
    protocols: tuple[str, ...]
    joined_at: datetime
    last_seen: datetime
    present: bool
    left_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Joined:
    """A participant after its call. What leaving gave up: `waived` holds ids of items and watched topics, `released`
    ids of tasks.
    """

    participant: Participant
    others: tuple[Participant, ...]
    seq: int
    waived: tuple[str, ...] = ()
    released: tuple[str, ...] = ()


class ParticipantStore(Protocol):
    """A store of who takes part. The guarantees of `store` apply."""

    async def join(
        self,
        board: str,
        agent: str,
        *,
        role: str | None = None,
        skills: Sequence[str] | None = None,
        interests: Sequence[Mapping[str, Any]] | None = None,
        protocols: Sequence[str] | None = None,
        once: Once | None = None,
    ) -> Joined:
        """Makes the agent take part, or changes what it said; `None` leaves a field as it is.

        Reports `agent.joined` for a new participant, `agent.changed` for a change, and nothing if nothing changed.
        Skills are those that requests and tasks go by.

        Raises:
            InvalidInput: a value is not allowed.
            QuotaExceeded: `MAX_PARTICIPANTS` take part already.
            Refused: the board is closed, or too many skills are offered on it.
        """
        ...

    async def leave(self, board: str, agent: str, note: str = "", *, once: Once | None = None) -> Joined:
        """Ends the agent's part: its watches and duties are waived visibly, requests to it declined, its tasks and
        reservations released with the note, its skills offered no more; reports `agent.left`.

        Raises:
            Refused: it takes no part.
        """
        ...

    async def participants(self, board: str) -> tuple[Participant, ...]:
        """Returns who takes part, those present first, then by name."""
        ...
