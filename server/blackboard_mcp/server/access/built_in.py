"""The access policies that come with the server.

They do no input or output and answer quickly, so they may run on the event loop.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final

from blackboard_mcp.protocols.access import Principal, Role
from blackboard_mcp.protocols.changes import Change, ChangeKind
from blackboard_mcp.protocols.items import ItemType
from blackboard_mcp.protocols.keys import compile_glob
from blackboard_mcp.protocols.policy import Deny, Verdict
from blackboard_mcp.protocols.values import dataclass

WRITES: Final = frozenset(
    {ChangeKind.POST, ChangeKind.VERSION, ChangeKind.AMEND, ChangeKind.STATUS, ChangeKind.DELETE}
)
"""Kinds of change that alter an item itself. Role rules cover these by default, and owner prefixes cover only
these.
"""
OWNER: Final = "{owner}"
AGENT: Final = "{agent}"
PATTERNS: Final = ("{owner}:**",)
_NAME = re.compile(r"[\w\-.@]{1,64}\Z")
_LISTED: Final = 5


class AllowAll:
    """Policy that allows every change."""

    def decide(self, principal: Principal, change: Change) -> Verdict:
        """Allows the change."""
        return Verdict.ALLOW


class DenyRest:
    """Marker for a policy that denies every change that no earlier policy allowed.

    `decide` itself has no opinion; `AccessJudge` carries out the denial.
    """

    def decide(self, principal: Principal, change: Change) -> Verdict:
        """Returns no opinion; the judge itself denies what is left."""
        return Verdict.NO_OPINION


@dataclass(frozen=True, slots=True)
class RoleRule:
    """Rule that names a group of changes and the roles that may make them.

    A field that is `None` matches every change.
    """

    roles: tuple[Role, ...]
    boards: frozenset[str] | None = None
    key: str | None = None
    types: frozenset[ItemType] | None = None
    what: frozenset[ChangeKind] = WRITES

    def concerns(self, change: Change) -> bool:
        """Tells whether the rule applies to a change."""
        return (
            change.kind in self.what
            and (self.boards is None or change.board in self.boards)
            and (self.types is None or change.type in self.types)
            and (self.key is None or (change.key is not None and compile_glob(self.key).matches(change.key)))
        )

    def __str__(self) -> str:
        of = [*(sorted(self.types) if self.types is not None else ()), *([self.key] if self.key else ())]
        return " ".join([", ".join(sorted(self.what)), *(["of", " ".join(of)] if of else [])])


@dataclass(frozen=True, slots=True)
class Roles:
    """Policy of role rules: for every rule that applies to a change, the principal needs one of the rule's
    roles.
    """

    rules: tuple[RoleRule, ...]

    def decide(self, principal: Principal, change: Change) -> Verdict | Deny:
        """Denies the change where one of its rules lacks the principal's role; allows it where all of them
        have it.

        Has no opinion on a change to which no rule applies.
        """
        role = principal.role_on(change.board)
        verdict = Verdict.NO_OPINION
        for rule in self.rules:
            if not rule.concerns(change):
                continue
            if role not in rule.roles and principal.named.isdisjoint(rule.roles):
                may = " or ".join(rule.roles)
                have = "you have none" if role is None else f"yours is {role}"
                return Deny(f"{rule} takes the role {may} on '{change.board}', and {have}")
            verdict = Verdict.ALLOW
        return verdict


@dataclass(frozen=True, slots=True)
class OwnerPrefixes:
    """Policy that reserves keys for one owner's agents, or for one agent.

    `patterns` are key globs with `{owner}` or `{agent}` in them: a key that matches with some name there may
    be written only by the owner or agent of that name. `owners` maps an owner to key globs that this owner's
    agents may write. Keys that match a glob of `free` are not reserved.
    """

    patterns: tuple[str, ...] = PATTERNS
    owners: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    free: tuple[str, ...] = ()

    def decide(self, principal: Principal, change: Change) -> Verdict | Deny:
        """Allows the owner of a reserved key to write it, and denies others; has no opinion on other changes."""
        key = change.key
        if key is None or change.kind not in WRITES or _any(self.free, key):
            return Verdict.NO_OPINION
        governed = False
        for pattern in self.patterns:
            if compile_glob(pattern.replace(OWNER, "*").replace(AGENT, "*")).matches(key):
                governed = True
                mine = _with_names(pattern, principal)
                if mine is not None and compile_glob(mine).matches(key):
                    return Verdict.ALLOW
        named = [owner for owner, globs in self.owners.items() if _any(globs, key)]
        if principal.owner in named:
            return Verdict.ALLOW
        if not (governed or named):
            return Verdict.NO_OPINION
        by_name = "those whose name its prefix has"
        who = f"agents of {' or '.join(named[:_LISTED])}" if named else by_name
        yours = [mine for pattern in self.patterns if (mine := _with_names(pattern, principal)) is not None]
        yours += self.owners.get(principal.owner, ())
        instead = f"; you may write {', '.join(yours[:_LISTED])}" if yours else ""
        return Deny(f"The key '{key}' is written by {who} alone{instead}")


def _any(globs: Sequence[str], key: str) -> bool:
    return any(compile_glob(glob).matches(key) for glob in globs)


def _with_names(pattern: str, principal: Principal) -> str | None:
    """Returns the pattern with the principal's names filled in, or `None` where a name cannot stand in a
    key's segment.
    """
    if not all(_NAME.match(name) for name in (principal.owner, principal.agent)):
        return None
    return pattern.replace(OWNER, principal.owner).replace(AGENT, principal.agent)
