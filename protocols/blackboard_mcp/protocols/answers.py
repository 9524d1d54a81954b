"""Answers of a board store, and what it is told: frozen values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import datetime
from typing import Any

from .board import Board
from .debates import Debate, Duty, Tally
from .events import Event
from .guard import Protection
from .items import Item, ItemType, Status
from .remarks import Remark
from .summaries import SummaryRequest
from .tokens import DEFAULT_TOKENIZER
from .values import dataclass

MOST_UNSEEN = 100
"""So many changes that an agent was not shown are counted and named, the first ones first."""

MOST_SHOWN = 500
"""So many sequences are kept of what an agent was shown after something that it was not; of more, it is shown the
last ones again."""


class Look(int):
    """The sequence up to which an agent was shown all of a board that is news to it; 0 when it was shown nothing.

    `above` are sequences after it that the agent was shown as well; `told` are those that footers gave it as the
    board's while it had not been shown all before them. A plain number is a look without either.
    """

    above: frozenset[int]
    told: frozenset[int]

    def __new__(cls, seq: int = 0, above: Iterable[int] = (), told: Iterable[int] = ()) -> Look:
        look = super().__new__(cls, seq)
        look.above = frozenset(shown for shown in above if shown > seq)
        look.told = frozenset(named for named in told if named > seq)
        return look

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Look):
            return (int(self), self.above, self.told) == (int(other), other.above, other.told)
        return int(self) == other

    __hash__ = int.__hash__

    def bounded(self, most: int) -> Look:
        """The same with the first `most` sequences after its place, and the last that footers gave."""
        if max(len(self.above), len(self.told)) <= most:
            return self
        return Look(self, sorted(self.above)[:most], sorted(self.told)[-most:])

    @classmethod
    def of(cls, look: int) -> Look:
        return look if isinstance(look, Look) else cls(look)

    @property
    def is_of_newcomer(self) -> bool:
        """Whether the agent was shown nothing yet; what comes first on every board is that it came into being."""
        return self <= 1 and not self.above

    def joined(self, other: int) -> Look:
        """What the agent was shown by this or by the other."""
        more = Look.of(other)
        return Look(max(self, more), self.above | more.above, self.told | more.told)


@dataclass(frozen=True, slots=True)
class Owed:
    """Something that an agent owes on an item."""

    id: str
    duty: Duty


@dataclass(frozen=True, slots=True)
class Attention:
    """What an agent owes, most pressing first (at most 50), and what it was not shown yet.

    `fresh` are the sequences of changes that are news to it, each with the number of its item (0: about none), in
    order, the first `MOST_UNSEEN` of them; after `looked` the log was not looked through.
    """

    owed: tuple[Owed, ...] = ()
    fresh: tuple[tuple[int, int], ...] = ()
    looked: int = 0

    @property
    def unseen(self) -> int:
        """How many changes the agent was not shown; `MOST_UNSEEN` stands for as many or more."""
        return len(self.fresh)

    @property
    def settled(self) -> int:
        """The sequence up to which the agent was shown everything."""
        return self.fresh[0][0] - 1 if self.fresh else self.looked


@dataclass(frozen=True, slots=True)
class Posted:
    """What a post did: the items in the order of the drafts, and the board after it."""

    items: tuple[Item, ...]
    seq: int
    board: Board
    attention: Attention
    repeated: bool = False
    """The idempotency key had been used: nothing was done again."""
    endorsed: tuple[int, ...] = ()
    """Places in `items` of those that were there already: the post is counted as support of them."""
    remarks: tuple[Remark, ...] = ()
    """What the board remarks on the posts, in their order."""


@dataclass(frozen=True, slots=True)
class Endorsement:
    """That an agent said the same as an item, with the tags and metadata it gave."""

    agent: str
    at: datetime
    tags: tuple[str, ...]
    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Once:
    """An idempotency key and a digest of what it stands for: the operation's name with its arguments."""

    key: str
    digest: str


