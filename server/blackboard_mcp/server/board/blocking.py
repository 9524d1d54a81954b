"""Boards for scripts without a loop of their own, and for notebooks."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal

T = TypeVar("T")
B = TypeVar("B")


class Runner:
    """Runs calls in the loop that `blocking` started, and waits for them: `run(board.post("x"))`."""

    def __init__(self, portal: BlockingPortal) -> None:
        self._portal = portal

    def __call__(self, call: Awaitable[T]) -> T:
        """Returns the result of a call, or raises what it raises. An interrupt (Ctrl-C) cancels the call.

        Raises:
            RuntimeError: the `with` block has ended.
        """

        async def result() -> T:
            return await call

        try:
            return self._result(result)
        finally:
            if inspect.iscoroutine(call) and inspect.getcoroutinestate(call) == inspect.CORO_CREATED:
                call.close()

    def _result(self, work: Callable[[], Awaitable[T]]) -> T:
        """Returns the result of work in the loop; whatever ends the waiting for it before cancels the work."""
        task: asyncio.Task[Any] | None = None
        ended = False

        async def working() -> T:
            nonlocal task, ended
            if ended:
                raise asyncio.CancelledError
            task = asyncio.current_task()
            try:
                return await work()
            finally:
                ended = True

        async def end() -> None:
            nonlocal ended
            if task is not None and not ended:
                task.cancel()
                await asyncio.wait([task])
            ended = True

        try:
            return self._portal.call(working)
        finally:
            if not ended:
                with contextlib.suppress(RuntimeError):  # the loop has ended, or this is its thread
                    self._portal.call(end)

    def each(self, items: AsyncIterator[T]) -> Iterator[T]:
        """Returns the items of an async iterator one by one: `for item in run.each(board.query(tags=["db"]))`."""

        async def following() -> T | None:
            return await anext(items, None)

        while (item := self._result(following)) is not None:
            yield item


@contextmanager
def blocking(opening: AbstractAsyncContextManager[B]) -> Iterator[tuple[B, Runner]]:
    """Opens a board for code that does not await, in a loop of its own thread.

    `with blocking(Board.open(agent="ann")) as (board, run)` gives the board, with the calls and types that it always
    has, and what runs them: `item = run(board.post("x"))`. It works where another loop runs already, as in notebooks.
    """
    from anyio.from_thread import start_blocking_portal

    with start_blocking_portal() as portal, portal.wrap_async_context_manager(opening) as board:
        yield board, Runner(portal)
