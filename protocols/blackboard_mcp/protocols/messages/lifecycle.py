"""Lifecycle signals: which agents are present, busy or idle, and which have left."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from .base import AGENT, Body, Count, KeyShape, MessageProtocol, Name, States


class Phase(StrEnum):
    """The phase of an agent."""

    STARTED = "STARTED"
    IDLE = "IDLE"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"


PHASES = States(
    first=frozenset({"STARTED"}),
    moves={
        "STARTED": frozenset({"IDLE", "STOPPING", "STOPPED"}),
        "IDLE": frozenset({"STARTED", "STOPPING", "STOPPED"}),
        "STOPPING": frozenset({"STOPPED"}),
        "STOPPED": frozenset({"STARTED"}),
    },
)


class Signal(Body):
    """The phase of an agent, its skills, and the reason for the change."""

    phase: Phase
    skills: Annotated[tuple[Name, ...], Field(max_length=16)] = ()
    reason: str = Field(default="", max_length=500)


class Heartbeat(Body):
    """A sign of life; `beat` counts up, `busy_with` names what the agent works on."""

    beat: Count
    busy_with: Annotated[tuple[Name, ...], Field(max_length=16)] = ()


class Lifecycle(MessageProtocol):
    """Tell others that you are there, busy, idle, stopping or gone.

    Each agent writes its own two keys alone: the signal when its phase changes, the heartbeat every so
    often with a `ttl_seconds` of some beats. A heartbeat that expired under a signal that says STARTED is
    an agent that died.
    """

    name: ClassVar[str] = "lifecycle"
    states: ClassVar[States | None] = PHASES
    shapes: ClassVar[tuple[KeyShape, ...]] = (
        KeyShape("signal", (AGENT,), Signal, "the agent itself, when its phase changes"),
        KeyShape("heartbeat", (AGENT,), Heartbeat, "the agent itself, every so often, with ttl_seconds"),
    )

    def signal_key(self, agent: str) -> str:
        return self.key("signal", agent=agent)

    def heartbeat_key(self, agent: str) -> str:
        return self.key("heartbeat", agent=agent)
