"""Structured results about consumer groups; see `wire`."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from .groups import DeadLetter, Delivery, Group, GroupState
from .wire import OneOf, WireEvent, wire_event


class _Wire(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class WireDelivery(_Wire):
    handle: str = Field(
        description="what ack, fail and extend take: the event's sequence, and which attempt this is"
    )
    event: WireEvent
    until: datetime = Field(description="until then it is yours")
    why: str = Field(description="why the last attempt failed; empty for a first one")


class WireDeadLetter(_Wire):
    handle: str = Field(description="what retry and drop take")
    event: WireEvent
    worker: str = Field(description="who had it last")
    why: str
    at: datetime


class WireGroup(_Wire):
    group: str
    filter: dict[str, Any]
    created_by: str
    max_attempts: int
    cursor: int = Field(description="all that matches up to here was handed out")
    backlog: int = Field(description="events never handed out, as far as they were counted")
    more: bool = Field(description="whether the backlog is longer than counted")
    in_flight: int = Field(description="held by a worker now")
    waiting: int = Field(description="failed or left, to be handed out again")
    dead: int


class WorkAnswer(_Wire):
    group: str
    deliveries: list[WireDelivery]
    in_flight: int
    waiting: int
    dead: int
    backlog: int = Field(default=0, description="events never handed out, as far as they were counted")
    more: bool = Field(default=False, description="whether there may be more of them")
    stalled: str = Field(description="why nothing more is handed out; empty where it is")
    made_after: int | None = Field(
        default=None, description="the sequence after which the group begins, where this call made it"
    )
    seq: int


class GroupsAnswer(_Wire):
    groups: list[WireGroup]
    seq: int


class DeadLettersAnswer(_Wire):
    group: str
    dead: list[WireDeadLetter]
    seq: int


class GroupDoneAnswer(_Wire):
    group: str
    done: str = Field(description="end, set, retry or drop")
    handles: list[str] = []
    seq: int


class ConsumeAnswer(OneOf[WorkAnswer | GroupsAnswer | DeadLettersAnswer | GroupDoneAnswer]):
    """What `consume` answers: what it handed out, the groups, the dead letters, or what was done."""


def wire_delivery(delivery: Delivery) -> WireDelivery:
    """Returns a delivery as structured results show it."""
    return WireDelivery(
        handle=str(delivery.handle),
        event=wire_event(delivery.event),
        until=delivery.until,
        why=delivery.why,
    )


def wire_dead(letter: DeadLetter) -> WireDeadLetter:
    """Returns a dead letter as structured results show it."""
    return WireDeadLetter(
        handle=str(letter.handle),
        event=wire_event(letter.event),
        worker=letter.worker,
        why=letter.why,
        at=letter.at,
    )


def wire_group(state: GroupState) -> WireGroup:
    """Returns a group as structured results show it."""
    group: Group = state.group
    return WireGroup(
        group=group.name,
        filter=group.filter,
        created_by=group.created_by,
        max_attempts=group.max_attempts,
        cursor=group.cursor,
        backlog=state.backlog,
        more=state.more,
        in_flight=state.in_flight,
        waiting=state.waiting,
        dead=state.dead,
    )
