"""Remarks on a post beside storing it: that it was said before, or what it stands against.

A remark refuses nothing: whoever posted decides what to make of it.
"""

from __future__ import annotations

from enum import StrEnum

from .items import Item
from .values import dataclass


class RemarkKind(StrEnum):
    """Why the items of a remark are named."""

    SAME = "same"
    """The agent posted it before, and it stands: nothing was stored again."""
    CRITICISED = "criticised"
    """Open critiques that what the post criticises had already."""
    OVER = "over"
    """The post criticises or replies to them, and they were withdrawn or invalidated before: no debate opens."""
    FALLEN = "fallen"
    """They say the same, and were withdrawn or invalidated."""
    NUMBERS = "numbers"
    """They say the same but for the numbers, and stand."""
    CLAIM = "claim"
    """It supersedes or refutes them, which is a claim until their authors agree."""
    ASKS = "asks"
    """It is a question that waits for answers of the agents in `fields`."""
    ANSWERS = "answers"
    """It replies to this question or critique, which waits for the agents in `fields`, or for nobody any more."""
    UNSEEN = "unseen"
    """Others wrote them on the same matter, and the agent was not shown them yet."""


@dataclass(frozen=True, slots=True)
class Remark:
    """A remark on the post at `place` (from 0) of its call: the items it is about, oldest first, and how many `more`.

    `fields` are those of a repeated post that differ from the item as it stands, and were left as they are; of
    questions the agents that owe an answer.
    """

    place: int
    kind: RemarkKind
    about: tuple[Item, ...]
    more: int = 0
    fields: tuple[str, ...] = ()
