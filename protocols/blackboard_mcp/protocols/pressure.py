"""Pressure: more is protected than a board's budget allows, so that pruning cannot help.

It begins when what the guard holds exceeds `target_tokens`, and ends when it is at or under the high-water
mark: between the two it stays as it is. Counted is what everybody sees in working memory, without the hot
issue that tells of it: a private item neither causes pressure nor shows in its figures.
"""

from __future__ import annotations

from collections.abc import Callable

from .items import ItemType
from .tokens import DEFAULT_TOKENIZER
from .values import dataclass

KEY = "board:pressure"
"""The entry by which the server tells of it; only the server writes it."""
ALWAYS = frozenset({ItemType.REPLY, ItemType.ANSWER, ItemType.CRITIQUE, ItemType.DECISION})
"""Types that may be posted under pressure whatever their importance: they end debates, or carry them on."""


@dataclass(frozen=True, slots=True)
class Cause:
    """What holds so much: an open debate (`root` is its item), or constraints, hot issues, watchers, importance."""

    what: str
    root: str | None
    items: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Unblocker:
    """An agent and the item that waits for it: `duty` is acknowledge, respond, retire or lower (what it wrote)."""

    agent: str
    duty: str
    item: str


@dataclass(frozen=True, slots=True)
class Pressure:
    """What is held, most tokens first, and by whom it could be let go, longest waiting first.

    `tokenizer` is the board's, which counts the words as well.
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
    """The text of the hot issue, counted and hashed."""

    text: str
    tokens: int
    sha256: str


Describe = Callable[[Pressure], Wording]
"""Says it for readers. Runs inside the write transaction: pure, quick, no I/O."""
