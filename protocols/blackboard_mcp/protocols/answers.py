"""Values that a board store returns or accepts, all of them frozen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from .board import Board, Lifecycle
from .debates import Debate, Duty, Tally
from .events import Event
from .guard import Protection
from .items import Item, ItemType, Status
from .remarks import Remark
from .summaries import SummaryRequest
from .tokens import DEFAULT_TOKENIZER
from .values import dataclass

if TYPE_CHECKING:
    from .agenda import Task, Workload
    from .rules import RuleBook
    from .runs import Run

SNAPSHOT_ITEMS = 300
"""The most items of working memory that a view is rendered from."""
LAST_ACTS = 200
"""The last events of a board, as far as an agent may see them, whose agents a view names as active."""
BEGINNING = 2_000
"""Characters of a text that are read for a line of news."""
MOST_UNSEEN = 100
"""Most changes that an agent was not shown which are counted and named; the first ones are kept."""

MOST_SHOWN = 500
"""Most sequences that are kept of changes shown after the first one not shown; later ones are shown again."""


class Look(int):
    """The sequence up to which an agent was shown all changes that are news to it; 0 when it was shown nothing.

    `above` are later sequences that the agent was shown as well. `told` are later sequences that footers gave as the
    board's while the agent had not been shown everything before them. A plain number is a look without either.

    `left` is the attention of the agent's last answer, so that no store looks through the same part of the log again.
    It is no part of what a look says. Nor is `viewed`, the sequence up to which views told the agent what left of its
    own: that is news to nobody, so other answers pass over it. `None` is as far as the look itself.
    """

    above: frozenset[int]
    told: frozenset[int]
    left: Attention | None
    viewed: int | None

    def __new__(
        cls, seq: int = 0, above: Iterable[int] = (), told: Iterable[int] = (), left: Attention | None = None
    ) -> Look:
        return cls._made(seq, _after(seq, above), _after(seq, told), left)

    @classmethod
    def _made(
        cls,
        seq: int,
        above: frozenset[int],
        told: frozenset[int],
        left: Attention | None,
        viewed: int | None = None,
    ) -> Look:
        """Makes a look of sequences that all come after `seq`."""
        look = super().__new__(cls, seq)
        look.above, look.told, look.left, look.viewed = above, told, left, viewed
        return look

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Look):
            return (int(self), self.above, self.told) == (int(other), other.above, other.told)
        return int(self) == other

    __hash__ = int.__hash__

    def bounded(self, most: int) -> Look:
        """Returns the look with at most `most` sequences in each set: the first of `above` and the last of `told`."""
        if max(len(self.above), len(self.told)) <= most:
            return self
        return Look(self, frozenset(sorted(self.above)[:most]), frozenset(sorted(self.told)[-most:]))

    @classmethod
    def of(cls, look: int) -> Look:
        """Returns a plain number as a look; a look stays as it is."""
        return look if isinstance(look, Look) else cls(look)

    @property
    def is_of_newcomer(self) -> bool:
        """Tells whether the agent was shown nothing yet; the event that creates the board does not count."""
        return self <= 1 and not self.above

    def joined(self, other: int) -> Look:
        """Returns a look of everything that the agent was shown according to either of the two."""
        more = Look.of(other)
        far, near = (more, self) if more > self else (self, more)
        above, told = _with(far.above, near.above, far), _with(far.told, near.told, far)
        viewed = more.viewed if self.viewed is None else self.viewed
        return Look._made(int(far), above, told, self.left or more.left, viewed)

    def leaving(self, left: Attention) -> Look:
        """Returns the look after an answer with this attention."""
        return Look._made(int(self), self.above, self.told, left, self.viewed)

    def viewing(self, viewed: int | None) -> Look:
        """Returns the look of an agent that asks for a view."""
        return Look._made(int(self), self.above, self.told, self.left, viewed)


def _after(seq: int, shown: Iterable[int]) -> frozenset[int]:
    """Returns those of the sequences that come after `seq`."""
    return frozenset([one for one in shown if one > seq]) if shown else _NONE


def _with(shown: frozenset[int], more: frozenset[int], seq: int) -> frozenset[int]:
    """Returns `shown`, which all come after `seq`, and those of `more` that do; a set to which nothing comes as it is.

    Nearly every answer adds one sequence to hundreds.
    """
    new = [one for one in more if one > seq and one not in shown] if more else ()
    return shown.union(new) if new else shown


_NONE: Final[frozenset[int]] = frozenset()


@dataclass(frozen=True, slots=True)
class Owed:
    """An obligation of an agent on an item, given by its id.

    `votes` is true of the duty to acknowledge on a board where a quorum of votes closes debates.
    """

    id: str
    duty: Duty
    votes: bool = False


@dataclass(frozen=True, slots=True)
class Attention:
    """An agent's obligations, most pressing first (at most 50), and the changes not shown to it yet.

    `fresh` are the changes that are news to it, in order: pairs of sequence and item number (0: about no item), the
    first `MOST_UNSEEN` of them. `looked` is the sequence up to which the log was searched for them. `team` is the owner
    of the agent then, empty for none, if that alone decided what the agent may see; else `None`.
    """

    owed: tuple[Owed, ...] = ()
    fresh: tuple[tuple[int, int], ...] = ()
    looked: int = 0
    team: str | None = None

    @property
    def unseen(self) -> int:
        """The number of changes that the agent was not shown; `MOST_UNSEEN` means as many or more."""
        return len(self.fresh)

    @property
    def settled(self) -> int:
        """The sequence up to which the agent was shown everything."""
        return self.fresh[0][0] - 1 if self.fresh else self.looked


@dataclass(frozen=True, slots=True)
class NoticeFor:
    """The parts of a notice that a caller asks for; what waits for the agent is in every notice.

    `look` is what the agent was shown, as for `BoardStore.log`. `claims` asks for the tasks that it holds, `texts` for
    the beginnings of items by number.
    """

    look: int = 0
    rules: bool = False
    claims: bool = False
    texts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Notice:
    """Facts for an agent beside the result of its call, as of the sequence `seq`; parts not asked for are empty.

    `texts` are as those of `BoardStore.beginnings`, of first versions. `pass_due` says that the board is too full.
    """

    seq: int
    attention: Attention
    rules: RuleBook | None = None
    claims: tuple[Task, ...] = ()
    texts: Mapping[int, str] = field(default_factory=dict)
    pass_due: bool = False


@dataclass(frozen=True, slots=True)
class Posted:
    """The result of a post: the items in the order of the drafts, and the board after it."""

    items: tuple[Item, ...]
    seq: int
    board: Board
    attention: Attention
    repeated: bool = False
    """True when the idempotency key had been used, so nothing was done again."""
    endorsed: tuple[int, ...] = ()
    """Places in `items` of items that existed before: the post counts as support of them."""
    remarks: tuple[Remark, ...] = ()
    """The board's remarks on the posts, in the order of the posts."""


