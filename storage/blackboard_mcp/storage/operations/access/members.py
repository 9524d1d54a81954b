"""Members: the roles that a board itself gives agents, and the grants that writes are made under."""

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
"""Most members of one board."""


def under(write: Write, operation: Callable[[Write], Steps[T]]) -> Steps[T]:
    """The operation, in a transaction in which the grant that it is made under still holds.

    Raises:
        Forbidden: the role that the board gives the agent by now lacks what the call was let in for.
        StoreLow: there is no room on the disk.
    """
    if (grant := write.grant) is not None:
        kept_bytes.check_room()
        grant.check((yield from role_of(grant.board, grant.agent)))
    return (yield from operation(write))


def role_of(board: str, agent: str) -> Steps[Role | None]:
    """The role that the board gives the agent; `None` where it says nothing, or is not there."""
    rows = yield sql("member_role"), (board, agent)
    return Role(rows[0][0]) if rows else None


def listed(board: str) -> Steps[dict[str, Role]]:
    """The members of a board, by name."""
    return {name: Role(role) for name, role in (yield sql("members"), (board,))}


def change(ledger: Ledger, wanted: Mapping[str, Role | None], grant: Grant | None) -> Steps[int]:
    """Gives each agent its role, or takes it away with `None`; how many changed, each with its event.

    Under a grant, neither the role that an agent had nor the one it gets may go past what the changer may do,
    and nobody takes away their own right to administer: so a board that has an admin keeps one.

    Raises:
        Forbidden: a role goes past the changer's powers.
        Refused: the changer would lock themselves out, or there are too many members.
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
    for role in roles:
        if role is not None and not POWERS[role] <= powers:
            lacking = sorted(POWERS[role] - powers)
            raise Forbidden(
                f"You may not make or unmake {agent} {role} of '{board}': that role may {', '.join(lacking)}, and you "
                "may not. Nothing was changed.",
                action=lacking[0],
                board=board,
            )
