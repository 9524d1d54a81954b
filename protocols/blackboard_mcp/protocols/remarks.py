"""Remarks on a post: for example that it repeats an item, or what contradicts it.

A remark refuses nothing: the author of the post decides what to do about it.
"""

from __future__ import annotations

from enum import StrEnum

from .items import Item
from .values import dataclass


class RemarkKind(StrEnum):
    """The relation of the post to the items that the remark names."""

    SAME = "same"
    """The same agent posted it before, and it stands: nothing was stored again."""
    CRITICISED = "criticised"
    """The items are open critiques of the same item that the post criticises."""
    JOINED = "joined"
    """The post criticises a critique, and so joins the open debate on this item."""
    OVER = "over"
    """The post criticises or replies to the items, which were withdrawn or invalidated before: no debate opens."""
    FALLEN = "fallen"
    """The items say the same, and were withdrawn or invalidated."""
    CLOSE = "close"
    """The items say about the same in other words, and were withdrawn or invalidated."""
    NUMBERS = "numbers"
    """The items say the same except for numbers, and stand."""
    CLAIM = "claim"
    """The post supersedes or refutes the items, which is only a claim until their authors agree."""
    ASKS = "asks"
    """The post is a question that waits for answers of the agents in `fields`."""
    READS = "reads"
    """The post asks the agents in `fields`, who may only read the board."""
    UNKNOWN = "unknown"
    """It asks the first name in `fields`, which was never on the board; the second, if any, is there."""
    UNASKED = "unasked"
    """It is a question that begins with the name of the agent in `fields` and does not ask it."""
    ANSWERS = "answers"
    """The post replies to this question or critique, which still waits for the agents in `fields`, if any."""
    SOLVES = "solves"
    """It is a decision about these problems, names them, or rests on these questions; they stay open."""
    UNSEEN = "unseen"
    """Other agents wrote the items on the same subject, or the versions of the entries that stand in the new item's
    edges, and this agent was not shown them yet.
    """


@dataclass(frozen=True, slots=True)
class Remark:
    """A remark on the post at `place` (from 0) of a call, with the items it is about, oldest first.

    `more` counts items that are not named. For a repeated post, `fields` are those that differ from the stored item,
    which keeps its own. For questions and answers they are agents that owe an answer.
    """

    place: int
    kind: RemarkKind
    about: tuple[Item, ...]
    more: int = 0
    fields: tuple[str, ...] = ()
