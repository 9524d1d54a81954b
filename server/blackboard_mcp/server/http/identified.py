"""Who every request is by: asked once, before anything that shows or changes something sees the request.

Knows the headers that identify and what a refusal looks like over HTTP. Refuses to know how an identity is
proved: `identify` says, for each request anew, and what it raises is the answer.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final

from blackboard_mcp.protocols.access import Principal
from blackboard_mcp.protocols.errors import BlackboardError, InvalidInput, Refused, Unauthorized
from blackboard_mcp.server.http.gate import ErrorAnswer
from blackboard_mcp.server.http.identity import AGENT_HEADER, OWNER_HEADER, PRINCIPAL_SCOPE_KEY
from starlette.types import ASGIApp, Receive, Scope, Send

logger = logging.getLogger(__name__)

SESSION_HEADER: Final = b"mcp-session-id"
_IDENTIFYING: Final = (b"authorization", AGENT_HEADER.encode(), OWNER_HEADER.encode(), SESSION_HEADER)


class Identified:
    """Gives each request's scope its principal under `PRINCIPAL_SCOPE_KEY`, or answers in the place of the rest.

    Args:
        identify: the principal behind a request's headers (lower-case names).
        open_paths: what everybody may ask for, because it shows nothing.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        identify: Callable[[Mapping[str, str]], Awaitable[Principal]],
        open_paths: Collection[str],
    ) -> None:
        self._app = app
        self._identify = identify
        self._open = frozenset(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in self._open:
            refusal = await self._refusal(scope)
            if refusal is not None:
                await refusal(scope, send)
                return
        await self._app(scope, receive, send)

    async def _refusal(self, scope: Scope) -> ErrorAnswer | None:
        """Identify the request; the answer instead, where that fails."""
        names = [name for name, _ in scope["headers"]]
        twice = [name.decode() for name in _IDENTIFYING if names.count(name) > 1]
        if twice:
            return ErrorAnswer(400, "invalid", f"the header {twice[0]} was sent more than once")
        headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]}
        try:
            scope[PRINCIPAL_SCOPE_KEY] = await self._identify(headers)
        except BlackboardError as exc:
            return refusal_of(exc)
        except Exception:
            reference = secrets.token_hex(3)
            logger.exception("internal error %s while identifying a caller", reference)
            return ErrorAnswer(500, "internal", f"Internal error (reference {reference})")
        return None


def refusal_of(exc: BlackboardError) -> ErrorAnswer:
    """The table of errors and statuses for a caller who could not be identified."""
    if isinstance(exc, Unauthorized):
        return ErrorAnswer(
            401, exc.code, exc.message, headers={"WWW-Authenticate": exc.challenge}, **exc.facts
        )
    status = 400 if isinstance(exc, InvalidInput) else 403 if isinstance(exc, Refused) else 503
    return ErrorAnswer(status, exc.code, exc.message, **exc.facts)
