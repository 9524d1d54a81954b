"""The member for whom the call under way acts, carried beside the call to those who judge its changes."""

from __future__ import annotations

from contextvars import ContextVar, Token
from dataclasses import replace
from typing import Final

from blackboard_mcp.protocols.access import Principal
from blackboard_mcp.protocols.grants import Grant

_ACTING: Final[ContextVar[Principal | None]] = ContextVar("blackboard_acting", default=None)


class acting:
    """What is changed within is changed by this principal."""

    __slots__ = ("_principal", "_token")

    def __init__(self, principal: Principal) -> None:
        self._principal = principal

    def __enter__(self) -> None:
        self._token: Token[Principal | None] = _ACTING.set(self._principal)

    def __exit__(self, *raised: object) -> None:
        _ACTING.reset(self._token)


def who_acts(agent: str) -> Principal:
    """The principal of the call under way; one without any role where nobody said whose call of the agent's it is."""
    principal = _ACTING.get()
    if principal is None or principal.agent != agent:
        return Principal(agent, agent, {})
    return principal


def as_member(principal: Principal, grant: Grant | None) -> Principal:
    """The principal with the role that the board itself gave it, in the place of the credential's."""
    if grant is None or grant.member is None:
        return principal
    return replace(principal, roles={**principal.roles, grant.board: grant.member})
