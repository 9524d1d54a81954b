"""The caller behind a request: what its connection shows, and the `Caller` that tools are given.

Knows where the SDK keeps a request's connection. Refuses to know how identities are proved: `Identify` says.
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
    """What a connection shows of its caller.

    `headers` have lower-case names and are those of this very request; empty over stdio.
    `client_name` is the client's self-description, never proof of anything, and `None` over HTTP.
    """

    transport: Literal["stdio", "http"]
    headers: Mapping[str, str]
    client_name: str | None


Identified = Principal | str
Identify = Callable[[ConnectionInfo], Identified | Awaitable[Identified]]
"""Says who is behind a connection. A bare name is an agent that acts for itself and may do everything."""


async def principal_of(identify: Identify, connection: ConnectionInfo) -> Principal:
    """Who is behind a connection.

    Raises:
        BlackboardError: nobody who may come in.
    """
    given = identify(connection)
    found = await given if inspect.isawaitable(given) else given
    if isinstance(found, Principal):
        return found
    via: Literal["launch", "header"] = "launch" if connection.transport == "stdio" else "header"
    return Principal(agent=found, owner=found, roles={EVERY_BOARD: Role.ADMIN}, via=via)


@dataclass
class _StdioRun:
    """The one client of a stdio process; who it is, is settled once."""

    principal: Principal | None = None
    settling: asyncio.Lock = field(default_factory=asyncio.Lock)


_stdio_run: ContextVar[_StdioRun | None] = ContextVar("blackboard_stdio_run", default=None)


@contextmanager
def one_client() -> Iterator[None]:
    """Everything that is asked for within comes from one client over stdio."""
    token = _stdio_run.set(_StdioRun())
    try:
        yield
    finally:
        _stdio_run.reset(token)


class Callers:
    """The caller behind each request.

    Args:
        identify: names over stdio; over HTTP the endpoint has asked it before the SDK saw the request.
        always_structured: every caller gets structured content, not only one that asks for it.
    """

    def __init__(self, identify: Identify, *, always_structured: bool) -> None:
        self._identify = identify
        self._always = always_structured

    async def of(self, ctx: ServerRequestContext[Any, Any]) -> Caller:
        """The caller of a request.

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
