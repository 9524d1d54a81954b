"""Who is calling: what a connection shows of itself, and the caller that tools are given.

Knows where the SDK keeps a request's connection. Refuses to know how names are proved: `Identify` says.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, Literal

from blackboard_mcp.protocols.errors import BlackboardError
from blackboard_mcp.server.once import check_once_key
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import INTERNAL_ERROR, INVALID_PARAMS

STRUCTURED_META_KEY: Final = "blackboard/structured"
ONCE_META_KEY: Final = "blackboard/idempotency_key"
AGENT_SCOPE_KEY: Final = "blackboard.agent"


@dataclass(frozen=True)
class ConnectionInfo:
    """What a connection shows of its caller.

    `headers` have lower-case names and are those of this very request; empty over stdio.
    `client_name` is the client's self-description, never proof of anything, and `None` over HTTP.
    """

    transport: Literal["stdio", "http"]
    headers: Mapping[str, str]
    client_name: str | None


@dataclass(frozen=True)
class Caller:
    """Who is calling, from the connection, never from arguments.

    `report(progress, total, message)` tells the client how far a long call is; without effect when
    the client asked for no progress.
    """

    agent: str
    transport: Literal["stdio", "http"]
    structured: bool
    headers: Mapping[str, str]
    """Those of this request; empty over stdio."""
    report: Callable[[float, float | None, str | None], Awaitable[None]]
    asked_once: object = None
    """What the request's `_meta` has as idempotency key, unchecked."""

    @property
    def once_key(self) -> str | None:
        """The idempotency key of this request; for tools that change something, the others need not look.

        Raises:
            InvalidInput: it is none.
        """
        return None if self.asked_once is None else check_once_key(self.asked_once)


Identify = Callable[[ConnectionInfo], str]


@dataclass
class _StdioRun:
    """The one client of a stdio process; its name is settled once."""

    agent: str | None = None


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

    def of(self, ctx: ServerRequestContext[Any, Any]) -> Caller:
        """The caller of a request.

        Raises:
            MCPError: the connection shows nobody, or a name that is not allowed.
        """
        meta = (ctx.params or {}).get("_meta")
        said: Mapping[str, Any] = meta if isinstance(meta, Mapping) else {}
        over_http = ctx.request is not None
        return Caller(
            agent=self._http_agent(ctx) if over_http else self._stream_agent(ctx),
            transport="http" if over_http else "stdio",
            structured=said.get(STRUCTURED_META_KEY) is True or self._always,
            headers=ctx.request.headers if ctx.request is not None else {},
            report=ctx.session.report_progress,
            asked_once=said.get(ONCE_META_KEY),
        )

    def _http_agent(self, ctx: ServerRequestContext[Any, Any]) -> str:
        assert ctx.request is not None
        agent = ctx.request.scope.get(AGENT_SCOPE_KEY)
        if not isinstance(agent, str):
            raise MCPError(INTERNAL_ERROR, "the request was not identified")
        return agent

    def _stream_agent(self, ctx: ServerRequestContext[Any, Any]) -> str:
        run = _stdio_run.get()
        if run is not None and run.agent is not None:
            return run.agent
        client = ctx.session.client_params
        info = ConnectionInfo("stdio", {}, client.client_info.name if client is not None else None)
        try:
            agent = self._identify(info)
        except BlackboardError as exc:
            raise MCPError(INVALID_PARAMS, exc.message, data={"error": exc.code, **exc.facts}) from exc
        if run is not None:
            run.agent = agent
        return agent
