"""Handlers: functions and classes that a consumer group runs for the events that they want."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from blackboard_mcp.protocols.errors import BlackboardError, Conflict, InvalidInput
from blackboard_mcp.protocols.events import Event, EventType
from blackboard_mcp.protocols.filters import EventFilter, parse_event_filter
from blackboard_mcp.protocols.items import ItemType
from blackboard_mcp.protocols.literals import TypeName
from blackboard_mcp.protocols.messages.base import Address, MessageProtocol
from blackboard_mcp.protocols.values import dataclass
from blackboard_mcp.protocols.wire import WireEvent

from .calls import callable_, counted, listed
from .hooks import FIRST_PAUSE, LONGEST_PAUSE, ending, passes

if TYPE_CHECKING:
    from .groups import Worker
    from .surface import BoardAccess

Handle = Callable[[WireEvent], Awaitable[None]]
When = Callable[[WireEvent], bool]
F = TypeVar("F", bound=Handle)
MAX_HANDLERS: Final = 32
"""Most handlers of one group: so many parts a group's filter may have."""
MAX_WORKERS: Final = 32
_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 10.0
_REMEMBERED: Final = 1_000

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Handler:
    name: str
    filter: dict[str, Any]
    wanted: EventFilter
    handle: Handle
    when: When | None


class ProtocolHandlers:
    """The base of classes that handle the messages of one protocol in one scope.

    A subclass names its `protocol`, and has a method `async on_KIND(self, event, address)` for each kind of message
    that it handles, with `_` for `-`. The patterns of keys follow from the protocol.
    """

    protocol: type[MessageProtocol]

    def __init__(self, scope: str) -> None:
        """Makes the handlers for one scope.

        Raises:
            InvalidInput: the scope is not valid, or the class has no method for any kind.
        """
        self._speaks = self.protocol(scope)
        self.kinds = tuple(
            shape.kind
            for shape in self.protocol.shapes
            if hasattr(self, f"on_{shape.kind.replace('-', '_')}")
        )
        if not self.kinds:
            known = ", ".join(f"on_{shape.kind.replace('-', '_')}" for shape in self.protocol.shapes)
            raise InvalidInput(f"{type(self).__name__} has none of {known}.")

    def pattern(self, kind: str) -> str:
        """Returns the glob of keys of a kind of message in the scope."""
        return self._speaks.pattern(kind)

    async def handle(self, event: WireEvent) -> None:
        """Calls the method for the event's kind of message; what is no such message is passed over."""
        address: Address | None = None if event.key is None else self._speaks.parse(event.key)
        if address is not None and address.kind in self.kinds:
            await getattr(self, f"on_{address.kind.replace('-', '_')}")(event, address)


class EventHandlers:
    """The base of `RequestHandlers`, `DebateHandlers` and `ClaimHandlers`: classes whose methods are named by events.

    A subclass of one of them has a method `async on_NAME(self, event)` for each event that it handles. What it is made
    with (`key`, `type`, `agent`, `tags` of a filter) narrows them all.
    """

    prefixes: tuple[str, ...]
    """What the names of its events begin with."""

    def __init__(
        self,
        *,
        key: str | None = None,
        type: TypeName | ItemType | None = None,
        agent: str | None = None,
        tags: Sequence[str] = (),
    ) -> None:
        """Makes the handlers.

        Raises:
            InvalidInput: a method is named by no event, or there is none, or what narrows them is not valid.
        """
        known = {
            event.partition(".")[2]: str(event)
            for event in EventType
            if event.startswith(self.prefixes) and event not in _ELSEWHERE.get(self.prefixes, ())
        }
        named = [name[3:] for name in dir(self) if name.startswith("on_")]
        if not named or not known.keys() >= set(named):
            wrong = ", ".join(f"on_{name}" for name in named if name not in known) or "no method"
            raise InvalidInput(
                f"{self.__class__.__name__} has {wrong}; its methods are named "
                f"{', '.join(f'on_{name}' for name in known)}."
            )
        self.filters = {name: _filter(key, type, known[name], agent, tags) for name in named}
        for filter_ in self.filters.values():
            parse_event_filter(filter_)


def _filter(
    key: str | None,
    type: TypeName | ItemType | None,
    event: str | Sequence[str] | None,
    agent: str | None,
    tags: Sequence[str],
) -> dict[str, Any]:
    """Returns a filter of the given parts: those that can be judged by an event alone, as handlers do."""
    said = {
        "key": key,
        "type": type and str(type),
        "event": event,
        "agent": agent,
        "tags": listed(tags) or None,
    }
    return {name: value for name, value in said.items() if value is not None}


