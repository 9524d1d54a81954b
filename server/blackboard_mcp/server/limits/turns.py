"""Fair turns between callers: an expensive call counts as many cheap ones.

This is start-time fair queueing (Goyal, Vin, Cheng 1996) between principals. Each call is charged the seconds
that its work takes in the event loop and in the store's threads. Until that is known, an estimate from the
caller's last calls of the same kind stands in. The caller who had the least work goes first, and a call that
is too expensive to begin keeps its place until there is room. The work of one caller that runs at once is
bounded, so that the next caller finds the process nearly free. This module knows names, kinds and seconds,
but not what calls do.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar, Token
from typing import Any, Final, Generic, TypeVar

from blackboard_mcp.protocols.metering import METER, Meter

T = TypeVar("T")

EACH_SECONDS: Final = 0.012
"""Most estimated seconds of one caller's work under way at once; a call that costs more runs alone."""
ALL_SECONDS: Final = 0.1
"""Most estimated seconds of all callers' work under way at once, except for the first few callers."""
FEW: Final = 3
"""Number of callers that may each have a call under way whatever it costs."""
DEAR_SECONDS: Final = 0.004
"""Estimated seconds above which a call shares no commit with others' writes, which would have to wait for it."""
BESIDES_SECONDS: Final = 0.0005
"""Seconds that a turn takes besides its measured work: a request is read before, or an answer sent after it."""
FIRST_GUESS: Final = EACH_SECONDS
"""Estimated seconds of a kind of call that nobody has made yet; such a call runs alone."""
HELD_SECONDS: Final = 3.0
"""Seconds after which a call that hardly works loses its turn, because it waits for something outside."""
_NEWEST: Final = 0.3  # weight of the newest call in the estimate for its kind
_STEADY: Final = 0.15  # the same in the mean that tells whether calls are dear
_KEPT: Final = 1_000


class _Caller:
    """Record of one principal: its work so far and its work under way in estimated seconds, and its waiting
    calls.
    """

    __slots__ = ("costs", "had", "means", "under_way", "waiting", "working")

    def __init__(self, had: float) -> None:
        self.had = had
        self.under_way = 0
        self.working = 0.0
        self.waiting: deque[tuple[asyncio.Future[float], str]] = deque()
        self.costs: dict[str, float] = {}
        self.means: dict[str, float] = {}


class Turns:
    """The turns of all callers in one process; it belongs to one event loop."""

    def __init__(self) -> None:
        self._callers: dict[str, _Caller] = {}
        self._busy: set[str] = set()
        self._waiting: dict[str, None] = {}  # in the order in which callers began to wait
        self._usual: dict[str, float] = {}
        self._working = 0.0
        self._now = 0.0
        self._kept = _KEPT

    def taking(self, who: str, kind: str) -> AbstractAsyncContextManager[CallTurn]:
        """Waits for a turn and keeps it for the block. `who` is the caller's account and `kind` the kind of
        call.
        """
        return _Taking(CallTurn(self, who, kind))

    def _cost(self, caller: _Caller, kind: str) -> float:
        return caller.costs.get(kind) or self._usual.get(kind, FIRST_GUESS)

    def is_dear(self, who: str, kind: str, cost: float) -> bool:
        """Tells whether the caller's calls of this kind are expensive on average; `cost` is the estimate for the first.

        A call that took long because the machine was busy does not put the next ones behind expensive ones of others.
        """
        return self._callers[who].means.get(kind, cost) > DEAR_SECONDS

    def _may(self, caller: _Caller, cost: float) -> bool:
        if caller.under_way:
            return caller.working + cost <= EACH_SECONDS and self._working + cost <= ALL_SECONDS
        return len(self._busy) < FEW or self._working + cost <= ALL_SECONDS

    async def enter(self, who: str, kind: str) -> float:
        """Waits for a turn and returns the estimated cost of the call in seconds."""
        caller = self._callers.get(who)
        if caller is None:
            caller = self._callers[who] = _Caller(self._now)
        elif not caller.under_way and not caller.waiting:
            caller.had = max(caller.had, self._now)
        cost = self._cost(caller, kind)
        if not caller.waiting and self._may(caller, cost) and not self._overtakes(caller):
            self._start(who, caller, cost)
            return cost
        waiting: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        caller.waiting.append((waiting, kind))
        self._waiting[who] = None
        try:
            return await waiting
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled():
                self.leave(who, kind, waiting.result(), 0.0)
            else:
                caller.waiting = deque(entry for entry in caller.waiting if entry[0] is not waiting)
                if not caller.waiting:
                    self._waiting.pop(who, None)
                self._go_on()
            raise

    def _overtakes(self, caller: _Caller) -> bool:
        """Tells whether starting now would delay a waiting caller that has nothing under way and had no more
        work.
        """
        waiting = (self._callers[who] for who in self._waiting)
        return any(not other.under_way and other.had <= caller.had for other in waiting)

    def leave(self, who: str, kind: str, cost: float, spent: float) -> None:
        """Ends or pauses a call that was estimated at `cost` seconds and took `spent` seconds of work."""
        caller = self._callers[who]
        caller.under_way -= 1
        caller.working -= cost
        self._working -= cost
        caller.had += spent - cost
        if not caller.under_way:
            self._busy.discard(who)
            caller.working = 0.0
        if not self._busy:
            self._working = 0.0
            self._now = max(self._now, caller.had)
        if spent:
            usual = self._usual.get(kind, spent)
            self._usual[kind] = usual + _NEWEST * (spent - usual)
            # After an expensive call its caller's estimate rises at once; the estimate for others rises slowly.
            known = caller.costs.get(kind, spent)
            caller.costs[kind] = max(spent, known + _NEWEST * (spent - known))
            mean = caller.means.get(kind, spent)
            caller.means[kind] = mean + _STEADY * (spent - mean)
        self._go_on()
        if len(self._callers) > self._kept:
            self._forget()

    def _start(self, who: str, caller: _Caller, cost: float) -> None:
        """Charges a caller the estimated cost and counts the call as under way."""
        self._now = max(self._now, caller.had)
        caller.had += cost
        caller.under_way += 1
        caller.working += cost
        self._working += cost
        self._busy.add(who)

    def _go_on(self) -> None:
        """Starts waiting calls that may start now, beginning with the caller that had the least work."""
        for who in sorted(self._waiting, key=lambda name: self._callers[name].had):
            caller = self._callers[who]
            while caller.waiting:
                waiting, kind = caller.waiting[0]
                if not waiting.done():
                    cost = self._cost(caller, kind)  # estimates may have changed while it waited
                    if not self._may(caller, cost):
                        if not caller.under_way:
                            return  # callers that had more work wait until there is room for this one
                        break
                    self._start(who, caller, cost)
                    waiting.set_result(cost)
                caller.waiting.popleft()
            if not caller.waiting:
                del self._waiting[who]

    def _forget(self) -> None:
        """Forgets idle callers that had no more work than others: a new record would start at the same place."""
        for who, caller in list(self._callers.items()):
            if not caller.under_way and not caller.waiting and caller.had <= self._now:
                del self._callers[who]
        self._kept = max(_KEPT, 2 * len(self._callers))


