"""Structured results about taking part and about runs; see `wire`."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from .participants import Participant


class _Wire(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class WireParticipant(_Wire):
    agent: str
    role: str
    skills: list[str]
    interests: list[dict[str, Any]]
    joined_at: datetime
    last_seen: datetime
    present: bool = Field(description="whether it made a call lately")
    left_at: datetime | None = None


class JoinAnswer(_Wire):
    """Who takes part."""

    you: WireParticipant | None = Field(description="null if you take no part")
    others: list[WireParticipant]
    waived: list[str] = Field(default=[], description="items and topics that leaving gave up")
    released: list[str] = Field(default=[], description="tasks that leaving gave back")
    seq: int


def wire_participant(participant: Participant) -> WireParticipant:
    """Returns a participant as structured results show it."""
    return WireParticipant(
        agent=participant.agent,
        role=participant.role,
        skills=list(participant.skills),
        interests=[dict(filter_) for filter_ in participant.interests],
        joined_at=participant.joined_at,
        last_seen=participant.last_seen,
        present=participant.present,
        left_at=participant.left_at,
    )
