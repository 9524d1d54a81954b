"""The ASGI application: the MCP endpoint, `/healthz`, further routes, all behind one gate and one identity."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final

from blackboard_mcp.server.http.auth.failures import Failures
from blackboard_mcp.server.http.auth.resource_metadata import ProtectedResource
from blackboard_mcp.server.http.auth.step_up import NeedsOf, StepUp
from blackboard_mcp.server.http.bodies import Bodies
from blackboard_mcp.server.http.front import FRONT_PATH
from blackboard_mcp.server.http.gate import MCP_PATH, Gate
from blackboard_mcp.server.http.identified import Identified
from blackboard_mcp.server.http.open_requests import IdentifyHeaders, OpenRequests
from blackboard_mcp.server.limits.limits import Limits
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

HEALTH_PATH: Final = "/healthz"
LIVE_PATH: Final = "/livez"
_SERVING: Final = (None, "low", "full")
"""A server that reads, and little else, for want of room serves its readers, and a restart would not help."""


def build_application(
    endpoint: ASGIApp,
    *,
    identify: IdentifyHeaders,
    is_ready: Callable[[], bool],
    trouble: Callable[[], Awaitable[str | None]],
    lifespans: Sequence[Callable[[], AbstractAsyncContextManager[None]]],
    routes: Sequence[BaseRoute],
    resource: ProtectedResource | None = None,
    needs: NeedsOf,
    allowed_hosts: Collection[str],
    allowed_origins: Collection[str],
    limits: Limits,
) -> Starlette:
    """The application; `lifespans` are entered in order before the first request.

    `resource` is what the server is to an OAuth issuer; `needs` says what calls of a tool need.
    `trouble` names what keeps the store from serving; see `Readiness`.
    """

    requests = OpenRequests(identify)

    async def healthz(request: Request) -> Response:
        if not is_ready():
            return JSONResponse({"status": "unavailable"}, 503)
        found = await trouble()
        return JSONResponse({"status": found or "ok"}, 200 if found in _SERVING else 503)

    async def livez(request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            for enter in (*lifespans, requests.swept):
                await stack.enter_async_context(enter())
            yield

    metadata = [] if resource is None else resource.routes()
    step_up = [] if resource is None else [Middleware(StepUp, resource=resource, needs=needs)]
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
                limits=limits,
            ),
            Middleware(
                Identified,
                requests=requests,
                failures=Failures(limits.failures_per_minute),
                open_paths=(HEALTH_PATH, LIVE_PATH, *(() if resource is None else resource.paths)),
                greeting_paths=(FRONT_PATH,),
            ),
            Middleware(Bodies, limits=limits),
            *step_up,
        ],
        lifespan=lifespan,
    )
