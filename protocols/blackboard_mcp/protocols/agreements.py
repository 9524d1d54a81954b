"""Agreement: whom an item's author asks to agree to it, and who did.

It is no debate: the item stays as it is. Who objects criticises it.
"""

from __future__ import annotations

from blackboard_mcp.protocols.values import dataclass

EVERYBODY = "all"
"""Asks all who are on the board now, but for the author's owner; at most `MOST_ASKED`, those seen last."""
MOST_ASKED = 32


@dataclass(frozen=True, slots=True)
class Ask:
    """Whom to ask: agents by name, or everybody as well; `enough` owners that agree suffice, 0: all who are asked."""

    names: tuple[str, ...] = ()
    everybody: bool = False
    enough: int = 0


@dataclass(frozen=True, slots=True)
class Agreement:
    """How agreement to an item as it stands fares: agents by name, in the order in which they were asked.

    `away` were asked and let off; `enough` owners suffice, 0: all who were asked and not let off. `reached` is true
    from when they did.
    """

    agreed: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    away: tuple[str, ...] = ()
    enough: int = 0
    reached: bool = False