class CallTurn:
    """One call's turn, which the call can give up while it waits for others."""

    def __init__(self, turns: Turns, who: str, kind: str) -> None:
        self._turns = turns
        self._who = who
        self._kind = kind
        self._rested = f"{kind} after a rest"
        self._cost: float | None = None
        self._counted = 0.0
        self._watch: asyncio.TimerHandle | None = None
        self.meter = Meter()

    async def enter(self) -> None:
        """Waits until it is this call's turn."""
        self._cost = await self._turns.enter(self._who, self._kind)
        self.meter.dear = self._turns.is_dear(self._who, self._kind, self._cost)
        self._look_again()

    async def enter_again(self) -> None:
        """Waits for a turn to go on after a rest. What is left of a call has an estimate of its own."""
        self._kind = self._rested
        await self.enter()

    def leave(self) -> None:
        """Gives up the turn so that others go on; does nothing where the call has no turn."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None  # the timer's context holds this turn
        if self._cost is not None:
            spent = self.meter.seconds - self._counted + BESIDES_SECONDS
            self._counted = self.meter.seconds
            cost, self._cost = self._cost, None
            self._turns.leave(self._who, self._kind, cost, spent)

    def _look_again(self) -> None:
        loop = asyncio.get_running_loop()
        self._watch = loop.call_later(HELD_SECONDS, self._look, self.meter.seconds)

    def _look(self, before: float) -> None:
        if not self.meter.working and self.meter.seconds - before < HELD_SECONDS / 10:
            self.leave()
        else:
            self._look_again()

    async def of(self, work: Awaitable[T]) -> T:
        """Awaits the work and returns its result. Its time in the event loop and in the store's threads is
        measured.
        """
        token = METER.set(self.meter)
        try:
            return await _Stepped(work, self.meter)
        finally:
            METER.reset(token)


class _Taking:
    """A turn that is kept for a block."""

    __slots__ = ("_token", "_turn")

    def __init__(self, turn: CallTurn) -> None:
        self._turn = turn

    async def __aenter__(self) -> CallTurn:
        await self._turn.enter()
        self._token: Token[CallTurn | None] = _turn.set(self._turn)
        return self._turn

    async def __aexit__(self, *raised: object) -> None:
        _turn.reset(self._token)
        self._turn.leave()


async def in_thread(work: Callable[[], T]) -> T:
    """Runs the work in a thread and returns its result, so that other calls go on. Its time there is
    measured.
    """
    meter = METER.get()

    def counted(meter: Meter) -> T:
        with meter.in_thread():
            return work()

    return await (asyncio.to_thread(work) if meter is None else asyncio.to_thread(counted, meter))


async def one_more_turn(seconds: float) -> None:
    """Counts these seconds as work of the call, and lets what else is ready in the event loop go first.

    A call that awaits nothing would hold no turn while others run, so any number of one caller's could run in a row.
    """
    if (meter := METER.get()) is not None:
        meter.seconds += seconds
        await asyncio.sleep(0)


_turn: ContextVar[CallTurn | None] = ContextVar("blackboard_turn", default=None)


@asynccontextmanager
async def resting() -> AsyncIterator[None]:
    """Gives up the call's turn for the block, and waits for a new turn after it.

    A call that is cancelled inside the block ends without a new turn.
    """
    turn = _turn.get()
    if turn is None:
        yield
        return
    turn.leave()
    yield
    await turn.enter_again()


class _Stepped(Generic[T]):
    """Awaitable that measures how long each step of the awaited work holds the event loop."""

    def __init__(self, work: Awaitable[T], meter: Meter) -> None:
        self._work = work
        self._meter = meter

    def __await__(self) -> Generator[Any, Any, T]:
        steps = self._work.__await__()
        meter, clock = self._meter, time.thread_time
        step, given = steps.send, None
        while True:
            begun = clock()
            try:
                awaited = step(given)
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                meter.seconds += clock() - begun
                given = None  # an error that passes through would hold this frame, and the frame the error
            try:
                given = yield awaited
            except GeneratorExit:
                steps.close()
                raise
            except BaseException as error:
                step, given = steps.throw, error
            else:
                step = steps.send
