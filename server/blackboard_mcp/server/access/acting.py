"""Whom the call under way is for: told beside the call, for those who judge what it changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from blackboard_mcp.protocols.access import Principal

_ACTING: Final[ContextVar[Principal | None]] = ContextVar("blackboard_acting", default=None)


@contextmanager
def acting(principal: Principal) -> Iterator[None]:
    """What is changed within is changed by this principal."""
    token = _ACTING.set(principal)
    try:
        yield
    finally:
        _ACTING.reset(token)


def who_acts(agent: str) -> Principal:
    """The principal of the call under way; one without any role where nobody said whose call of the agent's it is."""
    principal = _ACTING.get()
    if principal is None or principal.agent != agent:
        return Principal(agent, agent, {})
    return principal
