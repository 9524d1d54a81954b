"""Consumer groups: several agents share the events of a group, taking turns and waiting for the next event.

Every method takes the agent's authenticated name and a board id. Nothing here knows MCP, HTTP or SQL.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import math
from collections.abc import Coroutine, Sequence
from dataclasses import field, replace
from typing import Any, Final
from weakref import WeakValueDictionary

from blackboard_mcp.protocols.answers import (
    Attention,
    Once,
)
from blackboard_mcp.protocols.errors import BlackboardError
from blackboard_mcp.protocols.events import Event
from blackboard_mcp.protocols.groups import (
    ATTEMPTS,
    DeadLetter,
    Group,
    GroupState,
    Handle,
    Outlook,
    Taken,
    Turn,
    check_group,
    group_filter,
)
from blackboard_mcp.protocols.items import parse_ref
from blackboard_mcp.protocols.sightings import Way
from blackboard_mcp.protocols.store import BoardStore
from blackboard_mcp.protocols.tokens import Tokenizer
from blackboard_mcp.protocols.values import dataclass
from cachetools import FIFOCache

from ..input.idempotency import once_of
from ..input.posts import check_agent
from .blackboard import Blackboard
from .following import Report, with_threads

_REPORT_EVERY: Final = 5.0
_AFTER: Final = 0.005
"""Seconds to wait after the end of a lease, so that it has surely ended."""
_LEAST: Final = 0.001
_KNOWN: Final = 1_000
CANCELLED: Final = "the call that took it was cancelled"
RELEASED: Final = "given back before it was begun"


@dataclass(frozen=True, slots=True)
class Work:
    """The events that a turn gave a worker, and the beginnings of their versions by item number and version."""

    taken: Taken
    texts: dict[tuple[int, int], str] = field(default_factory=dict)
    attention: Attention = field(default_factory=Attention)


@dataclass(frozen=True, slots=True)
class Dead:
    """Dead letters, and the beginnings of their events' versions by item number and version."""

    letters: list[DeadLetter]
    texts: dict[tuple[int, int], str]
    seq: int


