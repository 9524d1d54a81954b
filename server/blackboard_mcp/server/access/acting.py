"""The principal on whose behalf the current call runs, kept in a context variable for those who judge its
changes.
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import Final

from blackboard_mcp.protocols.access import POWERS, Action, Principal, Role
from blackboard_mcp.protocols.grants import Grant
from blackboard_mcp.protocols.values import changed

_ACTING: Final[ContextVar[Principal | None]] = ContextVar("blackboard_acting", default=None)
_UNPROVEN: Final = ("launch", "header")
_LOWER: Final = (Role.ADMIN, Role.STEWARD, Role.DECIDER, Role.CONTRIBUTOR)


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
    """Returns the principal with the role that it has on the board of the grant.

    It is the role that the board gave it, or else that of its credential. An admin without a credential, of whose
    powers the launch configuration leaves it a part, has the highest role whose powers it has. Returns the principal
    unchanged without a grant.
    """
    if grant is None:
        return principal
    role = grant.member
    if role is None and principal.role_on(grant.board) is Role.ADMIN and principal.via in _UNPROVEN:
        may = grant.powers[None] - ({Action.DECIDE} if grant.deciders else set())
        role = next((role for role in _LOWER if POWERS[role] <= may), None)
    roles = principal.roles if role is None else {**principal.roles, grant.board: role}
    return changed(principal, roles=roles, named=grant.named)
