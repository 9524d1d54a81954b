"""Structured results about whole boards: core, settings, figures, panels, pruning; see `wire`."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

from pydantic import Field

from .wire import Wire, no_entries


class CoreAnswer(Wire):
    objective: str
    constraints: list[str]
    flags: dict[str, bool]
    version: int
    seq: int


class BoardAnswer(Wire):
    """A board's figures and settings; fractions are of `target_tokens`. `settings` holds all of them by name."""

    board: str
    title: str
    parent: str | None
    lifecycle: str
    objective: str
    target_tokens: int
    high_water: float
    low_water: float
    ceiling: int
    hard_ceiling: int
    summarise_over: int
    settings: dict[str, Any]
    access: list[str] = Field(
        default_factory=no_entries,
        description="access policies that hold: those of the launch, then the board's own, as they are asked",
    )
    pressure: str | None = Field(
        description="the hot issue that tells of it, while the board is under pressure"
    )
    working_items: int
    working_tokens: int
    archived_items: int
    members: dict[str, str] = Field(description="agents with the role that the board itself gives them")
    seq: int


class ZoneFigures(Wire):
    items: int
    tokens: int


class ListedBoard(Wire):
    id: str
    title: str
    lifecycle: str | None = Field(description="open, settled or closed; null where nothing was posted yet")
    default: bool = Field(description="the board of calls that name none")


class BoardsAnswer(Wire):
    """The boards that the reader may read, the default first: `boards://all.json`."""

    boards: list[ListedBoard]


class WirePanel(Wire):
    """A panel of a board, as one agent sees it."""

    name: str
    about: str
    writers: list[str] = Field(description="besides stewards; * is everybody")
    live: int = Field(description="items in working memory")
    version: int = Field(description="the sequence of its last change; 0 before the first")


class WireGrowth(Wire):
    """The growth of a data folder by what was written in the last week, and the day when posts stop at this rate."""

    bytes_a_day: int = Field(description="with two digits that count")
    free_bytes: int = Field(description="may still be written before posts are refused")
    days_left: int | None = Field(description="until then; null where that is a hundred years away")
    stops_on: date | None


class StatisticsAnswer(Wire):
    """Figures of a board, of what the reader may see: `board://{board}/stats.json`."""

    board: str
    title: str
    lifecycle: str
    seq: int
    created_at: datetime
    working_items: int
    working_tokens: int
    archived_items: int
    target_tokens: int
    high_water_tokens: int = Field(description="a pass starts above it")
    low_water_tokens: int = Field(description="and ends at it")
    protected_items: int
    protected_tokens: int
    open_debates: int
    waiting_for_index: int
    visible: dict[str, ZoneFigures] = Field(description="zone to what the reader sees of it")
    working_by_type: dict[str, int]
    tokenizer: str
    stored_bytes: int = Field(description="what the reader wrote that is kept, as owner_bytes counts")
    owner_bytes: int = Field(description="most of it for the agents of one owner; 0: no bound")
    board_bytes: int = Field(description="and for all; 0: no bound")
    growth: WireGrowth | None = Field(
        default=None,
        description="of the data folder, at most an hour old, for admins of every board; the first who asks has it "
        "measured",
    )


class MovedItem(Wire):
    id: str
    step: int = Field(description="step of the pass, 1 to 4")
    why: str


MAX_MOVED = 4_000
"""Most lines of a pass that one answer has."""


class PruneAnswer(Wire):
    """What a pass moved, or would; figures are `None` when another process is at it."""

    dry_run: bool
    moved: list[MovedItem] = Field(description="the first 4,000 of them")
    more: int = Field(default=0, description="how many there are after those")
    tokens_before: int | None
    tokens_after: int | None
    protected_items: int | None
    protected_tokens: int | None
    seq: int | None
    policy: str | None = Field(default=None, description="the policy that ordered step 4")
    warning: str = Field(default="", description="why it is not the board's own")
    held: dict[str, str] = Field(default={}, description="of what was chosen: ids that stay, with the reason")
