"""Consumer groups: several workers share the events that match a filter, each event to one worker at a time.

An event is handed out under a lease. Its worker acknowledges it, fails it, or loses it when the lease ends;
then it is handed out again, as the next attempt. After `max_attempts` it is a dead letter, which waits to
be retried or dropped. Only what everybody may see is ever handed out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import Any

from .errors import InvalidInput
from .events import Event
from .filters import EventFilter, parse_event_filter
from .values import dataclass

MAX_GROUPS = 50
"""Groups of one board."""
MAX_IN_FLIGHT = 1_000
"""Events of a group that are handed out, or wait to be again; more are handed out as these are acknowledged."""
MAX_DEAD = 1_000
"""Dead letters of a group; beyond them nothing is handed out until some are retried or dropped."""
MAX_TAKEN = 50
"""Events handed out by one call, and handles that one call may name."""
LEASE_SECONDS = 60.0
LEASES = (1.0, 3_600.0)
ATTEMPTS = 5
MOST_ATTEMPTS = 100
MAX_WHY = 500
MAX_COUNTED = 50
"""So far the events are counted that a turn leaves; beyond, it says that there are more."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_HANDLE = re.compile(r"([0-9]{1,15})\.([0-9]{1,6})\Z")


@dataclass(frozen=True, slots=True, order=True)
class Handle:
    """One handing-out of an event: its sequence, and which attempt it is, from 1. Written `214.1`."""

    seq: int
    attempt: int

    def __str__(self) -> str:
        return f"{self.seq}.{self.attempt}"


def parse_handle(text: str) -> Handle:
    """The handle that `214.1` names.

    Raises:
        InvalidInput: not a handle.
    """
    match = _HANDLE.match(text)
    if match is None or int(match[2]) == 0:
        raise InvalidInput(
            f"'{text[:40]}' is not a handle: they look like 214.1, as consume shows them before each event. "
            "Nothing was changed."
        )
    return Handle(int(match[1]), int(match[2]))


def check_group(name: str) -> str:
    """`name` itself when a group can be called so.

    Raises:
        InvalidInput: it cannot.
    """
    if not _NAME.match(name):
        raise InvalidInput(
            f"'{name[:40]}' is not a group's name: 1-64 letters, digits, '.', '_' or '-', beginning with a letter or "
            "digit. Nothing was changed."
        )
    return name


def group_filter(given: dict[str, Any], *, stored: bool = False) -> EventFilter:
    """The filter of a group, which is the same whoever asks.

    Raises:
        InvalidInput: as `parse_event_filter`; or it asks for what concerns one agent.
    """
    parsed = parse_event_filter(given, stored=stored)
    if parsed.personal:
        raise InvalidInput(
            "A group's filter cannot have mentions or agent 'me': its events go to any of several workers. Name the "
            "agents, or filter by key, tags, type or thread. Nothing was changed."
        )
    return parsed


@dataclass(frozen=True, slots=True)
class Group:
    """A consumer group. All that match up to `cursor` were handed out; those not acknowledged are still kept."""

    name: str
    filter: dict[str, Any]
    created_by: str
    created_at: datetime
    cursor: int
    max_attempts: int


@dataclass(frozen=True, slots=True)
class GroupState:
    """A group and what it has before it: `backlog` events were never handed out, or more where `more` says so."""

    group: Group
    backlog: int
    more: bool
    in_flight: int
    """Held by a worker now."""
    waiting: int
    """Failed or left, to be handed out again."""
    dead: int


@dataclass(frozen=True, slots=True)
class Turn:
    """What a worker asks for: first to settle what it holds, then to get at most `limit` events under a lease.

    `fail` says why of each that could not be done. `release` gives back what was not begun, and says why: that
    was no attempt, though its handle counts on. `extend` begins the lease of what is held anew. With `filter` the
    group is made if it is not there, unless the agent made `most` groups already.
    """

    ack: tuple[Handle, ...] = ()
    fail: Mapping[Handle, str] = field(default_factory=dict)
    release: Mapping[Handle, str] = field(default_factory=dict)
    extend: tuple[Handle, ...] = ()
    limit: int = 1
    lease_seconds: float = LEASE_SECONDS
    filter: dict[str, Any] | None = None
    most: int = MAX_GROUPS

    @property
    def settles(self) -> bool:
        return bool(self.ack or self.fail or self.release or self.extend)


@dataclass(frozen=True, slots=True)
class Delivery:
    """An event that a worker holds until an instant; `why` the last attempt failed, empty for a first one."""

    handle: Handle
    event: Event
    until: datetime
    why: str = ""


@dataclass(frozen=True, slots=True)
class Taken:
    """What one turn gave, by rising sequence; and the group after it.

    `backlog` events were never handed out, as far as that was cheap to count, and there may be more where `more` says
    so. `stalled` says why nothing more is handed out, empty where it is. `made_after` is the sequence after which the
    group begins, where this turn made it.
    """

    deliveries: tuple[Delivery, ...]
    seq: int
    in_flight: int
    waiting: int
    dead: int
    more: bool = False
    stalled: str = ""
    backlog: int = 0
    made_after: int | None = None


@dataclass(frozen=True, slots=True)
class Outlook:
    """Whether a turn would get something now (or bring the group on), and when a lease ends that may."""

    ready: bool
    next_due: datetime | None
    seq: int


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An event that was handed out as often as the group allows; the last worker, why it failed, and when."""

    handle: Handle
    event: Event
    worker: str
    why: str
    at: datetime
