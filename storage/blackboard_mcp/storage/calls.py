"""How a store over an engine turns operations into its methods: one operation, one transaction."""

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
from .operation import Write
from .operations.access import members
from .operations.ledger.rows import Steps, T, micros

P = ParamSpec("P")

_ATTEMPTS: Final = 9
"""What a change touches may move while it is judged; it does not as often as this, one after the other."""
_COPIES: Final[dict[type, Callable[[Any], Any]]] = {list: tuple, set: frozenset, dict: dict}


class StoreCalls:
    """The engine, the clock, the judge of changes, and how operations run under them."""

    def __init__(
        self, engine: Engine, clock: Clock, judge: Judge | None = None, boards: Iterable[str] = ()
    ) -> None:
        self.engine = engine
        self._clock = clock
        self._judge = judge
        self._judged_boards = frozenset(boards)

    def _now(self) -> int:
        return micros(self._clock.now())

    async def _write(self, work: Callable[[Write], Steps[T]], *, always: bool = False) -> T:
        """Runs the operation under the grant of the call under way, and returns after its commit.

        What access policies have to allow is put before the judge, and the operation is then run again.
        With `always` it runs even if the grant no longer holds.

        Raises:
            Forbidden: the grant does not hold any more; nothing was changed.
            Conflict: what it touches changed again and again.
            Exception: whatever the engine, the operation or the judge raised.
        """
        permit = Permit(self._judged_boards) if self._judged_boards else None
        write = Write(self._now(), None if always else GRANTED.get(), permit)
        if (judge := self._judge) is None:
            return await self.engine.write(partial(members.under, write, work))
        for _ in range(_ATTEMPTS):
            try:
                return await self.engine.write(partial(members.under, write, work))
            except Unpermitted as error:
                proposal = error.proposal
            allowed = await judge(proposal)
            write = replace(
                write,
                permit=Permit(self._judged_boards, proposal.owner, proposal.role, proposal.access, allowed),
            )
        raise Conflict(
            "What this touches changed again and again while it was judged. Nothing was changed; try again."
        )


def reads(operation: Callable[P, Steps[T]]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Makes a store's method of an operation that reads: it runs on one snapshot."""

    async def method(self: StoreCalls, /, *args: P.args, **named: P.kwargs) -> T:
        given, more = _kept(args, named)
        return await self.engine.read(lambda: operation(*given, **more))

    return _like(operation, method)


def reads_now(
    operation: Callable[Concatenate[int, P], Steps[T]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """The same for an operation that takes the time first, in microseconds since 1970."""

    async def method(self: StoreCalls, /, *args: P.args, **named: P.kwargs) -> T:
        given, more = _kept(args, named)
        now = self._now()
        return await self.engine.read(lambda: operation(now, *given, **more))

    return _like(operation, method)


def writes(
    operation: Callable[Concatenate[Write, P], Steps[T]], *, always: bool = False
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Makes a store's method of an operation that writes: one transaction; `always` as in `StoreCalls._write`."""

    async def method(self: StoreCalls, /, *args: P.args, **named: P.kwargs) -> T:
        given, more = _kept(args, named)
        return await self._write(lambda write: operation(write, *given, **more), always=always)

    return _like(operation, method)


def _like(operation: Callable[..., Any], method: Callable[P, T]) -> Callable[P, T]:
    """The method, under the name and with the docstring of its operation."""
    method.__name__ = method.__qualname__ = operation.__name__
    method.__doc__ = operation.__doc__
    return method


def _kept(args: tuple[Any, ...], named: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments as they are now: an operation runs later, in another thread, and perhaps again."""
    return [_copy(value) for value in args], {name: _copy(value) for name, value in named.items()}


def _copy(value: Any) -> Any:
    copy = _COPIES.get(type(value))
    if copy is not None:
        return copy(value)
    return tuple(value) if hasattr(value, "__next__") else value