@dataclass(frozen=True, slots=True)
class Endorsement:
    """A post in which an agent said the same as an existing item, with the tags and metadata it gave."""

    agent: str
    at: datetime
    tags: tuple[str, ...]
    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Once:
    """An idempotency key, and a digest of the operation's name and arguments."""

    key: str
    digest: str


@dataclass(frozen=True, slots=True)
class Debated:
    """The state of the debate about an item after a call; `None` if there never was one.

    `outcome` is what its end made of the item: stands, falls, amended, open; empty before it ended.
    """

    id: str
    state: str | None
    outcome: str = ""


@dataclass(frozen=True, slots=True)
class Committed:
    """The result of a transaction: the items of its writes as they stand after it, in order.

    `seq` is its place in the order of all transactions of the board: its last event. If it changed nothing, it is the
    sequence as of which its reads held.
    """

    items: tuple[Item, ...]
    debates: tuple[Debated, ...]
    seq: int
    board: Board | None
    """The board after the transaction; `None` if there was nothing to write and the board does not exist."""
    attention: Attention
    repeated: bool = False
    """True when the idempotency key had been used, so nothing was done again."""
    endorsed: tuple[int, ...] = ()
    """Places in `items` of items that existed before: the write counts as support of them."""
    remarks: tuple[Remark, ...] = ()
    """The board's remarks on the writes, in the order of the writes."""


