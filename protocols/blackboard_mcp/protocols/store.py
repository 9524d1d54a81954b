"""What a board store must do, and the answers it gives.

Every method is one transaction: all of it or nothing, seen whole or not at all. A mutation is durable
when its call returns, carries exactly one event per change, written in the same transaction, and may be
cancelled: then it either happened whole or not at all. Reads see every write acknowledged before the
call. Methods that take an `agent` show and touch only what that agent may see; what it may not see looks
like what does not exist. Boards are named by id; items by number.

Errors that may leave: `UnknownReference`, `InvalidInput`, `Conflict`, `Refused` as each method says, and
`StoreError` from all of them. After any error nothing was changed.

Calling a mutation twice does it twice, unless `once` gives an idempotency key: a key is applied once by
each agent on each board, in the transaction of the mutation, and used again it answers as the first time.
What the call did is told as of then (an entry's version, a debate's state, a lease, an id); what else
changed of the items in the answer, and `Attention`, is told as of now. The same key with another digest is
`InvalidInput`. A call that failed used no key. Keys count for the board's `idempotency_seconds`, then they
are as new.

`look` is the sequence up to which the agent has seen the board; it only serves `Attention`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from .archive import ArchiveDocument, OutboxBatch
from .asking import RequestStore
from .board import AgentInfo, Board, BoardChange, BoardConfig, Core
from .debates import Debate, Duty, StandingWatch, Tally
from .events import Event
from .explain import Explained
from .filters import ItemQuery
from .groups import (
    ATTEMPTS,
    MAX_TAKEN,
    DeadLetter,
    Group,
    GroupState,
    Handle,
    Outlook,
    Taken,
    Turn,
)
from .guard import Protection
from .items import Draft, Item, Ref, Status
from .pressure import Describe
from .pruning import Decide, PassOutcome, Reaching
from .summaries import DueSummary, SummaryRequest
from .topics import Topic
from .transactions import Transaction


@dataclass(frozen=True, slots=True)
class Attention:
    """What waits for an agent: ids, most pressing first (at most 50)."""

    ids: tuple[str, ...] = ()


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


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions of one item, newest first. `next` is the newest that is not listed any more; `None` at the end."""

    number: int
    id: str
    key: str | None
    newest: int
    versions: tuple[Version, ...]
    next: int | None
    seq: int


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