class RequestHandlers(EventHandlers):
    """Handlers of requests between agents: `on_opened`, `on_taken`, `on_released`, `on_answered`, `on_declined` …"""

    prefixes = ("request.",)


class DebateHandlers(EventHandlers):
    """Handlers of debates: `on_opened`, `on_joined`, `on_voted`, `on_pending`, `on_closed`; `on_added` and `on_met` of
    what is owed in them; `on_asked`, `on_given` and `on_reached` of agreement."""

    prefixes = ("debate.", "obligation.", "agreement.")


class ClaimHandlers(EventHandlers):
    """Handlers of claims on tasks: `on_taken`, `on_done`, `on_failed`, `on_verified`, `on_rejected`, `on_lapsed` …"""

    prefixes = ("claim.",)


_ELSEWHERE: Final[dict[tuple[str, ...], tuple[EventType, ...]]] = {
    ClaimHandlers.prefixes: (EventType.CLAIM_AGREED,)
}
"""Events of another subject that begin alike."""


class Handlers:
    """Handlers of one consumer group. `BoardAccess.handlers` makes it.

    An event goes to all handlers that want it, in one program of the group. If one raises, hangs or returns something
    else than an awaitable, the others still run; the event comes again for those that failed, after a pause that
    doubles, until it has no attempts left and is a dead letter (`BoardAccess.dead_letters`). A program that ends or
    dies leaves its events to the others.
    """

    def __init__(
        self, board: BoardAccess, group: str, *, workers: int, lease_seconds: float, seconds: float
    ) -> None:
        counted(workers, "workers", 1, MAX_WORKERS)
        if not 0 < seconds <= lease_seconds:
            raise InvalidInput(
                f"seconds is above 0 and at most lease_seconds ({lease_seconds:g}), not {seconds:g}."
            )
        self._board = board
        self._group = group
        self._workers = workers
        self._lease = lease_seconds
        self._seconds = seconds
        self._handlers: list[_Handler] = []
        self._done: dict[int, set[str]] = {}

    def handler(
        self,
        *,
        key: str | None = None,
        type: TypeName | ItemType | None = None,
        event: str | Sequence[str] | None = None,
        agent: str | None = None,
        tags: Sequence[str] = (),
        when: When | None = None,
    ) -> Callable[[F], F]:
        """Makes an async function a handler: `@handlers.handler(key="critique:*", type="CRITIQUE")`.

        It gets events that meet all that is given. `when` is asked in this process before the handler: a function of
        the event, or an object of a class of yours with `__call__`.

        Raises:
            InvalidInput: a part is not valid, `when` is an async function, or there are too many handlers.
        """
        filter_ = _filter(key, type, event, agent, tags)

        def added(handle: F) -> F:
            callable_(handle, "a handler")
            self._add(getattr(handle, "__qualname__", handle.__class__.__name__), filter_, handle, when)
            return handle

        return added

    def add(self, handlers: ProtocolHandlers | EventHandlers, *, when: When | None = None) -> None:
        """Adds a class of handlers: one for each kind of message, or each event, that it handles.

        Raises:
            InvalidInput: there are too many handlers.
        """
        if isinstance(handlers, EventHandlers):
            for name, filter_ in handlers.filters.items():
                method: Handle = getattr(handlers, f"on_{name}")
                self._add(f"{type(handlers).__name__}.on_{name}", filter_, method, when)
            return
        for kind in handlers.kinds:
            pattern = handlers.pattern(kind)
            self._add(f"{type(handlers).__name__} {pattern}", {"key": pattern}, handlers.handle, when)

    def take_over(self, others: Handlers) -> None:
        """Adds the handlers of others.

        Raises:
            InvalidInput: there are too many handlers.
        """
        for other in others._handlers:
            self._add(other.name.partition("#")[0], other.filter, other.handle, other.when)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Runs the handlers beside the block: `async with handlers.running()`. A new group begins on entering.

        A group keeps the filter that it began with: handlers for other events need another group.

        Raises:
            InvalidInput: there are no handlers.
            Conflict: the group has another filter.
            BlackboardError: on leaving, the error that ended the handlers before, say a lost board.
        """
        wanted = await self._begin()
        task = asyncio.create_task(self._all(wanted), name=f"handlers of {self._group}")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])
        if not task.cancelled():
            task.result()

    async def run(self) -> None:
        """Runs the handlers until it is cancelled; otherwise as `running`."""
        await self._all(await self._begin())

    async def _begin(self) -> dict[str, Any]:
        """Makes the group if it is not there, and returns its filter."""
        if not self._handlers:
            raise InvalidInput(
                "There are no handlers: add some with @handlers.handler(…) or handlers.add(…)."
            )
        wanted = {"any": [handler.filter for handler in self._handlers]}
        async with self._board.worker(self._group, wanted):
            return wanted

    async def _all(self, wanted: dict[str, Any]) -> None:
        """Runs all workers until one fails or the caller is cancelled."""
        workers = [asyncio.create_task(self._work(wanted)) for _ in range(self._workers)]
        try:
            done, _ = await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
            for worker in done:
                worker.result()
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.wait(workers)

    def _add(self, name: str, filter_: dict[str, Any], handle: Handle, when: When | None) -> None:
        wanted = parse_event_filter(filter_)
        if when is not None:
            callable_(when, "when")
        if inspect.iscoroutinefunction(when) or inspect.iscoroutinefunction(getattr(when, "__call__", None)):  # noqa: B004
            raise InvalidInput(
                f"when of {name} is asked without awaiting: make it a function, not an async function."
            )
        if len(self._handlers) == MAX_HANDLERS:
            raise InvalidInput(f"A group has at most {MAX_HANDLERS} handlers.")
        taken = sum(handler.name.split("#")[0] == name for handler in self._handlers)
        self._handlers.append(
            _Handler(f"{name}#{taken + 1}" if taken else name, filter_, wanted, handle, when)
        )

    async def _work(self, wanted: dict[str, Any]) -> None:
        """Handles one event after the other; at its end it gives back what it holds."""
        worker = self._board.worker(self._group, wanted, lease_seconds=self._lease)
        try:
            async with worker:
                pause = FIRST_PAUSE
                while not ending():  # a handler may have caught its cancellation
                    try:
                        await self._next(worker)
                        pause = FIRST_PAUSE
                    except BlackboardError as error:
                        if not passes(error):
                            raise
                        logger.warning("group %s cannot go on, and tries again: %s", self._group, error)
                        await asyncio.sleep(pause)
                        pause = min(2 * pause, LONGEST_PAUSE)
        except Conflict as error:
            # A call that was cancelled midway may have settled already what is settled again at the end.
            logger.debug("group %s, at the end: %s", self._group, error.message)

    async def _next(self, worker: Worker) -> None:
        """Handles one event."""
        try:
            job = await anext(worker)
        except Conflict as error:
            # The lease of the last event had ended, and somebody else has it by now.
            logger.warning("group %s: %s", self._group, error.message)
            return
        attempt = int(job.handle.rpartition(".")[2])
        try:
            if attempt > 1:
                await asyncio.sleep(min(_PAUSE * 2 ** (attempt - 2), _LONGEST_PAUSE, self._lease / 4))
            why = await self._deliver(job.event, attempt)
        except asyncio.CancelledError:
            worker.put_back()
            raise
        if why:
            await worker.fail(why)

    async def _deliver(self, event: WireEvent, attempt: int) -> str:
        """Runs the handlers that want the event and have not handled it yet; returns why some failed, or ""."""
        done = self._done.setdefault(event.seq, set())
        failed = []
        for handler in self._wanting(event):
            if handler.name in done:
                continue
            try:
                async with asyncio.timeout(self._seconds):
                    if handler.when is None or handler.when(event):
                        answer = handler.handle(event)
                        if not inspect.isawaitable(answer):
                            raise TypeError(
                                f"it returned {type(answer).__name__}; a handler is an async function"
                            )
                        await answer
            except (Exception, asyncio.CancelledError) as error:
                if isinstance(error, asyncio.CancelledError) and ending():
                    raise  # these handlers are being ended; what a handler itself cancelled has failed
                what = (
                    f"it took more than {self._seconds:g} s"
                    if isinstance(error, TimeoutError)
                    else str(error)
                )
                failed.append(f"{handler.name}: {type(error).__name__}: {what}")
                logger.warning("a handler failed: %s (event %d, attempt %d)", failed[-1], event.seq, attempt)
            else:
                done.add(handler.name)
        if not failed:
            self._done.pop(event.seq, None)
        while len(self._done) > _REMEMBERED:
            del self._done[next(iter(self._done))]
        return "; ".join(failed)

    def _wanting(self, event: WireEvent) -> Iterator[_Handler]:
        """Returns the handlers whose filters match the event; none for a kind that a newer server knows."""
        if event.event not in set(EventType) or (event.type is not None and event.type not in set(ItemType)):
            return
        given = Event(
            event.seq,
            EventType(event.event),
            event.item,
            event.key,
            event.version,
            event.agent,
            tuple(event.tags),
            event.at,
            type=None if event.type is None else ItemType(event.type),
        )
        for handler in self._handlers:
            if handler.wanted.matches(given, self._board.agent):
                yield handler
