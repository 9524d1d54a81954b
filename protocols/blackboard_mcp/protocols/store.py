"""The contract of a board store. `answers` has the values that its methods return.

Every method is one transaction: all of it happens or nothing, and others see it whole or not at all. A mutation is
durable when its call returns. It writes exactly one event for each change, in the same transaction. It may be
cancelled: then it either happened whole or not at all. A read sees every write that was acknowledged before the call.
Methods that take an `agent` show and change only what that agent may see; to it, anything else looks nonexistent.
Boards are named by id; items by number.

Errors that may leave: `UnknownReference`, `InvalidInput`, `Conflict`, `Refused` as each method says, and `StoreError`
from all of them. After any error nothing was changed.

Calling a mutation twice does it twice, unless `once` gives an idempotency key. Each agent's key is applied once on
each board, in the transaction of the mutation; a repeated call gets the first answer. That answer tells what the call
did as of then (an entry's version, a debate's state, a lease, an id). Other fields of its items, and `Attention`, are
as of now. The same key with another digest is `InvalidInput`. A call that failed uses no key. A key counts for the
board's `idempotency_seconds`; after that it is as good as new.

A write made under a grant (`grants.GRANTED`) is `Forbidden` if the member's role, as it stands in that very
transaction, no longer allows it: no write gets through after its role was taken away.

Every version of an item counts bytes for the agent that wrote it: its text, and its tags and metadata as JSON without
spaces, in UTF-8, and 1,000 in addition. A write that adds a version or lengthens tags and metadata is `QuotaExceeded`
if the agents of its owner would then have more than `owner_bytes` on the board, or all agents more than `board_bytes`.
A write that adds only an answer which its agent owes may exceed either by `board.RESERVE_BYTES`. When its disk is
nearly full, a store may refuse the same writes as `StoreLow`; when it is almost completely full, a store may refuse
everything that agents ask for.

`look` is the sequence up to which the agent has seen the board; it only serves `Attention`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from .access import Role, Trust
from .agenda import AgendaStore
from .answers import (
    SNAPSHOT_ITEMS,
    Committed,
    Endorsement,
    Found,
    Log,
    NewSummary,
    Notice,
    NoticeFor,
    Once,
    Owed,
    Page,
    Posted,
    Restored,
    Snapshot,
    Statistics,
    Stretch,
    Versions,
)
from .archive import ArchiveDocument, OutboxBatch, Waiting
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
from .panels import PanelState
from .participants import ParticipantStore
from .pressure import Describe
from .pruning import Decide, PassOutcome, Reaching
from .read_rules import ReadRule, Reclassified
from .retention import Forgettable, Retention
from .rules import RuleBook
from .runs import RunStore
from .sightings import Readership, Sighting
from .stages import StageStore
from .sub_boards import SubBoardStore
from .summary_store import SummaryStore
from .tokens import Count
from .transactions import Transaction
from .visibility import Viewer
from .workspace import WorkspaceStore


class BoardStore(
    DebateStore,
    SummaryStore,
    FollowingStore,
    RequestStore,
    ParticipantStore,
    AgendaStore,
    StageStore,
    SubBoardStore,
    RunStore,
    WorkspaceStore,
    Protocol,
):
    """A store of boards. It is safe for many tasks at once and, where its engine says so, for many processes."""

    def judged(self, judge: Judge, boards: Iterable[str] = ()) -> BoardStore:
        """Returns the same store, which now asks `judge` about each change of an agent before it commits it.

        It asks on `boards` (`*` is every board), and on every board that chose access policies. A transaction with
        changes that were not allowed yet is undone, `judge` is asked about them outside any transaction, and the call
        is repeated. So either the allowed changes are committed, or the judge's error leaves. Two kinds of calls are
        not judged: those that an idempotency key answers, and those of the server itself.

        Without a judge the store refuses agents' changes on boards that chose policies, with `Unpermitted`. Called on a
        store that has a judge, it returns that store with the other judge in its place.
        """
        ...

    # Boards

    async def mark_copies(self) -> None:
        """Notes that all boards were restored from a copy; the original may have used the sequences that follow.

        The first change of each board then begins with a `board.restored` event, whose `after` is the sequence at
        which the copy stood. The event's own sequence lies so far beyond that none given elsewhere is given again;
        sequences in between are refused (`end_of_log`). Until that change nothing is visible of it.
        """
        ...

    async def ensure_board(self, board: str, agent: str, config: BoardConfig, *, parent: str = "") -> Board:
        """Returns the board, and creates it with `config`, below `parent`, if it does not exist."""
        ...

    async def find_board(self, board: str) -> Board | None:
        """Returns the board, or `None` if it does not exist."""
        ...

    async def boards(self) -> list[Board]:
        """Returns all boards, ordered by id."""
        ...

    async def set_core(
        self, board: str, agent: str, core: Core, *, expected_version: int, once: Once | None = None
    ) -> Core:
        """Replaces the core, and returns the new one, whose version is one higher.

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
        """Makes the changes in `change`, and returns the board; if all is so already, nothing happens.

        A change of the tokenizer needs `count`, its function that counts tokens. Every version of every item is
        counted anew, and gets its new count in the transaction that changes the board. The counting comes before that
        transaction, so that others can write meanwhile; `count` is called in other threads.

        Raises:
            UnknownReference: the board or its parent does not exist.
            InvalidInput: the parent would close a cycle.
            Conflict: the board's lifecycle does not allow that move, or a setting is not as expected.
            Forbidden: a member's role exceeds the caller's grant.
            Refused: the agent would lose its own right to administer, or there are too many members.
        """
        ...

    # Members

    async def members(self, board: str) -> dict[str, Role]:
        """Returns a map from agent to the role that the board itself gives it; empty if the board does not exist."""
        ...

    async def role_of(self, board: str, agent: str) -> Role | None:
        """Returns the role that the board itself gives the agent, or `None`."""
        ...

    # Owners and trust of agents: the same on every board, and in no board's log

    async def set_owner(self, agent: str, owner: str) -> None:
        """Records that from now on the agent acts for `owner`; its own name makes it act for itself."""
        ...

    async def set_trust(self, agent: str, trust: Trust) -> None:
        """Sets the trust in what the agent posts from now on; earlier posts keep theirs."""
        ...

    async def owner_of(self, agent: str) -> str:
        """Returns the owner for whom the agent acts; the agent itself if none was named."""
        ...

    async def owners_of(self, agents: Iterable[str]) -> dict[str, str]:
        """Returns a map from each of the agents to the owner for whom it acts."""
        ...

    # Read rules: the same on every board, and in no board's log

    async def set_read_rules(self, rules: Iterable[ReadRule]) -> None:
        """Sets the read rules of the installation, in their order.

        The first that an item meets keeps it for the rule's readers and the item's author, if the item is written from
        now on. Who reads what a rule of this name keeps, counts at once; without such a rule nobody does.
        """
        ...

    async def read_rules(self) -> tuple[ReadRule, ...]:
        """Returns the read rules of the installation, in their order."""
        ...

    async def reclassify(
        self,
        board: str,
        *,
        rules: Sequence[ReadRule] | None = None,
        apply: bool = False,
        leave: bool = False,
    ) -> Reclassified:
        """Finds what everybody sees on a board and the rules in force keep, or others that may come into force.

        With `apply`, what those in force keep is for their readers alone from then on.

        All of it at once or nothing, versions and events included, each with an event that its readers see. Items stay
        as they are that are part of what the whole board sees: of debates, requests, runs, rules, summaries; and what a
        team sees that is not among the rule's readers. With such items `apply` needs `leave`.

        Raises:
            UnknownReference: the board does not exist.
            Refused: there are such items, and `leave` is false.
        """
        ...

    async def set_shown_role(self, board: str, agent: str, role: Role) -> bool:
        """Records the role that the agent's credential gives it on a board, for read rules.

        A role that the board itself gives the agent takes its place. Returns whether the board exists.
        """
        ...

    async def viewers(self, board: str, agents: Iterable[str]) -> dict[str, Viewer]:
        """Returns a map from each of the agents to the viewer that it is of the board's items now."""
        ...

    # Rules

    async def rules(self, board: str, agent: str, path: str = "") -> RuleBook:
        """Returns the rules in force on a board; none if it does not exist.

        With the path of a file or folder, the agent also comes under the rules for it.
        """
        ...

    async def saw_rules(self, board: str, agent: str, revision: int) -> None:
        """Records that an agent was shown the rules of a revision; does nothing where a later one was shown."""
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
        ruling: bool = False,
    ) -> Posted:
        """Stores all of the drafts or none; creates the board with `config` if it does not exist.

        With `ruling`, authors and stewards may give CONSTRAINT items new versions, other metadata, and retire them.

        Raises:
            UnknownReference: an edge or id names an item that does not exist.
            Conflict: a version or status is not the expected one.
            Refused: the board takes no posts, or this agent may not make a change.
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
        """Checks that what was read is unchanged; if so, makes all writes and calls in debates, or none.

        A transaction without writes and calls only tells whether its reads hold; it creates no board, and its
        idempotency key is not kept.

        Raises:
            Conflict: something read or expected has changed. `moved` maps each such name to its present version (0: it
                names nothing), or to the sequence of its last change if it was read with `Since`. Also as `post` and
                the debates raise it.
            InvalidInput: the transaction exceeds a bound, or contains something that is not a name.
            UnknownReference, Refused: as `post` and the debates raise them.
        """
        ...

    async def recall(self, board: str, agent: str, once: Once) -> Any | None:
        """Returns what the store kept of the answer to an earlier call, as its own JSON; `None` if the key is new.

        For use cases that check conditions before they call the store: a repeated call must not fail by what the first
        did.

        Raises:
            InvalidInput: the key was used for something else.
        """
        ...

    async def sweep_once(self) -> int:
        """Deletes expired idempotency keys, in transactions of bounded size, and returns their number."""
        ...

    # Reading

    async def read(
        self, board: str, agent: str, refs: Sequence[Ref], keys: Sequence[str], *, look: int = 0
    ) -> Found:
        """Returns items by id and by key, in the order asked.

        A key may name a version (`plan:a@2`), as a reference does. The key of a deleted entry counts as missing; its
        versions and its number do not.
        """
        ...

    async def versions(
        self, board: str, agent: str, of: int | str, *, upto: int | None = None, limit: int = 50
    ) -> Versions | None:
        """Returns versions of an item, given by number or key, newest first; `upto` is the newest version wanted.

        Deleted items have versions, too. Returns `None` if the agent sees no such item.
        """
        ...

    async def query(self, board: str, agent: str, wanted: ItemQuery, *, look: int = 0) -> Page:
        """Returns a page of the items that match, newest first."""
        ...

    async def log(
        self,
        board: str,
        agent: str,
        after: int,
        limit: int,
        *,
        look: int = 0,
        place: int | None = None,
        texts: int = 0,
    ) -> Log:
        """Returns at most `limit` events after a sequence, in order.

        With a `place` one call goes through a bounded number of events, so it may return fewer and say that there are
        more. With `texts` come the beginnings of the first so many versions that the events began, as `beginnings`
        returns them.

        Raises:
            CursorExpired: `place` is given, and the log has no such place.
        """
        ...

    async def notice(self, board: str, agent: str, wanted: NoticeFor) -> Notice:
        """Returns what an agent is told beside what its call did, as of one moment."""
        ...

    async def beginnings(
        self, board: str, agent: str, wanted: Iterable[tuple[int, int]]
    ) -> dict[tuple[int, int], str]:
        """Returns the beginnings of texts by pairs of item number and version, for items that the agent may see.

        Each has up to `BEGINNING` characters, without leading white space, and one more if the text goes on.
        Versions that do not exist are left out.
        """
        ...

    async def stretches(self, places: Mapping[str, int], limit: int) -> dict[str, Stretch]:
        """Returns all events after the sequence in `places`, for each board that has any.

        There are at most `limit` events in all: boards for which none are left are omitted although they changed, and
        so are boards that do not exist. It serves callers that share one reading among many agents.
        """
        ...

    async def history(self, board: str, agent: str, number: int, limit: int = 50) -> tuple[Event, ...]:
        """Returns the events about one item, newest first."""
        ...

    async def snapshot(
        self, board: str, agent: str, *, look: int = 0, most: int = SNAPSHOT_ITEMS
    ) -> Snapshot:
        """Returns everything that the agent's view is rendered from, all as of one moment.

        It has at most about `most` items of working memory, the most important first.
        """
        ...

    async def statistics(self, board: str, agent: str) -> Statistics:
        """Returns figures of the board, as far as the agent may know them."""
        ...

    async def agents(self, board: str) -> list[AgentInfo]:
        """Returns the agents that ever posted, restored or debated, or were seen while they owed something, by name."""
        ...

    async def record_activity(
        self,
        board: str,
        seen: Mapping[str, datetime],
        reads: Mapping[int, tuple[int, datetime]],
        shown: Mapping[str, int] | None = None,
        sightings: Iterable[Sighting] = (),
    ) -> None:
        """Records when agents were active, which items were read, what agents were shown, and who was shown each item.

        `seen` maps agents to their last activity. `reads` maps item numbers to a number of reads and the last one.
        `shown` maps agents to the sequence, or the `Look`, up to which they were shown the board. `sightings` are
        joined to those stored; each item keeps those of the `MOST_SIGHTED` agents that were shown it last.

        The board itself does not change: no event, no sequence. Reads add up. A `Look` is joined to the stored one; if
        it has very many sequences after its place, the last of these are dropped and hence shown again. Instants only
        move forward. Unknown boards, items, and agents that never did anything on the board are ignored, and so are the
        instants of agents that the board makes observers or summarisers.
        """
        ...

    async def readers(
        self, board: str, agent: str, wanted: Iterable[int], noted: Iterable[Sighting] = ()
    ) -> dict[int, Readership]:
        """Returns who was shown each of these items, by number; without those that the agent may not see.

        `noted` are sightings that were not recorded yet. A board that does not exist has no items.
        """
        ...

    async def awaited(self, board: str, agent: str, most: int) -> tuple[tuple[str, Owed], ...]:
        """Returns what other agents owe on items that the agent may see, oldest first, as pairs of agent and duty."""
        ...

    async def fallen(self, board: str, agent: str, most: int) -> tuple[int, ...]:
        """Returns numbers of archived findings that were withdrawn or invalidated, newest first, at most `most`.

        Findings are FACT, HYPOTHESIS, DECISION, PLAN, ANSWER and RESULT items. Those without content are left out, as
        are those that the agent may not see.
        """
        ...

    async def tags(self, board: str, agent: str) -> list[str]:
        """Returns at most 100 tags of items in working memory, most used first."""
        ...

    async def panels(self, board: str, agent: str) -> tuple[PanelState, ...]:
        """Returns the panels of a board but `working`, in the order of its settings, as the agent sees them.

        Raises:
            UnknownReference: the board does not exist.
        """
        ...

    async def why_left(self, board: str, agent: str, wanted: Iterable[int]) -> dict[int, Event]:
        """Returns a map from item number to the event by which the item left, for those that are archived."""
        ...

    async def endorsements(
        self, board: str, agent: str, number: int, limit: int = 100
    ) -> tuple[Endorsement, ...]:
        """Returns endorsements of the item, earliest first; empty if the agent may not see the item."""
        ...

    async def around(
        self, board: str, agent: str, wanted: Iterable[int]
    ) -> dict[int, tuple[int | None, int | None]]:
        """Returns the numbers of the items before and after each of the items in its thread.

        Only items that the agent may see are considered; `None` stands for an end of the thread.
        """
        ...

    async def guarded(self, board: str, wanted: Iterable[int]) -> dict[int, Protection]:
        """Returns the protection of those of the items that the guard protects, by item number."""
        ...

    async def explain(self, board: str, agent: str, wanted: Sequence[int], *, look: int = 0) -> Explained:
        """Explains for each item what protects it, when it would leave, or why it left.

        Ids that name nothing visible are returned as `missing`.
        """
        ...

    # Leaving and returning

    async def prune(
        self,
        board: str,
        decide: Decide,
        *,
        apply: bool = True,
        reaching: Reaching | None = None,
        unless: tuple[str, str] | None = None,
    ) -> PassOutcome:
        """Runs `decide` on a snapshot, and archives the items that it names; without `apply` nothing is changed.

        `decide` gets all of working memory, or the part that `reaching` asks for. The items leave in their order, in
        transactions of bounded size, between which others can write. An item stays if the guard protects it at the
        commit, or if somebody changed or cited it after the snapshot; these are counted as `overtaken`.

        `unless` names a lease and a holder. While another holder has the lease, nothing is done, and the outcome says
        `elsewhere`; else it says whether agents are `asked` for summaries.
        """
        ...

    async def judge_pressure(self, board: str, describe: Describe) -> str | None:
        """Begins, updates or ends pressure on the board, as its items require.

        Returns "began", "changed" or "ended", or `None` if nothing changed.
        """
        ...

    async def thread_sources(self, board: str, members: Iterable[int]) -> list[Item]:
        """Returns items for a summariser, in the order in which they were posted."""
        ...

    async def apply_summary(self, board: str, summary: NewSummary) -> str | None:
        """Stores the summary and returns its id; `None`, without a change, if the thread changed meanwhile."""
        ...

    async def expire(self) -> list[str]:
        """Archives items whose time to live is over and that nothing protects; returns the boards that it changed.

        It works in transactions of bounded size, between which others can write. Until it archives an item, the item
        reads and counts like any other.
        """
        ...

    async def next_expiry(self) -> float | None:
        """Returns the seconds until the next item's time to live ends; `None` if no item has one left."""
        ...

    async def forgettable(
        self, board: str, retention: Retention, after: int, limit: int = 200
    ) -> tuple[int | None, tuple[Forgettable, ...]]:
        """Returns archived items that `retention` allows to forget now, among `limit` items after the number `after`.

        The first value is the number of the last item looked at, `None` at the end of the archive. Whether `retention`
        covers the board is for the caller to check. Nothing is changed.
        """
        ...

    async def forget(self, board: str, wanted: Iterable[int], retention: Retention) -> tuple[str, ...]:
        """Permanently removes what agents wrote into those of the items that may be forgotten now; returns their ids.

        It is one transaction for all of the items, with an event for each. It removes text, tags and metadata of every
        version, also from the log and from endorsements. These items stay as they are: items that are live, held or
        watched, items on which an agent owes something, those that a live item cites, answers to live items, and items
        whose time has not come. `forgettable` tells which may go.
        """
        ...

    async def spread_retractions(self) -> list[str]:
        """Delivers the retraction notices that were too many for the transaction of the retraction itself.

        It works in transactions of bounded size, between which nothing is lost. Returns the boards that it changed.
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
        """Brings archived items back to working memory, except those that are too large to stay there.

        Raises:
            UnknownReference: the board or an item does not exist, or the agent may not see it.
            Conflict: one was deleted or forgotten.
            Refused: the board takes no posts.
        """
        ...

    # News

    def changes(self) -> int:
        """Returns a counter that grows whenever this or another process commits something."""
        ...

    async def wait_for_change(self, seen: int, timeout: float, *, hurried: bool = True) -> int:
        """Returns the counter as soon as it exceeds `seen`, or after `timeout` seconds.

        Pass `hurried` if somebody waits for the answer. Otherwise another process's change may be noticed up to a
        second late, which costs nothing while nothing happens.
        """
        ...

    # For the archive's index (see `archive.ArchiveSource`)

    async def unindexed(self, board: str, agent: str, limit: int) -> list[tuple[int, str]]:
        """Returns number and text of archived items that the index has not received yet, newest first."""
        ...

    async def outbox_batch(self, limit: int) -> OutboxBatch: ...

    async def outbox_done(self, ids: Sequence[int]) -> None: ...

    async def outbox_wait(self, seconds: float) -> None: ...

    async def archived_keys(self) -> dict[tuple[str, int], int]: ...

    async def settled_keys(self) -> dict[tuple[str, int], int]: ...

    async def waiting(self, board: str, limit: int) -> Waiting: ...

    def archived_documents(self, batch: int = 500) -> AsyncIterator[tuple[ArchiveDocument, ...]]: ...

    async def documents(self, keys: Sequence[tuple[str, int]]) -> tuple[ArchiveDocument, ...]: ...

    async def lease(self, name: str, holder: str, seconds: float) -> bool: ...

    async def release(self, name: str, holder: str) -> None: ...

    async def close(self) -> None:
        """Closes the store; later calls raise `StoreClosed`."""
        ...
