"""The check that every call passes before it runs, and the watch over calls that wait.

This module knows callers, needs and board names. It does not decide: it asks the `enter` hook.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from copy import copy
from types import TracebackType
from typing import Final, Self

from blackboard_mcp.protocols.access import Action, Principal
from blackboard_mcp.protocols.errors import BlackboardError
from blackboard_mcp.protocols.grants import Grant

RECHECK_SECONDS: Final = 2.0
"""Seconds between two checks of a waiting call's rights. A credential that expires ends its requests without
this check.
"""

_UNCHANGED: Final = re.compile(r" Nothing was changed(?:\.|;( \w))")

EnterHook = Callable[[Principal, frozenset[Action], str | None], Awaitable[Grant]]


def of_one_ended(refusal: BlackboardError, what: str) -> BlackboardError:
    """Returns the error for a call or request (`what`) that was let in, and ended because it would be refused now.

    The words of a refusal say that nothing was changed, and what was let in may have changed something.
    """
    words = _UNCHANGED.sub(lambda found: (found[1] or "").upper(), refusal.message)
    ended = copy(refusal)
    ended.message = f"This {what} was ended; what it did before stands. {words}"
    ended.args = (ended.message,)
    return ended


class Door:
    """Check before each call, made by the hook `enter`. Without a hook every call may do everything."""

    def __init__(self) -> None:
        self.enter: EnterHook | None = None
        self.check: EnterHook | None = None
        """Asked in place of `enter` for a call that was let in and waits."""

    async def let_in(self, principal: Principal, needs: frozenset[Action], board: str | None) -> Grant | None:
        """Returns the grant of a call, or `None` where the call needs nothing or no hook is set.

        `needs` are the actions that the call takes; `board` is `None` for the default board.

        Raises:
            BlackboardError: the call is refused.
        """
        if self.enter is None or not needs:
            return None
        return await self.enter(principal, needs, board)

    async def admits(self, principal: Principal, needs: frozenset[Action], board: str | None) -> bool:
        """Tells whether a call would be let in. For callers that do not show the reason of a refusal."""
        try:
            await self.let_in(principal, needs, board)
        except BlackboardError:
            return False
        return True

    def watch(self, principal: Principal, grant: Grant | None) -> Watch:
        """Returns a context manager that cancels the code inside it once the grant is no longer valid.

        The block then raises the refusal.
        """
        return Watch(None if grant is None else self.check or self.enter, principal, grant, RECHECK_SECONDS)


class Watch:
    """Context manager that checks every few seconds whether a grant is still valid.

    Where it is not, the watch cancels the task that entered, and leaving the block raises the refusal.
    """

    def __init__(
        self, enter: EnterHook | None, principal: Principal, grant: Grant | None, seconds: float
    ) -> None:
        self._enter = enter
        self._principal = principal
        self._grant = grant
        self._seconds = seconds
        self._refusal: BlackboardError | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._looking: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None
        self._task, self._cancelling = task, task.cancelling()
        self._wind()
        return self

    def _wind(self) -> None:
        if self._enter is not None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._begin)

    def _begin(self) -> None:
        self._looking = asyncio.create_task(self._look(), name="access-watch")

    async def _look(self) -> None:
        assert self._enter is not None
        assert self._grant is not None
        try:
            await self._enter(self._principal, self._grant.needs, self._grant.board)
        except BlackboardError as error:
            self._refusal = of_one_ended(error, "call")
            self._task.cancel()
        else:
            self._wind()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._refusal is not None:
            ours = self._task.uncancel() <= self._cancelling
            if ours and kind is asyncio.CancelledError:
                raise self._refusal from None
        elif self._looking is not None:
            self._looking.cancel()
