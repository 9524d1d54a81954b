"""Lookalike names: a newcomer is refused whose name looks like another's, or means somebody else.

Whoever was on a board before there was this rule stays, whatever others are called there. An agent that only reads
takes no name away from anybody.
"""

from __future__ import annotations

from blackboard_mcp.protocols.events import SYSTEM
from blackboard_mcp.protocols.names import is_reserved, looks, reserved, taken

from .rows import Steps, dumps, sql

_UNKNOWN = ""
"""In the place of how a name looks, where that was not worked out yet."""


def admit(no: int, board: str, agent: str) -> Steps[None]:
    """Lets an agent write on a board.

    Raises:
        Refused: it is new there, and its name is taken by one that looks like it, or is no name.
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
    for look in sorted(looks(agent)):
        yield sql("look_add"), (no, agent, look)