@dataclass(frozen=True, slots=True)
class Debated:
    """What became of the debate about an item: a state, `None` where there never was one."""

    id: str
    state: str | None


@dataclass(frozen=True, slots=True)
class Committed:
    """What a transaction did: the items of its writes as they stand after it, in order.

    `seq` is its place in the order of all transactions of the board: its last event, or where it changed
    nothing the sequence as of which its reads were found to hold.
    """

    items: tuple[Item, ...]
    debates: tuple[Debated, ...]
    seq: int
    board: Board | None
    """`None` where nothing was to be written and there is no board."""
    attention: Attention
    repeated: bool = False
    """The idempotency key had been used: nothing was done again."""
    endorsed: tuple[int, ...] = ()
    """Places in `items` of those that were there already: the write is counted as support of them."""
    remarks: tuple[Remark, ...] = ()
    """What the board remarks on the writes, in their order."""


@dataclass(frozen=True, slots=True)
class Found:
    """Items asked for by id and key, in the order asked; what is missing is named, not an error."""

    items: tuple[Item, ...]
    missing: tuple[str, ...]
    seq: int
    attention: Attention


@dataclass(frozen=True, slots=True)
class Version:
    """One version of an item, without its text: who wrote it, and who changed last what may change of it.

    `status` is what it had when the next version came, or has now; `None` where that is not known.
    """

    version: int
    created_by: str
    created_at: datetime
    updated_by: str
    updated_at: datetime
    tokens: int
    sha256: str
    status: Status | None
    deleted: bool
    tags: tuple[str, ...] = ()
    forgotten: bool = False
    """Its content was removed by an operator's decision; so it counts as `deleted` as well."""


@dataclass(frozen=True, slots=True)
class Amendment:
    """What an agent changed of an item without a new text: each name with the value before and the one after.

    A value that is too long to keep twice is `{"characters": n, "sha256": "…"}` of its JSON; ages are as of `at`.
    """

    seq: int
    agent: str
    at: datetime
    version: int
    was: Mapping[str, Any]
    now: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions of one item, newest first. `next` is the newest that is not listed any more; `None` at the end.

    `amendments` are what was changed of it beside its text, newest first, with the first page of versions.
    """

    number: int
    id: str
    key: str | None
    newest: int
    versions: tuple[Version, ...]
    next: int | None
    seq: int
    amendments: tuple[Amendment, ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """Items of a query, newest first. `cursor` continues after the last one; `None` at the end."""

    items: tuple[Item, ...]
    cursor: int | None
    seq: int
    attention: Attention


@dataclass(frozen=True, slots=True)
class Log:
    """Events in order. `cursor` is the sequence the log was looked through to; `more` when it goes on."""

    events: tuple[Event, ...]
    cursor: int
    seq: int
    more: bool
    attention: Attention
    look: Look = field(default_factory=Look)
    """What the agent had been shown by then, by this process or another."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A piece of a whole log: every event after a sequence, private ones of any agent among them.

    `seq` is where the board stands; the events may end before it. `Event.visible_to` says whom each of
    them may be shown to.
    """

    events: tuple[Event, ...]
    seq: int


@dataclass(frozen=True, slots=True)
class Archived:
    """What an agent may see of a board's archive: how many items by type, and what the newest are about.

    `tags` are those of more than one of the newest items, most used first; `starts` is how the texts of some begin.
    """

    types: tuple[tuple[ItemType, int], ...] = ()
    tags: tuple[str, ...] = ()
    starts: tuple[str, ...] = ()

    @property
    def items(self) -> int:
        return sum(count for _, count in self.types)


@dataclass(frozen=True, slots=True)
class News:
    """What happened since an agent looked last, by others and by the server, oldest first.

    `events` are the newest of them at most; `whole` when there are no more. `authors` are those of the items that left
    working memory, by id; `forgotten` are those of the items that an operator had forgotten since.
    """

    events: tuple[Event, ...] = ()
    whole: bool = True
    authors: Mapping[str, str] = field(default_factory=dict)
    forgotten: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a view of one agent is rendered from, all of one moment and all that the agent may see.

    `items` are those of working memory, most important first (at most `SNAPSHOT_ITEMS`), always with the
    active constraints, the open hot issues, what the agent owes, the roots, critiques and
    answers of `debates`, the roots of `ended`, and the newest unfinished work that left for room, wherever these are;
    `hidden` counts those of working memory left out.
    """

    board: Board
    items: tuple[Item, ...]
    debates: tuple[Debate, ...]
    """The open ones, oldest first."""
    owed: tuple[tuple[int, Duty], ...]
    protected: dict[int, Protection] = field(default_factory=dict)
    hidden: int = 0
    attention: Attention = field(default_factory=Attention)
    summaries: tuple[SummaryRequest, ...] = ()
    """Requests for summaries that the agent could meet, oldest first, at most three."""
    look: Look = field(default_factory=Look)
    """What the agent had been shown by then, by this process or another."""
    at: datetime | None = None
    """When the last event was; `None` when there is none."""
    tokens: int = 0
    """What working memory has."""
    here: tuple[tuple[str, datetime], ...] = ()
    """Who did something among the last events, and when last; who did so last first."""
    news: News = field(default_factory=News)
    ended: tuple[Debate, ...] = ()
    """Debates that ended last, the latest first."""
    types: Mapping[ItemType, int] = field(default_factory=dict)
    """How many items working memory has, by type."""
    answered: Mapping[int, str] = field(default_factory=dict)
    """Questions and problems among `items` that somebody else replied to, with the id of the newest reply."""
    asked: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """Questions among `items` with those who owe them an answer."""
    replaced: Mapping[int, str] = field(default_factory=dict)
    """Items that their authors superseded, with the id of what supersedes them."""
    archived: Archived = field(default_factory=Archived)


