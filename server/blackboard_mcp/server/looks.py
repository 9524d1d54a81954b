"""Where each agent looked last on each board: it only serves the footers, and may be forgotten."""

from __future__ import annotations

from typing import Final

from blackboard_mcp.protocols.answers import (
    Attention,
)

NAMED_IN_FOOTER: Final = 3
"""How many ids a footer names."""
_KEPT: Final = 10_000


class Looks:
    """The sequence up to which each agent has been shown a board, for the last `_KEPT` of them."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], int] = {}

    def of(self, board: str, agent: str) -> int:
        """The sequence up to which the agent has seen the board; 0 when that is not known."""
        return self._seen.get((board, agent), 0)

    def saw(self, board: str, agent: str, seq: int) -> None:
        """The agent has been shown the board up to `seq`."""
        if len(self._seen) >= _KEPT and (board, agent) not in self._seen:
            self._seen.pop(next(iter(self._seen)))
        self._seen[board, agent] = max(seq, self._seen.get((board, agent), 0))

    def told(self, board: str, agent: str, seq: int, attention: Attention) -> None:
        """The agent has been told in a footer what is new; where that named all of it, it is news no more."""
        if len(attention.ids) <= NAMED_IN_FOOTER:
            self.saw(board, agent, seq)
