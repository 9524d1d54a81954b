"""What keeps a store from writing while it goes on reading."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Trouble:
    """What the last attempt to write met.

    `full`: no room; writes work again when there is some. `stopped`: the disk failed, or the file was replaced;
    nothing is written before a restart.
    """

    kind: Literal["full", "stopped"]
    message: str
