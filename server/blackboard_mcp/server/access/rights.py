"""Rights on a board: the one place where role, scope, action and member meet.

Every entry (tools, resources, prompts, completions, subscriptions, event streams, programs in the process) asks
here before the use case runs. What single items an agent may see is the store's to say.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from blackboard_mcp.protocols.access import POWERS, SCOPED, Action, Principal, Role, Scope
from blackboard_mcp.protocols.board import Board
from blackboard_mcp.protocols.errors import Forbidden, Refused, UnknownReference
from blackboard_mcp.protocols.grants import Grant
from blackboard_mcp.protocols.names import is_reserved, reserved
from blackboard_mcp.protocols.store import BoardStore

from ..input.posts import check_board
from .needs import READS

_REMEMBERED_SECONDS: Final = 1.0
_REMEMBERED: Final = 10_000
_LISTED: Final = 5
"""Boards named in one."""
_MOST: Final = 1_000
"""Boards that one list has."""
_NAMED: Final = 5
"""Agents named in a refusal."""
_STEWARDS: Final = frozenset({Action.MODERATE, Action.ADMINISTER})
_DECIDERS: Final = frozenset({Action.DECIDE})
_PROVEN: Final = ("token", "oauth")
_TO: Final[Mapping[Action, str]] = MappingProxyType(
    {
        Action.READ: "read it",
        Action.POST: "post there",
        Action.ACKNOWLEDGE: "acknowledge, vote or watch there",
        Action.SUMMARISE: "summarise there",
        Action.DECIDE: "decide debates there",
        Action.MODERATE: "change its core, title or lifecycle, or prune it",
        Action.ADMINISTER: "change its settings or members",
    }
)


Introduce = Callable[[Principal], Awaitable[None]]


@lru_cache(maxsize=4_096)
def _powers(
    own: Role, scopes: frozenset[Scope], proven: bool, steward: bool | None, decider: bool | None
) -> Mapping[Role | None, frozenset[Action]]:
    """What a credential lets its holder do, by the role that the board itself gives them.

    `steward` and `decider` say whether the launch names the agent; `None` where it names nobody. A name gives the
    right. A list of stewards without the name takes it only from who shows no proof of who they are: such callers are
    otherwise admins. What they decide where deciders are named needs the word of one of those. An admin by a proven
    credential administers whatever a board says of them.
    """
    bound = frozenset[Action]().union(*(SCOPED[scope] for scope in scopes))
    powers: dict[Role | None, frozenset[Action]] = {}
    for member in (None, *Role):
        may = POWERS[member or own]
        if member is None:
            for named, rights in ((steward, _STEWARDS), (decider, _DECIDERS)):
                if named:
                    may |= rights
                elif named is False and not proven and rights is not _DECIDERS:
                    may -= rights
        if own is Role.ADMIN and proven:
            may |= {Action.ADMINISTER}
        powers[member] = may & bound
    return MappingProxyType(powers)


def there(boards: Sequence[str]) -> str:
    """Boards that a caller can name, as the rest of a sentence."""
    more = f" +{len(boards) - _LISTED}" if len(boards) > _LISTED else ""
    return f", and you reach {', '.join(boards[:_LISTED])}{more}" if boards else ""


class Rights:
    """Decides over every entry to the boards of a store.

    `stewards` and `deciders` are the agents that the launch names; none named means nobody is.
    """

    def __init__(
        self,
        store: BoardStore,
        default_board: str,
        *,
        stewards: Sequence[str] = (),
        deciders: Sequence[str] = (),
    ) -> None:
        self._store = store
        self._default = default_board
        self._stewards = tuple(stewards)
        self._deciders = tuple(deciders)
        self.introduce: Introduce | None = None
        """Records whom an agent acts for, by which the store tells what of a team's it may see."""
        self._roles: dict[tuple[str, str], tuple[Role | None, float]] = {}

    def default_board(self, principal: Principal) -> str:
        """The board of a call that names none: the launch's, or where it is hidden the credential's first."""
        if principal.role_on(self._default) is not None or not principal.roles:
            return self._default
        return min(principal.roles)

    def reached(self, principal: Principal, boards: Iterable[str]) -> list[str]:
        """Those of the boards that the credential reaches, in their order."""
        return [board for board in boards if principal.role_on(board) is not None]

    async def readable(self, principal: Principal, most: int = _MOST) -> list[tuple[str, Board | None]]:
        """Boards that the principal may read, with their state once they are there: the default, then the newest."""
        known = {board.id: board for board in await self._store.boards()}
        newest = sorted(known.values(), key=lambda board: (board.created_at, board.id), reverse=True)
        names = dict.fromkeys([self.default_board(principal), *(board.id for board in newest)])
        found = []
        for name in self.reached(principal, names):
            if await self.admits(principal, READS.of({}), name):
                found.append((name, known.get(name)))
            if len(found) == most:
                break
        return found

    def powers(self, principal: Principal, board: str) -> Mapping[Role | None, frozenset[Action]]:
        """What the principal may do on a board, by the role that the board itself gives; nothing where it is hidden."""
        own = principal.role_on(board)
        if own is None:
            return dict.fromkeys((None, *Role), frozenset[Action]())
        return _powers(
            own,
            principal.scopes,
            principal.via in _PROVEN,
            principal.agent in self._stewards if self._stewards else None,
            principal.agent in self._deciders if self._deciders else None,
        )

    async def enter(self, principal: Principal, needs: Collection[Action], board: str | None) -> Grant:
        """Lets a call in that needs these actions on a board (without a name: the default one).

        The grant is what the call's writes are made under.

        Raises:
            InvalidInput: not a board id.
            UnknownReference: the credential does not reach the board, whether it is there or not.
            Forbidden: the role, the scopes or the launch do not allow it.
            Refused: nobody may be called like the agent.
        """
        name = self.default_board(principal) if board is None else check_board(board)
        if principal.role_on(name) is None:
            raise self.absent(principal, name)
        if is_reserved(principal.agent) and not await self._was_there(principal.agent, name):
            raise reserved(principal.agent)
        if self.introduce is not None and (principal.credential or principal.owner != principal.agent):
            await self.introduce(principal)
        proven = principal.via in _PROVEN or principal.agent in self._deciders
        deciders = () if proven else self._deciders
        grant = Grant(
            principal.agent,
            name,
            frozenset(needs),
            self.powers(principal, name),
            deciders=deciders,
            roles=principal.roles,
        )
        if all(grant.needs <= may for may in grant.powers.values()):
            return grant
        member = await self._role(name, principal.agent)
        if not grant.needs <= grant.powers[member]:
            member = await self._role(name, principal.agent, afresh=True)
        lacking = grant.needs - grant.powers[member]
        if lacking:
            raise await self._refusal(principal, grant, member, next(a for a in Action if a in lacking))
        return replace(grant, member=member)

    async def _was_there(self, agent: str, board: str) -> bool:
        """Whether an agent was on the board before its name was reserved."""
        try:
            return any(known.name == agent for known in await self._store.agents(board))
        except UnknownReference:
            return False

    async def admits(self, principal: Principal, needs: Collection[Action], board: str) -> bool:
        """Whether `enter` would let it in; for boards of which nothing else is said."""
        try:
            await self.enter(principal, needs, board)
        except (Refused, UnknownReference):
            return False
        return True

    def absent(self, principal: Principal, board: str) -> UnknownReference:
        """What is said of a board that the credential does not reach; nobody looks whether there is one."""
        return UnknownReference(
            f"There is no board '{board}'. Nothing was changed; your default board is "
            f"'{self.default_board(principal)}'{there(sorted(principal.roles))}.",
            board=board,
        )

    def forget(self, board: str) -> None:
        """Roles on the board changed by this process: what is remembered of them counts no more."""
        for key in [key for key in self._roles if key[0] == board]:
            del self._roles[key]

    async def _role(self, board: str, agent: str, *, afresh: bool = False) -> Role | None:
        """The role that a board gives an agent, as of a second ago at most: what a call writes, the store checks."""
        now = asyncio.get_running_loop().time()
        kept = self._roles.get((board, agent))
        if kept is not None and not afresh and now - kept[1] < _REMEMBERED_SECONDS:
            return kept[0]
        role = await self._store.role_of(board, agent)
        self._roles.pop((board, agent), None)
        if len(self._roles) >= _REMEMBERED:
            self._roles.pop(next(iter(self._roles)))
        self._roles[board, agent] = role, now
        return role

    async def _refusal(
        self, principal: Principal, grant: Grant, member: Role | None, action: Action
    ) -> Forbidden:
        """Says what the action needs and, to who may read the board, who has it."""
        board = grant.board
        role = member or principal.role_on(board)
        scope = next(scope for scope, opened in SCOPED.items() if action in opened)
        roles = [str(role) for role, may in POWERS.items() if action in may]
        listed = self._listed(action) if member is None and principal.via not in _PROVEN else ()
        facts: dict[str, object] = {
            "action": str(action),
            "board": board,
            "roles": roles,
            "scope": str(scope),
        }
        if scope not in principal.scopes:
            why = f"your credential lacks the scope {scope}"
        elif listed:
            why = f"this server's {'deciders' if action is Action.DECIDE else 'stewards'} are {', '.join(listed)}"
        else:
            why = f"you are its {role}, and that takes the role {' or '.join(roles)}"
        can: list[str] = []
        if Action.READ in grant.powers[member]:
            members = await self._store.members(board)
            can = [name for name, role in members.items() if action in POWERS[role]]
            can = list(dict.fromkeys((*can, *self._listed(action))))
            facts |= {"role": str(role), "can": can[: 4 * _NAMED]}
        who = f" On '{board}' {', '.join(can[:_NAMED])} may." if can and not listed else ""
        return Forbidden(
            f"You may not {_TO[action]} ('{board}', action {action}): {why}.{who} Nothing was changed; an admin of the "
            "board gives roles.",
            **facts,
        )

    def _listed(self, action: Action) -> tuple[str, ...]:
        """The agents to whom the launch gives an action by name."""
        return self._deciders if action in _DECIDERS else self._stewards if action in _STEWARDS else ()
