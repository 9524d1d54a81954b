"""Admission of requests: bounds on how many run at once, for each principal and in all, and fair turns.

Sees a request as a method and a caller. Refuses before it looks at anything else, so that a refusal costs
next to nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from blackboard_mcp.protocols.errors import RateLimited
from blackboard_mcp.server.limits.concurrency import Counted, counted_as
from blackboard_mcp.server.limits.limits import Limits
from blackboard_mcp.server.limits.turns import Turns
from blackboard_mcp.server.mcp.callers import Callers
from blackboard_mcp.server.mcp.errors import protocol_error
from blackboard_mcp.server.tools.tool import Caller
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

T = TypeVar("T")

RETRY_SECONDS: Final = 1.0
REFUSED_SECONDS: Final = 0.5
"""Seconds that the answer to a refused call is held back: who calls again at once shall not spend others' time."""
# Methods that the middleware lets pass. Tool calls are admitted in `tools.py`, where errors become results; the hub
# counts streams; the others have no caller yet, or cost nothing.
_ELSEWHERE: Final = frozenset(
    {"tools/call", "subscriptions/listen", "initialize", "ping", "server/discover", "logging/setLevel"}
)

# Methods whose cost is measured separately. All others share one kind: clients choose the method, and must not be
# able to create kinds without end.
_KINDS: Final = frozenset(
    {
        "completion/complete",
        "prompts/get",
        "prompts/list",
        "resources/list",
        "resources/read",
        "resources/subscribe",
        "resources/templates/list",
        "resources/unsubscribe",
        "tools/list",
    }
)


class Admission:
    """Bounds the requests under way in one server, and gives callers their turns."""

    def __init__(self, callers: Callers, limits: Limits) -> None:
        self._callers = callers
        self.calls = Counted(limits.calls, limits.calls_per_principal)
        self.waits = Counted(limits.waits, limits.waits_per_principal)
        self._turns = Turns()

    @contextmanager
    def of_call(self, caller: Caller, *, waits: bool) -> Iterator[None]:
        """Counts one call as under way while the context is entered.

        `waits` says whether the call may wait for news; such calls have bounds of their own.

        Raises:
            RateLimited: the principal or the server has reached its bound.
        """
        counted, limit = (self.waits, "waits") if waits else (self.calls, "calls")
        who = counted_as(caller.principal)
        full = counted.enter(who)
        if full is not None:
            raise _too_many(who, limit, full, counted)
        try:
            yield
        finally:
            counted.leave(who)

    async def in_turn(self, caller: Caller, kind: str, work: Callable[[], Awaitable[T]]) -> T:
        """Runs `work` when it is the caller's turn, and returns its result.

        `kind` groups calls that cost about the same, such as the name of a tool.
        """
        async with self._turns.taking(counted_as(caller.principal), kind) as turn:
            return await turn.of(work())

    async def of_requests(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Serves as the SDK's middleware: admits every request but those named in `_ELSEWHERE`.

        Raises:
            MCPError: the principal or the server has too many requests under way.
        """
        if ctx.request_id is None or ctx.method in _ELSEWHERE:
            return await call_next(ctx)
        kind = ctx.method if ctx.method in _KINDS else "other"
        try:
            caller = await self._callers.of(ctx)
            with self.of_call(caller, waits=False):
                return await self.in_turn(caller, kind, lambda: call_next(ctx))
        except RateLimited as exc:
            await asyncio.sleep(REFUSED_SECONDS)
            raise protocol_error(exc) from None


def _too_many(who: str, limit: str, full: str, counted: Counted) -> RateLimited:
    what = "calls that may wait" if limit == "waits" else "calls"
    if full == "each":
        limit += "_per_principal"
        why = f"{who} has {counted.most_each} {what} under way, and may have no more"
        then = "end one, or call again when one is answered"
    else:
        why = f"the server has {counted.most} {what} under way, and takes no more"
        then = f"call again in {RETRY_SECONDS:g} seconds"
    return RateLimited(
        f"{why} (limit {limit}). Nothing was changed; {then}.",
        retry_after_seconds=RETRY_SECONDS,
        limit=limit,
    )
