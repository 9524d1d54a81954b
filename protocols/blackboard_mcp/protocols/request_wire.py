"""Structured results about requests between agents, and about protocols; see `wire`."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from .asking import AgentRequest
from .wire import OneOf, Wire, WireItem


class WireRequest(Wire):
    """A request from agent to agent."""

    id: str = Field(description="of its QUESTION")
    asker: str
    to: str | None = Field(description="the agent it is to, unless it is by skill")
    skill: str | None
    state: str = Field(description="OPEN, TAKEN, ANSWERED, DECLINED, CANCELLED or EXPIRED")
    opened_at: datetime
    deadline: datetime
    holder: str | None
    held_until: datetime | None
    lease: int = Field(description="of the last taking; 0: never taken")
    parts: int = Field(description="of the answer so far")
    partial: str | None = Field(description="id of what there is of the answer")
    answer: str | None = Field(description="id of the ANSWER")
    reason: str
    ended_by: str | None
    ended_at: datetime | None
    declined: list[str]
    offering: int = Field(description="others who offer the skill now; by name 1 if it was ever there")


def wire_request(request: AgentRequest) -> WireRequest:
    """Returns a request from agent to agent as structured results show it."""
    return WireRequest(
        id=request.id,
        asker=request.asker,
        to=request.to or None,
        skill=request.skill or None,
        state=str(request.state),
        opened_at=request.opened_at,
        deadline=request.deadline,
        holder=request.holder,
        held_until=request.held_until,
        lease=request.lease,
        parts=request.parts,
        partial=request.partial,
        answer=request.answer,
        reason=request.reason,
        ended_by=request.ended_by,
        ended_at=request.ended_at,
        declined=list(request.declined),
        offering=request.offering,
    )


class RequestAnswer(Wire):
    """How a request stands. `answer` is what there is of the answer, whole once the state says so."""

    request: WireRequest
    question: WireItem
    answer: WireItem | None
    seq: int


class WaitingAnswer(Wire):
    """What waits for the caller's answer, what it asked that is open, and skills by name with who offers them."""

    waiting: list[WireRequest]
    asked: list[WireRequest]
    skills: dict[str, list[str]]
    seq: int


class ProtocolsAnswer(Wire):
    """Protocols: name, version, purpose, keys (with writer, and for each field whether it is needed), states."""

    protocols: list[dict[str, Any]]
    seq: int


class RespondAnswer(OneOf[RequestAnswer | WaitingAnswer | ProtocolsAnswer]):
    """What `request` and `respond` answer: how a request stands, what waits, or which protocols there are."""
