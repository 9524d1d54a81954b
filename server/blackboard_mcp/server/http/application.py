"""The ASGI application: the MCP endpoint, health checks and further routes, behind the gate and identification."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final

from blackboard_mcp.server.http.auth.failures import Failures
from blackboard_mcp.server.http.auth.step_up import StepUp
from blackboard_mcp.server.http.bodies import Bodies
from blackboard_mcp.server.http.front import FRONT_PATH
from blackboard_mcp.server.http.gate import MCP_PATH, Gate
from blackboard_mcp.server.http.identified import Identified
from blackboard_mcp.server.http.open_requests import OpenRequests
from blackboard_mcp.server.http.sessions import IdentifiedEndpoint
from blackboard_mcp.server.mcp.server import BoardServer
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

HEALTH_PATH: Final = "/healthz"
LIVE_PATH: Final = "/livez"
_SERVING: Final = (None, "low", "full")
"""The values of `trouble` that still count as healthy.

A server short of disk space can still serve readers, and a restart would not help.
"""


class _McpFirst:
    """Passes requests for the MCP endpoint to it, past the router, which costs each of them 20 µs."""

    def __init__(self, app: ASGIApp, *, endpoint: ASGIApp) -> None:
        self._app = app
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        chosen = self._endpoint if scope["type"] == "http" and scope["path"] == MCP_PATH else self._app
        await chosen(scope, receive, send)


def build_application(
    server: BoardServer,
    *,
    allowed_hosts: Collection[str],
    allowed_origins: Collection[str],
    routes: Sequence[BaseRoute] = (),
    lifespan: Callable[[], AbstractAsyncContextManager[None]] | None = None,
) -> Starlette:
    """Returns the application: the MCP endpoint of both generations at `/mcp`, `/healthz`, `/livez` and `routes`.

    May be called once for each server. Hosts and origins are compared exactly, on every route. `lifespan` is
    entered before requests are served and left after the last of them.
    """
    sessions = server.http_sessions()
    endpoint = IdentifiedEndpoint(sessions, server.limits)
    requests = OpenRequests(server.principal_behind)
    resource = server.protected

    @contextlib.asynccontextmanager
    async def readiness() -> AsyncIterator[None]:
        server.ready = True
        try:
            yield
        finally:
            server.ready = False

    first = [] if lifespan is None else [lifespan]
    lifespans = [*first, *server.serving, sessions.run, readiness, requests.swept]

    async def healthz(request: Request) -> Response:
        if not server.ready:
            return JSONResponse({"status": "unavailable"}, 503)
        found = await server.trouble()
        return JSONResponse({"status": found or "ok"}, 200 if found in _SERVING else 503)

    async def livez(request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    @contextlib.asynccontextmanager
    async def serving(app: Starlette) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            for enter in lifespans:
                await stack.enter_async_context(enter())
            yield

    metadata = [] if resource is None else resource.routes()
    step_up = [] if resource is None else [Middleware(StepUp, resource=resource, needs=server.needs_of)]
    return Starlette(
        routes=[
            Route(MCP_PATH, endpoint),
            Route(HEALTH_PATH, healthz, methods=["GET"]),
            Route(LIVE_PATH, livez, methods=["GET"]),
            *metadata,
            *routes,
        ],
        middleware=[
            Middleware(
                Gate,
                allowed_hosts=allowed_hosts,
                allowed_origins=allowed_origins,
                limits=server.limits,
            ),
            Middleware(
                Identified,
                requests=requests,
                failures=Failures(server.limits.failures_per_minute),
                open_paths=(HEALTH_PATH, LIVE_PATH, *(() if resource is None else resource.paths)),
                greeting_paths=(FRONT_PATH,),
            ),
            Middleware(Bodies, limits=server.limits),
            *step_up,
            Middleware(_McpFirst, endpoint=endpoint),
        ],
        lifespan=serving,
    )
