"""Visibility of items: the one place that defines who may see which item, for statements and for rows.

Items and events have an `owner`: '' if everybody may see them, an agent's name if only that agent may, `team:` with an
owner's name if all agents of that owner may, and the mark of a read rule if those whom the rule names may, and their
author. A table with `owner` has `board` too. Statements use these words, which are replaced by SQL when the statements
are loaded:

* `VISIBLE(owner, ?n)`: the agent ?n may see it; '' stands for an agent who sees only what everybody sees.
* `FOUND(owner, ?n)`: the same, in a form by which an index with `owner` before the key is searched.
* `MARKS(?n)`: a table of the values of `owner` that `FOUND` looks for, as `mark`; `VISIBLE` says which of them the
  agent ?n may see.
* `PUBLIC(owner)`, `HIDDEN(owner)`: everybody may see it; not everybody may.
* `SHARED(one, other)`: whoever sees the item of `other` sees that of `one`, even if agents change owners.
* `PANELLED(tags)`, `PANEL OF tags`: whether an item with these tags is in a panel, and the name of that panel.
* `NEAREST(owner, ?n)`: an order: what others wrote for readers whose company they are not in first, then items for
  everybody, for the readers of rules, the team's, and the agent's own.
"""

from __future__ import annotations

import re
from functools import lru_cache

from blackboard_mcp.protocols.panels import PANEL
from blackboard_mcp.protocols.read_rules import EVERYBODY, READ, ROLE
from blackboard_mcp.protocols.visibility import TEAM

_COLUMN, _AGENT = r"([a-z_.]+)", r"(\?\d*)"
_TEAM = rf"'{TEAM}' || coalesce((SELECT p.owner FROM principal p WHERE p.agent = \2), \2)"  # noqa: S608 - words of ours
_OWN_KEPT = rf"\1 GLOB '{READ}*:*' AND substr(\1, -length(\2) - 1) = ':' || \2"
_KEPT = (
    rf"({_OWN_KEPT} OR EXISTS (SELECT 1 FROM rule_reader kept"  # noqa: S608 - words of ours
    r" WHERE (\1 = kept.mark OR \1 GLOB kept.mark || ':*')"
    rf" AND kept.principal IN ('{EVERYBODY}', \2, {_TEAM}, '{ROLE}' || (SELECT acting.role FROM acting_role acting"
    r" WHERE acting.place = BOARD OF \1 AND acting.who = \2))))"
)
_NAME = len(PANEL) + 3
"""Place of the first letter of the panel's name in an item's tags as JSON, counted from 1."""
_MARKS = (
    rf"SELECT '' AS mark UNION ALL SELECT \2 UNION ALL SELECT {_TEAM} UNION ALL SELECT mark FROM kept_mark"  # noqa: S608 - words of ours
)
_WORDS = {
    "FOUND": (rf"\({_COLUMN}, {_AGENT}\)", rf"\1 IN ({_MARKS}) AND VISIBLE(\1, \2)"),
    "MARKS": (rf"\((){_AGENT}\)", f"({_MARKS})"),
    "VISIBLE": (
        rf"\({_COLUMN}, {_AGENT}\)",
        rf"(\1 IN ('', \2, {_TEAM}) OR \1 GLOB '{READ}*' AND {_KEPT})",
    ),
    "BOARD OF": (r" (?:([a-z_]+\.))?owner", r"\1board"),
    "PANELLED": (r"\(([a-z_.]+)\)", rf"""instr(\1, '["{PANEL}') = 1"""),
    "PANEL OF": (
        r" ([a-z_.]+)",
        rf"""substr(\1, {_NAME}, instr(substr(\1, {_NAME}), '"') - 1)""",
    ),
    "PUBLIC": (rf"\({_COLUMN}\)", r"\1 = ''"),
    "HIDDEN": (rf"\({_COLUMN}\)", r"\1 <> ''"),
    "SHARED": (rf"\({_COLUMN}, {_COLUMN}\)", r"\1 IN ('', \2)"),
    "NEAREST": (
        rf"\({_COLUMN}, {_AGENT}\)",
        rf"\1 NOT GLOB '{READ}*:*' OR substr(\1, -length(\2) - 1) = ':' || \2, \1 = \2, \1",
    ),
}
"""Each word with the pattern of what follows it, and with its meaning."""
TIMES = 9
"""The number of values that `VISIBLE` needs for a `?` without a number: the agent each time."""


def shared(one: str, other: str) -> bool:
    """Tells whether all who see an item of owner `other` see one of owner `one`; the word SHARED, for rows."""
    return one in ("", other)


@lru_cache(maxsize=64)
def expanded(statement: str) -> str:
    """Returns the statement with the words above replaced by SQL; kept, because every query asks for the same few."""
    for word, (given, meaning) in _WORDS.items():
        if word in statement:
            statement = re.sub(rf"\b{word}{given}", meaning, statement)
    return statement
