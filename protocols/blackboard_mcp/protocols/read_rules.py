"""Read rules: who may read the items that match, as the operator's configuration says for the installation.

A rule has conditions and readers. Readers are principals: an agent's name, a team's mark (`team:` with an owner's
name), `role:` with a role on the item's board, or `*` for everybody. An item that a rule keeps has the rule's mark:
`read:` with the rule's name, and with `:` and its author's name after it if the author is no reader; the author sees
it too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from dataclasses import asdict
from functools import lru_cache

from .items import ItemType
from .keys import compile_glob
from .values import dataclass

READ = "read:"
ROLE = "role:"
EVERYBODY = "*"
RULE_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}\Z")
MAX_READ_RULES = 32
MAX_PRINCIPALS = 1_000
"""The most readers, or authors, of one rule."""


@dataclass(frozen=True, slots=True)
class ReadRule:
    """A rule: an item that meets all its conditions is for `readers` and its author alone.

    Attributes:
        boards: ids of boards; empty for all.
        key: a glob of keys; empty for items with any key and without.
        types: types of items; empty for all.
        tags: the item has one of them; empty for any.
        authors: principals; the item's author is one of them; empty for all.
    """

    name: str
    readers: tuple[str, ...]
    boards: tuple[str, ...] = ()
    key: str = ""
    types: tuple[ItemType, ...] = ()
    tags: tuple[str, ...] = ()
    authors: tuple[str, ...] = ()

    @property
    def mark(self) -> str:
        """The mark of items that the rule keeps and a reader wrote."""
        return READ + self.name

    @property
    def names_roles(self) -> bool:
        """Tells whether the rule depends on the roles of agents."""
        return any(each.startswith(ROLE) for each in (*self.readers, *self.authors))

    def of(self, agent: str, principals: Collection[str]) -> str:
        """Returns the mark of what the agent writes under the rule; `principals` are all that the agent is."""
        return self.mark if reads(self.readers, principals) else f"{self.mark}:{agent}"

    def keeps(
        self, board: str, kind: ItemType, key: str | None, tags: Collection[str], author: Collection[str]
    ) -> bool:
        """Tells whether an item meets all conditions; `author` holds the principals that its author is."""
        return (
            (not self.boards or board in self.boards)
            and (not self.key or (key is not None and compile_glob(self.key).matches(key)))
            and (not self.types or kind in self.types)
            and (not self.tags or not set(self.tags).isdisjoint(tags))
            and (not self.authors or reads(self.authors, author))
        )


@dataclass(frozen=True, slots=True)
class Reclassified:
    """What the present rules keep of the items of a board that everybody saw.

    Attributes:
        kept: pairs of an item's id and the name of the rule that keeps it.
        bound: triples of an id, the name of the rule, and what the item is part of that everybody sees: these stay.
        done: whether `kept` is so now; else it would be.
        teams: pairs of an id and the name of the rule, for what a team sees that is not among the rule's readers: these
            stay with their teams.
    """

    kept: tuple[tuple[str, str], ...]
    bound: tuple[tuple[str, str, str], ...]
    done: bool
    teams: tuple[tuple[str, str], ...] = ()


def reads(readers: Iterable[str], principals: Collection[str]) -> bool:
    """Tells whether somebody who is all of `principals` is among `readers`."""
    return any(reader == EVERYBODY or reader in principals for reader in readers)


def rules_json(rules: Iterable[ReadRule]) -> str:
    """Returns rules as they are stored; empty for none."""
    listed = [{name: value for name, value in asdict(rule).items() if value} for rule in rules]
    return json.dumps(listed, ensure_ascii=False) if listed else ""


@lru_cache(maxsize=8)
def rules_of(stored: str) -> tuple[ReadRule, ...]:
    """Returns the rules that `rules_json` wrote."""
    return tuple(
        ReadRule(
            each["name"],
            tuple(each.get("readers", ())),
            tuple(each.get("boards", ())),
            each.get("key", ""),
            tuple(ItemType(kind) for kind in each.get("types", ())),
            tuple(each.get("tags", ())),
            tuple(each.get("authors", ())),
        )
        for each in (json.loads(stored) if stored else ())
    )
