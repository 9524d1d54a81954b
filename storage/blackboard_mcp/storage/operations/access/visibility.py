"""Visibility of items: the one place that defines who may see which item, for statements and for rows.

Items and events have an `owner`: '' if everybody may see them, an agent's name if only that agent may, and
`team:` with an owner's name if all agents of that owner may. Statements use these words, which are replaced by
SQL when the statements are loaded:

* `VISIBLE(owner, ?n)`: the agent ?n may see it; '' stands for an agent who sees only what everybody sees.
* `PUBLIC(owner)`, `HIDDEN(owner)`: everybody may see it; not everybody may.
* `SHARED(one, other)`: whoever sees the item of `other` sees that of `one`, even if agents change owners.
* `NEAREST(owner, ?n)`: an order: items for everybody first, then the team's, then the agent's own.
"""

from __future__ import annotations

import re

from blackboard_mcp.protocols.visibility import TEAM

_COLUMN, _AGENT = r"([a-z_.]+)", r"(\?\d*)"
_WORDS = {
    re.compile(rf"\bVISIBLE\({_COLUMN}, {_AGENT}\)"): (
        rf"\1 IN ('', \2, '{TEAM}' || coalesce((SELECT p.owner FROM principal p WHERE p.agent = \2), \2))"  # noqa: S608 - words of ours
    ),
    re.compile(rf"\bPUBLIC\({_COLUMN}\)"): r"\1 = ''",
    re.compile(rf"\bHIDDEN\({_COLUMN}\)"): r"\1 <> ''",
    re.compile(rf"\bSHARED\({_COLUMN}, {_COLUMN}\)"): r"\1 IN ('', \2)",
    re.compile(rf"\bNEAREST\({_COLUMN}, {_AGENT}\)"): r"\1 = \2, \1",
}
TIMES = 3
"""The number of values that `VISIBLE` needs for a `?` without a number: the agent each time."""


def shared(one: str, other: str) -> bool:
    """Tells whether all who see an item of owner `other` see one of owner `one`; the word SHARED, for rows."""
    return one in ("", other)


def expanded(statement: str) -> str:
    """Returns the statement with the words above replaced by SQL."""
    for word, meaning in _WORDS.items():
        statement = word.sub(meaning, statement)
    return statement
