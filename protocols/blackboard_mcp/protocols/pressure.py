"""Pressure: more is protected than a board's budget allows, so that pruning cannot help.

It begins when protected items exceed `target_tokens`, and ends when they are at or below the high-water mark; in
between it stays as it is. Only items of working memory that everybody sees are counted, without the hot issue that
reports the pressure: a private item neither causes pressure nor shows in its figures.
"""

from __future__ import annotations

from collections.abc import Callable

from .items import ItemType
from .tokens import DEFAULT_TOKENIZER
from .values import dataclass

KEY = "board:pressure"
"""The key of the entry by which the server reports pressure; only the server writes it."""
ALWAYS = frozenset({ItemType.REPLY, ItemType.ANSWER, ItemType.CRITIQUE, ItemType.DECISION})
"""Types that may be posted under pressure whatever their importance, because they end debates or advance them."""


@dataclass(frozen=True, slots=True)
class Cause:
    """A reason why items are protected, with their number and tokens.

    It is an open debate, whose item is `root`, or one of constraints, hot issues, watched items and importance.
    """

    what: str
    root: str | None
    items: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Unblocker:
    """An agent that could release an item.

    `duty` is acknowledge, respond, or for an item of its own retire or lower.
    """

    agent: str
    duty: str
    item: str


@dataclass(frozen=True, slots=True)
class Pressure:
    """The protected items of a board by cause, most tokens first, and agents that could release some.

    Agents that keep others waiting the longest come first. `tokenizer` is the board's, which also counts the hot
    issue.
    """

    target_tokens: int
    ceiling: int
    held_items: int
    held_tokens: int
    causes: tuple[Cause, ...]
    unblockers: tuple[Unblocker, ...]
    tokenizer: str = DEFAULT_TOKENIZER


@dataclass(frozen=True, slots=True)
class Wording:
    """The text of the hot issue, with its tokens and hash."""

    text: str
    tokens: int
    sha256: str


Describe = Callable[[Pressure], Wording]
"""Renders pressure as text for readers. It runs inside the write transaction: pure, quick, no I/O."""
