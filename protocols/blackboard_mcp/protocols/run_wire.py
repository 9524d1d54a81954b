"""Structured results about taking part and about runs; see `wire`."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from .participants import Participant
from .runs import RunState, TurnKind


class _Wire(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class WireParticipant(_Wire):
    agent: str
    role: str
    skills: list[str]
    interests: list[dict[str, Any]]
    protocols: list[str] = []
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


class WireTurn(_Wire):
    """A contribution, or a turn that somebody has now."""

    agent: str
    kind: TurnKind
    round: int
    lease: int
    item: str | None
    text: str = Field(default="", description="its beginning, if you may read it")


class TurnAnswer(_Wire):
    """A run, and what you are to do in it; `run` is null if the board has none."""

    run: str | None
    state: RunState | None
    yours: bool = Field(description="whether you have a turn now")
    kind: TurnKind | None = Field(description="what your turn is: contribute, decide or answer")
    round: int
    max_rounds: int
    lease: int | None
    until: datetime | None
    instruction: str
    waits_for: list[str] = Field(description="agents that have a turn now")
    claims: list[str] = Field(description="tasks that you hold")
    owed: list[str] = Field(description="what you owe, as `answer C-3`")
    rules: list[str] = []
    rules_revision: int | None = Field(
        default=None, description="revision of the rules, if this call shows them"
    )
    answer: str | None = Field(description="id of the ANSWER of a finished run")
    problem: str | None = Field(default=None, description="id of the PROBLEM")
    said: list[WireTurn] = Field(default=[], description="contributions since your last turn")
    agents: list[str] = Field(default=[], description="who may have a turn")
    posted: list[str] = Field(default=[], description="ids of what this call posted")
    alone: list[str] = Field(default=[], description="lines of a sealed round that only one agent had")
    verdict: str | None = Field(default=None, description="what became of a decision")
    reason: str = ""
    seq: int


class FinalAnswer(_Wire):
    """The answer of a run, or what it would be now."""

    run: str
    state: RunState
    posted: bool = Field(description="whether the run is finished with it")
    answer: str | None = Field(description="id of the ANSWER")
    text: str
    cites: list[str]
    source: str = Field(description="decider, answer, contribution or empty")
    unresolved: list[str] = Field(description="open critiques of what it rests on")
    dissent: list[str] = Field(description="what else stands against that")
    seq: int


def wire_participant(participant: Participant) -> WireParticipant:
    """Returns a participant as structured results show it."""
    return WireParticipant(
        agent=participant.agent,
        role=participant.role,
        skills=list(participant.skills),
        interests=[dict(filter_) for filter_ in participant.interests],
        protocols=list(participant.protocols),
        joined_at=participant.joined_at,
        last_seen=participant.last_seen,
        present=participant.present,
        left_at=participant.left_at,
    )