@dataclass(frozen=True, slots=True)
class Found:
    """Items asked for by id and key, in the order asked; missing ones are named and are no error."""

    items: tuple[Item, ...]
    missing: tuple[str, ...]
    seq: int
    attention: Attention
    protected: dict[int, Protection] | None = None
    """The protection of the protected ones among them, as from `guarded`; `None` from a store that leaves that out."""
    too_large: frozenset[int] = frozenset()
    """Numbers of the archived ones among them that are too large to be restored now."""
    lifecycle: Lifecycle = Lifecycle.OPEN
    """The state of the board, which takes nothing back from the archive unless it is open."""


@dataclass(frozen=True, slots=True)
class Version:
    """One version of an item, without its text: who wrote it, and who last changed its other fields.

    `status` is its status when the next version was written, or now; `None` if that is not known.
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
    """True when an operator had its content removed; it then counts as `deleted` as well."""


@dataclass(frozen=True, slots=True)
class Amendment:
    """A change of an item without a new text: each changed field with its value before and after.

    A value too long to be kept twice is shown as `{"characters": n, "sha256": "…"}` of its JSON. Ages are as of `at`.
    """

    seq: int
    agent: str
    at: datetime
    version: int
    was: Mapping[str, Any]
    now: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions of one item, newest first. `next` is the version with which the next page begins; `None` at the end.

    `amendments` are the changes without a new text, newest first; they come with the first page.
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
    """A page of a query's items, newest first. `cursor` continues after the last one; `None` at the end."""

    items: tuple[Item, ...]
    cursor: int | None
    seq: int
    attention: Attention


@dataclass(frozen=True, slots=True)
class Log:
    """Events in order. `cursor` is the sequence up to which the log was read; `more` is true if the log goes on."""

    events: tuple[Event, ...]
    cursor: int
    seq: int
    more: bool
    attention: Attention
    look: Look = field(default_factory=Look)
    """The agent's look as of then, whether this or another process showed it the changes."""
    texts: dict[tuple[int, int], str] = field(default_factory=dict)
    """Beginnings of the versions that the events began, if asked for, by item number and version."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A piece of a whole log: every event after a sequence, including private ones of any agent.

    `seq` is the board's present sequence, which may be beyond the last event. Check `Event.visible_to` before showing
    one.
    """

    events: tuple[Event, ...]
    seq: int


@dataclass(frozen=True, slots=True)
class Archived:
    """A summary of the archived items that an agent may see: counts by type, and subjects of the newest.

    `tags` are those that several of the newest items have, most used first. `starts` are the beginnings of some texts.
    `last` is the id of the item that was posted last, or empty.
    """

    types: tuple[tuple[ItemType, int], ...] = ()
    tags: tuple[str, ...] = ()
    starts: tuple[str, ...] = ()
    last: str = ""

    @property
    def items(self) -> int:
        """The number of archived items over all types."""
        return sum(count for _, count in self.types)


