"""Troubles that keep a store from writing while it goes on reading."""

from __future__ import annotations

from typing import Literal

from blackboard_mcp.protocols.values import dataclass


@dataclass(frozen=True, slots=True)
class Trouble:
    """What the last attempt to write met.

    `low`: little room, which is left to what ends work; `full`: no room. Writes work again when there is some.
    `stopped`: the disk failed, or the file was replaced; nothing is written before a restart.
    """

    kind: Literal["low", "full", "stopped"]
    message: str
