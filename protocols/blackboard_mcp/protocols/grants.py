"""The grant under which a call writes; the store checks it again inside each transaction of the call.

This module knows one call's agent, board and needs, and what the agent may do in each role. It does not know where
roles are kept, or who admits callers.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import Context, ContextVar, Token, copy_context
from dataclasses import field
from typing import Final

from .access import EVERY_BOARD, Action, Role
from .errors import Forbidden
from .values import dataclass


@dataclass(frozen=True, slots=True)
class Grant:
    """A call's permission to do `needs` on a board.

    Attributes:
        powers: the agent's allowed actions by the role that the board itself gives it; `None` is for no role.
        member: the role that the board gave it when the call was admitted; not looked up for what every role may do.
        deciders: agents one of which must confirm its decisions, while the board gives it no role that decides.
        roles: the roles of the credential by board, as a principal has them.
        stewards_known: tells whether a credential or the launch configuration says who moderates; else everybody may.
        named: roles that the launch configuration gives the agent by name.
    """

    agent: str
    board: str
    needs: frozenset[Action]
    powers: Mapping[Role | None, frozenset[Action]]
    member: Role | None = None
    deciders: tuple[str, ...] = ()
    roles: Mapping[str, Role] = field(default_factory=dict)
    stewards_known: bool = False
    named: frozenset[Role] = frozenset()

    @property
    def reads(self) -> bool:
        """Tells whether its holder may read the board in some role; every role that allows anything allows reading."""
        return any(Action.READ in may for may in self.powers.values())

    def reaches(self, board: str) -> bool:
        """Tells whether its holder may know of another board."""
        return board in self.roles or EVERY_BOARD in self.roles

    def check(self, member: Role | None) -> None:
        """Checks that `member`, the agent's present role on the board, still allows what the call needs.

        Raises:
            Forbidden: it does not.
        """
        lacking = sorted(self.needs - self.powers[member])
        if lacking:
            named = "your role" if member is None else f"the role {member}"
            raise Forbidden(
                f"While this call was made, {named} on '{self.board}' stopped allowing: {', '.join(lacking)}. Nothing "
                "was changed; ask an admin of the board.",
                action=lacking[0],
                board=self.board,
                role=None if member is None else str(member),
            )


GRANTED: Final[ContextVar[Grant | None]] = ContextVar("blackboard_granted", default=None)
"""The grant of the present call; without one, writes come from the server itself or from a program in its process."""


class under:
    """Context manager: all writes inside it use this grant."""

    __slots__ = ("_grant", "_token")

    def __init__(self, grant: Grant | None) -> None:
        self._grant = grant

    def __enter__(self) -> None:
        self._token: Token[Grant | None] = GRANTED.set(self._grant)

    def __exit__(self, *raised: object) -> None:
        GRANTED.reset(self._token)


def without() -> Context:
    """Returns a copy of the present context without a grant, for work of the server's own that a call only starts."""
    context = copy_context()
    context.run(GRANTED.set, None)
    return context