@dataclass(frozen=True, slots=True)
class News:
    """Events since an agent last looked, caused by others and by the server, oldest first.

    What left of the agent's own since `Look.viewed` is among them; only that may be older than the look. `events` may
    be only the newest; `whole` is true if there are no others. `authors` maps ids of items that left working memory
    to their authors. `forgotten` are ids of items that an operator had forgotten since, `moot` of those that are
    back, deleted or finished, and `too_large` of those that would not stay if they were restored.
    """

    events: tuple[Event, ...] = ()
    whole: bool = True
    authors: Mapping[str, str] = field(default_factory=dict)
    forgotten: frozenset[str] = frozenset()
    moot: frozenset[str] = frozenset()
    too_large: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that an agent's view is rendered from, as of one moment and as far as the agent may see it.

    `items` are those of working memory, most important first: at most `SNAPSHOT_ITEMS`, or as many as asked for. Always
    included, in whatever zone, are active constraints, open hot issues, what the agent owes, the roots, critiques and
    answers of `debates`, the roots of `ended`, what decisions, answers and plans among them replaced, and the newest
    unfinished work that left for lack of room. `hidden` counts the items of working memory that were left out.
    """

    board: Board
    items: tuple[Item, ...]
    debates: tuple[Debate, ...]
    """Open debates, oldest first."""
    owed: tuple[tuple[int, Duty], ...]
    reads: bool = False
    """Tells whether the board lets the agent only read, so that nothing waits for it."""
    protected: dict[int, Protection] = field(default_factory=dict)
    hidden: int = 0
    attention: Attention = field(default_factory=Attention)
    summaries: tuple[SummaryRequest, ...] = ()
    """Requests for summaries that the agent could take, oldest first, at most three."""
    look: Look = field(default_factory=Look)
    """The agent's look as of then, whether this or another process showed it the changes."""
    at: datetime | None = None
    """The instant of the last event; `None` without events."""
    tokens: int = 0
    """The tokens of working memory."""
    here: tuple[tuple[str, datetime], ...] = ()
    """Agents that caused some of the `LAST_ACTS` events, with their latest such instant, the latest first."""
    roles: Mapping[str, str] = field(default_factory=dict)
    """A map from those agents of `here` that take part to their roles."""
    news: News = field(default_factory=News)
    ended: tuple[Debate, ...] = ()
    """Debates that ended last, the latest first."""
    types: Mapping[ItemType, int] = field(default_factory=dict)
    """The number of items in working memory by type."""
    answered: Mapping[int, str] = field(default_factory=dict)
    """A map from questions and problems among `items` that others replied to, to the id of the newest reply."""
    asked: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """A map from questions among `items` to the agents that owe an answer."""
    replaced: Mapping[int, str] = field(default_factory=dict)
    """A map from items that their authors superseded to the id of the superseding item."""
    archived: Archived = field(default_factory=Archived)
    work: Workload | None = None
    """The tasks that concern the agent; `None` if all tasks of the board are over."""
    run: Run | None = None
    """The board's run that is not over."""
    rules: int = 0
    """The revision of the board's rules."""
    panels: Mapping[str, int] = field(default_factory=dict)
    """The number of items in working memory by panel, for a board that names panels."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """Figures of a board, as far as an agent may know them.

    `counts` maps `(zone, type, status)` to `(items, tokens)`.
    """

    board: Board
    counts: dict[tuple[str, str, str], tuple[int, int]]
    protected_items: int
    protected_tokens: int
    open_debates: int
    waiting_for_index: int
    stored_bytes: int = 0
    """The stored bytes that the agent itself wrote, counted as `BoardConfig.owner_bytes` does."""


@dataclass(frozen=True, slots=True)
class DebateView:
    """A debate with its items, as one agent may see them, and the votes that count in it.

    `pass_due` says that the board is too full.
    """

    debate: Debate
    root: Item
    items: dict[int, Item]
    seq: int
    attention: Attention
    tally: Tally
    pass_due: bool = False


@dataclass(frozen=True, slots=True)
class NewSummary:
    """A summary before it is stored. `seen` maps each source to the `seq` at which it was read.

    `author` is the agent that wrote it, empty for the server. `writer` is the summariser. `refused` says why that is
    not the one the board asked for; it is empty otherwise.
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
    """The result of bringing archived items back: the items, and the board's tokens after it.

    Items that are too large to stay are still in the archive.
    """

    items: tuple[Item, ...]
    seq: int
    working_tokens: int
    high_tokens: int
    attention: Attention
    repeated: bool = False
    """True when the idempotency key had been used, so nothing was done again."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """A durable place in a board's log with a filter. `cursor` is the last sequence delivered.

    `used_at` may be too early by up to an hour and a tenth of the lease. `expired_at` is when it expired unused.
    """

    id: str
    agent: str
    name: str
    filter: dict[str, Any]
    cursor: int
    created_at: datetime
    used_at: datetime
    expired_at: datetime | None = None
