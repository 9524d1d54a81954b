"""Troubles that keep a store from writing while it still reads."""

from __future__ import annotations

from typing import Literal

from blackboard_mcp.protocols.values import dataclass


@dataclass(frozen=True, slots=True)
class Trouble:
    """The reason why the last attempt to write failed or was limited.

    Attributes:
        kind: `low`: little room is left, and reserved for what ends work. `full`: no room is left. Writes work again
            when there is room. `stopped`: the disk failed, or the file was replaced; only a restart allows writes.
        message: the reason in words.
    """

    kind: Literal["low", "full", "stopped"]
    message: str
