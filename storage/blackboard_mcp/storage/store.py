"""The board store over an engine: each method runs one operation in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from blackboard_mcp.protocols.access import Role, Trust
from blackboard_mcp.protocols.answers import (
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
from blackboard_mcp.protocols.archive import ArchiveDocument, OutboxBatch, Settled, Waiting
from blackboard_mcp.protocols.board import AgentInfo, Board, BoardChange, BoardConfig, Core
from blackboard_mcp.protocols.changes import Judge
from blackboard_mcp.protocols.clock import Clock, SystemClock
from blackboard_mcp.protocols.events import Event
from blackboard_mcp.protocols.explain import Explained
from blackboard_mcp.protocols.filters import ItemQuery
from blackboard_mcp.protocols.grants import GRANTED
from blackboard_mcp.protocols.guard import Protection
from blackboard_mcp.protocols.items import Draft, Item, Ref
from blackboard_mcp.protocols.pressure import Describe
from blackboard_mcp.protocols.pruning import Decide, PassOutcome, Reaching
from blackboard_mcp.protocols.tokens import Count
from blackboard_mcp.protocols.transactions import Transaction

from .debate_calls import DebateCalls
from .following_calls import FollowingCalls
from .judging import judging
from .operations.access import members
from .operations.items import endorsements as endorsing
from .operations.items import posting, retraction, versions
from .operations.items import trust as trusting
from .operations.leaving import guard_index, pruning, summaries
from .operations.leaving import pressure as pressing
from .operations.ledger import boards, idempotency, places, principals, token_counts
from .operations.ledger import transactions as transacting
from .operations.ledger.rows import Steps, micros
from .operations.reading import activity, explanations, index_feed, snapshots
from .operations.reading import items as reading
from .request_calls import RequestCalls
from .retention_calls import RetentionCalls
from .sqlite.engine import SqliteEngine
from .summary_calls import SummaryCalls
from .token_calls import TokenCalls

APPLICATION_ID = 0x42424D43
"""Marks a SQLite file as a board file."""

FILLS = {20: guard_index.rebuild, 25: endorsing.fill}
"""Work on the data of an older file, by the migration it belongs to."""

_EXPIRY_BATCH = 200
_SWEEP_BATCH = 500
_QUIET_SECONDS = 0.25
_BURST_STEPS = 40
"""A burst of posts delays the indexer by ten seconds at most."""


@cache
def migrations() -> tuple[str, ...]:
    """The numbered migration scripts, in order."""
    folder = resources.files("blackboard_mcp.storage.sqlite").joinpath("migrations")
    scripts = sorted((f for f in folder.iterdir() if f.name.endswith(".sql")), key=lambda f: f.name)
    return tuple(script.read_text("utf-8") for script in scripts)


class SqlBoardStore(DebateCalls, SummaryCalls, FollowingCalls, RequestCalls, RetentionCalls, TokenCalls):
    """A `BoardStore`, and a `CredentialStore`, on a SQLite file, or in memory."""

    @classmethod
    async def open(
        cls,
        path: Path | None,
        *,
        clock: Clock | None = None,
        synchronous: Literal["FULL", "NORMAL"] = "FULL",
        keep_free: int = 0,
    ) -> SqlBoardStore:
        """The store in the file at `path`, made if it is not there; in memory when `path` is `None`.

        Of the disk `keep_free` bytes, of a small one a twentieth, are left to what ends work.

        Raises:
            StoreTooNew: a newer version of the product wrote the file.
            StoreDamaged: it is no board file, or is damaged.
        """
        engine = await SqliteEngine.open(
            path,
            migrations=migrations(),
            application_id=APPLICATION_ID,
            fills=FILLS,
            synchronous=synchronous,
            keep_free=keep_free,
        )
        return cls(engine, clock or SystemClock())

    async def backup(self, target: Path) -> None:
        """Writes a copy of all boards, as of one moment, to a new file whose boards know that they are copies.

        Raises:
            StoreError: `target` exists or cannot be written.
            StoreFull: no room for the copy.
        """
        await self.engine.backup(target, places.mark_copies)

    def judged(self, judge: Judge, boards: Iterable[str] = ()) -> SqlBoardStore:
        return type(self)(judging(self.engine, judge, boards), self._clock)

    # Boards

    async def mark_copies(self) -> None:
        await self._write(places.mark_copies)

    async def ensure_board(self, board: str, agent: str, config: BoardConfig) -> Board:
        found = await self.find_board(board)
        if found is not None:
            return found
        now = self._now()
        return await self._write(lambda: boards.ensure(board, agent, config, now))

    async def find_board(self, board: str) -> Board | None:
        return await self.engine.read(lambda: boards.find(board))

    async def boards(self) -> list[Board]:
        return await self.engine.read(boards.list_all)

    async def set_core(
        self, board: str, agent: str, core: Core, *, expected_version: int, once: Once | None = None
    ) -> Core:
        return await self._apply(
            board,
            agent,
            once,
            lambda now: boards.set_core(board, agent, core, expected_version, now),
            idempotency.whole(Core),
        )

    async def change_board(
        self,
        board: str,
        agent: str,
        change: BoardChange,
        *,
        count: Count | None = None,
        once: Once | None = None,
    ) -> Board:
        grant, counted = GRANTED.get(), dict[str, int]()
        if count is not None and (once is None or await self.recall(board, agent, once) is None):
            place: token_counts.Place | None = token_counts.START
            while place is not None:
                texts, place = await self._texts(board, place)
                new = {sha256: text for sha256, text in texts.items() if sha256 not in counted}
                counted |= await asyncio.to_thread(token_counts.counts, new, count)
        return await self._apply(
            board,
            agent,
            once,
            lambda now: boards.change(board, agent, change, now, grant, count, counted),
            idempotency.whole(Board),
        )

    async def _texts(
        self, board: str, place: token_counts.Place
    ) -> tuple[dict[str, str], token_counts.Place | None]:
        return await self.engine.read(lambda: token_counts.page(board, place))

    async def members(self, board: str) -> dict[str, Role]:
        return await self.engine.read(lambda: members.listed(board))

    async def role_of(self, board: str, agent: str) -> Role | None:
        return await self.engine.read(lambda: members.role_of(board, agent))

    # Whom agents act for

    async def set_owner(self, agent: str, owner: str) -> None:
        if await self.owner_of(agent) != owner:
            await self._write(lambda: principals.set_owner(agent, owner))

    async def set_trust(self, agent: str, trust: Trust) -> None:
        if await self.engine.read(lambda: trusting.trust_of_agent(agent)) is not trust:
            await self._write(lambda: trusting.set_trust(agent, trust))

    async def owner_of(self, agent: str) -> str:
        return await self.engine.read(lambda: principals.owner_of(agent))

    async def owners_of(self, agents: Iterable[str]) -> dict[str, str]:
        asked = tuple(agents)
        return await self.engine.read(lambda: principals.owners_of(asked))

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
        now = self._now()
        return await self._write(
            lambda: posting.post(board, agent, drafts, now=now, config=config, once=once, look=look)
        )

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
        if not transaction.changes:
            return await self.engine.read(lambda: transacting.validate(board, agent, transaction, look))
        now, foreseen = self._now(), 0
        if any("*" in name for name in transaction.reads):
            foreseen = await self.engine.read(
                lambda: transacting.foresee(board, agent, transaction, once, now)
            )
        return await self._write(
            lambda: transacting.transact(
                board,
                agent,
                transaction,
                now=now,
                config=config,
                once=once,
                look=look,
                foreseen=foreseen,
            )
        )

    async def recall(self, board: str, agent: str, once: Once) -> Any | None:
        now = self._now()
        return await self.engine.read(lambda: idempotency.recalled(board, agent, once, now))

    async def sweep_once(self) -> int:
        now, dropped = self._now(), 0
        while some := await self._sweep_once(now):
            dropped += some
        return dropped

    async def _sweep_once(self, now: int) -> int:
        return await self._write(lambda: idempotency.sweep(now, _SWEEP_BATCH))

    # Reading

    async def read(
        self, board: str, agent: str, refs: Sequence[Ref], keys: Sequence[str], *, look: int = 0
    ) -> Found:
        return await self.engine.read(lambda: reading.read(board, agent, refs, keys, look))

    async def versions(
        self, board: str, agent: str, of: int | str, *, upto: int | None = None, limit: int = 50
    ) -> Versions | None:
        return await self.engine.read(lambda: versions.versions(board, agent, of, upto, limit))

    async def query(self, board: str, agent: str, wanted: ItemQuery, *, look: int = 0) -> Page:
        return await self.engine.read(lambda: reading.query(board, agent, wanted, look))

    async def log(self, board: str, agent: str, after: int, limit: int, *, look: int = 0) -> Log:
        return await self.engine.read(lambda: reading.log(board, agent, after, limit, look))

    async def beginnings(
        self, board: str, agent: str, wanted: Iterable[tuple[int, int]]
    ) -> dict[tuple[int, int], str]:
        asked = tuple(wanted)
        return await self.engine.read(lambda: reading.beginnings(board, agent, asked))

    async def stretches(self, places: Mapping[str, int], limit: int) -> dict[str, Stretch]:
        asked = dict(places)
        return await self.engine.read(lambda: reading.stretches(asked, limit))

    async def history(self, board: str, agent: str, number: int, limit: int = 50) -> tuple[Event, ...]:
        return await self.engine.read(lambda: reading.history(board, agent, number, limit))

    async def snapshot(self, board: str, agent: str, *, look: int = 0) -> Snapshot:
        return await self.engine.read(lambda: snapshots.snapshot(board, agent, look))

    async def statistics(self, board: str, agent: str) -> Statistics:
        return await self.engine.read(lambda: reading.statistics(board, agent))

    async def agents(self, board: str) -> list[AgentInfo]:
        return await self.engine.read(lambda: reading.agents(board))

    async def record_activity(
        self,
        board: str,
        seen: Mapping[str, datetime],
        reads: Mapping[int, tuple[int, datetime]],
        shown: Mapping[str, int] | None = None,
    ) -> None:
        there = {agent: micros(at) for agent, at in seen.items()}
        read = {number: (times, micros(at)) for number, (times, at) in reads.items()}
        await self._write(lambda: activity.record(board, there, read, shown or {}))

    async def tags(self, board: str, agent: str) -> list[str]:
        return await self.engine.read(lambda: reading.tags(board, agent))

    async def why_left(self, board: str, agent: str, wanted: Iterable[int]) -> dict[int, Event]:
        numbers = tuple(wanted)
        return await self.engine.read(lambda: reading.why_left(board, agent, numbers))

    async def endorsements(
        self, board: str, agent: str, number: int, limit: int = 100
    ) -> tuple[Endorsement, ...]:
        return await self.engine.read(lambda: endorsing.listed(board, agent, number, limit))

    async def around(
        self, board: str, agent: str, wanted: Iterable[int]
    ) -> dict[int, tuple[int | None, int | None]]:
        hits = tuple(wanted)
        return await self.engine.read(lambda: reading.around(board, agent, hits))

    async def guarded(self, board: str, wanted: Iterable[int]) -> dict[int, Protection]:
        numbers = tuple(wanted)
        return await self.engine.read(lambda: reading.guarded(board, numbers))

    async def explain(self, board: str, agent: str, wanted: Sequence[int], *, look: int = 0) -> Explained:
        now = self._now()
        return await self.engine.read(lambda: explanations.explain(board, agent, wanted, now, look))

    # Leaving and coming back

    async def prune(
        self, board: str, decide: Decide, *, apply: bool = True, reaching: Reaching | None = None
    ) -> PassOutcome:
        now = self._now()

        def run() -> Steps[PassOutcome]:
            return pruning.prune(board, decide, now, apply=apply, reaching=reaching)

        return await (self._write(run) if apply else self.engine.read(run))

    async def judge_pressure(self, board: str, describe: Describe) -> str | None:
        now = self._now()
        return await self._write(lambda: pressing.judge(board, describe, now))

    async def thread_sources(self, board: str, members: Iterable[int]) -> list[Item]:
        numbers = tuple(members)
        return await self.engine.read(lambda: summaries.thread_sources(board, numbers))

    async def apply_summary(self, board: str, summary: NewSummary) -> str | None:
        now = self._now()
        return await self._write(lambda: summaries.apply_summary(board, summary, now))

    async def expire(self) -> list[str]:
        now = self._now()
        changed: dict[str, None] = {}
        place: pruning.Due | None = (0, 0, 0)
        while place is not None:
            place, due = await self._due(now, place)
            for board, numbers in due.items():
                if await self._expire(board, numbers, now):
                    changed[board] = None
        return list(changed)

    async def next_expiry(self) -> float | None:
        now = self._now()
        at = await self.engine.read(lambda: pruning.next_expiry(now))
        return None if at is None else (at - now) / 1_000_000

    async def _due(self, now: int, after: pruning.Due) -> tuple[pruning.Due | None, dict[str, list[int]]]:
        return await self.engine.read(lambda: pruning.expiring(now, _EXPIRY_BATCH, after))

    async def _expire(self, board: str, numbers: list[int], now: int) -> int:
        return await self._write(lambda: pruning.expire(board, numbers, now))

    async def spread_retractions(self) -> list[str]:
        changed: list[str] = []
        for board in await self.engine.read(retraction.boards_waiting):
            while await self._spread(board):
                pass
            changed.append(board)
        return changed

    async def _spread(self, board: str) -> bool:
        now = self._now()
        return await self._write(lambda: retraction.spread(board, now))

    async def restore(
        self,
        board: str,
        agent: str,
        wanted: Iterable[int],
        *,
        once: Once | None = None,
        look: int = 0,
    ) -> Restored:
        numbers = tuple(wanted)
        return await self._apply(
            board,
            agent,
            once,
            lambda now: pruning.restore(board, agent, numbers, now, look),
            pruning.kept_restoring(board, agent, look),
        )

    # News

    def changes(self) -> int:
        return self.engine.changes()

    async def wait_for_change(self, seen: int, timeout: float, *, hurried: bool = True) -> int:
        return await self.engine.wait_for_change(seen, timeout, hurried=hurried)

    # For the archive's index

    async def unindexed(self, board: str, agent: str, limit: int) -> list[tuple[int, str]]:
        return await self.engine.read(lambda: reading.unindexed(board, agent, limit))

    async def outbox_batch(self, limit: int) -> OutboxBatch:
        return await self.engine.read(lambda: index_feed.outbox_batch(limit))

    async def outbox_done(self, ids: Sequence[int]) -> None:
        await self._write(lambda: index_feed.outbox_done(ids))

    async def outbox_wait(self, seconds: float) -> None:
        # Indexing yields to posting: what waits is found by a search all the same.
        seen = self.engine.changes()
        if await self.engine.read(index_feed.outbox_empty):
            if await self.engine.wait_for_change(seen, seconds, hurried=False) == seen:
                return
            seen = self.engine.changes()
        for _ in range(_BURST_STEPS):
            await asyncio.sleep(_QUIET_SECONDS)
            if (now := self.engine.changes()) == seen:
                return
            seen = now

    async def archived_keys(self) -> dict[tuple[str, int], int]:
        return await self.engine.read(index_feed.archived_keys)

    async def settled_keys(self) -> dict[tuple[str, int], int]:
        return await self.engine.read(index_feed.settled_keys)

    async def settled(self, most: int) -> Settled | None:
        return await self.engine.read(lambda: index_feed.settled(most))

    async def waiting(self, board: str, limit: int) -> Waiting:
        return await self.engine.read(lambda: index_feed.waiting(board, limit))

    async def archived_documents(self, batch: int = 500) -> AsyncIterator[tuple[ArchiveDocument, ...]]:
        place: index_feed.Place | None = (0, 0)
        while place is not None:
            place, page = await self._archived_page(place, batch)
            if page:
                yield page

    async def _archived_page(
        self, after: index_feed.Place, batch: int
    ) -> tuple[index_feed.Place | None, tuple[ArchiveDocument, ...]]:
        return await self.engine.read(lambda: index_feed.archived_page(after, batch))

    async def documents(self, keys: Sequence[tuple[str, int]]) -> tuple[ArchiveDocument, ...]:
        return await self.engine.read(lambda: index_feed.documents(keys))

    async def lease(self, name: str, holder: str, seconds: float) -> bool:
        now = self._clock.now()
        until = micros(now + timedelta(seconds=seconds))
        return await self._write(lambda: index_feed.lease(name, holder, until, micros(now)))

    async def release(self, name: str, holder: str) -> None:
        await self._write(lambda: index_feed.release(name, holder))

    async def close(self) -> None:
        await self.engine.close()
