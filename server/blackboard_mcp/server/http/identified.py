"""Identification of every request, before anything that shows or changes data sees it.

Knows which headers identify a caller and how a refusal looks over HTTP. Leaves the proof of identities to
`identify`, which is asked for each request; an error it raises is the answer. A long-open request is
identified again from time to time, and ends when it would be refused.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
from collections.abc import Collection, Mapping
from typing import Final

from blackboard_mcp.protocols.access import Principal
from blackboard_mcp.protocols.errors import BlackboardError, InvalidInput, Refused, Unauthorized
from blackboard_mcp.server.access.identity import (
    AGENT_HEADER,
    CHALLENGE_SCOPE_KEY,
    OWNER_HEADER,
    PRINCIPAL_SCOPE_KEY,
)
from blackboard_mcp.server.http.auth.failures import Failures
from blackboard_mcp.server.http.auth.verifying import sdk_user
from blackboard_mcp.server.http.gate import ErrorAnswer
from blackboard_mcp.server.http.open_requests import OpenRequests
from starlette.types import ASGIApp, Message, Receive, Scope, Send

logger = logging.getLogger(__name__)

SESSION_HEADER: Final = b"mcp-session-id"
_VISITOR: Final = "visitor"
"""The agent's name for a reader in a browser, which sends none."""
_ONCE: Final = (
    *(b"authorization", AGENT_HEADER.encode(), OWNER_HEADER.encode(), SESSION_HEADER),
    *(b"mcp-protocol-version", b"mcp-method", b"mcp-name"),
)
"""Headers that decide who calls and what: with two of them, one reader could take the one and another the other."""


class Identified:
    """Puts each request's principal into its scope under `PRINCIPAL_SCOPE_KEY`, or answers with a refusal.

    Args:
        requests: the open requests; its `identify` returns the sender for given headers (lower-case names).
        failures: counts and slows callers who show no valid credential.
        open_paths: paths that everybody may ask for, because they show nothing.
        greeting_paths: pages that explain themselves to browsers. A browser without a credential, where one is
            needed, goes on without a principal and with the challenge under `CHALLENGE_SCOPE_KEY`.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        requests: OpenRequests,
        failures: Failures,
        open_paths: Collection[str],
        greeting_paths: Collection[str] = (),
    ) -> None:
        self._app = app
        self._requests = requests
        self._failures = failures
        self._open_paths = frozenset(open_paths)
        self._greeting_paths = frozenset(greeting_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in self._open_paths:
            await self._app(scope, receive, send)
            return
        headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]}
        if scope["path"] in self._greeting_paths and _by_browser(headers):
            headers = {AGENT_HEADER: _VISITOR, **headers}
            try:
                await self._requests.identify(headers)
            except Unauthorized as exc:
                scope[CHALLENGE_SCOPE_KEY] = exc.challenge
                await self._app(scope, receive, send)
                return
            except BlackboardError:
                pass  # refused below like any request
        found = await self._identified(scope, headers)
        if isinstance(found, ErrorAnswer):
            await found(scope, send, receive)
            return
        scope[PRINCIPAL_SCOPE_KEY] = found
        if found.credential:
            scope["user"] = sdk_user(found)
        answer = _Answer(send)
        why = await self._requests.while_welcome(headers, found, self._app(scope, receive, answer))
        if why is not None:
            await answer.end(scope, refusal_of(why))

    async def _identified(self, scope: Scope, headers: Mapping[str, str]) -> Principal | ErrorAnswer:
        names = [name for name, _ in scope["headers"]]
        twice = [name.decode() for name in _ONCE if names.count(name) > 1]
        if twice:
            return ErrorAnswer(400, "invalid", f"the header {twice[0]} was sent more than once")
        try:
            return await self._requests.identify(headers)
        except Unauthorized as exc:
            peer = (scope.get("client") or ("",))[0]
            seconds = self._failures.failed(peer)
            logger.info("refused a request from %s: %s", peer, exc.code)
            if not seconds:
                return refusal_of(exc)
            await self._failures.pause()
            return self._too_often(seconds)
        except BlackboardError as exc:
            return refusal_of(exc)
        except Exception:
            reference = secrets.token_hex(3)
            logger.exception("internal error %s while identifying a caller", reference)
            return ErrorAnswer(500, "internal", f"Internal error (reference {reference})")

    def _too_often(self, seconds: int) -> ErrorAnswer:
        return ErrorAnswer(
            429,
            "rate_limited",
            f"This request shows no access token that counts, and your address sent more than "
            f"{self._failures.per_minute} such within a minute. Send a token that counts: it is taken at once; without "
            f"one wait {seconds} seconds. Nothing was changed.",
            headers={"Retry-After": str(seconds)},
            limit="failures_per_minute",
            retry_after_seconds=seconds,
        )


def _by_browser(headers: Mapping[str, str]) -> bool:
    """Tells whether the request comes from a browser that shows no credential."""
    return "text/html" in headers.get("accept", "") and "authorization" not in headers


class _Answer:
    """A `send` that remembers how much of an answer was sent, so that the answer can be ended."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._begun = self._over = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._begun = True
        elif message["type"] == "http.response.body" and not message.get("more_body", False):
            self._over = True
        await self._send(message)

    async def end(self, scope: Scope, refusal: ErrorAnswer) -> None:
        """Answers with a refusal, or ends the answer if it has begun."""
        if not self._begun:
            await refusal(scope, self._send)
        elif not self._over:
            # An answer with a declared length may still lack bytes: sending then fails and the connection ends.
            with contextlib.suppress(Exception):
                await self._send({"type": "http.response.body", "body": b""})


def refusal_of(exc: BlackboardError) -> ErrorAnswer:
    """Returns the HTTP answer to a caller who could not be identified: 401, 400, 403 or 503."""
    if isinstance(exc, Unauthorized):
        return ErrorAnswer(
            401, exc.code, exc.message, headers={"WWW-Authenticate": exc.challenge}, **exc.facts
        )
    status = 400 if isinstance(exc, InvalidInput) else 403 if isinstance(exc, Refused) else 503
    return ErrorAnswer(status, exc.code, exc.message, **exc.facts)
