"""The judge of agents' changes: it asks the access policies of a board, and refuses a change that one of them
denies.

Policies from the launch configuration are asked first, then those that the board chose. The first denial
decides; without a denial the change is made. A policy that cannot be asked denies.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from blackboard_mcp.protocols.access import Principal, Role
from blackboard_mcp.protocols.changes import Change, Proposal
from blackboard_mcp.protocols.errors import Forbidden
from blackboard_mcp.protocols.policy import AccessPolicy, Deny, Verdict
from blackboard_mcp.protocols.store import BoardStore

from ..plugins.bounded import Bounded, PolicyFailed
from ..text.lines import one_line
from .acting import who_acts
from .registry import AccessPolicies, NamedPolicy

logger = logging.getLogger(__name__)

_REASON: Final = 300
_INLINE: Final = 200
"""Most changes for which built-in policies run on the event loop; more run in a thread."""


class AccessJudge:
    """Judge that decides changes by the access policies of a server."""

    def __init__(self, policies: AccessPolicies) -> None:
        self._policies = policies
        self._bounded: dict[str, Bounded] = {}

    @property
    def policies(self) -> AccessPolicies:
        """The access policies that the judge asks."""
        return self._policies

    async def ask(self, store: BoardStore, agent: str, access: tuple[str, ...], change: Change) -> None:
        """Checks one change that is made outside of a transaction.

        `access` are the names of the policies that the board chose.

        Raises:
            Forbidden: a policy denies the change.
        """
        if self._policies.on(change.board, access):
            owner, role = await store.owner_of(agent), await store.role_of(change.board, agent)
            await self.judge(Proposal(agent, owner, role, access, (change,)))

    async def judge(self, wanted: Proposal) -> frozenset[Change]:
        """Asks the policies about all changes of a transaction, and returns the changes when none is denied.

        Raises:
            Forbidden: a policy denies a change; the error names the policy, the change and the reason.
        """
        changes = wanted.changes
        principal = _as_the_board_has_it(who_acts(wanted.agent), wanted)
        allowed: set[int] = set()
        for policy in self._policies.on(changes[0].board, wanted.access):
            if isinstance(policy, str):
                raise _forbidden(policy, None, "it is not known to this server: ask its operator")
            if policy.denies_rest:
                rest = [change for place, change in enumerate(changes) if place not in allowed]
                if rest:
                    raise _forbidden(policy.name, rest[0], "nothing allows it")
                continue
            for place, said in enumerate(await self._asked(policy, principal, changes)):
                if isinstance(said, Deny):
                    raise _forbidden(policy.name, changes[place], said.reason)
                if said is Verdict.ALLOW:
                    allowed.add(place)
        return frozenset(changes)

    async def _asked(
        self, policy: NamedPolicy, principal: Principal, changes: Sequence[Change]
    ) -> list[Verdict | Deny]:
        """Returns the policy's verdict on each change, in order. The list ends at the first denial.

        A policy of the operator's that fails or takes too long counts as a denial.
        """
        if not policy.own:
            if len(changes) <= _INLINE:
                return _verdicts(policy.policy, principal, changes)
            return await asyncio.to_thread(_verdicts, policy.policy, principal, changes)
        bounded = self._bounded.setdefault(policy.name, Bounded(policy.name))
        # The policy gets copies, so that it cannot alter the caller's objects.
        given = replace(principal, roles=MappingProxyType(dict(principal.roles)))
        copies = [replace(change) for change in changes]
        try:
            return await bounded.ask(lambda: _verdicts(policy.policy, given, copies))
        except PolicyFailed as error:
            logger.warning("access policy '%s' denied: %s", policy.name, error)
            return [
                Deny(
                    f"it could not be asked: it {error}. Try again later, or ask the operator of this server"
                )
            ]


def _as_the_board_has_it(principal: Principal, wanted: Proposal) -> Principal:
    """Returns the principal with the owner and role that the transaction read from the store.

    The role is left as it is on a board that the credential does not reach.
    """
    board = wanted.changes[0].board
    roles = dict(principal.roles)
    if wanted.role is not None and principal.role_on(board) is not None:
        roles[board] = wanted.role
    named = principal.named if wanted.role is None else frozenset[Role]()
    return replace(principal, owner=wanted.owner, roles=roles, named=named)


def _verdicts(policy: AccessPolicy, principal: Principal, changes: Sequence[Change]) -> list[Verdict | Deny]:
    found: list[Verdict | Deny] = []
    for change in changes:
        said: Any = policy.decide(principal, change)
        if type(said) is Verdict:
            found.append(said)
            continue
        if type(said) is Deny and isinstance(said.reason, str):
            reason = str.__getitem__(said.reason, slice(_REASON + 1))
        else:
            reason = "it answered with neither a verdict nor a denial: ask the operator of this server"
        found.append(Deny(reason))
        break
    return found


def _forbidden(policy: str, change: Change | None, why: str) -> Forbidden:
    place = "" if change is None or not change.place else f"Item {change.place}: "
    said = one_line(why)
    said = said if len(said) <= _REASON else said[: _REASON - 1] + "…"
    about = "" if change is None else f" ({_what(change)})"
    return Forbidden(
        f"{place}The access policy '{policy[:40]}' denies this{about}: {said.rstrip('. ')}. Nothing was changed.",
        policy=policy[:40],
        **({} if change is None else _facts(change)),
    )


def _what(change: Change) -> str:
    of = change.item or change.key or change.name
    if change.edge is not None:
        return f"{change.edge} of {of or change.type}"
    if change.type is not None and change.item is None and change.key is None:
        of = change.type
    return f"{change.kind} {of}".strip()


def _facts(change: Change) -> dict[str, Any]:
    facts: dict[str, Any] = {"change": str(change.kind), "action": str(change.action), "board": change.board}
    for name, value in (("item", change.item), ("key", change.key), ("place", change.place)):
        if value:
            facts[name] = value
    return facts
