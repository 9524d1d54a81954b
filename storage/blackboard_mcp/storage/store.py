"""The board store over an engine: each method runs one operation in one transaction.

`protocols.store`, and the operation that each method names, say what the methods take, return and raise.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Literal

from blackboard_mcp.protocols.access import Role, Trust
from blackboard_mcp.protocols.answers import SNAPSHOT_ITEMS, Committed, Log, Once, Snapshot
from blackboard_mcp.protocols.archive import ArchiveDocument
from blackboard_mcp.protocols.board import Board, BoardChange, BoardConfig
from blackboard_mcp.protocols.changes import Judge
from blackboard_mcp.protocols.clock import Clock, SystemClock
from blackboard_mcp.protocols.pruning import Decide, PassOutcome, Reaching
from blackboard_mcp.protocols.read_rules import ReadRule
from blackboard_mcp.protocols.tokens import Count
from blackboard_mcp.protocols.transactions import Transaction

from .calls import reads, reads_now, writes
from .debate_methods import DebateMethods
from .operation import Write
from .operations.access import members as member_operations
from .operations.access import read_rules as read_rule_operations
from .operations.access import reclassifying
from .operations.access import tokens as token_operations
from .operations.agenda import lapses as task_lapses
from .operations.agenda import planning, settling, sub_boards, taking
from .operations.debates import standing_watches, views
from .operations.items import endorsements as endorsing
from .operations.items import panels as panel_operations
from .operations.items import posting, retraction
from .operations.items import trust as trusting
from .operations.items import versions as version_operations
from .operations.leaving import lapses, pruning, retention, summaries
from .operations.leaving import pressure as pressing
from .operations.ledger import boards as board_operations
from .operations.ledger import idempotency, places, principals, token_counts
from .operations.ledger import transactions as transacting
from .operations.ledger.rows import micros
from .operations.messages import group_turns, requests
from .operations.messages import groups as group_operations
from .operations.messages import subscriptions as subscription_operations
from .operations.participants import joining, parting
from .operations.reading import activity, explanations, index_feed, snapshots
from .operations.reading import items as reading
from .operations.reading import rules as rule_operations
from .operations.runs import finishing, starting, turning
from .operations.stages import defining, moving
from .operations.workspace import reading as artifact_reading
from .operations.workspace import writing as artifact_writing

_EXPIRY_BATCH = 200
_SWEEP_BATCH = 500
_QUIET_SECONDS = 0.25
_BURST_STEPS = 40
"""A burst of posts delays the indexer by ten seconds at most."""


class SqlBoardStore(DebateMethods):
    """A `BoardStore` and a `CredentialStore`, over an engine."""

    @classmethod
    async def open(
        cls,
        path: Path | None,
        *,
        clock: Clock | None = None,
        synchronous: Literal["FULL", "NORMAL"] = "FULL",
        keep_free: int = 0,
        set_aside: bool = False,
    ) -> SqlBoardStore:
        """Opens the SQLite file at `path`, and creates it if it does not exist; `None` opens a store in memory.

        `keep_free` bytes of the disk stay free for what ends work. A file of an older
        schema is migrated; with `set_aside` a copy of it is kept beside it, where the disk has room.

        Raises:
            StoreTooNew: a newer version of the product wrote the file.
            StoreDamaged: it is no board file, or is damaged.
        """
        from .sqlite.opening import open_engine

        engine = await open_engine(path, synchronous=synchronous, keep_free=keep_free, set_aside=set_aside)
        return cls(engine, clock or SystemClock())

    def judged(self, judge: Judge, boards: Iterable[str] = ()) -> SqlBoardStore:
        """Returns the same store, which asks `judge` about agents' changes on `boards` before it commits them."""
        return type(self)(self.engine, self._clock, judge, boards)

    async def backup(self, target: Path) -> None:
        """Writes a copy of all boards, as of one moment, to a new file, which records that its boards are copies.

        Raises:
            StoreError: `target` exists or cannot be written.
            StoreFull: the disk has no room for the copy.
        """
        await self.engine.backup(target, lambda: places.mark_copies(Write(self._now())))

    @staticmethod
    def back_up_older(path: Path, target: Path) -> None:
        """Writes a copy as `backup` does, of a file of an older schema, which it does not migrate.

        Raises:
            StoreError: `path` cannot be read, or `target` exists or cannot be written.
        """
        from .sqlite.opening import back_up

        back_up(path, target, lambda: places.mark_copies(Write(micros(SystemClock().now()))))

    @property
    def health(self) -> Literal["low", "full", "stopped"] | None:
        """The reason why the store cannot serve, or `None`."""
        met = self.engine.trouble
        if (met is None or met.kind == "low") and self.engine.displaced:
            return "stopped"
        return None if met is None else met.kind

    async def close(self) -> None:
        """Closes the store; later calls raise `StoreClosed`."""
        await self.engine.close()

    # Boards

    mark_copies = writes(places.mark_copies)
    find_board = reads(board_operations.find)
    boards = reads(board_operations.list_all)
    set_core = writes(board_operations.set_core)
    members = reads(member_operations.listed)
    role_of = reads(member_operations.role_of)
    _ensure = writes(board_operations.ensure)
    _change_board = writes(board_operations.change)
    _texts = reads(token_counts.page)

    async def ensure_board(self, board: str, agent: str, config: BoardConfig, *, parent: str = "") -> Board:
        """Returns the board, and creates it with `config`, below `parent`, if it does not exist."""
        return await self.find_board(board) or await self._ensure(board, agent, config, parent)

    async def change_board(
        self,
        board: str,
        agent: str,
        change: BoardChange,
        *,
        count: Count | None = None,
        once: Once | None = None,
    ) -> Board:
        """Makes the changes in `change`, and returns the board.

        A change of the tokenizer needs `count`. Texts are counted before the transaction, in other threads and
        in pages, so that others can write meanwhile.
        """
        counted = dict[str, int]()
        if count is not None and (once is None or await self.recall(board, agent, once) is None):
            place: token_counts.Place | None = token_counts.START
            while place is not None:
                texts, place = await self._texts(board, place)
                new = {sha256: text for sha256, text in texts.items() if sha256 not in counted}
                counted |= await asyncio.to_thread(token_counts.counts, new, count)
        return await self._change_board(
            board,
            agent,
            change,
            finishing.open_all_kept,
            turning.let_go,
            count=count,
            counted=counted,
            once=once,
        )

    # Rules

    rules = reads_now(rule_operations.rules)
    saw_rules = writes(rule_operations.saw, always=True)

    # The agenda

    plan = writes(planning.plan)
    agenda = reads_now(planning.agenda)
    tasks = reads_now(planning.tasks)
    attempts = reads(planning.attempts)
    take_task = writes(taking.take)
    settle_task = writes(settling.settle)
    prospect = reads_now(taking.prospect)
    sweep_tasks = writes(task_lapses.sweep)
    next_lapse = reads_now(task_lapses.next_lapse)

    # Sub-boards

    sub_boards_due = reads_now(sub_boards.due)
    sub_boards_open = reads(sub_boards.are_open)
    note_sub_board = writes(sub_boards.note, always=True)
    begin_sub_board = writes(sub_boards.begin, always=True)
    end_sub_board = writes(sub_boards.end, always=True)

    # Stages

    stages = reads(defining.stages)
    define_stages = writes(defining.define)
    move_stage = writes(moving.move)

    # Runs

    start_run = writes(starting.start)
    find_run = reads_now(starting.find)
    eligible_agents = reads_now(starting.eligible_for)
    choose_turns = writes(starting.choose)
    ask_coordinator = writes(starting.ask_coordinator)
    end_turn = writes(turning.contribute)
    decide_run = writes(turning.decide)
    offer_turn = writes(turning.offer)
    finalize_run = writes(finishing.finalize)
    preview_answer = reads_now(finishing.preview)
    stop_run = writes(finishing.stop_run)
    sweep_runs = writes(turning.sweep, always=True)
    next_run_due = reads_now(turning.next_due)

    # The workspace

    write_artifact = writes(artifact_writing.write_artifact)
    read_artifact = reads(artifact_reading.read_artifact)
    artifacts = reads(artifact_reading.artifacts)
    artifact_history = reads(artifact_reading.artifact_history)
    artifact_log = reads(artifact_reading.artifact_log)
    boards_with_artifacts = reads(artifact_reading.boards_with_artifacts)

    # Owners and trust

    viewers = reads(principals.viewers)
    read_rules = reads(read_rule_operations.read_rules)
    panels = reads(panel_operations.panels)
    owner_of = reads(principals.owner_of)
    owners_of = reads(principals.owners_of)
    _set_owner = writes(principals.set_owner)
    _set_trust = writes(trusting.set_trust)
    _trust_of = reads(trusting.trust_of_agent)
    _set_read_rules = writes(read_rule_operations.set_read_rules)
    reclassify = writes(reclassifying.reclassify)
    _shown_role = reads(read_rule_operations.shown_role)
    _set_shown_role = writes(read_rule_operations.set_shown_role)

    async def set_owner(self, agent: str, owner: str) -> None:
        """Records that from now on the agent acts for `owner`; its own name makes it act for itself."""
        if await self.owner_of(agent) != owner:
            await self._set_owner(agent, owner)

    async def set_trust(self, agent: str, trust: Trust) -> None:
        """Sets the trust in what the agent posts from now on."""
        if await self._trust_of(agent) is not trust:
            await self._set_trust(agent, trust)

    async def set_read_rules(self, rules: Iterable[ReadRule]) -> None:
        """Sets the read rules of the installation; they keep what is written from now on."""
        wanted = tuple(rules)
        if await self.read_rules() != wanted:
            await self._set_read_rules(wanted)

    async def set_shown_role(self, board: str, agent: str, role: Role) -> bool:
        """Records the role that the agent's credential gives it on a board; returns whether the board exists."""
        return await self._shown_role(board, agent) is role or await self._set_shown_role(board, agent, role)

    # Posting

    post = writes(posting.post, batch_of=posting.batch_of)
    recall = reads_now(idempotency.recalled)
    _validate = reads(transacting.validate)
    _foresee = reads_now(transacting.foresee)
    _transact = writes(transacting.transact)
    _sweep_once = writes(idempotency.sweep)

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
        """Applies everything in the transaction, or nothing. Long globs are compared before the transaction."""
        if not transaction.changes and (once is None or await self.recall(board, agent, once) is None):
            return await self._validate(board, agent, transaction, look)
        foreseen = 0
        if any("*" in name for name in transaction.reads):
            foreseen = await self._foresee(board, agent, transaction, once)
        return await self._transact(
            board, agent, transaction, config=config, once=once, look=look, foreseen=foreseen
        )

    async def sweep_once(self) -> int:
        """Deletes expired idempotency keys, in transactions of bounded size, and returns their number."""
        dropped = 0
        while some := await self._sweep_once(_SWEEP_BATCH):
            dropped += some
        return dropped

    # Reading

    read = reads(reading.read)
    versions = reads(version_operations.versions)
    query = reads(reading.query)
    notice = reads_now(rule_operations.notice)
    beginnings = reads(reading.beginnings)
    stretches = reads(reading.stretches)
    history = reads(reading.history)
    statistics = reads(reading.statistics)
    agents = reads(reading.agents)
    record_activity = writes(activity.record)
    readers = reads(activity.readers)
    tags = reads(reading.tags)
    awaited = reads(reading.awaited)
    fallen = reads(reading.fallen)
    why_left = reads(reading.why_left)
    endorsements = reads(endorsing.listed)
    around = reads(reading.around)
    guarded = reads(reading.guarded)
    explain = reads_now(explanations.explain)

    async def snapshot(
        self, board: str, agent: str, *, look: int = 0, most: int = SNAPSHOT_ITEMS
    ) -> Snapshot:
        """Returns everything that the agent's view is rendered from, all as of one moment."""
        return await self.engine.read(
            lambda: snapshots.snapshot(
                board, agent, look=look, most=most, kept=self._kept_rows, events=self._kept_events
            )
        )

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
        """Returns at most `limit` events after a sequence, in order, as far as the agent may see them."""
        return await self.engine.read(
            lambda: reading.log(
                board, agent, after, limit, look=look, place=place, texts=texts, kept=self._kept_events
            )
        )

    # Debates and standing watches

    debate_status = reads(views.debate_status)
    watch_topic = writes(standing_watches.watch_topic)
    unwatch_topic = writes(standing_watches.unwatch_topic)
    watches = reads(standing_watches.watches)
    _debates_due = reads_now(lapses.due)
    _lapse = writes(lapses.lapse)

    async def sweep_debates(self) -> list[str]:
        """Ends what the boards' settings let lapse, and returns the boards that it changed."""
        return [board for board in await self._debates_due(self._opened) if await self._lapse(board)]

    # Leaving and coming back

    restore = writes(pruning.restore)
    judge_pressure = writes(pressing.judge)
    _move = writes(pruning.move)
    anything_forgotten = reads(retention.any_)
    forgettable = reads_now(retention.page)
    forget = writes(retention.forget)
    _next_expiry = reads_now(pruning.next_expiry)
    _due = reads_now(pruning.expiring)
    _expire = writes(pruning.expire)
    _boards_waiting = reads(retraction.boards_waiting)
    _spread = writes(retraction.spread)

    async def prune(
        self,
        board: str,
        decide: Decide,
        *,
        apply: bool = True,
        reaching: Reaching | None = None,
        unless: tuple[str, str] | None = None,
    ) -> PassOutcome:
        """Decides on a snapshot, and with `apply` archives in short transactions what may still leave."""
        now = self._now()
        chosen = await self.engine.read(lambda: pruning.choose(now, board, decide, reaching, unless))
        if chosen is None:
            return pruning.ELSEWHERE
        moves = chosen.moves
        if not apply or not moves:
            return chosen.foreseen
        if len(moves) <= pruning.PART:
            return await self._move(board, chosen, moves)
        parts = [moves[n : n + pruning.PART] for n in range(0, len(moves), pruning.PART)]
        done: list[PassOutcome] = []
        for first in range(0, len(parts), pruning.AHEAD):
            some = (self._move(board, chosen, part) for part in parts[first : first + pruning.AHEAD])
            for outcome in await asyncio.gather(*some, return_exceptions=True):
                if isinstance(outcome, BaseException):
                    raise outcome
                done.append(outcome)
        return pruning.together(done)

    async def expire(self) -> list[str]:
        """Archives items whose time to live is over and that nothing protects; returns the boards that it changed."""
        changed: dict[str, None] = {}
        place: pruning.Due | None = (0, 0, 0)
        while place is not None:
            place, due = await self._due(_EXPIRY_BATCH, place)
            for board, numbers in due.items():
                if await self._expire(board, numbers):
                    changed[board] = None
        return list(changed)

    async def next_expiry(self) -> float | None:
        """Returns the seconds until the next item's time to live ends; `None` if no item has one left."""
        micros_left = await self._next_expiry()
        return None if micros_left is None else micros_left / 1_000_000

    async def spread_retractions(self) -> list[str]:
        """Delivers all retraction notices that are left; returns the boards that it changed."""
        changed = await self._boards_waiting()
        for board in changed:
            while await self._spread(board):
                pass
        return changed

    # Summaries

    thread_sources = reads(summaries.thread_sources)
    thread_endings = reads(summaries.thread_endings)
    apply_summary = writes(summaries.apply_summary)
    request_summary = writes(summaries.request)
    summary_requests = reads(summaries.requests)
    take_summary = writes(summaries.take)
    held_summary = writes(summaries.held, always=True)
    write_summary = writes(summaries.write_summary)
    close_summary = writes(summaries.close)
    summaries_due = reads_now(summaries.due)

    # Subscriptions

    subscribe = writes(subscription_operations.subscribe)
    unsubscribe = writes(subscription_operations.unsubscribe)
    subscriptions = reads(subscription_operations.subscriptions)
    find_subscription = reads(subscription_operations.find_subscription)
    move_cursor = writes(subscription_operations.move_cursor)
    end_of_log = reads(places.end_of_log)
    return_cursor = writes(subscription_operations.return_cursor)
    _abandoned = reads_now(subscription_operations.abandoned)
    _abandon = writes(subscription_operations.expire)

    async def expire_subscriptions(self) -> list[str]:
        """Expires unused subscriptions, and returns the boards where some were due."""
        due = await self._abandoned()
        for board in due:
            await self._abandon(board)
        return due

    # Consumer groups

    create_group = writes(group_operations.create)
    change_group = writes(group_operations.change)
    end_group = writes(group_operations.end)
    groups = reads_now(group_operations.listed)
    consume = writes(group_turns.consume)
    group_outlook = reads_now(group_turns.outlook)
    dead_letters = reads(group_operations.dead_letters)
    retry_dead = writes(group_operations.retry)
    drop_dead = writes(group_operations.drop)
    _groups_due = reads_now(group_operations.due)
    _bury = writes(group_operations.bury_spent)
    _abandon_group = writes(group_operations.abandon)

    async def sweep_groups(self) -> list[str]:
        """Buries deliveries without attempts left, ends unused groups, and returns the changed boards."""
        spent, unused = await self._groups_due()
        changed = [board for board, name in spent if await self._bury(board, name)]
        changed += [board for board, name in unused if await self._abandon_group(board, name)]
        return list(dict.fromkeys(changed))

    # Requests

    open_request = writes(requests.open_request)
    request = reads_now(requests.request)
    requests_waiting = reads_now(requests.waiting)
    offer_skills = writes(requests.offer)
    skills = reads_now(requests.skills)
    take_request = writes(requests.take)
    answer_request = writes(requests.answer)
    decline_request = writes(requests.decline)
    cancel_request = writes(requests.cancel)
    release_request = writes(requests.release, always=True)
    _anything_next = reads_now(requests.anything_next)
    _take_next = writes(requests.take_next)
    _requests_due = reads_now(requests.due)
    _lapse_requests = writes(requests.lapse)

    async def take_next(self, board: str, agent: str, *, once: Once | None = None) -> tuple[int, int] | None:
        """Takes the oldest free request that waits for the agent; returns its number and lease, or `None`."""
        # Reads first: mostly nothing waits, and a read does not block writers.
        if not await self._anything_next(board, agent, once):
            return None
        return await self._take_next(board, agent, once=once)

    async def sweep_requests(self) -> list[str]:
        """Ends requests, leases and offers that are over, and returns the boards that it changed."""
        return [board for board in await self._requests_due() if await self._lapse_requests(board)]

    # Participants

    join = writes(joining.join)
    leave = writes(parting.leave)
    participants = reads_now(joining.participants)

    # Access tokens

    has_tokens = reads(token_operations.any_)
    add_token = writes(token_operations.add, always=True)
    find_token = reads(token_operations.find)
    token_of_agent = reads_now(token_operations.of_agent)
    tokens = reads(token_operations.all_)
    revoke_token = writes(token_operations.revoke, always=True)
    keep_tokens = writes(token_operations.keep, always=True)
    tokens_used = writes(token_operations.used, always=True)

    # News

    def changes(self) -> int:
        """Returns a counter that grows whenever this or another process commits something."""
        return self.engine.changes()

    def stamp(self) -> int | None:
        """Returns a value that differs after every commit of any process, or `None` if that cannot be told now."""
        return self.engine.stamp()

    async def wait_for_change(self, seen: int, timeout: float, *, hurried: bool = True) -> int:
        """Returns the counter as soon as it exceeds `seen`, or after `timeout` seconds."""
        return await self.engine.wait_for_change(seen, timeout, hurried=hurried)

    # For the archive's index

    unindexed = reads(reading.unindexed)
    outbox_batch = reads(index_feed.outbox_batch)
    outbox_done = writes(index_feed.outbox_done)
    outbox_fed = writes(index_feed.outbox_fed)
    fed = reads(index_feed.fed)
    archived_keys = reads(index_feed.archived_keys)
    settled_keys = reads(index_feed.settled_keys)
    settled = reads(index_feed.settled)
    waiting = reads(index_feed.waiting)
    documents = reads(index_feed.documents)
    lease = writes(index_feed.lease)
    release = writes(index_feed.release)
    _outbox_empty = reads(index_feed.outbox_empty)
    _archived_page = reads(index_feed.archived_page)

    async def outbox_wait(self, seconds: float) -> None:
        """Waits up to `seconds` for items that wait for the index, then for a pause in a burst of changes."""
        # Indexing gives way to posting: searches find the waiting items anyway.
        seen = self.engine.changes()
        if await self._outbox_empty():
            if await self.engine.wait_for_change(seen, seconds, hurried=False) == seen:
                return
            seen = self.engine.changes()
        for _ in range(_BURST_STEPS):
            await asyncio.sleep(_QUIET_SECONDS)
            if (now := self.engine.changes()) == seen:
                return
            seen = now

    async def archived_documents(self, batch: int = 500) -> AsyncIterator[tuple[ArchiveDocument, ...]]:
        """Yields all archived items as documents, in pages of at most `batch`."""
        place: index_feed.Place | None = (0, 0)
        while place is not None:
            place, page = await self._archived_page(place, batch)
            if page:
                yield page
