"""Rights on a board: the one place that combines role, scope, action and membership.

Every entry (tools, resources, prompts, completions, subscriptions, event streams, programs in the process)
asks here before the use case runs. The store decides which single items an agent may see.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import Final, Generic, TypeVar

from blackboard_mcp.protocols.access import EVERY_BOARD, POWERS, SCOPED, Action, Principal, Role, Scope
from blackboard_mcp.protocols.board import Board
from blackboard_mcp.protocols.errors import BlackboardError, Forbidden, Refused, UnknownReference
from blackboard_mcp.protocols.grants import Grant
from blackboard_mcp.protocols.names import is_reserved, reserved
from blackboard_mcp.protocols.store import BoardStore
from cachetools import FIFOCache

from ..input.posts import check_board
from .needs import READS

SECONDS: Final = 1.0
"""The greatest age of a value that is not read from the store again for each call."""
_REMEMBERED: Final = 10_000
_LISTED: Final = 5
"""Most boards that a refusal names."""
_MOST: Final = 1_000
"""Most boards that one list holds."""
_NAMED: Final = 5
"""Most agents that a refusal names."""
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
        Action.MODERATE: "change its core, rules, title or lifecycle, or prune it",
        Action.ADMINISTER: "change its settings or members",
    }
)


Introduce = Callable[[Principal], Awaitable[None]]
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@lru_cache(maxsize=4_096)
def _powers(
    own: Role, scopes: frozenset[Scope], proven: bool, steward: bool | None, decider: bool | None
) -> Mapping[Role | None, frozenset[Action]]:
    """Returns the actions that a credential allows, by the role that the board itself gives (`None` for no
    such role).

    `own` is the credential's role on the board. `proven` says whether the caller proved its identity by a
    token. `steward` and `decider` say whether the launch configuration names the agent; `None` means that it
    names nobody.

    A named agent gets the actions of a steward or decider. A steward list without the agent takes those
    actions away only from unproven callers, who otherwise are admins. A decider list takes nothing away here:
    the grant carries the list. An admin by a proven credential may always administer, whatever role the board
    gives.
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
    """Returns the end of a sentence that names the boards a caller reaches; empty without any."""
    more = f" +{len(boards) - _LISTED}" if len(boards) > _LISTED else ""
    return f", and you reach {', '.join(boards[:_LISTED])}{more}" if boards else ""


class Recent(Generic[K, V]):
    """Values from a store by key, each at most `SECONDS` old, since another process may change them.

    A caller that asks often never waits for the store: in the second half of the time a value is read again beside the
    calls. The values belong to one event loop.
    """

    def __init__(self, read: Callable[[K], Awaitable[V]]) -> None:
        self._read = read
        self._kept: FIFOCache[K, tuple[V, float]] = FIFOCache(_REMEMBERED)
        self._renewing: dict[K, asyncio.Task[None]] = {}

    async def of(self, key: K, *, afresh: bool = False) -> V:
        """Returns the value of a key; `afresh` reads it now."""
        now = asyncio.get_running_loop().time()
        kept = self._kept.get(key)
        if kept is None or afresh or now - kept[1] >= SECONDS:
            value = await self._read(key)
            self._kept[key] = value, now
            return value
        if now - kept[1] >= SECONDS / 2 and key not in self._renewing:
            renewing = asyncio.create_task(self._renew(key, kept))
            self._renewing[key] = renewing
            renewing.add_done_callback(lambda _: self._renewing.pop(key))
        return kept[0]

    def keep(self, key: K, value: V) -> None:
        """Keeps a value that is known to be the present one."""
        self._kept[key] = value, asyncio.get_running_loop().time()

    def forget(self, which: Callable[[K], bool]) -> None:
        """Forgets the values of some keys, which this process changed."""
        for key in [key for key in self._kept if which(key)]:
            del self._kept[key]

    async def _renew(self, key: K, kept: tuple[V, float]) -> None:
        """Reads a value again before it is too old, unless it is forgotten or read by somebody else meanwhile."""
        now = asyncio.get_running_loop().time()
        with contextlib.suppress(BlackboardError):  # the next call that needs it asks again
            value = await self._read(key)
            if self._kept.get(key) is kept:
                self._kept[key] = value, now


