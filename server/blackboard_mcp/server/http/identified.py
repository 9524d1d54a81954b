"""Identification of every request, before anything that shows or changes data sees it.

Knows the headers that identify and what a refusal looks like over HTTP. Refuses to know how an identity is
proved: `identify` says, for each request anew, and what it raises is the answer. A request that is open for long
is asked after again while it is, and ends when it would be refused.
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
"""Who opens a page in a browser, which sends no name."""
_IDENTIFYING: Final = (b"authorization", AGENT_HEADER.encode(), OWNER_HEADER.encode(), SESSION_HEADER)


class Identified:
    """Gives each request's scope its principal under `PRINCIPAL_SCOPE_KEY`, or answers in the place of the rest.

    Args:
        requests: those that are open; its `identify` says who sends one, by its headers (lower-case names).
        failures: counts those who show no credential that counts, and slows them.
        open_paths: what everybody may ask for, because it shows nothing.
        greeting_paths: pages that refuse a browser in words for people: one that shows no credential goes on without
            a principal where one is asked for, with the challenge under `CHALLENGE_SCOPE_KEY`.
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
                pass  # refused as any request
        found = await self._identified(scope, headers)
        if isinstance(found, ErrorAnswer):
            await found(scope, send, receive)
            return
        scope[PRINCIPAL_SCOPE_KEY] = found
        if found.credential:
            scope["user"] = sdk_user(found)
        answer = _Answer(send)
        with self._requests.while_welcome(headers, found) as request:
            await self._app(scope, receive, answer)
        if request.why is not None:
            await answer.end(scope, refusal_of(request.why))

    async def _identified(self, scope: Scope, headers: Mapping[str, str]) -> Principal | ErrorAnswer:
        names = [name for name, _ in scope["headers"]]
        twice = [name.decode() for name in _IDENTIFYING if names.count(name) > 1]
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
    """Whether a person may read the answer, and no credential was shown."""
    return "text/html" in headers.get("accept", "") and "authorization" not in headers


class _Answer:
    """What was sent so far of an answer, so that it can be brought to an end."""

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
        """Answer with a refusal, or end the stream that has begun."""
        if not self._begun:
            await refusal(scope, self._send)
        elif not self._over:
            # Of an answer with a length a part may be missing: then the connection ends, which says it too.
            with contextlib.suppress(Exception):
                await self._send({"type": "http.response.body", "body": b""})


def refusal_of(exc: BlackboardError) -> ErrorAnswer:
    """The table of errors and statuses for a caller who could not be identified."""
    if isinstance(exc, Unauthorized):
        return ErrorAnswer(
            401, exc.code, exc.message, headers={"WWW-Authenticate": exc.challenge}, **exc.facts
        )
    status = 400 if isinstance(exc, InvalidInput) else 403 if isinstance(exc, Refused) else 503
    return ErrorAnswer(status, exc.code, exc.message, **exc.facts)
