"""Members: the roles that a board itself gives agents, and the grants under which writes are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from blackboard_mcp.protocols.access import POWERS, Action, Role
from blackboard_mcp.protocols.changes import ChangeKind
from blackboard_mcp.protocols.errors import Forbidden, Refused
from blackboard_mcp.protocols.events import EventType
from blackboard_mcp.protocols.grants import Grant

from ...operation import Write
from ..ledger import kept_bytes
from ..ledger.ledger import Ledger
from ..ledger.rows import Steps, T, sql

MAX_MEMBERS = 1_000
"""The most members of one board."""


def under(write: Write, operation: Callable[[Write], Steps[T]]) -> Steps[T]:
    """Runs the operation, after checking in the same transaction that the caller's grant still holds.

    Raises:
        Forbidden: the agent's present role on the board no longer allows the call.
        StoreLow: the disk has no room left.
        Exception: whatever the operation raises.
    """
    if (grant := write.grant) is not None:
        kept_bytes.check_room()
        grant.check((yield from role_of(grant.board, grant.agent)))
    return (yield from operation(write))


def role_of(board: str, agent: str) -> Steps[Role | None]:
    """Returns the role that the board itself gives the agent; `None` if it gives none, or does not exist."""
    rows = yield sql("member_role"), (board, agent)
    return Role(rows[0][0]) if rows else None


def listed(board: str) -> Steps[dict[str, Role]]:
    """Returns a map from each member of the board to its role."""
    return {name: Role(role) for name, role in (yield sql("members"), (board,))}


def change(ledger: Ledger, wanted: Mapping[str, Role | None], grant: Grant | None) -> Steps[int]:
    """Gives each agent its role, or takes it away for `None`; returns how many changed. Each change has an event.

    Under a grant, neither the agent's old role nor its new one may allow more than the changer may do. Nobody may
    take away their own right to administer, so that a board with an admin keeps one.

    Raises:
        Forbidden: a role allows more than the changer may do.
        Refused: the changer would lose its own right to administer, or there are too many members.
    """
    board, changed = ledger.board.id, 0
    powers = None
    if grant is not None:
        powers = grant.powers[(yield from role_of(board, ledger.agent))]
    for agent, role in wanted.items():
        was = yield from role_of(board, agent)
        if role is was:
            continue
        if powers is not None and grant is not None:
            _check_powers(board, agent, (was, role), powers)
            if agent == ledger.agent and Action.ADMINISTER not in grant.powers[role]:
                raise Refused(
                    f"You would no longer administer '{board}': another admin has to take that from you. Nothing was "
                    "changed.",
                )
        ledger.note(ChangeKind.MEMBERS, name=agent)
        if role is None:
            yield sql("member_drop"), (ledger.no, agent)
        else:
            yield sql("member_set"), (ledger.no, agent, str(role))
        data = {"member": agent, "role": role and str(role), "was": was and str(was)}
        yield from ledger.emit(EventType.MEMBER_CHANGED, data=data, concerns=[agent])
        changed += 1
    if changed and (yield sql("members_count"), (ledger.no,))[0][0] > MAX_MEMBERS:
        raise Refused(
            f"A board has at most {MAX_MEMBERS:,} members. Nothing was changed; take roles away first."
        )
    return changed


def _check_powers(
    board: str, agent: str, roles: tuple[Role | None, Role | None], powers: frozenset[Action]
) -> None:
    """Checks that none of the roles allows more than `powers`.

    Raises:
        Forbidden: one does.
    """
    for role in roles:
        if role is not None and not POWERS[role] <= powers:
            lacking = sorted(POWERS[role] - powers)
            raise Forbidden(
                f"You may not make or unmake {agent} {role} of '{board}': that role may {', '.join(lacking)}, and you "
                "may not. Nothing was changed.",
                action=lacking[0],
                board=board,
            )
