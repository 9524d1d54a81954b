"""Turns operations into methods of a store over an engine: one operation runs in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, Concatenate, Final, ParamSpec

from blackboard_mcp.protocols.changes import Judge, Permit
from blackboard_mcp.protocols.clock import Clock
from blackboard_mcp.protocols.errors import Conflict, Unpermitted
from blackboard_mcp.protocols.grants import GRANTED

from .engine import Engine
from .operation import Batch, Batched, Write
from .operations.access import members
from .operations.ledger.rows import Steps, T, micros
from .operations.reading.item_states import KeptRows
from .operations.reading.kept_events import KeptEvents

P = ParamSpec("P")

_ATTEMPTS: Final = 9
"""The most attempts to write a change, if what it touches changes while it is judged."""
_COPIES: Final[dict[type, Callable[[Any], Any]]] = {list: tuple, set: frozenset, dict: dict}
_FIXED: Final = frozenset((str, int, bool, type(None), tuple, frozenset))
"""Types whose values stay as they are."""


class StoreCalls:
    """The base of a store: its engine, its clock, and the judge of changes under which operations run."""

    def __init__(
        self, engine: Engine, clock: Clock, judge: Judge | None = None, boards: Iterable[str] = ()
    ) -> None:
        self.engine = engine
        self._clock = clock
        self._opened = self._now()
        self._judge = judge
        self._judged_boards = frozenset(boards)
        self._kept_rows: KeptRows = {}
        self._kept_events: KeptEvents = {}

    def _now(self) -> int:
        """Returns the present time in microseconds since 1970."""
        return micros(self._clock.now())

    async def _write(
        self, work: Callable[[Write], Steps[T]], *, always: bool = False, batch: Batch | None = None
    ) -> T:
        """Runs the operation under the grant of the current call, and returns after its commit.

        Changes that access policies have to allow are put before the judge, and then the operation runs again. With
        `always` it runs even if the grant no longer holds. If nothing is put before the judge, it may run with others
        of its `batch` at first.

        Raises:
            Forbidden: the grant no longer holds; nothing was changed.
            Conflict: what the operation touches changed again and again while it was judged.
            Exception: whatever the engine, the operation or the judge raised.
        """
        permit = Permit(self._judged_boards) if self._judged_boards else None
        now = self._now()
        self._opened = min(self._opened, now)  # the clock may have gone back
        write = Write(now, None if always else GRANTED.get(), permit, self._opened)
        operation = partial(members.under, write, work)
        if batch is not None and permit is None:
            operation = Batched(batch, members.under, write, work)
        if (judge := self._judge) is None:
            return await self.engine.write(operation)
        for _ in range(_ATTEMPTS):
            try:
                return await self.engine.write(operation)
            except Unpermitted as error:
                if (proposal := error.proposal) is None:
                    raise
            allowed = await judge(proposal)
            write = replace(
                write,
                permit=Permit(self._judged_boards, proposal.owner, proposal.role, proposal.access, allowed),
            )
            operation = partial(members.under, write, work)
        raise Conflict(
            "What this touches changed again and again while it was judged. Nothing was changed; try again."
        )


def reads(operation: Callable[P, Steps[T]]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Makes a store's method from an operation that reads: it runs on one snapshot."""

    async def method(self: StoreCalls, /, *args: P.args, **named: P.kwargs) -> T:
        given, more = _kept(args, named)
        return await self.engine.read(lambda: operation(*given, **more))

    return _like(operation, method)


def reads_now(
    operation: Callable[Concatenate[int, P], Steps[T]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Does the same as `reads` for an operation whose first argument is the time, in microseconds since 1970."""

    async def method(self: StoreCalls, /, *args: P.args, **named: P.kwargs) -> T:
        given, more = _kept(args, named)
        now = self._now()
        return await self.engine.read(lambda: operation(now, *given, **more))

    return _like(operation, method)


def writes(
    operation: Callable[Concatenate[Write, P], Steps[T]],
    *,
    always: bool = False,
    batch_of: Callable[..., Batch | None] | None = None,
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Makes a store's method from an operation that writes: one transaction. For `always` see `StoreCalls._write`.

    `batch_of` returns the batch to which a call belongs, by the method's arguments.
    """

    async def method(self: StoreCalls, /, *args: P.args, **named: P.kwargs) -> T:
        given, more = _kept(args, named)
        batch = None if batch_of is None else batch_of(*given, **more)
        return await self._write(lambda write: operation(write, *given, **more), always=always, batch=batch)

    return _like(operation, method)


def _like(operation: Callable[..., Any], method: Callable[P, T]) -> Callable[P, T]:
    """Gives the method the name and docstring of its operation, and returns it."""
    method.__name__ = method.__qualname__ = operation.__name__
    method.__doc__ = operation.__doc__
    return method


def _kept(args: tuple[Any, ...], named: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Returns copies of the arguments, since the operation runs later in another thread, perhaps twice."""
    for name, value in named.items():
        if type(value) not in _FIXED:
            named[name] = _copy(value)
    return [value if type(value) in _FIXED else _copy(value) for value in args], named


def _copy(value: Any) -> Any:
    """Returns an immutable or separate copy of a collection, or the value itself."""
    copy = _COPIES.get(type(value))
    if copy is not None:
        return copy(value)
    return tuple(value) if hasattr(value, "__next__") else value
