"""Requests through the operator's declared proxies: the client behind each, and the refusal of requests past them."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from .application import HEALTH_PATH, LIVE_PATH
from .exposure import Network, is_in
from .gate import ErrorAnswer


class BehindProxies:
    """Gives requests from declared proxies the address and scheme of the client behind them.

    Args:
        networks: the addresses of the proxies.
        only: refuse requests that come from elsewhere, or that reached the proxy over plain HTTP.
    """

    def __init__(self, app: ASGIApp, networks: Sequence[Network], *, only: bool) -> None:
        self._app = app
        self._networks = tuple(networks)
        self._only = only
        self._told = ProxyHeadersMiddleware(
            self._checked,  # type: ignore[arg-type]
            trusted_hosts=[str(network) for network in networks],
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif is_in((scope.get("client") or ("",))[0], self._networks):
            await self._told(scope, receive, send)  # type: ignore[arg-type]
        elif self._only and scope["path"] not in (HEALTH_PATH, LIVE_PATH):
            await ErrorAnswer(403, "proxy", "this server is reached through its proxy alone")(scope, send)
        else:
            await self._app(scope, receive, send)

    async def _checked(self, scope: Scope, receive: Receive, send: Send) -> None:
        forwarded = any(name == b"x-forwarded-proto" for name, _ in scope["headers"])
        if self._only and forwarded and scope["scheme"] != "https":
            await ErrorAnswer(403, "proxy", "use https: a token would go over the network in the clear")(
                scope, send
            )
            return
        await self._app(scope, receive, send)