@dataclass(frozen=True, slots=True)
class Stretch:
    """A piece of a whole log: every event after a sequence, private ones of any agent among them.

    `seq` is where the board stands; the events may end before it. `Event.visible_to` says whom each of
    them may be shown to.
    """

    events: tuple[Event, ...]
    seq: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a view of one agent is rendered from, all of one moment.

    `items` are those of working memory the agent may see, most important first (at most
    `SNAPSHOT_ITEMS`), always with the active constraints, the open hot issues, what the agent owes and
    the roots and critiques of open debates; `hidden` counts those left out.
    """

    board: Board
    items: tuple[Item, ...]
    debates: tuple[Debate, ...]
    owed: tuple[tuple[int, Duty], ...]
    protected: dict[int, Protection] = field(default_factory=dict)
    hidden: int = 0
    attention: Attention = field(default_factory=Attention)
    summaries: tuple[SummaryRequest, ...] = ()
    """Requests for summaries that the agent could meet, oldest first, at most three."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """Figures of a board that an agent may know: `(zone, type, status) -> (items, tokens)`."""

    board: Board
    counts: dict[tuple[str, str, str], tuple[int, int]]
    protected_items: int
    protected_tokens: int
    open_debates: int
    waiting_for_index: int


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


class BoardStore(RequestStore, Protocol):
    """Where boards live. Safe for many tasks at once and, where the engine says so, many processes."""

    # Boards

    async def ensure_board(self, board: str, agent: str, config: BoardConfig) -> Board:
        """The board, made with `config` if it is not there."""
        ...

    async def find_board(self, board: str) -> Board | None: ...

    async def boards(self) -> list[Board]:
        """All boards, ordered by id."""
        ...

    async def set_core(
        self, board: str, agent: str, core: Core, *, expected_version: int, once: Once | None = None
    ) -> Core:
        """A new core, one version up.

        Raises:
            Conflict: the core is not at `expected_version`.
        """
        ...

    async def change_board(
        self, board: str, agent: str, change: BoardChange, *, once: Once | None = None
    ) -> Board:
        """The board with what `change` names changed; nothing happens when it is so already.

        Raises:
            UnknownReference: the board, or its parent, is not there.
            InvalidInput: the parent would close a cycle.
            Conflict: the lifecycle does not lead there.
        """
        ...

    # Whom agents act for: the same on every board, and in no board's log

    async def set_owner(self, agent: str, owner: str) -> None:
        """From now on the agent acts for `owner`; for itself when that is its own name."""
        ...

    async def owner_of(self, agent: str) -> str:
        """Whom the agent acts for; the agent itself when nobody was named."""
        ...

    # Posting and debating

    async def post(
        self,
        board: str,
        agent: str,
        drafts: Sequence[Draft],
        *,
        config: BoardConfig,
        once: Once | None = None,
        look: int = 0,
    ) -> Posted:
        """All of the drafts or none; a board that is not there is made with `config`.

        Raises:
            UnknownReference: an edge or id names what is not there.
            Conflict: an expected version or a status moved.
            Refused: the board takes no posts, or a change is not this agent's to make.
        """
        ...

    async def transact(
        self,
        board: str,
        agent: str,
        transaction: Transaction,
        *,
        config: BoardConfig,
        once: Once | None = None,
        look: int = 0,
    ) -> Committed:
        """Holds what was read against the state; where all of it stands, writes and debates, all or nothing.

        A transaction that writes nothing and debates nothing only says whether its reads hold; it makes no
        board, and its idempotency key is not kept.

        Raises:
            Conflict: with `moved`, what was read or expected moved: every name of it, with its version now (0:
                nothing by that name), or the sequence of its last change where it was read `Since` one.
                Also as `post` and the debates raise it.
            InvalidInput: too much of something, or a name that is none.
            UnknownReference, Refused: as `post` and the debates raise them.
        """
        ...

    async def recall(self, board: str, agent: str, once: Once) -> Any | None:
        """What was kept of the answer of a call, as JSON of the store's own; `None` when the key is new.

        For use cases that look before they call: what a first call has done must not fail its repetition.

        Raises:
            InvalidInput: the key was used for something else.
        """
        ...

    async def sweep_once(self) -> int:
        """Drops idempotency keys that count no more, in transactions of bounded size; answers how many."""
        ...

    # Each call in a debate answers as `debate_status` does, as of its own transaction.

    async def debate_open(
        self,
        board: str,
        agent: str,
        number: int,
        watchers: Sequence[str],
        *,
        once: Once | None = None,
        look: int = 0,
    ) -> DebateView | Item:
        """Opens a debate on the item, or adds the agent and `watchers` to the open one."""
        ...

    async def debate_watch(
        self, board: str, agent: str, number: int, *, once: Once | None = None, look: int = 0
    ) -> DebateView | Item:
        """The agent owes an acknowledgement; the item stays in working memory until it is given."""
        ...

    async def debate_unwatch(
        self, board: str, agent: str, number: int, *, once: Once | None = None, look: int = 0
    ) -> DebateView | Item:
        """Waives what the agent has yet to acknowledge of the item or of its debate.

        Raises:
            Conflict: there is no such thing.
        """
        ...

    async def debate_acknowledge(
        self,
        board: str,
        agent: str,
        number: int,
        *,
        version: int | None = None,
        once: Once | None = None,
        look: int = 0,
    ) -> DebateView | Item:
        """Meets what the agent owes; closes the debate when every watcher has acknowledged.

        On a board with a quorum votes close debates, and acknowledgements do not. Somebody who does not act
        for the author under criticism must be among those who acknowledged. A new version of what is
        debated asks for all of them again.

        Raises:
            Conflict: nothing is owed and no debate open, or `version` is given and no longer the present one.
        """
        ...

    async def debate_vote(
        self,
        board: str,
        agent: str,
        number: int,
        *,
        approve: bool,
        reason: str = "",
        version: int | None = None,
        once: Once | None = None,
        look: int = 0,
    ) -> DebateView | Item:
        """Records the vote of the agent's owner on the present version, in place of its former vote.

        With a quorum it meets what the agent has to acknowledge in the debate, and closes the debate when as
        many owners voted the same way; the owner of the author under criticism does not count. What is
        voted down is INVALIDATED.

        Raises:
            Conflict: no debate is open, or `version` is given and no longer the present one.
        """
        ...

    async def debate_withdraw(
        self,
        board: str,
        agent: str,
        number: int,
        reason: str,
        *,
        once: Once | None = None,
        look: int = 0,
    ) -> DebateView | Item:
        """Takes the agent's own critique back; a debate without critiques is withdrawn."""
        ...

    async def debate_decide(
        self,
        board: str,
        agent: str,
        number: int,
        reason: str,
        deciders: Sequence[str],
        *,
        version: int | None = None,
        once: Once | None = None,
        look: int = 0,
    ) -> DebateView | Item:
        """Closes the debate. Without `deciders`, any agent that is no party to it, and acts for none, may.

        Who acts for the author under criticism may never.

        Raises:
            Conflict: no debate is open, or `version` is given and no longer the present one.
            Refused: not this agent's to decide.
        """
        ...

    async def debate_status(self, board: str, agent: str, number: int, *, look: int = 0) -> DebateView | Item:
        """The newest debate about the item; the item alone when there never was one."""
        ...

    async def sweep_debates(self) -> list[str]:
        """Lets lapse what the boards' settings say; the boards it changed.

        Acknowledgements and standing watches of agents who were away longer than `watch_lease_seconds`, and
        debates that stood still for `debate_expiry_seconds`. A bounded part of it a call; calling again
        does the rest.
        """
        ...

    # Standing watches: debates that open on what they name oblige the agent; what is posted about it, it hears of

    async def watch_topic(
        self, board: str, agent: str, topic: Topic, *, once: Once | None = None
    ) -> list[StandingWatch]:
        """From now on the agent watches the topic; one that it watches already is left as it is.

        What the agent watches then, longest first.

        Raises:
            UnknownReference: the board or the thread is not there.
            Refused: too many, or the thread is private.
        """
        ...

    async def unwatch_topic(
        self, board: str, agent: str, topic: Topic, *, once: Once | None = None
    ) -> list[StandingWatch]:
        """Ends a standing watch; what it obliged the agent to already stays owed.

        What the agent watches then, longest first.

        Raises:
            Conflict: the agent does not watch it.
        """
        ...

    async def watches(self, board: str, agent: str) -> list[StandingWatch]:
        """The agent's own, longest first."""
        ...

    # Reading

    async def read(
        self, board: str, agent: str, refs: Sequence[Ref], keys: Sequence[str], *, look: int = 0
    ) -> Found:
        """Items by id and by key, in the order asked.

        A key may name a version as a reference does (`plan:a@2`). The key of a deleted entry is missing, its
        versions and its number are not.
        """
        ...

    async def versions(
        self, board: str, agent: str, of: int | str, *, upto: int | None = None, limit: int = 50
    ) -> Versions | None:
        """Versions of the item of a number or a key, of a deleted one as well; newest first, from `upto` down.

        `None` where the agent sees no such item.
        """
        ...

    async def query(self, board: str, agent: str, wanted: ItemQuery, *, look: int = 0) -> Page: ...

    async def log(self, board: str, agent: str, after: int, limit: int, *, look: int = 0) -> Log:
        """Events after a sequence, in order, at most `limit`."""
        ...

    async def beginnings(self, board: str, agent: str, wanted: Iterable[int]) -> dict[int, str]:
        """How the present texts begin, up to 1,000 characters without leading blanks, of those the agent may see."""
        ...

    async def stretches(self, places: Mapping[str, int], limit: int) -> dict[str, Stretch]:
        """Of each board that stands beyond its sequence in `places`, the events after it, gapless.

        At most `limit` events in all: a board that none are left for is left out though it moved. Boards
        that are not there are passed over. For those who share one reading among many agents.
        """
        ...

    async def history(self, board: str, agent: str, number: int, limit: int = 50) -> tuple[Event, ...]:
        """What happened to one item, newest first."""
        ...

    async def snapshot(self, board: str, agent: str, *, look: int = 0) -> Snapshot: ...

    async def statistics(self, board: str, agent: str) -> Statistics: ...

    async def agents(self, board: str) -> list[AgentInfo]:
        """Agents that ever posted, restored or debated, or were seen while they owed something, by name."""
        ...

    async def record_activity(
        self, board: str, seen: Mapping[str, datetime], reads: Mapping[int, tuple[int, datetime]]
    ) -> None:
        """Agents were there, and items were read so many times, the last time then.

        It changes no board: no event, no sequence. Reads add up, instants only move forward; agents that
        never did anything there, and items and boards that are not there, are passed over.
        """
        ...

    async def tags(self, board: str, agent: str) -> list[str]:
        """Tags in use in working memory, most used first, at most 100."""
        ...

    async def why_left(self, board: str, agent: str, wanted: Iterable[int]) -> dict[int, Event]:
        """For the archived ones among the items, the event by which each left."""
        ...

    async def endorsements(
        self, board: str, agent: str, number: int, limit: int = 100
    ) -> tuple[Endorsement, ...]:
        """Who said the same as the item, the first ones first; none of an item the agent may not see."""
        ...

    async def around(
        self, board: str, agent: str, wanted: Iterable[int]
    ) -> dict[int, tuple[int | None, int | None]]:
        """For those of the items that the agent may see, the number of the last item before and of the
        first item after each in its thread, of those it may see; `None` at the thread's ends."""
        ...

    async def guarded(self, board: str, wanted: Iterable[int]) -> dict[int, Protection]:
        """What the guard holds of the items."""
        ...

    async def explain(self, board: str, agent: str, wanted: Sequence[int], *, look: int = 0) -> Explained:
        """What holds each of the items, its turn to go, or why it left; what is missing is named."""
        ...

    # Leaving and coming back

    async def prune(
        self, board: str, decide: Decide, *, apply: bool = True, reaching: Reaching | None = None
    ) -> PassOutcome:
        """Runs `decide` and moves what it names inside one transaction; what the guard holds stays.

        `decide` is shown all of working memory, or as much as `reaching` says it wants.
        """
        ...

    async def judge_pressure(self, board: str, describe: Describe) -> str | None:
        """Whether pressure on the board began, changed or ended by this; `None` when nothing did."""
        ...

    async def thread_sources(self, board: str, members: Iterable[int]) -> list[Item]:
        """Items for a summariser, in order of posting."""
        ...

    async def apply_summary(self, board: str, summary: NewSummary) -> str | None:
        """The id of the summary, or `None` (and nothing changed) when the thread moved meanwhile."""
        ...

    # Summaries that agents are asked for

    async def request_summary(
        self, board: str, thread: int, seen: Mapping[int, int], *, wait_seconds: int
    ) -> bool:
        """Asks the board's agents to summarise a finished thread.

        False, and nothing changed, when the thread moved or is asked for already.
        """
        ...

    async def summary_requests(self, board: str) -> tuple[list[SummaryRequest], int]:
        """Open requests, oldest first, without those whose thread moved; and the board's sequence."""
        ...

    async def take_summary(
        self, board: str, agent: str, number: int, *, seconds: float, once: Once | None = None
    ) -> tuple[SummaryRequest, list[Item]]:
        """The request on the thread of an item, which the agent holds from now on, and its sources.

        Taking it again renews it, with a new token, up to twice the time after it is due.

        Raises:
            UnknownReference: nobody asks for it.
            Conflict: somebody else has it, or the thread moved.
        """
        ...

    async def held_summary(
        self, board: str, agent: str, number: int, lease: int
    ) -> tuple[SummaryRequest, list[Item]]:
        """The request that the agent holds under that token, and its sources.

        Raises:
            UnknownReference: nobody asks for it.
            Conflict: it is somebody else's by now, or the thread moved.
        """
        ...

    async def write_summary(
        self, board: str, summary: NewSummary, lease: int, *, once: Once | None = None
    ) -> str:
        """The id of the summary that `summary.author`, who holds the request, wrote.

        It takes the place of its sources and ends the request in one transaction. Errors as in
        `held_summary`.
        """
        ...

    async def close_summary(self, board: str, thread: int, why: str) -> bool:
        """Ends a request that will not be met; false when there is none."""
        ...

    async def summaries_due(self) -> list[DueSummary]:
        """Requests of all boards that nobody met in time or whose thread moved."""
        ...

    async def expire(self) -> list[str]:
        """Archives what has outlived its time and nothing holds; the boards it changed.

        In transactions of bounded size, between which others write. Until this moves it, an item past its time
        reads and counts like any other.
        """
        ...

    async def next_expiry(self) -> float | None:
        """Seconds until the next item's time comes, of those whose time has not; `None` when none has one."""
        ...

    async def spread_retractions(self) -> list[str]:
        """Gives the retraction notices that were too many for the transaction of the retraction.

        In transactions of bounded size; nothing is lost between them. The boards it changed.
        """
        ...

    async def restore(
        self,
        board: str,
        agent: str,
        wanted: Iterable[int],
        *,
        once: Once | None = None,
        look: int = 0,
    ) -> Restored:
        """Brings archived items back to working memory."""
        ...

    # Subscriptions

    async def subscribe(
        self, board: str, agent: str, name: str, filter_: dict[str, Any], *, once: Once | None = None
    ) -> Subscription:
        """A new subscription from the present end of the log; one agent has at most 100 on a board.

        Raises:
            UnknownReference: there is no such board.
            Refused: too many.
        """
        ...

    async def unsubscribe(self, board: str, agent: str, id_or_name: str, *, once: Once | None = None) -> bool:
        """Ends a subscription, or forgets an expired one; false when there is neither."""
        ...

    async def subscriptions(self, board: str, agent: str) -> list[Subscription]:
        """The agent's own, oldest first; then those that expired of late, newest first."""
        ...

    async def find_subscription(self, board: str, agent: str, id_or_name: str) -> Subscription | None:
        """One of the agent's own.

        Raises:
            CursorExpired: it was unused for too long, or stands after the end of the log.
        """
        ...

    async def move_cursor(
        self, board: str, agent: str, id_: str, cursor: int, *, since: int | None = None
    ) -> bool:
        """Moves a subscription's cursor, which counts as a use of it; whether it was there to be moved.

        Without `since` the cursor becomes `cursor` unless it is further on: it never goes back. With `since`
        it becomes `cursor` only where it stands at `since`, so that of several readers one moves it.

        Raises:
            UnknownReference: `cursor` is after the end of the log.
        """
        ...

    async def return_cursor(self, board: str, agent: str, id_: str, cursor: int) -> None:
        """Puts a cursor back that was moved for a delivery nobody got: what comes after is delivered again."""
        ...

    async def expire_subscriptions(self) -> list[str]:
        """Lets expire what was unused for longer than `subscription_lease_seconds`; the boards it changed.

        Where they stood is kept as long again. A bounded part of it a call; calling again does the rest.
        """
        ...

    # Consumer groups

    async def create_group(
        self,
        board: str,
        agent: str,
        name: str,
        filter_: dict[str, Any],
        *,
        since: int | None = None,
        max_attempts: int = ATTEMPTS,
        once: Once | None = None,
    ) -> Group:
        """A new group, from the present end of the log or from after `since`; the one that is there, if it has
        that filter.

        Raises:
            InvalidInput: a filter or a number that cannot be.
            UnknownReference: no such board, or `since` is after the end of its log.
            Conflict: there is a group of that name with another filter.
            Refused: too many groups, or the board is closed.
        """
        ...

    async def change_group(
        self,
        board: str,
        agent: str,
        name: str,
        *,
        filter_: dict[str, Any] | None = None,
        max_attempts: int | None = None,
        once: Once | None = None,
    ) -> Group:
        """Another filter for what is still to be handed out, or another number of attempts.

        Raises:
            UnknownReference: no such group.
            Refused: somebody else made it.
        """
        ...

    async def end_group(self, board: str, agent: str, name: str, *, once: Once | None = None) -> int:
        """Ends a group; what is in flight, and what is dead, is forgotten. The board's sequence.

        Errors as in `change_group`.
        """
        ...

    async def groups(self, board: str) -> tuple[list[GroupState], int]:
        """The groups of a board, by name, and its sequence."""
        ...

    async def consume(
        self, board: str, agent: str, name: str, turn: Turn, *, once: Once | None = None
    ) -> Taken:
        """Settles what the worker names and hands it what comes next, in one transaction.

        Events come by rising sequence: first those to be handed out again, then new ones. No event is held
        by two workers at once, by the clock of the store.

        Raises:
            UnknownReference: no such board or group.
            InvalidInput: a lease or a number out of its bounds, or a filter that cannot be.
            Conflict: something named is not the worker's any more; `late` says why. Or the group has another
                filter.
            Refused: the group is to be made, and cannot.
        """
        ...

    async def group_outlook(self, board: str, name: str) -> Outlook:
        """Whether `consume` would get something, without taking it; when it would not, it may after `next_due`."""
        ...

    async def dead_letters(
        self, board: str, name: str, *, after: int = 0, limit: int = MAX_TAKEN
    ) -> tuple[list[DeadLetter], int]:
        """Dead letters of events after a sequence, by sequence; and the board's sequence."""
        ...

    async def retry_dead(
        self, board: str, agent: str, name: str, wanted: Sequence[Handle], *, once: Once | None = None
    ) -> int:
        """Dead letters wait to be handed out again, as often as a new event may be. The board's sequence.

        Raises:
            Conflict: one of them is no dead letter under that handle. Nothing was changed.
            Refused: too much is in flight.
        """
        ...

    async def drop_dead(
        self, board: str, agent: str, name: str, wanted: Sequence[Handle], *, once: Once | None = None
    ) -> int:
        """Dead letters are done with. The board's sequence; errors as in `retry_dead`."""
        ...

    async def sweep_groups(self) -> list[str]:
        """Buries what no worker will get any more, and ends groups unused for `subscription_lease_seconds`.

        The boards it changed. A bounded part of it a call; calling again does the rest.
        """
        ...

    # News

    def changes(self) -> int:
        """A counter that grows when anything was committed, here or by another process."""
        ...

    async def wait_for_change(self, seen: int, timeout: float, *, hurried: bool = True) -> int:
        """The counter, as soon as it is above `seen`, or after `timeout` seconds.

        Somebody waits for the answer where it is `hurried`; else another process's change may be noticed
        up to a second late, at no cost while nothing happens.
        """
        ...

    # For the archive's index (see `archive.ArchiveSource`)

    async def unindexed(self, board: str, agent: str, limit: int) -> list[tuple[int, str]]:
        """Archived items the index has not learnt of yet: number and text, newest first."""
        ...

    async def outbox_batch(self, limit: int) -> OutboxBatch: ...

    async def outbox_done(self, ids: Sequence[int]) -> None: ...

    async def outbox_wait(self, seconds: float) -> None: ...

    async def archived_keys(self) -> dict[tuple[str, int], int]: ...

    def archived_documents(self, batch: int = 500) -> AsyncIterator[tuple[ArchiveDocument, ...]]: ...

    async def documents(self, keys: Sequence[tuple[str, int]]) -> tuple[ArchiveDocument, ...]: ...

    async def lease(self, name: str, holder: str, seconds: float) -> bool: ...

    async def release(self, name: str, holder: str) -> None: ...

    async def close(self) -> None: ...
