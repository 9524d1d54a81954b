"""The contract of a board store; `answers` has its answers.

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

A write made under a grant (`grants.GRANTED`) is `Forbidden` where the grant does not hold any more by the member's
role that stands in the very transaction: a role taken away before the commit lets nothing through.

Every version of an item counts bytes for who wrote it: its text, and its tags and metadata as JSON without spaces, in
UTF-8, and 1,000 besides. A write of an agent that adds a version or lengthens tags and metadata is `QuotaExceeded`
where the agents of its owner then have more on the board than `owner_bytes`, or all more than `board_bytes`; one that
adds nothing but an answer which its agent owes may go `board.RESERVE_BYTES` beyond. Where its disk is nearly full a
store may refuse the same writes as `StoreLow`, and all that agents ask for where it is all but full.

`look` is the sequence up to which the agent has seen the board; it only serves `Attention`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from .access import Role, Trust
from .answers import (
    Committed,
    Endorsement,
    Found,
    Log,
    NewSummary,
    Once,
    Page,
    Posted,
    Restored,
    Snapshot,
    Statistics,
    Stretch,
    Versions,
)
from .archive import ArchiveDocument, OutboxBatch
from .asking import RequestStore
from .board import AgentInfo, Board, BoardChange, BoardConfig, Core
from .changes import Judge
from .debate_store import DebateStore
from .events import Event
from .explain import Explained
from .filters import ItemQuery
from .following_store import FollowingStore
from .guard import Protection
from .items import Draft, Item, Ref
from .pressure import Describe
from .pruning import Decide, PassOutcome, Reaching
from .retention import Forgettable, Retention
from .summary_store import SummaryStore
from .tokens import Count
from .transactions import Transaction


class BoardStore(DebateStore, SummaryStore, FollowingStore, RequestStore, Protocol):
    """Where boards live. Safe for many tasks at once and, where the engine says so, many processes."""

    def judged(self, judge: Judge, boards: Iterable[str] = ()) -> BoardStore:
        """The same store, asking `judge` about the changes that agents make before it commits them.

        It asks on `boards` (`*` is every board), and where a board chose access policies. A transaction whose
        changes were not allowed is undone, `judge` is asked about them outside any transaction, and the call is
        repeated: what is committed is what was allowed, or the judge's error leaves. A call that an idempotency
        key answers is not judged again; nor is what the server does by itself.

        The store itself refuses changes of agents on boards that chose policies, with `Unpermitted`. Of a store that
        has a judge, this is the same store with another judge in its place.
        """
        ...

    # Boards

    async def mark_copies(self) -> None:
        """Says that all boards were put back from a copy, and that others may have given the sequences that follow.

        The first change of each then begins with a `board.restored` event, whose `after` is the sequence it stood at.
        Its own is so far beyond that what was given elsewhere is not given again; places between are refused
        (`end_of_log`). Until then nothing shows.
        """
        ...

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
        self,
        board: str,
        agent: str,
        change: BoardChange,
        *,
        count: Count | None = None,
        once: Once | None = None,
    ) -> Board:
        """The board with what `change` names changed; nothing happens when it is so already.

        A change that names the tokenizer needs `count`, which counts by it: every version of every item is counted
        anew, and takes its new count in the transaction that changes the board. Texts are counted before that, so
        that others write meanwhile; `count` is called in other threads.

        Raises:
            UnknownReference: the board, or its parent, is not there.
            InvalidInput: the parent would close a cycle.
            Conflict: the lifecycle does not lead there.
            Forbidden: a member's role goes past what the grant allows.
            Refused: the agent would take its own right to administer, or there are too many members.
        """
        ...

    # Members

    async def members(self, board: str) -> dict[str, Role]:
        """The agents that the board itself gives a role, by name; none of a board that is not there."""
        ...

    async def role_of(self, board: str, agent: str) -> Role | None:
        """The role that the board itself gives the agent, if it does."""
        ...

    # Whom agents act for: the same on every board, and in no board's log

    async def set_owner(self, agent: str, owner: str) -> None:
        """From now on the agent acts for `owner`; for itself when that is its own name."""
        ...

    async def set_trust(self, agent: str, trust: Trust) -> None:
        """What the agent posts from now on is to be relied on so far; what it posted before stays as it is."""
        ...

    async def owner_of(self, agent: str) -> str:
        """Whom the agent acts for; the agent itself when nobody was named."""
        ...

    async def owners_of(self, agents: Iterable[str]) -> dict[str, str]:
        """The same of each of the agents."""
        ...

    # Posting

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

    async def beginnings(
        self, board: str, agent: str, wanted: Iterable[tuple[int, int]]
    ) -> dict[tuple[int, int], str]:
        """How the texts of items begin that the agent may see, by number and version.

        Up to 1,000 characters without leading blanks; versions that are not there are left out.
        """
        ...

    async def stretches(self, places: Mapping[str, int], limit: int) -> dict[str, Stretch]:
        """Of each board that stands beyond its sequence in `places`, the events after it, none left out.

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
        self,
        board: str,
        seen: Mapping[str, datetime],
        reads: Mapping[int, tuple[int, datetime]],
        shown: Mapping[str, int] | None = None,
    ) -> None:
        """Agents were there, items were read so many times, the last time then, and agents were `shown` so much.

        It changes no board: no event, no sequence. Reads add up, what was shown adds up (a `Look` is joined
        to what is kept; of very many sequences after its place the last are dropped, hence shown again), instants
        only move forward; agents that never did anything there, and items and boards that are not there, are
        passed over.
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

    async def expire(self) -> list[str]:
        """Archives what has outlived its time and nothing holds; the boards it changed.

        In transactions of bounded size, between which others write. Until this moves it, an item past its time
        reads and counts like any other.
        """
        ...

    async def next_expiry(self) -> float | None:
        """Seconds until the next item's time comes, of those whose time has not; `None` when none has one."""
        ...

    async def forgettable(
        self, board: str, retention: Retention, after: int, limit: int = 200
    ) -> tuple[int | None, tuple[Forgettable, ...]]:
        """The items of a board's archive that `retention` lets be forgotten now, among `limit` after a number.

        With the number that this ended at, `None` at the end of the archive. Whether the retention is for the board is
        not asked. Nothing is changed.
        """
        ...

    async def forget(self, board: str, wanted: Iterable[int], retention: Retention) -> tuple[str, ...]:
        """Removes for good what agents wrote into those of the items that may be forgotten now; their ids.

        One transaction, for as many items as are given, with an event for each. Text, tags and metadata of every
        version go, those in the log and with endorsements too. An item that is live, held, watched, owed for, cited by
        what is live or an answer to it stays as it is, and so does one whose time has not come; `forgettable` says
        which may go.
        """
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
