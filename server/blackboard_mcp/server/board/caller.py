"""Who calls a tool in the same process."""

from __future__ import annotations

from blackboard_mcp.protocols.values import dataclass


@dataclass(frozen=True, slots=True)
class By:
    """Who calls, on which board, and the idempotency key of the call."""

    agent: str
    board: str
    once: str | None = None
