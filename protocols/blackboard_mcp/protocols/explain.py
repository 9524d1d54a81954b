"""Explanations as facts, for any rendering: why an item stays, what would take it and when, or why it left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from .board import BoardConfig
from .debates import Obligation
from .events import Event
from .guard import Protection
from .items import Item
from .values import dataclass

if TYPE_CHECKING:
    from .answers import (
        Attention,
    )

EXPIRY = "expired"
"""Stands in the place of a step for items whose time to live has ended: every pass takes them."""


@dataclass(frozen=True, slots=True)
class PassTurn:
    """Where an unprotected item stands in the order in which items go.

    `takes` is the `PassStep` that would take it, or `EXPIRY`; `None` when nothing would as it is now.
    `items` and `tokens` are what goes before it, of what the reader may see; `None` where the board's policy
    orders the step and its order was not asked for, or where it comes after other things: what rests on it
    (`after`), and as `open_work` all else of its owner. `more`: there is more than was counted.
    """

    takes: str | None
    items: int | None = None
    tokens: int | None = None
    more: bool = False
    open_work: bool = False
    after: tuple[str, ...] = ()
    crowded: bool = False
    """An open debate cites it, and what debates cite fills its room."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """An item with either what protects it, its turn, or the event by which it left.

    `names` are the ids of the items a chain leads over; `root` is the item whose debate holds it, and
    `waits` what is outstanding there or owed to the item itself.
    """

    item: Item
    protection: Protection | None = None
    names: Mapping[int, str] = field(default_factory=dict)
    root: str | None = None
    waits: tuple[Obligation, ...] = ()
    turn: PassTurn | None = None
    left: Event | None = None


@dataclass(frozen=True, slots=True)
class PassOutlook:
    """A board as a whole: how much is protected, and what would leave first, by id with why."""

    protected_items: int
    protected_tokens: int
    leaving: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Explained:
    """Explanations in the order asked, all of one moment. `tokens` is working memory as the reader may see it.

    With an `outlook` they are of a board as a whole: what would leave first, then some of what is protected.
    """

    explanations: tuple[Explanation, ...]
    missing: tuple[str, ...]
    config: BoardConfig
    tokens: int
    seq: int
    attention: Attention
    outlook: PassOutlook | None = None
