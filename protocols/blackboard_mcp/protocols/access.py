"""Access: roles, the scopes of a credential, and the principal that carries both.

Knows what each role and each scope opens, nothing else: a decision here is a look into two tables.
Refuses to know how a credential is proved, where members are kept, and which single items may be seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Literal

from blackboard_mcp.protocols.values import dataclass


class Role(StrEnum):
    """What an agent is to a board."""

    OBSERVER = "observer"
    SUMMARISER = "summariser"
    CONTRIBUTOR = "contributor"
    DECIDER = "decider"
    STEWARD = "steward"
    ADMIN = "admin"


class Scope(StrEnum):
    """What a credential was issued for, whatever role its holder has; the values are those of OAuth's `scope`."""

    READ = "board:read"
    POST = "board:post"
    ACKNOWLEDGE = "board:acknowledge"
    MODERATE = "board:moderate"
    ADMIN = "board:admin"


class Action(StrEnum):
    """What a call does to a board."""

    READ = "read"
    POST = "post"
    """Post, revise, retract and message, and everything that ends one's own items."""
    ACKNOWLEDGE = "acknowledge"
    """Acknowledge, vote and watch."""
    SUMMARISE = "summarise"
    DECIDE = "decide"
    MODERATE = "moderate"
    """The core, pruning, and what restores or waives on behalf of others."""
    ADMINISTER = "administer"
    """The board's settings and its members."""


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
"""What each role may do."""

SCOPED: Final[Mapping[Scope, frozenset[Action]]] = MappingProxyType(
    {
        Scope.READ: frozenset({Action.READ}),
        Scope.POST: frozenset({Action.POST, Action.SUMMARISE}),
        Scope.ACKNOWLEDGE: frozenset({Action.ACKNOWLEDGE}),
        Scope.MODERATE: frozenset({Action.DECIDE, Action.MODERATE}),
        Scope.ADMIN: frozenset({Action.ADMINISTER}),
    }
)
"""What each scope opens; every action stands under exactly one."""

ALL_SCOPES: Final = frozenset(Scope)


class Trust(StrEnum):
    """How far what an agent posts is to be relied on."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"


EVERY_BOARD: Final = "*"
"""In `Principal.roles`: every board that is not named there itself; no board can have this id."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who is calling, and what the credential shown lets them do.

    Attributes:
        agent: the name that stands on what they post.
        owner: on whose behalf the agent works; agents of one owner are a team.
        roles: the role by board id, `*` for every other board; a board in neither is hidden.
        scopes: what the credential was issued for; they bound every role.
        via: how the identity was shown.
        credential: the token's public id, or the hash of an OAuth token; empty without one.
        expires_at: when the credential ends; `None` for never.
        trust: how far what the agent posts is to be relied on.
    """

    agent: str
    owner: str
    roles: Mapping[str, Role]
    scopes: frozenset[Scope] = ALL_SCOPES
    via: Literal["launch", "header", "token", "oauth"] = "launch"
    credential: str = ""
    expires_at: datetime | None = None
    trust: Trust = Trust.NORMAL

    def role_on(self, board: str) -> Role | None:
        """The credential's role on a board; `None` where the board is hidden from it."""
        return self.roles.get(board, self.roles.get(EVERY_BOARD))

    def may(self, action: Action, board: str, member: Role | None = None) -> bool:
        """Whether the action is open to this principal on the board.

        `member` is the role that the board itself gave the agent: it stands in the place of the
        credential's, and neither reaches a hidden board nor goes past the scopes.
        """
        role = self.role_on(board)
        if role is None:
            return False
        return action in POWERS[member or role] and any(action in SCOPED[scope] for scope in self.scopes)