@dataclass(frozen=True, slots=True)
class Statistics:
    """Figures of a board that an agent may know: `(zone, type, status) -> (items, tokens)`."""

    board: Board
    counts: dict[tuple[str, str, str], tuple[int, int]]
    protected_items: int
    protected_tokens: int
    open_debates: int
    waiting_for_index: int
    stored_bytes: int = 0
    """What the agent itself has written that is kept: as `BoardConfig.owner_bytes` counts."""


@dataclass(frozen=True, slots=True)
class DebateView:
    """A debate with the items it is about, as one agent may see it, and the votes that count in it."""

    debate: Debate
    root: Item
    items: dict[int, Item]
    seq: int
    attention: Attention
    tally: Tally


@dataclass(frozen=True, slots=True)
class NewSummary:
    """A summary ready to stand for its sources: `seen` is the `seq` each source was read at.

    `author` is the agent that wrote it, empty for the server. `writer` is the summariser, and `refused`
    why that is not the one the board asked for.
    """

    thread: int
    seen: Mapping[int, int]
    text: str
    tokens: int
    sha256: str
    importance: int
    author: str = ""
    writer: str = "extractive"
    refused: str = ""
    counted_by: str = DEFAULT_TOKENIZER


@dataclass(frozen=True, slots=True)
class Restored:
    items: tuple[Item, ...]
    seq: int
    working_tokens: int
    high_tokens: int
    attention: Attention
    repeated: bool = False
    """The idempotency key had been used: nothing was done again."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """A durable place in a board's log with a filter. `cursor` is the last sequence delivered.

    `used_at` is up to an hour (and a tenth of the lease) behind; `expired_at` is of one that nobody used any more.
    """

    id: str
    agent: str
    name: str
    filter: dict[str, Any]
    cursor: int
    created_at: datetime
    used_at: datetime
    expired_at: datetime | None = None
