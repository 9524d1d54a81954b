"""Explanations as facts, for any rendering: why an item stays, when and how it would leave, or why it left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from .board import BoardConfig, Lifecycle
from .debates import Obligation
from .events import Event
from .guard import Protection
from .items import Item
from .sightings import Readership
from .values import dataclass

if TYPE_CHECKING:
    from .answers import (
        Attention,
    )

EXPIRY = "expired"
"""Stands in the place of a step for items whose time to live has ended; every pass takes them."""


@dataclass(frozen=True, slots=True)
class PassTurn:
    """The place of an unprotected item in the order in which items leave.

    `takes` is the `PassStep` that would take it, or `EXPIRY`; `None` if nothing would take it at present. `items` and
    `tokens` count what leaves before it, as far as the reader may see that; with `more` there is more than was
    counted. They are `None` if nothing would take it, if the board's policy orders the step and was not asked, if
    other items rest on this one (`after` has their ids), or if it is `open_work`, which leaves after everything else
    of its owner.
    """

    takes: str | None
    items: int | None = None
    tokens: int | None = None
    more: bool = False
    open_work: bool = False
    after: tuple[str, ...] = ()
    crowded: bool = False
    """True if an open debate cites the item, but other items that debates cite fill the room reserved for them."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """An item with its protection, its turn to leave, or the event by which it left.

    `names` maps the numbers of items on the protecting chain to their ids. `root` is the id of the item whose debate
    protects it. `waits` are outstanding obligations in that debate or to the item itself.
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
    """The outlook of a whole board: how much is protected, and what would leave first, as pairs of id and reason."""

    protected_items: int
    protected_tokens: int
    leaving: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Explained:
    """Explanations in the order asked, all as of one moment.

    `tokens` counts working memory as far as the reader may see it. With an `outlook` the explanations are about the
    board as a whole: what would leave first, then some of what is protected.
    """

    explanations: tuple[Explanation, ...]
    missing: tuple[str, ...]
    config: BoardConfig
    tokens: int
    seq: int
    attention: Attention
    outlook: PassOutlook | None = None
    readers: Mapping[int, Readership] = field(default_factory=dict)
    """Who was shown the items, by item number; for explanations of items by name."""
    lifecycle: Lifecycle = Lifecycle.OPEN
    """The state of the board, which takes nothing back from the archive unless it is open."""
    staying: Mapping[int, int] = field(default_factory=dict)
    """Items of the board that stay for a while although the guard does not protect them: their tokens by number."""
