"""What a call was let in for, told to the store beside the call, so that each of its writes is held against the
board once more inside its own transaction.

Knows one call's agent, board and needs, and what the agent may do by the role that the board gives it.
Refuses to know where roles are kept, and who lets anybody in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from dataclasses import field
from typing import Final

from .access import EVERY_BOARD, Action, Role
from .errors import Forbidden
from .values import dataclass


@dataclass(frozen=True, slots=True)
class Grant:
    """A call's leave to do `needs` on a board.

    Attributes:
        powers: what the agent may do there, by the role that the board itself gives it; `None` for no role.
        member: the role that the board gave it when the call was let in; not looked up for what every role may.
        deciders: whose word it needs for what it decides, while no role of the board's lets it decide.
        roles: those of the credential by board, as a principal has them.
    """

    agent: str
    board: str
    needs: frozenset[Action]
    powers: Mapping[Role | None, frozenset[Action]]
    member: Role | None = None
    deciders: tuple[str, ...] = ()
    roles: Mapping[str, Role] = field(default_factory=dict)

    @property
    def reads(self) -> bool:
        """Whether its holder may read the board at all; by some role, for every role reads that does anything."""
        return any(Action.READ in may for may in self.powers.values())

    def reaches(self, board: str) -> bool:
        """Whether its holder may know of another board."""
        return board in self.roles or EVERY_BOARD in self.roles

    def check(self, member: Role | None) -> None:
        """See that the needs still hold, by the role that the board gives the agent now.

        Raises:
            Forbidden: they do not.
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
"""The grant of the call under way; without one a write is the server's own, or that of a program in its process."""


@contextmanager
def under(grant: Grant | None) -> Iterator[None]:
    """What is written within is written under this grant."""
    token = GRANTED.set(grant)
    try:
        yield
    finally:
        GRANTED.reset(token)


def without() -> Context:
    """The present context without a grant: for work that a call only sets off, and that is the server's own."""
    context = copy_context()
    context.run(GRANTED.set, None)
    return context
