"""The access policies that come with the server. Pure, and quick enough to be asked on the event loop."""

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
"""What changes an item itself: what rules and prefixes are about where nothing else is said."""
OWNER: Final = "{owner}"
AGENT: Final = "{agent}"
PATTERNS: Final = ("{owner}:**",)
_NAME = re.compile(r"[\w\-.@]{1,64}\Z")
_LISTED: Final = 5


class AllowAll:
    """Allows every change: what a board has without policies."""

    def decide(self, principal: Principal, change: Change) -> Verdict:
        return Verdict.ALLOW


class DenyRest:
    """Stands for denying what no policy before it allowed; the composition sees to it."""

    def decide(self, principal: Principal, change: Change) -> Verdict:
        return Verdict.NO_OPINION


@dataclass(frozen=True, slots=True)
class RoleRule:
    """Changes, and the roles that may make them; what is `None` is not looked at."""

    roles: tuple[Role, ...]
    boards: frozenset[str] | None = None
    key: str | None = None
    types: frozenset[ItemType] | None = None
    what: frozenset[ChangeKind] = WRITES

    def concerns(self, change: Change) -> bool:
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
    """A table of which roles may: every rule that a change meets must have the principal's role."""

    rules: tuple[RoleRule, ...]

    def decide(self, principal: Principal, change: Change) -> Verdict | Deny:
        role = principal.role_on(change.board)
        verdict = Verdict.NO_OPINION
        for rule in self.rules:
            if not rule.concerns(change):
                continue
            if role not in rule.roles:
                may = " or ".join(rule.roles)
                have = "you have none" if role is None else f"yours is {role}"
                return Deny(f"{rule} takes the role {may} on '{change.board}', and {have}")
            verdict = Verdict.ALLOW
        return verdict


@dataclass(frozen=True, slots=True)
class OwnerPrefixes:
    """Keys that one owner's agents alone write, or one agent alone.

    A key that a pattern matches with any name in the place of `{owner}` or `{agent}` is written by those with whose
    name it matches; one that globs of `owners` match, by agents of that owner. What `free` matches is everybody's.
    """

    patterns: tuple[str, ...] = PATTERNS
    owners: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    free: tuple[str, ...] = ()

    def decide(self, principal: Principal, change: Change) -> Verdict | Deny:
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
    """The glob of the principal's own keys; `None` where its name cannot stand in a key's segment."""
    if not all(_NAME.match(name) for name in (principal.owner, principal.agent)):
        return None
    return pattern.replace(OWNER, principal.owner).replace(AGENT, principal.agent)