class Consumers:
    """Use cases for consumer groups on the boards of a blackboard."""

    def __init__(self, board: Blackboard) -> None:
        self._board = board
        self._returning: set[asyncio.Task[None]] = set()
        self._gates: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        self._known: FIFOCache[tuple[str, str], tuple[int, Outlook]] = FIFOCache(_KNOWN)

    def tokenizer(self, board: str | None) -> Tokenizer:
        """Returns the tokenizer that fits a board's texts into lines."""
        return self._board.tokenizers.on(board or self._board.default_board)

    @property
    def _store(self) -> BoardStore:
        return self._board.store

    async def create(
        self,
        agent: str,
        board: str | None,
        group: str,
        filter_: dict[str, Any],
        *,
        since: int | None = None,
        max_attempts: int = ATTEMPTS,
        once_key: str | None = None,
    ) -> Group:
        """Creates a group that starts at the end of the log, or after `since`, and returns it.

        Errors are those of `BoardStore.create_group`.
        """
        name = await self._of(agent, board, group)
        self._board.quotas.charge(agent, name)
        once = once_of(
            once_key, "create_group", group=group, filter=filter_, since=since, attempts=max_attempts
        )
        return await self._store.create_group(
            name,
            agent,
            group,
            await self._for_all(name, filter_),
            since=since,
            max_attempts=max_attempts,
            once=once,
            most=self._board.quotas.limits.groups_per_agent,
        )

    async def change(
        self,
        agent: str,
        board: str | None,
        group: str,
        *,
        filter_: dict[str, Any] | None = None,
        max_attempts: int | None = None,
        once_key: str | None = None,
    ) -> Group:
        """Changes a group for the agent that made it, and returns it. Errors are those of
        `BoardStore.change_group`.
        """
        name = await self._of(agent, board, group)
        self._board.quotas.charge(agent, name)
        once = once_of(once_key, "change_group", group=group, filter=filter_, attempts=max_attempts)
        wanted = None if filter_ is None else await self._for_all(name, filter_)
        return await self._store.change_group(
            name, agent, group, filter_=wanted, max_attempts=max_attempts, once=once
        )

    async def end(self, agent: str, board: str | None, group: str, *, once_key: str | None = None) -> int:
        """Ends a group for the agent that made it, and returns the board's sequence."""
        name = await self._of(agent, board, group)
        return await self._store.end_group(
            name, agent, group, once=once_of(once_key, "end_group", group=group)
        )

    async def groups(self, agent: str, board: str | None) -> tuple[list[GroupState], int]:
        """Returns the board's groups with their backlogs, by name, and the board's sequence."""
        name = await self._board.board_of(board, agent)
        return await self._store.groups(name)

    async def take(
        self,
        agent: str,
        board: str | None,
        group: str,
        turn: Turn,
        *,
        seconds: float,
        report: Report | None = None,
        once_key: str | None = None,
    ) -> Work:
        """Settles the events that the worker names, then takes the next ones, waiting for them up to
        `seconds`.

        With an idempotency key the settling and the take happen once; a repeated call returns the same events.
        Without a key, events taken by a call that is cancelled or fails are given back at once and do
        not count as an attempt. Errors are those of `BoardStore.consume`.
        """
        name = await self._of(agent, board, group)
        once = once_of(
            once_key,
            "consume",
            group=group,
            ack=[str(handle) for handle in turn.ack],
            fail={str(handle): why for handle, why in turn.fail.items()},
            release={str(handle): why for handle, why in turn.release.items()} or None,
            extend=[str(handle) for handle in turn.extend],
            limit=turn.limit,
            lease=turn.lease_seconds,
            filter=turn.filter,
        )
        if turn.filter is not None:
            turn = replace(
                turn,
                filter=await self._for_all(name, turn.filter),
                most=self._board.quotas.limits.groups_per_agent,
            )
        loop = asyncio.get_running_loop()
        started = loop.time()
        deadline = started + seconds
        next_report = math.inf if report is None else started + _REPORT_EVERY
        tails = self._board.following.tails
        seen = self._store.changes()
        waited = None if once is None else _waited(once)
        repeated = waited is not None and await self._store.recall(name, agent, waited) is not None
        made_after: int | None = None
        settled = turn.settles
        # A repeated call that had to wait takes nothing anew before it is answered as the first time.
        if not repeated or settled or turn.filter is not None:
            taken = await self._consume(name, agent, group, turn, once)
            made_after = taken.made_after
        turn = replace(turn, ack=(), fail={}, release={}, extend=(), filter=None)
        if repeated:
            taken = await self._consume(name, agent, group, turn, waited)
        while turn.limit and not taken.deliveries and (now := loop.time()) < deadline:
            async with self._gate(name, group):
                # Many callers may wait here: only one at a time checks for work and takes it.
                try:
                    outlook = await self._outlook(name, group)
                    if outlook.ready:
                        taken = await self._consume(name, agent, group, turn, waited)
                        continue
                except BlackboardError as error:
                    if settled:
                        error.message = error.message.replace(
                            "Nothing was changed", "What this call settled counts"
                        )
                        error.args = (error.message,)
                    raise
            if report is not None and now >= next_report:
                next_report = now + _REPORT_EVERY
                await report(round(now - started, 1), seconds, "waiting for work")
            patience = min(deadline, next_report) - now
            if outlook.next_due is not None:
                until = (outlook.next_due - self._board.activity.clock.now()).total_seconds()
                patience = min(patience, until + _AFTER)
            if tails.released:
                break
            waiting = self._store.wait_for_change(seen, max(_LEAST, patience))
            seen = await tails.unless_released(waiting, seen)
        self._board.activity.seen(name, agent)
        try:
            events = [delivery.event for delivery in taken.deliveries]
            texts = await self._texts(name, agent, events)
            given = [event.seq for event in events]
            attention, seq = await self._board.attention(agent, name, events=given)
            self._board.looks.read(name, agent, events, given, Way.CONSUME)
        except (asyncio.CancelledError, BlackboardError):
            if once is None:
                self._later(self._give_back(name, agent, group, taken))
            raise
        return Work(replace(taken, seq=seq, made_after=made_after), texts, attention)

    def _gate(self, board: str, group: str) -> asyncio.Lock:
        return self._gates.setdefault((board, group), asyncio.Lock())

    async def _outlook(self, board: str, group: str) -> Outlook:
        """Returns what a turn would find. A cached result is used while nothing changed and no lease has
        ended.
        """
        changes = self._store.changes()
        seen, known = self._known.get((board, group), (-1, None))
        if known is not None and seen == changes and not known.ready:
            due = known.next_due is not None and self._board.activity.clock.now() >= known.next_due
            if not due:
                return known
        found = await self._store.group_outlook(board, group)
        self._known[board, group] = changes, found
        return found

    async def _consume(self, board: str, agent: str, group: str, turn: Turn, once: Once | None) -> Taken:
        taking = asyncio.ensure_future(self._store.consume(board, agent, group, turn, once=once))
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            # The write cannot be stopped: undo it afterwards, unless a repeated call may ask for its result.
            self._later(self._undo(taking, board, agent, group, keyed=once is not None))
            raise

    async def _undo(
        self, taking: asyncio.Future[Taken], board: str, agent: str, group: str, *, keyed: bool
    ) -> None:
        with contextlib.suppress(BlackboardError):
            taken = await taking
            if not keyed:
                await self._give_back(board, agent, group, taken)

    async def _give_back(self, board: str, agent: str, group: str, taken: Taken) -> None:
        """Releases events that reached no worker, so that the next worker gets them."""
        if taken.deliveries:
            release = {delivery.handle: CANCELLED for delivery in taken.deliveries}
            with contextlib.suppress(BlackboardError):  # its lease ends anyway
                await self._store.consume(board, agent, group, Turn(release=release, limit=0))

    def _later(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._returning.add(task)
        task.add_done_callback(self._returning.discard)

    async def settle(self) -> None:
        """Returns when the events that cancelled calls had taken are given back."""
        while self._returning:
            await asyncio.wait(list(self._returning))

    async def dead_letters(self, agent: str, board: str | None, group: str, *, after: int = 0) -> Dead:
        """Returns dead letters of events after the sequence `after`, in order."""
        name = await self._of(agent, board, group)
        letters, seq = await self._store.dead_letters(name, group, after=after)
        return Dead(letters, await self._texts(name, agent, [letter.event for letter in letters]), seq)

    async def retry(
        self,
        agent: str,
        board: str | None,
        group: str,
        handles: Sequence[Handle],
        *,
        once_key: str | None = None,
    ) -> int:
        """Queues dead letters to be delivered again, and returns the board's sequence.

        Errors are those of `BoardStore.retry_dead`.
        """
        name = await self._of(agent, board, group)
        once = once_of(once_key, "retry_dead", group=group, handles=[str(handle) for handle in handles])
        return await self._store.retry_dead(name, agent, group, handles, once=once)

    async def drop(
        self,
        agent: str,
        board: str | None,
        group: str,
        handles: Sequence[Handle],
        *,
        once_key: str | None = None,
    ) -> int:
        """Drops dead letters, and returns the board's sequence. Errors are those of `BoardStore.drop_dead`."""
        name = await self._of(agent, board, group)
        once = once_of(once_key, "drop_dead", group=group, handles=[str(handle) for handle in handles])
        return await self._store.drop_dead(name, agent, group, handles, once=once)

    async def _of(self, agent: str, board: str | None, group: str) -> str:
        check_agent(agent)
        check_group(group)
        return await self._board.board_of(board, agent)

    async def _for_all(self, board: str, filter_: dict[str, Any]) -> dict[str, Any]:
        """Returns the filter with its threads named by their first items, which everybody must be able to
        see.
        """
        group_filter(filter_)
        return await with_threads(self._store, board, "", filter_)

    async def _texts(self, board: str, agent: str, events: Sequence[Event]) -> dict[tuple[int, int], str]:
        versions = [(parse_ref(e.item).number, e.version or 1) for e in events if e.item is not None]
        return await self._store.beginnings(board, agent, versions) if versions else {}


def _waited(once: Once) -> Once:
    """Returns the key under which a call's take is kept that had to wait: the first look found nothing."""
    return Once(f"waited {hashlib.sha256(f'{once.key} {once.digest}'.encode()).hexdigest()}", once.digest)
