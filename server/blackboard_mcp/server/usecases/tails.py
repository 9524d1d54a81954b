"""The ends of followed logs, read from the store once for all callers that wait.

This module knows boards, sequences and events, but no subscriptions, calls or wire formats. It only passes on
events that it read from the store after their commit, in order and without gaps.

A log is held in pages of `PAGE` sequences. A finished page changes only when an item is forgotten, or is kept from
those who saw it, so the pages used last are kept for readers far behind the end. The unfinished page of each followed
board grows at its end. Everything can be read again, so memory is bounded by dropping pages. Only waiting readers are
stored here, with their places, so slow readers cost nothing.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Coroutine, Sequence, Set
from time import perf_counter, thread_time
from typing import Any, Final, TypeVar

from blackboard_mcp.protocols.errors import StoreClosed, StoreError
from blackboard_mcp.protocols.events import Event, EventType
from blackboard_mcp.protocols.matching import Matcher
from blackboard_mcp.protocols.read_rules import READ
from blackboard_mcp.protocols.store import BoardStore
from blackboard_mcp.protocols.values import dataclass
from blackboard_mcp.protocols.visibility import TEAM

from ..background import heeded
from ..limits.turns import resting
from .viewers import Viewers

PAGE: Final = 256
"""Sequences that one page covers."""
MAX_BYTES: Final = 24 << 20
"""Approximate bytes of memory held for all boards together."""
LINGER_SECONDS: Final = 5.0
"""Seconds for which a board's end is kept after its last follower left, because the reader's next call comes
soon.
"""
_ROUND: Final = 1_000
"""Most events read at once."""
_TURN: Final = 0.0002
"""Seconds of evaluating filters after which other tasks run."""
_ASKED: Final = 4
"""Events evaluated between two looks at the clock."""
_LOOK_SECONDS: Final = 0.2
"""Most CPU seconds that a reader far behind spends on events that are not for it, before it is told how far
it got. A filter may take half a millisecond for each event.
"""

Page = Sequence[Event]
T = TypeVar("T")


class _Waiter:
    """A waiting call: the filter it waits on, and the place up to which nothing matched."""

    __slots__ = ("news", "place", "wanted")

    def __init__(self, wanted: Matcher, place: int, news: asyncio.Future[None]) -> None:
        self.wanted = wanted
        self.place = place
        self.news = news


class _Tail:
    """The end of one board's log: the events after `start` up to `end`, all of one page."""

    def __init__(self, board: str, end: int) -> None:
        self.board = board
        self.start = self.end = end
        self.events: list[Event] = []
        self.weight = 0
        self.drops = 0
        """The number of times that all events were dropped; pages read before the last time are not kept."""
        self.waiters: set[_Waiter] = set()
        self.followers = 0
        self.asked = False
        """Whether the store was read for this board since it is followed; from then on its waiters hear of changes."""
        self.left = 0.0
        """The time on the loop's clock at which the last follower left."""

    def begin(self, end: int) -> None:
        """Drops all events, and starts again at a new end."""
        self.start = self.end = end
        self.events = []
        self.weight = 0
        self.drops += 1


@dataclass(frozen=True, slots=True)
class Heard:
    """The wanted events in order, and the sequence up to which the log was searched."""

    events: tuple[Event, ...]
    cursor: int


