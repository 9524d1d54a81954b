"""Access policies by name, and the boards to which each applies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from blackboard_mcp.protocols.changes import EVERYWHERE
from blackboard_mcp.protocols.errors import InvalidInput
from blackboard_mcp.protocols.policy import AccessPolicy
from blackboard_mcp.protocols.values import dataclass

from ..plugins.loading import load_instance
from .tables import BUILT_IN, DENY_REST, READY, AccessTable

MAX_CHOSEN: Final = 8
"""Most policies that a board may choose."""
_NOTHING = "Nothing was changed."


@dataclass(frozen=True, slots=True)
class NamedPolicy:
    """Access policy of this server. `own` is true for a class that the operator supplied."""

    name: str
    policy: AccessPolicy
    own: bool
    denies_rest: bool = False
    kind: str = ""
    """Name of the built-in policy, or the import path of the class."""
    boards: frozenset[str] = frozenset()

    def holds_on(self, board: str) -> bool:
        """Tells whether the policy applies to a board without the board choosing it."""
        return EVERYWHERE in self.boards or board in self.boards


class AccessPolicies:
    """Access policies of this process: those that always apply to a board, and those that boards may choose."""

    def __init__(self, tables: Iterable[AccessTable] = ()) -> None:
        """Imports and instantiates the classes that `tables` name; `tables` come from the launch
        configuration alone.

        Raises:
            InvalidInput: a class cannot be instantiated or has no `decide`; the error names the file and the
                table.
        """
        self._named: dict[str, NamedPolicy] = {
            name: NamedPolicy(name, policy, own=False, denies_rest=name == DENY_REST, kind=name)
            for name, policy in READY.items()
        }
        for table in tables:
            policy, own = table.policy, table.policy is None
            if policy is None:
                policy = _made(table)
            self._named[table.name] = NamedPolicy(
                table.name, policy, own, table.kind == DENY_REST, table.kind or table.path, table.boards
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the policies that boards may choose."""
        return tuple(self._named)

    @property
    def named(self) -> tuple[NamedPolicy, ...]:
        """All policies of this process."""
        return tuple(self._named.values())

    @property
    def boards(self) -> frozenset[str]:
        """Boards to which some policy applies whatever the board chooses; `*` stands for every board."""
        return frozenset().union(*(policy.boards for policy in self._named.values()))

    def on(self, board: str, chosen: Iterable[str]) -> list[NamedPolicy | str]:
        """Returns the policies that apply to a board, in the order in which they are asked.

        Policies from the launch configuration come first, then those that the board chose. A chosen name that
        this server does not know is returned as the name itself.
        """
        found: list[NamedPolicy | str] = [p for p in self._named.values() if p.holds_on(board)]
        there = {policy.name for policy in self._named.values() if policy.holds_on(board)}
        return found + [self._named.get(name, name) for name in chosen if name not in there]

    def check(self, chosen: Any) -> tuple[str, ...]:
        """Returns a board's choice of policies as a tuple of names.

        Raises:
            InvalidInput: the choice is not a list of known names, each once, or it is too long.
        """
        there = f"there are: {', '.join(self.names)}"
        if not isinstance(chosen, list | tuple) or not all(isinstance(name, str) for name in chosen):
            raise InvalidInput(f"access is a list of policies, [] for none; {there}. {_NOTHING}")
        if len(chosen) > MAX_CHOSEN or len(set(chosen)) < len(chosen):
            raise InvalidInput(f"access names at most {MAX_CHOSEN} policies, each once. {_NOTHING}")
        for name in chosen:
            if name not in self._named:
                raise InvalidInput(f"Unknown access policy '{name[:40]}'; {there}. {_NOTHING}")
        return tuple(chosen)


def _made(table: AccessTable) -> AccessPolicy:
    try:
        policy: AccessPolicy = load_instance("Access policy", table.name, table.path, ("decide",))
    except InvalidInput as error:
        raise InvalidInput(f"{table.where}, class: {error.message}") from error
    return policy


__all__ = ["BUILT_IN", "AccessPolicies", "NamedPolicy"]
