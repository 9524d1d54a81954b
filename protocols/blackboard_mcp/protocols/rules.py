"""Rules of a board: constraints of its core and CONSTRAINT items, with strength, scope and revision.

An item carries strength and scope in `metadata["rule"]`; without them it is strict and for the whole board.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from .values import dataclass

MAX_RULE: Final = 2_000
"""Longest text of a rule that the tool `constraint` takes, in characters."""
MAX_SCOPE: Final = 200
BOARD: Final = "board"
"""The scope of a rule for everybody and everything."""
RESULT_KEY: Final = re.compile(r"result:[0-9a-f]{16}")
"""Keys of the hot issues of checks."""
ABSENT: Final = "absent:"
EXISTS: Final = "exists:"
"""The beginnings of the checks that the server has itself: no file matches the glob behind it, or one does."""
_CHECK: Final = re.compile(r"(?:[a-z][a-z0-9-]{0,31}|(?:absent|exists):[^\s:,]+)\Z")
_SCOPE: Final = re.compile(r"(?:board|(?:agent|key|path):[^\s,]+)\Z")


class Strength(StrEnum):
    """How binding a rule is."""

    STRICT = "strict"
    PREFER = "prefer"
    SUGGEST = "suggest"


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule in force. `number` is 0 for a constraint of the core, whose `id` is `core 1` and so on.

    `revision` is the revision of the rules that last changed it. `mine` tells whether the reader comes under its
    scope: a scope of keys or paths counts while the reader reserves something there. `check` names what finds
    violations; see `check_of`.
    """

    id: str
    number: int
    text: str
    strength: Strength
    scope: str
    author: str
    version: int
    revision: int
    mine: bool
    check: str = ""

    @property
    def line(self) -> str:
        """The text behind its id, without one for a constraint of the core."""
        return f"{self.id} {self.text}" if self.number else self.text

    @property
    def bounds(self) -> str:
        """Strength and scope as text, such as `prefer, agent:ann`; empty for a strict rule of the board."""
        return bounds(self.strength, self.scope, self.check)


@dataclass(frozen=True, slots=True)
class RuleBook:
    """The rules in force on a board as an agent may see them: those of the core first, then items by number.

    `revision` grows by one with every change of public rules. `seen` is the revision that the agent was last shown.
    """

    revision: int = 0
    seen: int = 0
    rules: tuple[Rule, ...] = ()

    @property
    def mine(self) -> tuple[Rule, ...]:
        """The rules under whose scope the agent comes."""
        return tuple(rule for rule in self.rules if rule.mine)

    @property
    def unseen(self) -> tuple[Rule, ...]:
        """Those of `mine` that changed after the agent was last shown the rules."""
        return tuple(rule for rule in self.mine if rule.revision > self.seen)

    @property
    def label(self) -> str:
        """The revision and the number of rules, as `rules r7 (9)`."""
        return label(self.revision, len(self.rules))


def label(revision: int, count: int) -> str:
    """Returns revision and number of rules as every view, turn and claim shows them: `rules r7 (9)`."""
    return f"rules r{revision} ({count})"


def bounds(strength: Strength, scope: str, check: str = "") -> str:
    """Returns strength, scope and check as text; empty for a strict rule of the whole board without a check."""
    told = [] if strength is Strength.STRICT else [str(strength)]
    told += [] if scope == BOARD else [scope]
    return ", ".join([*told, *([f"check {check}"] if check else [])])


def bounds_of(metadata: Mapping[str, Any]) -> tuple[Strength, str]:
    """Returns strength and scope from an item's metadata; what is not valid there counts as left out."""
    given = metadata.get("rule")
    rule: Mapping[str, Any] = given if isinstance(given, dict) else {}
    strength, scope = rule.get("strength"), rule.get("scope")
    named = isinstance(strength, str) and strength in list(Strength)
    known = isinstance(scope, str) and len(scope) <= MAX_SCOPE and scope.isprintable() and _SCOPE.match(scope)
    return Strength(str(strength)) if named else Strength.STRICT, str(scope) if known else BOARD


def check_of(metadata: Mapping[str, Any]) -> str:
    """Returns the check that finds violations of a rule, from an item's metadata; empty if there is none.

    It is the name of a check of the operator, or `absent:GLOB` or `exists:GLOB`: no file may match, or one must.
    """
    given = metadata.get("rule")
    check = given.get("check") if isinstance(given, dict) else None
    return check if isinstance(check, str) and len(check) <= MAX_SCOPE and _CHECK.match(check) else ""