class Tails:
    """The followed logs of a store. They belong to one event loop; `close` ends their reading."""

    def __init__(
        self, store: BoardStore, viewers: Viewers | None = None, *, max_bytes: int = MAX_BYTES
    ) -> None:
        self._store = store
        self._viewers = Viewers(store) if viewers is None else viewers
        self._max_bytes = max_bytes
        self._weight = 0
        self._tails: dict[str, _Tail] = {}
        self._pages: OrderedDict[tuple[str, int], tuple[Page, int]] = OrderedDict()
        self._loading: dict[tuple[str, int], asyncio.Task[Page]] = {}
        self._outdated: set[asyncio.Task[Page]] = set()
        """Readings of pages that changed meanwhile: only the callers from before get them."""
        self._reading = asyncio.Lock()
        self._waiting = 0
        self._letting_go: set[asyncio.Future[Any]] = set()
        self.released = False
        """Whether `release` was called, so that no call waits any more."""
        self._pump: asyncio.Task[None] | None = None
        self._advancing: set[asyncio.Task[bool]] = set()
        self._sweep: asyncio.TimerHandle | None = None

    async def after(
        self, board: str, wanted: Matcher, place: int, *, end: int, limit: int, seconds: float
    ) -> Heard:
        """Waits for wanted events after `place`, and returns at most `limit` of them, or none after
        `seconds`.

        `wanted` also says whether the reader may see an event. `end` is the board's sequence when the caller
        looked: events up to it are never missed, however short the time. Far behind the end, the call may
        return without events before `seconds` are over; the cursor then says how far it searched.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        tail = self._follow(board, end)
        try:
            while True:
                while tail.end < end:
                    await self._catch_up(tail, end)
                events, place = await self._collect(tail, wanted, place, limit)
                if events or place < tail.end:
                    return Heard(tuple(events), place)
                if loop.time() >= deadline or self.released:
                    return Heard((), place)
                place = await self._wait(tail, wanted, place, deadline)
        finally:
            self._leave(tail)

    async def close(self) -> None:
        """Ends the reading; calls that wait get `StoreClosed`."""
        if self._sweep is not None:
            self._sweep.cancel()
        readings = *self._advancing, *self._loading.values(), *self._outdated
        tasks = [*readings, *((self._pump,) if self._pump else ())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tell(_closed())
        self._tails.clear()
        self._pages.clear()

    def release(self) -> None:
        """Ends all waits, present and future, as if their time were over."""
        self.released = True
        for task in self._letting_go:
            task.cancel()
        for tail in self._tails.values():
            for waiter in tail.waiters:
                if not waiter.news.done():
                    waiter.news.set_result(None)

    async def unless_released(self, work: Coroutine[Any, Any, T], otherwise: T) -> T:
        """Awaits `work` and returns its result; cancels it and returns `otherwise` once `release` is called."""
        task = asyncio.ensure_future(work)
        task.add_done_callback(heeded)
        self._letting_go.add(task)
        try:
            async with resting():
                await asyncio.wait([task])
        finally:
            self._letting_go.discard(task)
            task.cancel()
        return otherwise if task.cancelled() else task.result()

    @property
    def weight(self) -> int:
        """Approximate bytes held."""
        return self._weight

    # Followers

    def _follow(self, board: str, end: int) -> _Tail:
        tail = self._tails.get(board)
        if tail is None:
            tail = self._tails[board] = _Tail(board, end)
        tail.followers += 1
        return tail

    def _leave(self, tail: _Tail) -> None:
        tail.followers -= 1
        if not tail.followers:
            loop = asyncio.get_running_loop()
            tail.left = loop.time()
            if self._sweep is None:
                self._sweep = loop.call_later(LINGER_SECONDS, self._forget_left)

    async def _wait(self, tail: _Tail, wanted: Matcher, place: int, deadline: float) -> int:
        """Waits for a wanted event or the deadline, and returns the place up to which nothing matched."""
        waiter = _Waiter(wanted, place, asyncio.get_running_loop().create_future())
        tail.waiters.add(waiter)
        self._waiting += 1
        if self._pump is None or self._pump.done():
            self._pump = asyncio.create_task(self._run(), name="tails")
        elif not tail.asked:
            # The pump may have reported changes since the caller looked, before it followed this board: read again.
            self._ask().add_done_callback(self._asked)
        try:
            async with resting():
                await asyncio.wait(
                    [waiter.news], timeout=max(0.0, deadline - asyncio.get_running_loop().time())
                )
            if waiter.news.done():
                waiter.news.result()
        finally:
            self._waiting -= 1
            tail.waiters.discard(waiter)
        return waiter.place

    async def _collect(self, tail: _Tail, wanted: Matcher, place: int, limit: int) -> tuple[list[Event], int]:
        """Returns the wanted events after a place, and the place up to which these are all.

        That place is the tail's end, unless the search found `limit` events or took too long. Nothing is
        awaited between the last look at the end and the return, so no event is missed.
        """
        left = _LOOK_SECONDS
        found: list[Event] = []
        while place < tail.end:
            if place >= tail.start:
                events: Page = tail.events
            else:
                events = await self._page(tail, place // PAGE)
            turn, until = thread_time(), perf_counter() + _TURN
            for asked, event in enumerate(tuple(events[_upto(events, place) :]), 1):
                place = event.seq
                if wanted(event):
                    found.append(event)
                    if len(found) == limit:
                        return found, place
                if asked % _ASKED == 0 and perf_counter() > until:
                    left -= thread_time() - turn
                    if left < 0:
                        return found, place
                    await asyncio.sleep(0)
                    turn, until = thread_time(), perf_counter() + _TURN
            left -= thread_time() - turn
            if left < 0:
                break
        return found, place

    # Reading the store

    async def _catch_up(self, tail: _Tail, end: int) -> None:
        """Brings a tail up to the board's known sequence; skips far ahead when no call waits on it."""
        if not tail.waiters and end - tail.end > _ROUND:
            # Older events may have changed in between.
            self._drop_pages({tail.board})
            self._shed(tail)
            tail.begin(end)
            return
        # Read in a task of its own, so that a cancelled caller does not stop the reading for others.
        await _result(self._ask())

    def _ask(self) -> asyncio.Task[bool]:
        """Starts one reading in a task that goes on even if the caller is cancelled."""
        task = asyncio.create_task(self._advance())
        self._advancing.add(task)
        task.add_done_callback(self._advancing.discard)
        task.add_done_callback(heeded)
        return task

    def _asked(self, task: asyncio.Task[bool]) -> None:
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            self._tell(error)

    async def _run(self) -> None:
        """Reads new events for as long as any call waits."""
        try:
            while self._waiting:
                seen = self._store.changes()
                if not await self._advance() and self._waiting:
                    await self._store.wait_for_change(seen, LINGER_SECONDS)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            # Waiting calls get the error; the next call that waits starts a new pump.
            self._tell(error)

    def _tell(self, error: Exception) -> None:
        for tail in self._tails.values():
            for waiter in tail.waiters:
                if not waiter.news.done():
                    waiter.news.set_exception(error)

    async def _advance(self) -> bool:
        """Reads new events of all followed boards and wakes the calls that want them; returns whether there
        is more to read.
        """
        async with self._reading:
            followed = list(self._tails.values())
            places = {one.board: one.end for one in followed}
            stretches = await self._store.stretches(places, _ROUND)
            if any(_of_some(event) for stretch in stretches.values() for event in stretch.events):
                # A waiting agent may have got another owner or role since it began to wait.
                await self._viewers.renew()
            for one in followed:
                one.asked = True
            more = False
            for board, stretch in stretches.items():
                tail = self._tails.get(board)
                if tail is None or tail.end != places[board]:
                    more = True
                    continue
                if stretch.events:
                    _check(stretch.events, tail.end)
                    if any(map(_rewrites, stretch.events)):
                        self._drop_pages({board})
                        self._shed(tail)
                        tail.begin(tail.end)
                    self._extend(tail, stretch.events)
                    await self._wake(tail, stretch.events)
                more = more or stretch.seq > tail.end
            # Move the boards that were read to the end, so that the others come first next time.
            for board in stretches:
                if board in self._tails:
                    self._tails[board] = self._tails.pop(board)
            return more or sum(len(stretch.events) for stretch in stretches.values()) == _ROUND

    async def _wake(self, tail: _Tail, events: Page) -> None:
        """Wakes the calls that want one of the new events; for the others, moves their place to the end."""
        loop = asyncio.get_running_loop()
        turn = loop.time() + _TURN
        end = events[-1].seq
        single = events[0] if len(events) == 1 else None
        asked = 0
        for waiter in list(tail.waiters):
            place = waiter.place
            if place >= end or waiter.news.done():
                continue
            # This runs for each waiter on each single event, so it does as little as possible.
            if single is not None:
                wants = waiter.wanted(single)
            else:
                wants = False
                for start in range(_upto(events, place), len(events), _ASKED):
                    wants = any(map(waiter.wanted, events[start : start + _ASKED]))
                    if wants:
                        break
                    if loop.time() > turn:
                        await asyncio.sleep(0)
                        turn = loop.time() + _TURN
                if waiter.news.done():
                    continue
            if wants:
                waiter.news.set_result(None)
            else:
                waiter.place = end
            asked += len(events)
            if asked >= _ASKED:
                asked = 0
                if loop.time() > turn:
                    await asyncio.sleep(0)
                    turn = loop.time() + _TURN

    async def _page(self, tail: _Tail, number: int) -> Page:
        """Returns a page, or the part of the unfinished page before the tail; simultaneous calls share one
        reading.
        """
        key = tail.board, number
        kept = self._pages.get(key)
        if kept is not None:
            self._pages.move_to_end(key)
            return kept[0]
        loading = self._loading.get(key)
        if loading is None:
            loading = self._loading[key] = asyncio.create_task(self._load(tail, number))
            loading.add_done_callback(lambda task: self._loaded(key, task))
        return await _result(loading)

    def _loaded(self, key: tuple[str, int], task: asyncio.Task[Page]) -> None:
        if self._loading.get(key) is task:
            del self._loading[key]
        self._outdated.discard(task)
        heeded(task)

    async def _load(self, tail: _Tail, number: int) -> Page:
        first = number * PAGE
        there, drops = min(tail.start, first + PAGE), tail.drops
        stretches = await self._store.stretches({tail.board: first}, PAGE)
        found = stretches[tail.board].events if tail.board in stretches else ()
        if not found or found[-1].seq < there:
            raise StoreError(f"The log of '{tail.board}' is shorter than it was.")
        _check(found, first)
        if tail.drops != drops:
            return found
        if len(found) == PAGE:
            self._keep(tail.board, number, found)
        elif first < tail.start <= found[-1].seq and self._tails.get(tail.board) is tail:
            older = found[: _upto(found, tail.start)]
            weight = _weight(older)
            tail.events[:0] = older
            tail.start = first
            tail.weight += weight
            self._weight += weight
            self._trim()
        return found

    # Memory

    def _extend(self, tail: _Tail, events: Page) -> None:
        weight = _weight(events)
        tail.events.extend(events)
        tail.end = events[-1].seq
        tail.weight += weight
        self._weight += weight
        while tail.end // PAGE > tail.start // PAGE:
            number = tail.start // PAGE
            after = (number + 1) * PAGE
            length = _upto(tail.events, after)
            page = tuple(tail.events[:length])
            del tail.events[:length]
            weight = _weight(page)
            tail.weight -= weight
            self._weight -= weight
            if len(page) == PAGE:
                self._keep(tail.board, number, page)
            # A restored board leaves out sequences, so the next page may be far away.
            tail.start = max(after, (tail.events[0].seq - 1) // PAGE * PAGE) if tail.events else after
        self._trim()

    def _keep(self, board: str, number: int, page: Page) -> None:
        if (board, number) not in self._pages:
            weight = _weight(page)
            self._pages[board, number] = page, weight
            self._weight += weight
            self._trim()

    def _trim(self) -> None:
        while self._weight > self._max_bytes:
            if self._pages:
                _, (_, weight) = self._pages.popitem(last=False)
                self._weight -= weight
                continue
            heaviest = max(self._tails.values(), key=lambda tail: tail.weight)
            self._shed(heaviest)
            heaviest.begin(heaviest.end)

    def _shed(self, tail: _Tail) -> None:
        self._weight -= tail.weight
        tail.weight = 0

    def _drop_pages(self, boards: Set[str]) -> None:
        for key in [key for key in self._pages if key[0] in boards]:
            self._weight -= self._pages.pop(key)[1]
        for key in [key for key in self._loading if key[0] in boards]:
            self._outdated.add(self._loading.pop(key))

    def _forget_left(self) -> None:
        """Drops boards that nobody has followed for a while, with their pages."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._sweep = None
        gone = {
            board
            for board, tail in self._tails.items()
            if not tail.followers and now - tail.left >= LINGER_SECONDS
        }
        for board in gone:
            self._shed(self._tails.pop(board))
        self._drop_pages(gone)
        left = [tail.left for tail in self._tails.values() if not tail.followers]
        if left:
            self._sweep = loop.call_at(min(left) + LINGER_SECONDS, self._forget_left)


async def _result(reading: asyncio.Task[T]) -> T:
    """Returns a shared reading's result; the reading goes on if this caller is cancelled.

    Raises:
        StoreClosed: `close` ended the reading.
    """
    try:
        return await asyncio.shield(reading)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if reading.cancelled() and not (task is not None and task.cancelling()):
            raise _closed() from None
        raise


def _of_some(event: Event) -> bool:
    """Tells whether agents see the event by what they are now: by their owner, or by a read rule."""
    return event.owner is not None and event.owner.startswith((TEAM, READ))


def _rewrites(event: Event) -> bool:
    """Tells whether older events of the item changed with it: they lost their values, or others see them."""
    seen_by_others = event.event is EventType.ITEM_CHANGED and "visibility" in event.data.get("changed", ())
    return event.event is EventType.ITEM_FORGOTTEN or seen_by_others


def _closed() -> StoreClosed:
    return StoreClosed("The store was closed while waiting for a change.")


def _upto(events: Page, place: int) -> int:
    """Returns how many of the events have sequences up to `place`."""
    if not events or events[0].seq > place:
        return 0
    return bisect_right(events, place, key=lambda event: event.seq)


def _check(events: Page, after: int) -> None:
    """Checks that no event is missing after the sequence `after`; a restored board may leave out sequences.

    Raises:
        StoreError: an event is missing.
    """
    if events[-1].seq == after + len(events):
        return
    for event in events:
        restored = event.event is EventType.BOARD_RESTORED and event.data["after"] <= after
        if event.seq != after + 1 and not restored:
            raise StoreError(f"The log has a gap between {after} and {events[-1].seq}.")
        after = event.seq


def _weight(events: Page) -> int:
    """Returns the approximate bytes of the events; texts that events share count for each of them."""
    weight = 0
    for event in events:
        weight += 800 + len(event.key or "") + 60 * (len(event.tags) + len(event.concerns))
        if event.data or event.metadata:
            facts = (*event.data.values(), *event.metadata.values())
            weight += sum(100 + len(str(value)) for value in facts)
    return weight