class Rights:
    """Rights of principals on the boards of a store.

    `stewards` and `deciders` are the agents that the launch configuration names; empty means that it names
    nobody.
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
        """Hook that records the owner of an agent; the store decides by it which team items the agent may see."""
        self._roles: Recent[tuple[str, str], Role | None] = Recent(lambda key: store.role_of(*key))
        self._names_roles: Recent[None, bool] = Recent(lambda _: self._some_name_roles())

    async def _some_name_roles(self) -> bool:
        return any(rule.names_roles for rule in await self._store.read_rules())

    def default_board(self, principal: Principal) -> str:
        """Returns the board for a call that names none."""
        return self.default_of(principal.roles)

    def default_of(self, roles: Mapping[str, Role]) -> str:
        """Returns the board for a call that names none, of a credential with these roles by board.

        This is the launch's default board or, where the credential does not reach it, the credential's first
        board by name.
        """
        reached = not roles or self._default in roles or EVERY_BOARD in roles
        return self._default if reached else min(roles)

    def reached(self, principal: Principal, boards: Iterable[str]) -> list[str]:
        """Returns those boards that the credential reaches, in the given order."""
        return [board for board in boards if principal.role_on(board) is not None]

    async def readable(self, principal: Principal, most: int = _MOST) -> list[tuple[str, Board | None]]:
        """Returns the boards that the principal may read, as pairs of name and state, at most `most`.

        The default board comes first, then the newest. The state is `None` for a board that does not exist
        yet.
        """
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
        """Returns the actions that the principal may take on a board, by the role that the board itself
        gives.

        All sets are empty where the credential does not reach the board.
        """
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
        """Lets in a call that needs these actions on a board, and returns the grant under which it writes.

        `board` is `None` for the default board.

        Raises:
            InvalidInput: `board` is no valid board id.
            UnknownReference: the credential does not reach the board, whether the board exists or not.
            Forbidden: the role, the scopes or the launch configuration do not allow it.
            Refused: the agent's name is reserved.
        """
        name, own = await self._reached(principal, board)
        if self.introduce is not None and (principal.credential or principal.owner != principal.agent):
            await self.introduce(principal)
        if await self._names_roles.of(None):  # another process may have brought the rules
            # Never remembered: another credential of the same agent may be shown to another process.
            await self._store.set_shown_role(name, principal.agent, own)
        return await self._grant(principal, needs, name, own)

    async def check(self, principal: Principal, needs: Collection[Action], board: str | None) -> Grant:
        """Returns the grant as `enter` does, without recording the agent's owner and role; errors are the same.

        For calls and notifications of a credential that was shown before: another one of the agent may have been
        shown since, and this one may have ended.
        """
        return await self._grant(principal, needs, *await self._reached(principal, board))

    async def _reached(self, principal: Principal, board: str | None) -> tuple[str, Role]:
        """Returns the board that a call is about, and the credential's role on it."""
        name = self.default_board(principal) if board is None else check_board(board)
        own = principal.role_on(name)
        if own is None:
            raise self.absent(principal, name)
        if is_reserved(principal.agent) and not await self._was_there(principal.agent, name):
            raise reserved(principal.agent)
        return name, own

    async def _grant(self, principal: Principal, needs: Collection[Action], name: str, own: Role) -> Grant:
        """Returns the grant of a call on a board that the credential reaches with the role `own`."""
        proven = principal.via in _PROVEN or principal.agent in self._deciders
        deciders = () if proven else self._deciders
        powers = self.powers(principal, name)
        lists = ((Role.STEWARD, self._stewards), (Role.DECIDER, self._deciders))
        named = [role for role, agents in lists if principal.agent in agents and POWERS[role] <= powers[None]]
        grant = Grant(
            principal.agent,
            name,
            frozenset(needs),
            powers,
            deciders=deciders,
            roles=principal.roles,
            stewards_known=bool(self._stewards) or principal.via in _PROVEN or own is not Role.ADMIN,
            named=frozenset(named),
        )
        if all(grant.needs <= may for may in grant.powers.values()):
            return grant
        # A role that is a second old is safe for writes because the store checks it again.
        member = await self._roles.of((name, principal.agent))
        if not grant.needs <= grant.powers[member]:
            member = await self._roles.of((name, principal.agent), afresh=True)
        lacking = grant.needs - grant.powers[member]
        if lacking:
            raise await self._refusal(principal, grant, member, next(a for a in Action if a in lacking))
        return grant if member is None else replace(grant, member=member)

    async def _was_there(self, agent: str, board: str) -> bool:
        """Tells whether an agent of this name is already on the board; such an agent keeps a reserved name."""
        try:
            return any(known.name == agent for known in await self._store.agents(board))
        except UnknownReference:
            return False

    async def admits(self, principal: Principal, needs: Collection[Action], board: str) -> bool:
        """Tells whether `enter` would let a call in, for callers that show no reason. An invalid board id
        still raises.
        """
        try:
            await self.check(principal, needs, board)
        except (Refused, UnknownReference):
            return False
        return True

    def absent(self, principal: Principal, board: str) -> UnknownReference:
        """Returns the error for a board that the credential does not reach. It does not tell whether the
        board exists.
        """
        return UnknownReference(
            f"There is no board '{board}'. Nothing was changed; your default board is "
            f"'{self.default_board(principal)}'{there(sorted(principal.roles))}.",
            board=board,
        )

    def forget(self, board: str) -> None:
        """Forgets the cached roles on a board after this process changed them."""
        self._roles.forget(lambda key: key[0] == board)

    async def _refusal(
        self, principal: Principal, grant: Grant, member: Role | None, action: Action
    ) -> Forbidden:
        """Returns the error for an action that a principal lacks, with the role or scope that it takes.

        A principal who may read the board also learns which agents may take the action.
        """
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
        """Returns the agents to whom the launch configuration gives an action by name."""
        return self._deciders if action in _DECIDERS else self._stewards if action in _STEWARDS else ()
