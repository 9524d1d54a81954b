"""Access: roles, the scopes of a credential, and the principal that carries both.

This module knows which actions each role and each scope allows: a decision is a look into two tables. It does not know
how a credential is proved, where members are kept, or which single items may be seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Literal

from blackboard_mcp.protocols.values import dataclass


class Role(StrEnum):
    """The role of an agent on a board."""

    OBSERVER = "observer"
    SUMMARISER = "summariser"
    CONTRIBUTOR = "contributor"
    DECIDER = "decider"
    STEWARD = "steward"
    ADMIN = "admin"


class Scope(StrEnum):
    """A permission of a credential, whatever role its holder has. Values are those of OAuth's `scope`."""

    READ = "board:read"
    POST = "board:post"
    ACKNOWLEDGE = "board:acknowledge"
    MODERATE = "board:moderate"
    ADMIN = "board:admin"


class Action(StrEnum):
    """A kind of call, by what it does to a board."""

    READ = "read"
    POST = "post"
    """To post, revise, retract and message, and everything that ends one's own items."""
    ACKNOWLEDGE = "acknowledge"
    """To acknowledge, vote and watch."""
    SUMMARISE = "summarise"
    DECIDE = "decide"
    MODERATE = "moderate"
    """To change the core, to prune, and to restore or waive on behalf of others."""
    ADMINISTER = "administer"
    """To change the board's settings and its members."""


_CONTRIBUTES: Final = frozenset({Action.READ, Action.POST, Action.ACKNOWLEDGE, Action.SUMMARISE})

POWERS: Final[Mapping[Role, frozenset[Action]]] = MappingProxyType(
    {
        Role.OBSERVER: frozenset({Action.READ}),
        Role.SUMMARISER: frozenset({Action.READ, Action.SUMMARISE}),
        Role.CONTRIBUTOR: _CONTRIBUTES,
        Role.DECIDER: _CONTRIBUTES | {Action.DECIDE},
        Role.STEWARD: _CONTRIBUTES | {Action.MODERATE},
        Role.ADMIN: frozenset(Action),
    }
)
"""The actions that each role allows."""

SCOPED: Final[Mapping[Scope, frozenset[Action]]] = MappingProxyType(
    {
        Scope.READ: frozenset({Action.READ}),
        Scope.POST: frozenset({Action.POST, Action.SUMMARISE}),
        Scope.ACKNOWLEDGE: frozenset({Action.ACKNOWLEDGE}),
        Scope.MODERATE: frozenset({Action.DECIDE, Action.MODERATE}),
        Scope.ADMIN: frozenset({Action.ADMINISTER}),
    }
)
"""The actions that each scope allows; every action belongs to exactly one scope."""

ALL_SCOPES: Final = frozenset(Scope)


class Trust(StrEnum):
    """The trust in what an agent posts."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"


EVERY_BOARD: Final = "*"
"""The key in `Principal.roles` for every board that has no key of its own; no board can have this id."""


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller, and what the credential it showed allows it to do.

    Attributes:
        agent: the name shown on its posts.
        owner: on whose behalf the agent works; agents of one owner are a team.
        roles: the role by board id, `*` for every other board; a board in neither is hidden.
        scopes: the scopes of the credential; they bound every role.
        via: how the identity was shown.
        credential: the token's public id, or the hash of an OAuth token; empty without one.
        expires_at: when the credential ends; `None` for never.
        trust: the trust in what the agent posts.
        named: roles that the launch configuration gives the agent by name, beside `roles`; none on a board that gives
            it a role itself.
    """

    agent: str
    owner: str
    roles: Mapping[str, Role]
    scopes: frozenset[Scope] = ALL_SCOPES
    via: Literal["launch", "header", "token", "oauth"] = "launch"
    credential: str = ""
    expires_at: datetime | None = None
    trust: Trust = Trust.NORMAL
    named: frozenset[Role] = frozenset()

    def role_on(self, board: str) -> Role | None:
        """Returns the credential's role on a board; `None` if the board is hidden from it."""
        return self.roles.get(board, self.roles.get(EVERY_BOARD))

    def may(self, action: Action, board: str, member: Role | None = None) -> bool:
        """Tells whether this principal may take the action on the board.

        `member` is the role that the board itself gave the agent. It replaces the credential's role, but opens no
        hidden board and does not exceed the scopes.
        """
        role = self.role_on(board)
        if role is None:
            return False
        return action in POWERS[member or role] and any(action in SCOPED[scope] for scope in self.scopes)
