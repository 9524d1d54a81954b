"""The caller behind a request: the facts that its connection shows, and the `Caller` passed to tools.

Knows where the SDK keeps a request's connection. Leaves it to `Identify` how identities are proved.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from blackboard_mcp.protocols.access import EVERY_BOARD, Principal, Role
from blackboard_mcp.protocols.errors import BlackboardError
from blackboard_mcp.server.access.identity import PRINCIPAL_SCOPE_KEY
from blackboard_mcp.server.tools.tool import Caller
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import INTERNAL_ERROR, INVALID_PARAMS

STRUCTURED_META_KEY: Final = "blackboard/structured"
ONCE_META_KEY: Final = "blackboard/idempotency_key"


@dataclass(frozen=True)
class ConnectionInfo:
    """The facts that a connection shows about its caller.

    `headers` have lower-case names and come from the current request; empty over stdio. `client_name` is the
    client's unverified description of itself; `None` over HTTP.
    """

    transport: Literal["stdio", "http"]
    headers: Mapping[str, str]
    client_name: str | None


Identified = Principal | str
Identify = Callable[[ConnectionInfo], Identified | Awaitable[Identified]]
"""Identifies the caller of a connection. A bare name stands for an agent that owns itself and may do everything."""


async def principal_of(identify: Identify, connection: ConnectionInfo) -> Principal:
    """Returns the principal that `identify` finds behind a connection.

    A bare name becomes a principal that owns itself and is an admin of every board.

    Raises:
        BlackboardError: the connection shows no one who is allowed in.
    """
    given = identify(connection)
    found = await given if inspect.isawaitable(given) else given
    if isinstance(found, Principal):
        return found
    via: Literal["launch", "header"] = "launch" if connection.transport == "stdio" else "header"
    return Principal(agent=found, owner=found, roles={EVERY_BOARD: Role.ADMIN}, via=via)


@dataclass
class _StdioRun:
    """The only client of a stdio process. Its principal is found once and kept."""

    principal: Principal | None = None
    settling: asyncio.Lock = field(default_factory=asyncio.Lock)


_stdio_run: ContextVar[_StdioRun | None] = ContextVar("blackboard_stdio_run", default=None)


@contextmanager
def one_client() -> Iterator[None]:
    """Treats all requests inside the context as coming from one stdio client."""
    token = _stdio_run.set(_StdioRun())
    try:
        yield
    finally:
        _stdio_run.reset(token)


class Callers:
    """Finds the caller behind each request.

    Args:
        identify: identifies callers over stdio; over HTTP the endpoint has already called it.
        always_structured: gives every caller structured content, not only those that ask for it.
    """

    def __init__(self, identify: Identify, *, always_structured: bool) -> None:
        self._identify = identify
        self._always = always_structured

    async def of(self, ctx: ServerRequestContext[Any, Any]) -> Caller:
        """Returns the caller of a request.

        Raises:
            MCPError: the connection shows nobody, or a name that is not allowed.
        """
        meta = (ctx.params or {}).get("_meta")
        said: Mapping[str, Any] = meta if isinstance(meta, Mapping) else {}
        over_http = ctx.request is not None
        return Caller(
            principal=self._http_principal(ctx) if over_http else await self._stream_principal(ctx),
            transport="http" if over_http else "stdio",
            structured=said.get(STRUCTURED_META_KEY) is True or self._always,
            headers=ctx.request.headers if ctx.request is not None else {},
            report=ctx.session.report_progress,
            asked_once=said.get(ONCE_META_KEY),
        )

    def _http_principal(self, ctx: ServerRequestContext[Any, Any]) -> Principal:
        assert ctx.request is not None
        principal = ctx.request.scope.get(PRINCIPAL_SCOPE_KEY)
        if not isinstance(principal, Principal):
            raise MCPError(INTERNAL_ERROR, "the request was not identified")
        return principal

    async def _stream_principal(self, ctx: ServerRequestContext[Any, Any]) -> Principal:
        run = _stdio_run.get()
        if run is None:
            return await self._asked(ctx)
        if run.principal is None:
            async with run.settling:
                if run.principal is None:
                    run.principal = await self._asked(ctx)
        return run.principal

    async def _asked(self, ctx: ServerRequestContext[Any, Any]) -> Principal:
        client = ctx.session.client_params
        info = ConnectionInfo("stdio", {}, client.client_info.name if client is not None else None)
        try:
            return await principal_of(self._identify, info)
        except BlackboardError as exc:
            raise MCPError(INVALID_PARAMS, exc.message, data={"error": exc.code, **exc.facts}) from exc
