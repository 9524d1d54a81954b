"""Lookalike names: a newcomer is refused if its name looks like another's, or stands for somebody else.

Agents who were on a board before this rule existed stay. An agent that only reads does not reserve its name.
"""

from __future__ import annotations

from blackboard_mcp.protocols.events import SYSTEM
from blackboard_mcp.protocols.names import is_reserved, looks, reserved, taken

from .rows import Steps, dumps, sql

_UNKNOWN = ""
"""The placeholder for the look of a name that was not computed yet."""


def admit(no: int, board: str, agent: str) -> Steps[None]:
    """Lets an agent write on a board.

    Raises:
        Refused: the agent is new there and its name looks like one in use, or is reserved.
    """
    if agent == SYSTEM or (yield sql("look_known"), (no, agent)):
        return
    if is_reserved(agent):
        raise reserved(agent)
    for (known,) in (yield sql("look_unknown"), (no,)):
        yield sql("look_forget"), (no, known, _UNKNOWN)
        yield from _remember(no, known)
    rows = yield sql("look_taken"), (no, dumps(sorted(looks(agent))))
    if rows:
        raise taken(agent, rows[0][0], f"who is on the board '{board}' already")
    yield from _remember(no, agent)


def _remember(no: int, agent: str) -> Steps[None]:
    """Records how the agent's name looks, so that later names are compared with it."""
    for look in sorted(looks(agent)):
        yield sql("look_add"), (no, agent, look)
