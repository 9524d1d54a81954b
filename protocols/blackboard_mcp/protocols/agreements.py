"""Agreement: the agents that an item's author asks to agree to it, and their answers.

It is not a debate: the item keeps its status. An agent that objects criticises the item.
"""

from __future__ import annotations

from blackboard_mcp.protocols.values import dataclass

EVERYBODY = "all"
"""The word that asks all agents of the board but those of the author's owner; at most `MOST_ASKED`, last seen first.
"""
MOST_ASKED = 32


@dataclass(frozen=True, slots=True)
class Ask:
    """The agents to ask: those of `names`, and all others as well if `everybody` is set.

    `enough` is the number of agreeing owners that suffices; 0: all who are asked.
    """

    names: tuple[str, ...] = ()
    everybody: bool = False
    enough: int = 0


@dataclass(frozen=True, slots=True)
class Agreement:
    """The state of agreement to an item's present version: agents by name, in the order in which they were asked.

    Agents in `away` were asked and then excused. `enough` agreeing owners suffice; 0: all who were asked and not
    excused. `reached` becomes true when they have agreed.
    """

    agreed: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    away: tuple[str, ...] = ()
    enough: int = 0
    reached: bool = False
