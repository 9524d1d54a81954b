"""Consumer groups: several workers share the events that match a filter, each event to one worker at a time.

An event is handed out under a lease. Its worker acknowledges it, fails it, or loses it when the lease ends; then the
event is handed out again, as the next attempt. After `max_attempts` it is a dead letter, which waits to be retried or
dropped. Groups get only events that everybody may see.
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
"""Most groups of one board."""
MAX_IN_FLIGHT = 1_000
"""Most events of a group that workers hold or that wait for another attempt; no others are handed out meanwhile."""
MAX_DEAD = 1_000
"""Most dead letters of a group; at this number nothing is handed out until some are retried or dropped."""
MAX_TAKEN = 50
"""Most events that one call gets, and most handles that it may name."""
LEASE_SECONDS = 60.0
LEASES = (1.0, 3_600.0)
ATTEMPTS = 5
MOST_ATTEMPTS = 100
MAX_WHY = 500
MAX_COUNTED = 50
"""Most events that a turn counts as its backlog; if there are more, `more` is set."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_HANDLE = re.compile(r"([0-9]{1,15})\.([0-9]{1,6})\Z")


@dataclass(frozen=True, slots=True, order=True)
class Handle:
    """One delivery of an event: the event's sequence and the number of the attempt, from 1. Written `214.1`."""

    seq: int
    attempt: int

    def __str__(self) -> str:
        return f"{self.seq}.{self.attempt}"


def parse_handle(text: str) -> Handle:
    """Parses a handle such as `214.1`.

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
    """Returns `name` if it is a valid name of a group.

    Raises:
        InvalidInput: it is not.
    """
    if not _NAME.match(name):
        raise InvalidInput(
            f"'{name[:40]}' is not a group's name: 1-64 letters, digits, '.', '_' or '-', beginning with a letter or "
            "digit. Nothing was changed."
        )
    return name


def group_filter(given: dict[str, Any], *, stored: bool = False) -> EventFilter:
    """Parses the filter of a group, which must not depend on the agent that asks.

    Raises:
        InvalidInput: as `parse_event_filter`, or the filter asks for events that concern one agent.
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
    """A consumer group. Every match up to `cursor` was handed out; those not acknowledged are still kept."""

    name: str
    filter: dict[str, Any]
    created_by: str
    created_at: datetime
    cursor: int
    max_attempts: int


@dataclass(frozen=True, slots=True)
class GroupState:
    """A group and its outstanding work.

    `backlog` counts events never handed out; with `more` there are more than that.
    """

    group: Group
    backlog: int
    more: bool
    in_flight: int
    """The number of events that a worker holds now."""
    waiting: int
    """The number of events that failed or were left by a worker, and wait for another attempt."""
    dead: int


@dataclass(frozen=True, slots=True)
class Turn:
    """A worker's request: it first settles deliveries that it holds, then takes at most `limit` events under a lease.

    `fail` maps each delivery that could not be done to the reason. `release` maps each delivery that was not begun to
    the reason: it is given back without counting as an attempt, although the handle's number still grows. `extend`
    restarts the lease of deliveries. With `filter` the group is created if it does not exist, unless the agent has
    created `most` groups already.
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
        """Tells whether the turn settles any deliveries."""
        return bool(self.ack or self.fail or self.release or self.extend)


@dataclass(frozen=True, slots=True)
class Delivery:
    """An event that a worker holds `until` an instant.

    `why` is the reason why the last attempt failed; empty for a first attempt.
    """

    handle: Handle
    event: Event
    until: datetime
    why: str = ""


@dataclass(frozen=True, slots=True)
class Taken:
    """The events that one turn got, by rising sequence, and the state of the group after it.

    `backlog` counts events that were never handed out, up to `MAX_COUNTED`; with `more` there may be more. `stalled`
    says why nothing more is handed out; it is empty otherwise. `made_after` is the sequence after which the group
    begins, if this turn created it.
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
    """The prospects of a turn: `ready` if it would get events or move the group's cursor now.

    `next_due` is the instant at which the next lease ends, whose event may then be had; `None` if there is none.
    """

    ready: bool
    next_due: datetime | None
    seq: int


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An event that was handed out as often as the group allows, with its last worker, why it failed, and when."""

    handle: Handle
    event: Event
    worker: str
    why: str
    at: datetime
