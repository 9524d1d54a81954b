"""The principal on whose behalf the current call runs, kept in a context variable for those who judge its
changes.
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from dataclasses import replace
from typing import Final

from blackboard_mcp.protocols.access import Principal
from blackboard_mcp.protocols.grants import Grant

_ACTING: Final[ContextVar[Principal | None]] = ContextVar("blackboard_acting", default=None)


class acting:
    """Context manager: changes made inside it are judged as made by this principal."""

    __slots__ = ("_principal", "_token")

    def __init__(self, principal: Principal) -> None:
        self._principal = principal

    def __enter__(self) -> None:
        self._token: Token[Principal | None] = _ACTING.set(self._principal)

    def __exit__(self, *raised: object) -> None:
        _ACTING.reset(self._token)


def who_acts(agent: str) -> Principal:
    """Returns the principal of the current call.

    Where none is set, or it is another agent's, returns a principal with this agent's name and no roles.
    """
    principal = _ACTING.get()
    if principal is None or principal.agent != agent:
        return Principal(agent, agent, {})
    return principal


def as_member(principal: Principal, grant: Grant | None) -> Principal:
    """Returns the principal with the role that the board gave it, in place of the role in its credential.

    Returns the principal unchanged without a grant, or where the board gave no role.
    """
    if grant is None or grant.member is None:
        return principal
    return replace(principal, roles={**principal.roles, grant.board: grant.member})
