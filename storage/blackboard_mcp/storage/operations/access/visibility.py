"""Visibility of items: the one place that says who may see which, for statements and for rows.

Items and events have an `owner`: '' for what everybody sees, an agent's name for what only that agent does, and
`team:` with the name of somebody for what all agents who act for them see. Statements say it in words that are
written out when they are loaded:

* `VISIBLE(owner, ?n)`: the agent ?n may see it; '' is an agent who sees what everybody does and no more.
* `PUBLIC(owner)`, `HIDDEN(owner)`: everybody may see it; not everybody.
* `SHARED(one, other)`: whoever sees the other sees the one, whomever agents come to act for.
* `NEAREST(owner, ?n)`: an order in which what everybody sees comes first, then the team's, then the agent's own.
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
"""How often the agent is bound where `VISIBLE` is given a `?` without a number."""


def shared(one: str, other: str) -> bool:
    """SHARED, of rows."""
    return one in ("", other)


def expanded(statement: str) -> str:
    """A statement with the words above written out."""
    for word, meaning in _WORDS.items():
        statement = word.sub(meaning, statement)
    return statement
